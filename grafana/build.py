#!/usr/bin/env python3
"""Which panels does Grafana show, and what does each ask?

    grafana/build.py            writes grafana/dashboards/*.json
    grafana/build.py --check    says whether they are what this file makes

The JSON is what Grafana loads; this is what people edit. Thresholds aren't written here:
a panel names an alert of prometheus/weir.rules.yml and takes the alert's own number.
"""

import json
import re
import sys
from pathlib import Path

HERE = Path(__file__).parent
RULES = (HERE / "prometheus" / "weir.rules.yml").read_text()

# What every query selects by; the variables stand above each dashboard.
ALL = 'job=~"$job", instance=~"$instance"'
LIMIT = ALL + ', limit=~"$limit"'
UPSTREAM = ALL + ', upstream=~"$upstream"'
NO_ROOM = 'reason=~"full|max_wait|quota"'
RATE = "[$__rate_interval]"

OUTCOMES = {
    "passed": "green",
    "delayed": "blue",
    "refused": "orange",
    "left": "purple",
    "failed": "red",
    "shed": "dark-red",
}
CLASSES = {"1xx": "text", "2xx": "green", "3xx": "blue", "4xx": "orange", "5xx": "red"}
QUIET = "rgb(120, 130, 145)"  # what is configured, beside what happens
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}


def alarm(alert):
    """The number at which an alert calls, and whether it calls below it."""
    body = RULES.split(f"- alert: {alert}\n", 1)[1]
    sign, number = re.search(r"(>=|<) ([\d.]+)", body).groups()
    return float(number), sign == "<"


def steps(alerts, calm):
    """Grafana's thresholds: calm on one side of an alert's number, red on the other."""
    calm = calm or "green"
    if not alerts:
        return [{"color": calm, "value": None}]
    number, below = alarm(alerts[0])
    outer, inner = ("red", calm) if below else (calm, "red")
    return [{"color": outer, "value": None}, {"color": inner, "value": number}]


def q(expr, legend="", **more):
    """A query over time."""
    return {"expr": " ".join(expr.split()), "legendFormat": legend, "range": True, **more}


def now(expr, legend="", **more):
    """A query of the last moment."""
    return q(expr, legend, range=False, instant=True, **more)


def panel(kind, title, unit, description, queries, alerts=(), options=None, custom=None,
          colors=None, dashed=(), overrides=(), links=(), transformations=(), calm=None, **defaults):
    """One panel. `alerts` gives it thresholds and links to the runbook; `colors` are by
    series, `dashed` are series that say what is configured."""
    by_name = lambda name: {"id": "byName", "options": name}
    fixed = lambda color: {"id": "color", "value": {"mode": "fixed", "fixedColor": color}}
    overrides = [
        *({"matcher": by_name(name), "properties": [fixed(color)]} for name, color in (colors or {}).items()),
        *({"matcher": by_name(name), "properties": [
            fixed(QUIET),
            {"id": "custom.lineStyle", "value": {"fill": "dash", "dash": [8, 6]}},
            {"id": "custom.fillOpacity", "value": 0},
            {"id": "custom.stacking", "value": {"mode": "none", "group": "A"}},
        ]} for name in dashed),
        *overrides,
    ]
    made = {
        "type": kind,
        "title": title,
        "description": description,
        "datasource": DATASOURCE,
        "targets": [
            {"refId": chr(ord("A") + i), "datasource": DATASOURCE, "editorMode": "code", **query}
            for i, query in enumerate(queries)
        ],
        "fieldConfig": {
            "defaults": {
                "unit": unit,
                "thresholds": {"mode": "absolute", "steps": steps(alerts, calm)},
                "custom": custom or {},
                **defaults,
            },
            "overrides": overrides,
        },
        "options": options or {},
        "links": [
            {"title": f"What to do: {alert}", "url": f"${{runbook}}#{alert.lower()}", "targetBlank": True}
            for alert in alerts
        ],
    }
    if links:
        made["fieldConfig"]["defaults"]["links"] = list(links)
    if transformations:
        made["transformations"] = list(transformations)
    return made


