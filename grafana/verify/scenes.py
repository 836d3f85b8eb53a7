#!/usr/bin/env python3
"""Do the dashboards show what happens?

    grafana/verify/scenes.py [--weir target/release/weir] [--out DIR]

Starts a Redis, two backends, two instances of weir and Debian's Prometheus, plays scenes
(calm, overload, clients that leave, …) and asks Prometheus every query of every panel. Each
panel must have samples, and what a scene is about must show there and nowhere in the calm.
Alerts run sixty times as fast (minutes are seconds): each scene says which must call.
What Prometheus answered is left in DIR for render.mjs. Takes about four minutes.
"""

import argparse
import asyncio
import json
import math
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from pathlib import Path

HERE = Path(__file__).resolve().parent
GRAFANA = HERE.parent
STEP = 1

CONFIG = """
[server]
listen = "127.0.0.1:{listen}"
admin = "127.0.0.1:{admin}"
threads = 1
max_connections = 600
shutdown_grace = "1s"

[log]
access = false

[store]
kind = "redis"
url = "redis://127.0.0.1:{redis}/0"

[limits.per_client]
key = "{{header.x-user|ip}}"
rate = "8r/s"
burst = 20
delay = 5

[limits.database]
key = "database"
rate = "40r/s"
burst = 80
max_wait = "2s"
status = 503

[limits.login]
algorithm = "token_bucket"
key = "{{ip}}"
rate = "5r/s"
capacity = 10
on_failure = "closed"

[limits.provider]
key = "provider"
rate = "25r/s"
burst = 50

[limits.planned]
key = "all"
rate = "60r/s"
burst = 10
dry_run = true

[upstreams.reports]
url = "http://127.0.0.1:{reports}"
max_in_flight = 8
timeout = "2s"
health = "/health"
health_interval = "1s"

[upstreams.payments]
url = "http://127.0.0.1:{payments}"
timeout = "500ms"

[[routes]]
name = "login"
path = "/login"
upstream = "reports"
limits = ["login"]

[[routes]]
name = "charge"
path = "/v1/"
upstream = "payments"
limits = ["provider"]

[[routes]]
name = "reports"
path = "/"
upstream = "reports"
limits = ["planned", "per_client", "database"]
"""

# Which scene a panel is for: there it has values above 0, and in the calm it has none.
MEANT_FOR = {
    "Refused": "overload",
    "Refused, by limit and why": "overload",
    "Waiting now": "overload",
    "Oldest wait": "overload",
    "How long the admitted waited": "overload",
    "Would be refused": "overload",
    "The line": "overload",
    "Waits": "overload",
    "Left early": "leaving",
    "In flight, of max_in_flight": "slow",
    "Oldest wait, of a full line's": "slow",
    "502, 504": "down",
    "503 by weir": "down",
    "Upstream errors": "down",
    "Errors": "down",
    "Redis calls without an answer": "redis away",
    "Connections refused": "crowd",
    "Firing": "overload",
    "Paused": "paused",
    "State": "paused",
}
# Series that need not be there in the calm.
QUIET_IN_CALM = {"In", "Would be refused", "Refused, by limit and why", "Upstream errors", "Redis calls without an answer", "Firing"}

# Which alerts a scene must raise; it may raise others that follow from it.
MUST_CALL = {
    "calm": set(),
    "overload": {"WeirRefusing", "WeirLimitNearlyFull"},
    "leaving": {"WeirClientsLeaving"},
    "slow": {"WeirUpstreamFull", "WeirLineStands"},
    "down": {"WeirUpstreamDown", "WeirFailing", "WeirShedding"},
    "redis away": {"WeirStoreDegraded"},
    "apart": {"WeirInstancesApart", "WeirReloadFailed"},
    "crowd": {"WeirConnectionsRefused"},
    "one gone": {"WeirDown"},
}


