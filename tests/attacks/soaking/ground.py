"""What is started: a Redis that can be made to flap, weirs, and how each is measured."""

import asyncio
import os
import re
import signal
import socket
import subprocess
import time
import urllib.request
from pathlib import Path

RATES = ("400r/s", "300r/s")

CONFIG = """\
[server]
listen = "127.0.0.1:0"
admin = "127.0.0.1:0"
shutdown_grace = "10s"
[log]
access = false
[store]
kind = "redis"
url = "redis://127.0.0.1:{redis}/0"
[limits.each]
key = "{{header.x-key}}"
rate = "5r/s"
burst = 10
[limits.all]
key = "all"
rate = "{rate}"
burst = 200
[limits.tokens]
algorithm = "token_bucket"
key = "{{header.x-key}}"
rate = "20r/s"
capacity = 5
on_failure = "open"
[limits.guard]
key = "{{header.x-key}}"
rate = "20r/s"
burst = 5
on_failure = "closed"
[limits.longs]
key = "longs"
rate = "30r/s"
burst = 30
[upstreams.main]
url = "http://127.0.0.1:{backend}"
max_in_flight = 64
[upstreams.slow]
url = "http://127.0.0.1:{backend}"
max_in_flight = 48
[[routes]]
path = "/line"
upstream = "main"
limits = ["each", "all"]
[[routes]]
path = "/tokens"
upstream = "main"
limits = ["tokens"]
[[routes]]
path = "/guard"
upstream = "main"
limits = ["guard"]
[[routes]]
path = "/long"
upstream = "slow"
limits = ["longs"]
[[routes]]
path = "/socket"
upstream = "slow"
limits = ["longs"]
"""


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def settles(what, ask, seconds=20.0):
    """Asks until there is an answer."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        answer = ask()
        if answer:
            return answer
        time.sleep(0.05)
    raise SystemExit(f"{what}: not after {seconds} s")


class Redis:
    def __init__(self, folder):
        self.port, self.folder, self.process = free_port(), folder, None
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--save", "",
             "--appendonly", "no", "--dir", str(self.folder)],
            stdout=subprocess.DEVNULL,
        )

    def end(self):
        # A stopped one takes no other signal.
        self.process.kill()
        self.process.wait()

    async def ask(self, command):
        """The answer to an inline command, None where there is none in time."""
        try:
            async with asyncio.timeout(0.5):
                reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
                writer.write(command.encode() + b"\r\n")
                answer = await reader.readline()
                if answer.startswith(b"$"):
                    answer = await reader.readexactly(int(answer[1:]))
                writer.close()
                return answer.decode()
        except (OSError, TimeoutError, ValueError, asyncio.IncompleteReadError):
            return None

    async def flap(self, number):
        """Goes away in one of several ways, and comes back."""
        way = ("killed", "stopped", "scripts flushed", "stopped for long")[number % 4]
        if way == "killed":
            self.end()
            await asyncio.sleep(2)
            self.start()
        elif way == "scripts flushed":
            await self.ask("SCRIPT FLUSH")
        else:
            self.process.send_signal(signal.SIGSTOP)
            await asyncio.sleep(0.3 if way == "stopped" else 4)
            self.process.send_signal(signal.SIGCONT)
        return way


class Weir:
    def __init__(self, binary, folder, name, redis, backend):
        self.name, self.config, self.log = name, folder / f"{name}.toml", folder / f"{name}.log"
        self.values = {"redis": redis, "backend": backend}
        self.write(0)
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [binary, "serve", "-c", str(self.config)], stdout=log, stderr=log
            )
        listen = r"listens on http://([0-9.:]+)\S*,.*admin on http://([0-9.:]+)"
        found = settles(f"{name} starts", lambda: re.search(listen, self.text()))
        self.listen, self.admin = found.groups()

    def write(self, number):
        rate = RATES[number % len(RATES)]
        self.config.write_text(CONFIG.format(rate=rate, **self.values))

    def reload(self, number):
        """Every other time it finds out by itself that the file has changed."""
        self.write(number)
        if number % 2:
            self.process.send_signal(signal.SIGHUP)

    def text(self):
        return re.sub(r"\x1b\[[0-9;]*m", "", self.log.read_text(errors="replace"))

    def metrics(self):
        """Each sample by its name with labels."""
        with urllib.request.urlopen(f"http://{self.admin}/metrics", timeout=5) as page:
            lines = page.read().decode().splitlines()
        pairs = (line.rsplit(" ", 1) for line in lines if line and not line.startswith("#"))
        return {name: float(value) for name, value in pairs}

    def measured(self):
        """What must stay flat, by name."""
        metrics = self.metrics()
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        field = lambda name: int(re.search(rf"^{name}:\s+(\d+)", status, re.M).group(1))
        family = lambda name: sum(
            value for key, value in metrics.items() if key.split("{")[0] == f"weir_{name}"
        )
        return {
            "rss_kib": field("VmRSS"),
            "fds": len(os.listdir(f"/proc/{self.process.pid}/fd")),
            "threads": field("Threads"),
            "connections": metrics['weir_connections{listener="requests"}'],
            "in_flight": family("in_flight"),
            "waiting": family("waiting"),
            "buckets": family("buckets"),
        }

    def end(self):
        """Asks it to end; its exit code."""
        self.process.terminate()
        return self.process.wait(timeout=30)