def lines(title, unit, description, queries, alerts=(), stacked=False, **more):
    custom = {
        "drawStyle": "line",
        "lineWidth": 1,
        "fillOpacity": 40 if stacked else 8,
        "showPoints": "never",
        "spanNulls": False,
        "axisSoftMin": 0,
        "stacking": {"mode": "normal" if stacked else "none", "group": "A"},
        "thresholdsStyle": {"mode": "dashed" if alerts else "off"},
    }
    options = {
        "legend": {"showLegend": True, "displayMode": "list", "placement": "bottom", "calcs": []},
        "tooltip": {"mode": "multi", "sort": "desc"},
    }
    more.setdefault("color", {"mode": "palette-classic"})
    return panel("timeseries", title, unit, description, queries, alerts, options, custom, min=0, **more)


def stat(title, unit, description, queries, alerts=(), text="auto", spark=False, **more):
    options = {
        "colorMode": "background" if alerts else "value",
        "graphMode": "area" if spark else "none",
        "justifyMode": "auto",
        "textMode": text,
        "orientation": "auto",
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
    }
    more.setdefault("color", {"mode": "thresholds"})
    # Only trouble has a colour.
    return panel("stat", title, unit, description, queries, alerts, options, calm="transparent", **more)


def bars(title, description, queries, alerts=(), highest=1, **more):
    options = {
        "displayMode": "basic",
        "orientation": "horizontal",
        "valueMode": "color",
        "showUnfilled": True,
        "namePlacement": "auto",
        "sizing": "auto",
        "text": {"titleSize": 13, "valueSize": 20},
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
    }
    more.setdefault("color", {"mode": "thresholds"})
    return panel("bargauge", title, "percentunit", description, queries, alerts, options,
                 min=0, max=highest, decimals=0, **more)


def states(**texts):
    """Words in place of 0 and 1."""
    return [{"type": "value", "options": {
        value.lstrip("_"): {"text": text, "index": i} for i, (value, text) in enumerate(texts.items())
    }}]


def to(uid, title, variable):
    """From a bar or a line to the page of what it stands for."""
    keep = "${job:queryparam}&${instance:queryparam}&${__url_time_range}"
    return {"title": title, "url": f"/d/{uid}?var-{variable}=${{__field.labels.{variable}}}&{keep}"}


def quantiles(metric, where, by="", parts=(0.5, 0.99)):
    """How long it took for the middle one, for one in a hundred, …"""
    group = f"{by}, le" if by else "le"
    name = f"{{{{{by}}}}} " if by else ""
    short = by and len(parts) == 1  # the title says which one
    return [
        q(f"histogram_quantile({part}, sum by ({group}) (rate({metric}_bucket{{{where}}}{RATE})))",
          name.strip() if short else f"{name}p{part * 100:g}")
        for part in parts
    ]


def rate(metric, where):
    return f"rate({metric}{{{where}}}{RATE})"


def refused_share(where):
    return f"""sum by (limit) ({rate("weir_refused_total", f"{where}, {NO_ROOM}")})
        / ((sum by (limit) ({rate("weir_wait_seconds_count", where)})
        + sum by (limit) ({rate("weir_refused_total", f"{where}, {NO_ROOM}")})) > 0)"""


def ended_share(outcome):
    return f"""topk(1, sum by (route) ({rate("weir_requests_total", f'{ALL}, outcome="{outcome}"')})
        / (sum by (route) ({rate("weir_requests_total", ALL)}) > 0))"""


def capacity(where):
    """Slots a second that the keys in memory have, over the chosen instances."""
    return f"""sum by (limit) (weir_rate{{{where}}} * clamp_min(weir_buckets{{{where}}}, 1))
        / scalar(max(weir_instances{{{ALL}}}))"""


def oldest_wait_share(where):
    return f"""max by (limit) (weir_oldest_wait_seconds{{{where}}})
        / max by (limit) ((weir_burst{{{where}}} + 1) / weir_rate{{{where}}})"""


def in_flight_share(where):
    return f"max by (upstream) (weir_in_flight{{{where}}} / weir_max_in_flight{{{where}}})"


LIMIT_LINK = [to("weir-limit", "Limit ${__field.labels.limit}", "limit")]
UPSTREAM_LINK = [to("weir-upstream", "Upstream ${__field.labels.upstream}", "upstream")]


def column(name, *properties):
    return {"matcher": {"id": "byName", "options": name}, "properties": list(properties)}


