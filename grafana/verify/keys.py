#!/usr/bin/env python3
"""Does Grafana know every key of the dashboards?

    pip install grafana-foundation-sdk==0.0.21 && grafana/verify/keys.py

Reads each dashboard by Grafana's own schema and writes it again: what is lost on the way
is a key that Grafana would ignore in silence.
"""

import json
import sys
from pathlib import Path

from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard


def lost(before, after, path):
    if isinstance(before, dict):
        for key, value in before.items():
            if not isinstance(after, dict) or (key not in after and value not in (None, [], {}, False, "")):
                yield f"{path}.{key}"
            elif key in after:
                yield from lost(value, after[key], f"{path}.{key}")
    elif isinstance(before, list):
        for i, (one, other) in enumerate(zip(before, after or [])):
            yield from lost(one, other, f"{path}[{i}]")


def main():
    register_default_plugins()
    unknown = []
    for path in sorted((Path(__file__).parents[1] / "dashboards").glob("*.json")):
        before = json.loads(path.read_text())
        after = json.loads(JSONEncoder(sort_keys=True).encode(Dashboard.from_json(before)))
        unknown += lost(before, after, path.stem)
    sys.exit("\n".join(unknown) or None)


if __name__ == "__main__":
    main()