# What is looked at should be weir, not a busy machine.
FIRST = ["nice", "-n", "-10"] if os.geteuid() == 0 else []


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Backend:
    """A server that answers after `delay`, or isn't there."""

    def __init__(self):
        self.port, self.delay, self.server, self.open = free_port(), 0.02, None, set()

    async def up(self):
        self.server = await asyncio.start_server(self.serve, "127.0.0.1", self.port, backlog=512)

    async def down(self):
        self.server.close()
        for writer in self.open:
            writer.transport.abort()

    async def serve(self, reader, writer):
        self.open.add(writer)
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                await asyncio.sleep(0.005 if head.startswith(b"GET /health") else self.delay)
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nok\n")
                await writer.drain()
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            pass
        finally:
            self.open.discard(writer)
            writer.close()


async def visit(port, target, user, patience):
    """One request on a connection of its own; its client leaves after `patience`."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return
    try:
        writer.write(f"GET {target} HTTP/1.1\r\nhost: x\r\nx-user: {user}\r\nconnection: close\r\n\r\n".encode())
        await asyncio.wait_for(reader.read(), patience)
    except (TimeoutError, asyncio.TimeoutError, ConnectionError):
        pass
    finally:
        writer.close()


class Load:
    """So many requests a second to each target, over all instances in turn."""

    def __init__(self, ports):
        self.ports, self.rates, self.patience, self.users, self.tasks = ports, {}, 10, 10, set()

    async def run(self):
        owed, count, last = {}, 0, time.monotonic()
        while True:
            await asyncio.sleep(0.01)
            now = time.monotonic()
            for target, rate in self.rates.items():
                owed[target] = min(owed.get(target, 0) + rate * (now - last), 20)
                while owed[target] >= 1:
                    owed[target] -= 1
                    count += 1
                    port = self.ports[count % len(self.ports)]
                    task = asyncio.create_task(visit(port, target, f"user-{count // 2 % self.users}", self.patience))
                    self.tasks.add(task)
                    task.add_done_callback(self.tasks.discard)
            last = now


class Prometheus:
    def __init__(self, where, targets):
        self.port = free_port()
        rules = (GRAFANA / "prometheus" / "weir.rules.yml").read_text()
        rules = re.sub(r"\b(\d+)m\b", r"\1s", rules).replace("1h", "1m").replace("interval: 15s", "interval: 1s")
        (where / "weir.rules.yml").write_text(rules)
        scrapes = "".join(
            f"      - {{ targets: ['127.0.0.1:{admin}'], labels: {{ instance: weir-{i + 1} }} }}\n"
            for i, admin in enumerate(targets))
        (where / "prometheus.yml").write_text(
            "global: { scrape_interval: 1s, evaluation_interval: 1s }\nrule_files: [weir.rules.yml]\n"
            f"scrape_configs:\n  - job_name: weir\n    static_configs:\n{scrapes}")
        self.child = subprocess.Popen(
            ["prometheus", f"--config.file={where}/prometheus.yml", f"--storage.tsdb.path={where}/tsdb",
             f"--web.listen-address=127.0.0.1:{self.port}", "--log.level=warn"],
            stdout=subprocess.DEVNULL, stderr=open(where / "prometheus.log", "w"))

    def ask(self, path, **query):
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        try:
            with urllib.request.urlopen(url) as answer:
                return json.load(answer)["data"]["result"]
        except urllib.error.HTTPError as error:
            sys.exit(f"{query}: {error.read().decode()}")

    def over(self, expr, start, end):
        return self.ask("query_range", query=expr, start=start, end=end, step=STEP)

    def at(self, expr, when):
        return self.ask("query", query=expr, time=when)


def filled(expr, **chosen):
    """The query as Grafana would send it."""
    chosen = {"job": "weir", "instance": ".+", "limit": ".+", "upstream": ".+", "__rate_interval": "5s", **chosen}
    return re.sub(r"\$(\w+)", lambda found: chosen[found[1]], expr)


def values(result):
    every = [float(v) for series in result for _, v in series.get("values", [series.get("value")])]
    return [v for v in every if not math.isnan(v)]


def weir(binary, where, number, **ports):
    config = where / f"weir-{number}.toml"
    config.write_text(CONFIG.format(**ports))
    return subprocess.Popen([*FIRST, binary, "serve", "-c", config], stdout=open(where / f"weir-{number}.log", "w"),
                            stderr=subprocess.STDOUT)


async def call(port, method, path):
    """What the admin listener says to a change: its status, 0 where it is not there."""
    def ask():
        request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", method=method)
        try:
            with urllib.request.urlopen(request) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return 0
    return await asyncio.to_thread(ask)


async def play(options, where, children):
    redis_port = free_port()
    start_redis = lambda: subprocess.Popen(
        [*FIRST, "redis-server", "--port", str(redis_port), "--save", "", "--bind", "127.0.0.1", "--daemonize", "no"],
        stdout=subprocess.DEVNULL)
    children.append(redis := start_redis())
    reports, payments = Backend(), Backend()
    await reports.up()
    await payments.up()
    await asyncio.sleep(0.5)
    ports = [{"listen": free_port(), "admin": free_port(), "redis": redis_port,
              "reports": reports.port, "payments": payments.port} for _ in range(2)]
    instances = [weir(options.weir, where, i + 1, **each) for i, each in enumerate(ports)]
    children.extend(instances)
    prometheus = Prometheus(where, [each["admin"] for each in ports])
    children.append(prometheus.child)
    load = Load([each["listen"] for each in ports])
    running = asyncio.create_task(load.run())
    scenes = {}

    async def scene(name, seconds, rates=None, patience=10, users=10):
        load.rates = rates if rates is not None else {"/": 24, "/v1/charges": 10, "/login": 2}
        load.patience, load.users = patience, users
        begun = time.time()
        await asyncio.sleep(seconds)
        scenes[name] = (begun, time.time())
        print(f"{name}: {seconds} s", flush=True)

    await asyncio.sleep(3)
    await scene("calm", 25)
    await scene("overload", 30, {"/": 90, "/v1/charges": 30, "/login": 20}, users=6)
    await scene("calm again", 12)
    await scene("leaving", 20, {"/": 60, "/v1/charges": 10, "/login": 2}, patience=0.6)
    reports.delay = payments.delay = 0.9
    await scene("slow", 25)
    reports.delay = payments.delay = 0.02
    await scene("quick again", 12)
    await reports.down()
    await payments.down()
    await scene("down", 20)
    await reports.up()
    await payments.up()
    await scene("up again", 12)
    redis.send_signal(signal.SIGKILL)
    redis.wait()
    await scene("redis away", 15)
    children.append(redis := start_redis())
    await scene("redis back", 12)
    if await call(ports[0]["admin"], "POST", "/api/limits/database/pause?for=10s") in (200, 202, 204):
        await scene("paused", 8)
        await scene("resumed", 10)
    config = where / "weir-2.toml"
    good = config.read_text()
    config.write_text(good.replace("40r/s", "0r/s"))
    instances[1].send_signal(signal.SIGHUP)
    await asyncio.sleep(2)
    config.write_text(good)
    instances[0].send_signal(signal.SIGHUP)
    # weir-2 starts anew with another prefix: the two no longer see each other.
    instances[1].send_signal(signal.SIGTERM)
    instances[1].wait()
    config.write_text(good.replace("kind = \"redis\"", "kind = \"redis\"\nprefix = \"other\""))
    instances[1] = subprocess.Popen([*FIRST, options.weir, "serve", "-c", config], stdout=open(where / "weir-2b.log", "w"),
                                    stderr=subprocess.STDOUT)
    children.append(instances[1])
    await scene("apart", 15)
    crowd = []
    for _ in range(650):
        try:
            crowd.append(await asyncio.wait_for(asyncio.open_connection("127.0.0.1", ports[0]["listen"]), 1))
        except (OSError, asyncio.TimeoutError):
            pass
        if len(crowd) % 50 == 0:
            await asyncio.sleep(0.2)
    await scene("crowd", 10)
    for _, writer in crowd:
        writer.close()
    instances[1].send_signal(signal.SIGKILL)
    instances[1].wait()
    load.ports = load.ports[:1]
    await scene("one gone", 8)
    running.cancel()
    return prometheus, scenes


def judge(prometheus, scenes):
    """What doesn't show where it should, or shows where it shouldn't."""
    faults, targets = [], 0
    for path in sorted((GRAFANA / "dashboards").glob("*.json")):
        dashboard = json.loads(path.read_text())
        of_page = {"weir-limit": {"limit": "database"}, "weir-upstream": {"upstream": "reports"}}.get(dashboard["uid"], {})
        for panel in dashboard["panels"]:
            title = panel["title"]
            chosen = {"limit": "planned"} if title == "Would be refused" else of_page
            meant = MEANT_FOR.get(title)
            for target in panel.get("targets", []):
                targets += 1
                expr = filled(target["expr"], **chosen)
                where = f"{dashboard['uid']}, {title}: {expr}"
                calm = values(prometheus.over(expr, *scenes["calm"]))
                if not calm and title not in QUIET_IN_CALM:
                    faults.append(f"no samples in the calm: {where}")
                if meant and meant in scenes:
                    there = values(prometheus.over(expr, *scenes[meant]))
                    if not any(v > 0 for v in there):
                        faults.append(f"nothing above 0 in {meant}: {where}")
        for note in dashboard["annotations"]["list"]:
            targets += 1
            expr = filled(note["expr"], **of_page)
            begun, ended = min(s for s, _ in scenes.values()), max(e for _, e in scenes.values())
            seen = values(prometheus.over(expr, begun, ended))
            if not seen and not (note["name"] == "Paused" and "paused" not in scenes):
                faults.append(f"annotation {note['name']} never shows: {expr}")
    for name, wanted in MUST_CALL.items():
        result = prometheus.over('ALERTS{alertstate="firing"}', *scenes[name])
        called = {series["metric"]["alertname"] for series in result}
        print(f"alerts in {name}: {', '.join(sorted(called)) or 'none'}")
        if missing := wanted - called:
            faults.append(f"in {name} these don't call: {missing}")
        if name == "calm" and called:
            faults.append(f"in the calm these call: {called}")
    print(f"{targets} queries asked")
    return faults


def keep(prometheus, scenes, where):
    """The answers that pictures are made of."""
    (where / "stories").mkdir()
    begun = scenes["calm"][0]
    for name, uid, scene, chosen in [
        ("overview-overload", "weir-overview", "overload", {}),
        ("overview-all", "weir-overview", "redis away", {}),
        ("overview-down", "weir-overview", "down", {}),
        ("limit-overload", "weir-limit", "leaving", {"limit": "database"}),
        ("upstream-slow", "weir-upstream", "down", {"upstream": "reports"}),
    ]:
        dashboard = json.loads((GRAFANA / "dashboards" / f"{uid}.json").read_text())
        until = scenes[scene][1] - 1
        answers = {}
        for panel in dashboard["panels"]:
            for target in panel.get("targets", []):
                expr = filled(target["expr"], **chosen)
                kind = "at" if target.get("instant") else "over"
                result = prometheus.at(expr, until) if kind == "at" else prometheus.over(expr, begun, until)
                answers[f"{panel['id']}{target['refId']}"] = {"kind": kind, "result": result}
        marks = []
        for note in dashboard["annotations"]["list"]:
            for series in prometheus.over(filled(note["expr"], **chosen), begun, until):
                marks.append({"color": note["iconColor"], "times": [at for at, _ in series["values"]]})
        (where / "stories" / f"{name}.json").write_text(json.dumps(
            {"dashboard": dashboard, "answers": answers, "marks": marks, "from": begun, "to": until,
             "chosen": {"job": "weir", **chosen}}))


def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--weir", default=str(GRAFANA.parent / "target" / "debug" / "weir"))
    options.add_argument("--out", default="/tmp/weir-grafana")
    options = options.parse_args()
    missing = [name for name in ("prometheus", "redis-server") if not shutil.which(name)]
    if missing:
        subprocess.run(["apt-get", "update", "-q"], check=True)
        subprocess.run(["apt-get", "install", "-y", "-q", "--no-install-recommends", *missing], check=True)
    where = Path(options.out)
    shutil.rmtree(where, ignore_errors=True)
    where.mkdir(parents=True)
    children = []
    try:
        prometheus, scenes = asyncio.run(play(options, where, children))
        time.sleep(1.5)
        (where / "scenes.json").write_text(json.dumps(scenes))
        keep(prometheus, scenes, where)
        faults = judge(prometheus, scenes)
    finally:
        for child in children:
            child.kill()
    if faults:
        sys.exit("\n".join(faults))
    print("every panel shows what it is for")


if __name__ == "__main__":
    main()