def shown(unit=None, mappings=None, alerts=(), width=None):
    yield from ({"id": id, "value": value} for id, value in [
        ("unit", unit), ("mappings", mappings), ("custom.width", width),
    ] if value is not None)
    if alerts:
        yield {"id": "thresholds", "value": {"mode": "absolute", "steps": steps(alerts, "text")}}
        yield {"id": "custom.cellOptions", "value": {"type": "color-text"}}


def firing():
    return panel(
        "table", "Firing", "none",
        "Alerts that call now. The name leads to what to do. Empty is good.",
        [now("""max by (severity, alertname, where) (label_join(
                 ALERTS{alertname=~"Weir.*", alertstate="firing", job=~"$job"},
                 "where", " ", "limit", "route", "upstream", "instance"))""", format="table")],
        options={"showHeader": True, "cellHeight": "sm", "sortBy": [{"displayName": "severity", "desc": False}]},
        transformations=[{"id": "organize", "options": {
            "excludeByName": {"Time": True, "Value": True},
            "indexByName": {"severity": 0, "alertname": 1, "where": 2},
            "renameByName": {"alertname": "alert"},
        }}],
        overrides=[
            column("alert", {"id": "links", "value": [
                {"title": "What to do", "url": "${runbook}#${__value.text}", "targetBlank": True}]},
                {"id": "custom.width", "value": 190}),
            column("severity", {"id": "custom.width", "value": 90}, {"id": "mappings", "value": [
                {"type": "value", "options": {
                    "critical": {"color": "red", "index": 0}, "warning": {"color": "orange", "index": 1}}}]},
                {"id": "custom.cellOptions", "value": {"type": "color-text"}}),
        ],
    )


def instances():
    ask = lambda expr: now(expr, format="table")
    return panel(
        "table", "Instances", "none",
        "One row for each instance: what runs there, whether it reaches the store, how many "
        "instances it sees, when its config was loaded and how many reloads failed in ten minutes.",
        [
            ask(f"max by (instance, version, revision) (weir_build_info{{{ALL}}})"),
            ask(f"max by (instance) (weir_store_up{{{ALL}}})"),
            ask(f"max by (instance) (weir_store_degraded{{{ALL}}})"),
            ask(f"max by (instance) (weir_instances{{{ALL}}})"),
            ask(f"sum by (instance) (weir_waiting{{{ALL}}})"),
            ask(f"max by (instance) (weir_config_last_reload_success_timestamp_seconds{{{ALL}}}) * 1000"),
            ask(f'sum by (instance) (increase(weir_config_reloads_total{{{ALL}, result="failure"}}[10m]))'),
        ],
        options={"showHeader": True, "cellHeight": "sm"},
        transformations=[
            {"id": "merge", "options": {}},
            {"id": "organize", "options": {
                "excludeByName": {"Time": True, "Value #A": True},
                "indexByName": {},
                "renameByName": {"Value #B": "store", "Value #C": "limits", "Value #D": "sees",
                                 "Value #E": "waiting", "Value #F": "config loaded", "Value #G": "failed reloads"},
            }},
        ],
        overrides=[
            column("store", *shown(mappings=states(_0="away", _1="up"))),
            column("limits", *shown(mappings=states(_0="by the store", _1="by on_failure"), alerts=["WeirStoreDegraded"])),
            column("config loaded", *shown(unit="dateTimeAsIso")),
            column("failed reloads", *shown(alerts=["WeirReloadFailed"], unit="none"), {"id": "decimals", "value": 0}),
        ],
        alerts=["WeirReloadFailed", "WeirStoreDegraded"],
    )


def row(title):
    return {"type": "row", "title": title, "collapsed": False, "panels": []}


OVERVIEW = [
    [(8, 8, firing()),
     (4, 4, stat("Instances up", "percentunit", "How many of the instances that Prometheus knows answer it.",
                 [now(f"avg(up{{{ALL}}})")], ["WeirDown"], decimals=0)),
     (4, 4, stat("Store", "none",
                 "Whether limits are kept by the store. While Redis is away, each does what its on_failure says.",
                 [now(f"max(weir_store_degraded{{{ALL}}})")], ["WeirStoreDegraded"],
                 mappings=states(_0="in use", _1="away"))),
     (4, 4, stat("Paused", "none", "Limits that let nobody go, by order. Those who wait keep their places.",
                 [now(f"sum(max by (limit) (weir_paused{{{LIMIT}}}))")], ["WeirPaused"], decimals=0)),
     (4, 4, stat("Requests", "reqps", "Requests that ended, a second.",
                 [q(f"sum({rate('weir_requests_total', ALL)})")], spark=True, color={"mode": "fixed", "fixedColor": "blue"}))],
    # The second line of figures, beside the table.
    [(4, 4, stat("Refused", "percentunit",
                 "Of what asked the limit that refuses most: how much found no room (full, max_wait, quota).",
                 [now(f"topk(1, {refused_share(LIMIT)})", "{{limit}}")], ["WeirRefusing"],
                 text="value_and_name", decimals=1, noValue="–")),
     (4, 4, stat("Left early", "percentunit", "On the route where most do: clients that leave before they are served.",
                 [now(ended_share("left"), "{{route}}")], ["WeirClientsLeaving"],
                 text="value_and_name", decimals=1, noValue="–")),
     (4, 4, stat("503 by weir", "percentunit",
                 "On the route where it is most: requests that weir turned away because of a pause, the store, "
                 "the key table or its own end.",
                 [now(ended_share("shed"), "{{route}}")], ["WeirShedding"],
                 text="value_and_name", decimals=1, noValue="–")),
     (4, 4, stat("502, 504", "percentunit",
                 "On the route where it is most: requests whose upstream was unreachable, broken or too slow.",
                 [now(ended_share("failed"), "{{route}}")], ["WeirFailing"],
                 text="value_and_name", decimals=1, noValue="–"))],
    "How close to the edge",
    [(6, 8, bars("Fullest bucket",
                 "Of what an idle bucket admits, how much is taken in the fullest bucket of each limit. At 100 % "
                 "that key's next request is refused. A limit without burst is at 0 or 100 %. The alert wants a mean over 5 m.",
                 [now(f"max by (limit) (weir_fullness_ratio{{{LIMIT}}})", "{{limit}}")],
                 ["WeirLimitNearlyFull"], links=LIMIT_LINK)),
     (6, 8, bars("Rate in use",
                 "Slots used, of those that the keys in memory have. Exact for a limit with one key; over many "
                 "keys it is their mean. 100 % for long means that the rate, not the burst, is what binds.",
                 [now(f"sum by (limit) ({rate('weir_slots_total', LIMIT + ', fate=' + chr(34) + 'used' + chr(34))}) / ({capacity(LIMIT)})",
                      "{{limit}}")],
                 links=LIMIT_LINK, color={"mode": "fixed", "fixedColor": "blue"})),
     (6, 8, bars("Oldest wait, of a full line's",
                 "The longest present wait, beside the longest that the limit's own numbers allow, (burst + 1) / rate. "
                 "Above 100 % the line moves more slowly than it should: upstream full or down, or held by its Retry-After.",
                 [now(oldest_wait_share(LIMIT), "{{limit}}")], ["WeirLineStands"], highest=3, links=LIMIT_LINK)),
     (6, 8, bars("In flight, of max_in_flight",
                 "In the busiest instance. At 100 % requests wait for the upstream, not for their rate. "
                 "0 % where the upstream has no bound. The alert wants a mean over 5 m.",
                 [now(in_flight_share(ALL), "{{upstream}}")], ["WeirUpstreamFull"], links=UPSTREAM_LINK))],
    "In",
    [(12, 8, lines("Requests, by how they ended", "reqps",
                   "passed: without a wait. delayed: after one. refused: by a limit, or as a bad request. left: the client "
                   "went. failed: 502 or 504. shed: 503 of weir's own.",
                   [q(f"sum by (outcome) ({rate('weir_requests_total', ALL)})", "{{outcome}}")],
                   stacked=True, colors=OUTCOMES)),
     (12, 8, lines("Refused, by limit and why", "reqps",
                   "full: the line. max_wait: the wait would be too long. quota: nothing left, and no line. missing_key: no "
                   "such header. cost: its header says none. paused, purged: by hand. store: on_failure = closed. keys: max_keys. draining: shutting down.",
                   [q(f"sum by (limit, reason) ({rate('weir_refused_total', LIMIT)}) > 0", "{{limit}} {{reason}}")],
                   stacked=True, links=LIMIT_LINK))],
    "Waiting",
    [(8, 8, lines("Waiting now", "short", "Requests in line, over the chosen instances.",
                  [q(f"sum by (limit) (weir_waiting{{{LIMIT}}})", "{{limit}}")], stacked=True, links=LIMIT_LINK)),
     (8, 8, lines("Oldest wait", "s", "Who waits longest has waited so long.",
                  [q(f"max by (limit) (weir_oldest_wait_seconds{{{LIMIT}}})", "{{limit}}")], links=LIMIT_LINK)),
     (8, 8, lines("How long the admitted waited", "s", "One in a hundred of those whose turn came waited longer.",
                  quantiles("weir_wait_seconds", LIMIT, "limit", [0.99]), links=LIMIT_LINK))],
    "Out",
    [(8, 8, lines("Leaving", "reqps", "Slots used, by limit: an even line is what weir is for.",
                  [q(f"sum by (limit) ({rate('weir_slots_total', LIMIT + ', fate=' + chr(34) + 'used' + chr(34))})", "{{limit}}")],
                  links=LIMIT_LINK)),
     (8, 8, lines("Upstreams' time to answer", "s", "From forwarding to the head of the answer: one in a hundred took longer.",
                  quantiles("weir_upstream_seconds", ALL, "upstream", [0.99]), links=UPSTREAM_LINK)),
     (8, 8, lines("Upstream errors", "short",
                  "A second, by kind. connect: no connection. timeout: too slow. broken: the connection broke, or no HTTP came. "
                  "health: the probe failed.",
                  [q(f"sum by (upstream, kind) ({rate('weir_upstream_errors_total', ALL)}) > 0", "{{upstream}} {{kind}}")],
                  stacked=True, noValue="none", links=UPSTREAM_LINK))],
    "Store",
    [(8, 8, lines("Redis calls", "s", "The middle one and one in a hundred of those that were answered.",
                  quantiles("weir_store_call_seconds", ALL), ["WeirStoreSlow"], noValue="memory store")),
     (8, 8, lines("Redis calls without an answer", "short", "A second, by script and kind.",
                  [q(f"sum by (script, kind) ({rate('weir_store_errors_total', ALL)}) > 0", "{{script}} {{kind}}")],
                  stacked=True, noValue="none")),
     (5, 8, lines("Requests in one call", "short", "Busy keys share calls: the mean by script.",
                  [q(f"sum by (script) ({rate('weir_store_batch_size_sum', ALL)}) / (sum by (script) ({rate('weir_store_batch_size_count', ALL)}) > 0)",
                     "{{script}}")], noValue="memory store")),
     (3, 8, stat("Unseen", "none",
                 "Instances with a Redis store, less those that the loneliest of them sees. Above 0 for long, they don't share one "
                 "Redis, prefix and key_secret; below, some have just ended.",
                 [now(f'count(weir_store_call_seconds_count{{job=~"$job", script="heartbeat"}}) - min(weir_instances{{job=~"$job"}})')],
                 ["WeirInstancesApart"], decimals=0, noValue="memory store"))],
    "The instances",
    [(24, 6, instances())],
    [(6, 7, lines("Slots handed out late", "s",
                  "One in a hundred slots came this much after it was due, in the most punctual limit of each instance: "
                  "where all are late, the process lacks CPU, or Redis is far.",
                  [q(f"""min by (instance) (histogram_quantile(0.99,
                      sum by (instance, limit, le) (rate(weir_slot_lateness_seconds_bucket{{{ALL}}}{RATE}))))""", "{{instance}}")],
                  ["WeirSlotsLate"])),
     (6, 7, lines("Connections", "short", "Open now, by listener.",
                  [q(f"sum by (instance, listener) (weir_connections{{{ALL}}})", "{{instance}} {{listener}}")])),
     (6, 7, lines("Connections refused", "short", "In the last moments: max_connections were open.",
                  [q(f"sum by (instance, listener) (increase(weir_connections_refused_total{{{ALL}}}{RATE}))", "{{instance}} {{listener}}")],
                  ["WeirConnectionsRefused"])),
     (6, 7, lines("Connections lost", "short",
                  "A second. Timed out: the client made no progress, on the whole connection or in one HTTP/2 stream. "
                  "Else what was wrong with what it sent.",
                  [q(f"sum by (listener) ({rate('weir_connections_timed_out_total', ALL)})", "{{listener}} timed out"),
                   q(f"sum({rate('weir_streams_timed_out_total', ALL)})", "streams timed out"),
                   q(f"sum by (listener, kind) ({rate('weir_connections_failed_total', ALL)})", "{{listener}} {{kind}}")]))],
]

ONE_LIMIT = [
    [(4, 4, stat("Rate", "reqps", "As configured, for each key.", [now(f"max(weir_rate{{{LIMIT}}})")],
                 color={"mode": "fixed", "fixedColor": "text"})),
     (4, 4, stat("Burst", "none", "As configured, for each key.", [now(f"max(weir_burst{{{LIMIT}}})")],
                 color={"mode": "fixed", "fixedColor": "text"})),
     (4, 4, stat("Fullest bucket", "percentunit", "Of what an idle bucket admits, taken in the fullest one.",
                 [now(f"max(weir_fullness_ratio{{{LIMIT}}})")], ["WeirLimitNearlyFull"], decimals=0)),
     (4, 4, stat("Refused", "percentunit", "Of all that asked, found no room: full, max_wait, quota.",
                 [now(f"max({refused_share(LIMIT)})")], ["WeirRefusing"], decimals=1, noValue="–")),
     (4, 4, stat("Oldest wait, of a full line's", "percentunit",
                 "The longest present wait, of (burst + 1) / rate. Above 100 % the line stands.",
                 [now(f"max({oldest_wait_share(LIMIT)})")], ["WeirLineStands"], decimals=0)),
     (4, 4, stat("State", "none", "Whether somebody paused it.", [now(f"max(weir_paused{{{LIMIT}}})")],
                 ["WeirPaused"], mappings=states(_0="open", _1="paused")))],
    "In, waiting, out",
    [(12, 9, lines("In", "reqps", "Admitted, and refused by why.",
                   [q(f"sum({rate('weir_wait_seconds_count', LIMIT)})", "admitted"),
                    q(f"sum by (reason) ({rate('weir_refused_total', LIMIT)}) > 0", "{{reason}}")],
                   stacked=True, colors={"admitted": "green"})),
     (12, 9, lines("Out", "reqps",
                   "Slots by what became of them. missed: came too late, or its upstream was full. spare: nobody was left to use "
                   "it. Dashed: what all keys in memory may use.",
                   [q(f"sum by (fate) ({rate('weir_slots_total', LIMIT)})", "{{fate}}"),
                    q(f"sum({capacity(LIMIT)})", "rate")],
                   stacked=True, colors={"used": "green", "missed": "red", "spare": "blue"}, dashed=["rate"]))],
    [(12, 9, lines("The line", "short",
                   "Waiting in all lines together, and in the longest one. Dashed: burst, where each line ends.",
                   [q(f"sum(weir_waiting{{{LIMIT}}})", "waiting"),
                    q(f"max(weir_line_length{{{LIMIT}}})", "longest line"),
                    q(f"max(weir_burst{{{LIMIT}}})", "burst")],
                   dashed=["burst"], colors={"waiting": "blue", "longest line": "orange"})),
     (12, 9, lines("Waits", "s", "Of those whose turn came, and who waits longest now.",
                   [*quantiles("weir_wait_seconds", LIMIT, parts=(0.5, 0.9, 0.99)),
                    q(f"max(weir_oldest_wait_seconds{{{LIMIT}}})", "oldest now")],
                   colors={"oldest now": "red"}))],
    "By instance",
    [(6, 8, lines("Waiting", "short", "Requests in line, in each instance.",
                  [q(f"sum by (instance) (weir_waiting{{{LIMIT}}})", "{{instance}}")], stacked=True)),
     (6, 8, lines("Leaving", "reqps", "Slots used, in each instance: with a shared store they add up to the rate.",
                  [q(f"sum by (instance) ({rate('weir_slots_total', LIMIT + ', fate=' + chr(34) + 'used' + chr(34))})", "{{instance}}")],
                  stacked=True)),
     (6, 8, lines("Slots handed out late", "s",
                  "One in a hundred came this much after it was due. A head that waits for the next limit or for its upstream "
                  "counts, up to a quarter of an interval.",
                  quantiles("weir_slot_lateness_seconds", LIMIT, "instance", [0.99]))),
     (6, 8, lines("Keys in memory", "short", "Buckets that are not idle, in each instance; max_keys bounds them.",
                  [q(f"sum by (instance) (weir_buckets{{{LIMIT}}})", "{{instance}}")]))],
    "Dry run",
    [(24, 5, lines("Would be refused", "reqps", "Only where the limit has dry_run: what it would refuse, by why.",
                   [q(f"sum by (reason) ({rate('weir_would_refuse_total', LIMIT)}) > 0", "{{reason}}")],
                   stacked=True, noValue="nothing"))],
]

ONE_UPSTREAM = [
    [(6, 4, stat("Health probe", "none", "The worst instance's view. Up where the upstream has no health path.",
                 [now(f"min(weir_upstream_up{{{UPSTREAM}}})")], ["WeirUpstreamDown"], mappings=states(_0="down", _1="up"))),
     (6, 4, stat("In flight, of max_in_flight", "percentunit", "In the busiest instance; 0 without a bound.",
                 [now(f"max({in_flight_share(UPSTREAM)})")], ["WeirUpstreamFull"], decimals=0)),
     (6, 4, stat("Answers", "reqps", "Answers a second, of whatever status.",
                 [q(f"sum({rate('weir_upstream_seconds_count', UPSTREAM)})")], spark=True, color={"mode": "fixed", "fixedColor": "blue"})),
     (6, 4, stat("Answers 5xx", "percentunit", "The upstream's own, which weir passes on.",
                 [now(f"""sum({rate("weir_upstream_seconds_count", UPSTREAM + ', code="5xx"')})
                     / (sum({rate("weir_upstream_seconds_count", UPSTREAM)}) > 0)""")],
                 decimals=1, noValue="–", color={"mode": "fixed", "fixedColor": "text"}))],
    [(12, 9, lines("Time to answer", "s", "From forwarding a request to the head of the answer.",
                   quantiles("weir_upstream_seconds", UPSTREAM, parts=(0.5, 0.9, 0.99)))),
     (12, 9, lines("In flight", "short", "In each instance, to the end of the answer's body. Dashed: max_in_flight.",
                   [q(f"sum by (instance) (weir_in_flight{{{UPSTREAM}}})", "{{instance}}"),
                    q(f"max(weir_max_in_flight{{{UPSTREAM}}}) < Inf", "max_in_flight")], dashed=["max_in_flight"]))],
    [(12, 9, lines("Answers, by class", "reqps", "What the upstream said.",
                   [q(f"sum by (code) ({rate('weir_upstream_seconds_count', UPSTREAM)})", "{{code}}")],
                   stacked=True, colors=CLASSES)),
     (12, 9, lines("Errors", "short",
                   "A second, by kind. connect: no connection. timeout: too slow. broken: the connection broke, or no HTTP came. "
                   "health: the probe failed.",
                   [q(f"sum by (kind) ({rate('weir_upstream_errors_total', UPSTREAM)})", "{{kind}}")], stacked=True))],
    "What clients got, by route",
    [(12, 9, lines("Time to the whole answer", "s", "From a request's head to the end of its answer, waits included: one in a hundred took longer.",
                   quantiles("weir_request_seconds", ALL, "route", [0.99]))),
     (12, 9, lines("Answers, by route and class", "reqps",
                   "Of all upstreams, and weir's own; among those the ones whose request had too large a body.",
                   [q(f"sum by (route, code) ({rate('weir_request_seconds_count', ALL)}) > 0", "{{route}} {{code}}"),
                    q(f"sum by (route) ({rate('weir_bodies_refused_total', ALL)})", "{{route}} body too large")],
                   stacked=True))],
]


def grid(rows):
    """Places the panels: each list is a line of (width, height, panel), a text a heading."""
    placed, y, lowest, beside = [], 0, 0, 0
    for line in rows:
        if isinstance(line, str):
            y = lowest
            placed.append({**row(line), "gridPos": {"x": 0, "y": y, "w": 24, "h": 1}})
            y, lowest, beside = y + 1, y + 1, 0
            continue
        # A tall panel at the left of the line before leaves room beside it.
        x, top = (beside, y) if beside else (0, lowest)
        for width, height, made in line:
            placed.append({**made, "gridPos": {"x": x, "y": top, "w": width, "h": height}})
            x += width
            lowest = max(lowest, top + height)
        shortest = min(height for _, height, _ in line)
        beside = line[0][0] if line[0][1] > shortest and not beside else 0
        y = top + shortest
    return [{"id": i + 1, **made} for i, made in enumerate(placed)]


def variable(name, query, label, many=True):
    return {
        "name": name, "label": label, "type": "query", "datasource": DATASOURCE,
        "query": {"query": query, "refId": name}, "definition": query,
        "refresh": 2, "sort": 1, "multi": many, "includeAll": many, "allValue": ".+" if many else None,
        "current": {"text": ["All"], "value": ["$__all"]} if many else {},
    }


def annotation(name, color, expr, title, text):
    return {
        "name": name, "enable": True, "iconColor": color, "datasource": DATASOURCE,
        "expr": expr, "step": "", "titleFormat": title, "textFormat": text, "useValueForTime": False,
    }


def dashboard(uid, title, description, rows, variables, limits='limit=~".+"'):
    return {
        "uid": uid, "title": title, "description": description, "tags": ["weir"],
        "schemaVersion": 41, "editable": True, "graphTooltip": 1, "refresh": "30s", "timezone": "browser",
        "time": {"from": "now-1h", "to": "now"},
        "links": [
            {"title": "weir", "type": "dashboards", "tags": ["weir"], "asDropdown": False, "keepTime": True, "includeVars": True},
            {"title": "Runbook", "type": "link", "icon": "doc", "url": "${runbook}", "targetBlank": True},
        ],
        "templating": {"list": [
            {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"},
            variable("job", "label_values(weir_build_info, job)", "Job"),
            variable("instance", 'label_values(weir_build_info{job=~"$job"}, instance)', "Instance"),
            *variables,
            # Where people read RUNBOOK.md: change it here, or when the dashboard is loaded.
            {"name": "runbook", "type": "constant", "hide": 2, "query": "/public/weir/RUNBOOK.md"},
        ]},
        "annotations": {"list": [
            annotation("Config loaded", "blue",
                       f"changes(weir_config_last_reload_success_timestamp_seconds{{{ALL}}}{RATE}) > 0",
                       "Config loaded", "{{instance}}"),
            annotation("Reload failed", "orange",
                       f'changes(weir_config_reloads_total{{{ALL}, result="failure"}}{RATE}) > 0',
                       "Reload failed, nothing changed", "{{instance}}"),
            annotation("Paused", "purple", f"max by (limit) (weir_paused{{{ALL}, {limits}}}) > 0",
                       "Paused", "{{limit}}"),
            annotation("Store away", "red", f"max by (instance) (weir_store_degraded{{{ALL}}}) > 0",
                       "Limits go by on_failure", "{{instance}}"),
        ]},
        "panels": grid(rows),
    }


LIMITS = 'label_values(weir_rate{job=~"$job"}, limit)'
UPSTREAMS = 'label_values(weir_in_flight{job=~"$job"}, upstream)'
DASHBOARDS = [
    dashboard("weir-overview", "weir", "How close each limit is, what comes in, waits, goes out, and why not.",
              OVERVIEW, [variable("limit", LIMITS, "Limit")], 'limit=~"$limit"'),
    dashboard("weir-limit", "weir: one limit", "One limit: its line, its slots, what it refuses, in each instance.",
              ONE_LIMIT, [variable("limit", LIMITS, "Limit", many=False)], 'limit=~"$limit"'),
    dashboard("weir-upstream", "weir: one upstream", "One upstream: how it answers, how full it is, and what clients got.",
              ONE_UPSTREAM, [variable("upstream", UPSTREAMS, "Upstream", many=False)]),
]


def main():
    stale = []
    for made in DASHBOARDS:
        path = HERE / "dashboards" / f"{made['uid']}.json"
        text = json.dumps(made, indent=2, ensure_ascii=False) + "\n"
        if "--check" in sys.argv[1:]:
            if not path.exists() or path.read_text() != text:
                stale.append(path.name)
        else:
            path.write_text(text)
    if stale:
        sys.exit(f"not what build.py makes, run it: {', '.join(stale)}")


if __name__ == "__main__":
    main()
