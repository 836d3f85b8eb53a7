"""What floods of HTTP/2 frames do to other clients: `floods.py LISTEN ADMIN PID`.

Each flood is sent for some seconds on four connections that never read an answer, and a
new one takes the place of each that weir ends.
"""

import re
import socket
import sys
import threading
import time
import urllib.request
from pathlib import Path

SECONDS, SENDERS = 4, 4
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
GET = b"\x82\x86\x84\x41\x09weir.test"


def frame(kind, flags, stream, payload=b""):
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def resets():
    return b"".join(
        frame(1, 5, stream, GET) + frame(3, 0, stream, b"\0\0\0\x08") for stream in range(1, 20_000, 2)
    )


def trailers():
    """Requests whose bodies end in as many trailers as fit."""
    block = b"\x40\x01a\x01b" * 3_000
    opens = b"\x83" + GET[1:]
    return b"".join(
        frame(1, 4, stream, opens) + frame(1, 5, stream, block) for stream in range(1, 1_000, 2)
    )


FLOODS = {
    "nothing": b"",
    "resets": resets(),
    "pings": frame(6, 0, 0, b"12345678") * 100_000,
    "settings": frame(4, 0, 0, b"\0\x03\0\0\0\x32") * 100_000,
    "continuations": frame(1, 1, 1, GET[:3]) + frame(9, 0, 1, b"\x40\x01a\x01b" * 1_000) * 2_000,
    "empty data": frame(1, 4, 1, b"\x83" + GET[1:]) + frame(0, 0, 1) * 200_000,
    "windows": frame(8, 0, 0, b"\0\0\0\x01") * 100_000,
    "priorities": frame(2, 0, 1, b"\0\0\0\x03\x10") * 100_000,
    "trailers": trailers(),
    "tables": frame(4, 0, 0, b"\0\x01\xff\xff\xff\xff") * 100_000,
    "unknown": frame(0xBE, 0, 0, b"x" * 100) * 100_000,
}


def send(address, flood, until, ended):
    while flood and time.monotonic() < until:
        try:
            with socket.create_connection(address, timeout=1) as one:
                one.sendall(PREFACE + frame(4, 0, 0))
                while time.monotonic() < until:
                    one.sendall(flood)
        except OSError:
            ended.append(1)


def others(address, until):
    """How long each request of a client takes meanwhile, in ms; None for one that failed."""
    took = []
    while time.monotonic() < until:
        begun = time.monotonic()
        try:
            with socket.create_connection(address, timeout=5) as one:
                one.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
                whole = b"".join(iter(lambda: one.recv(65536), b""))
            took.append((time.monotonic() - begun) * 1e3 if b" 200 OK" in whole[:20] else None)
        except OSError:
            took.append(None)
    return took


def main():
    listen, admin, pid = sys.argv[1].split("//")[1], sys.argv[2], sys.argv[3]
    host, port = listen.rsplit(":", 1)
    address = (host, int(port))
    memory = lambda: int(
        re.search(r"RssAnon:\s+(\d+)", Path(f"/proc/{pid}/status").read_text()).group(1)
    )

    def failed():
        page = urllib.request.urlopen(f"{admin}/metrics").read().decode()
        return float(re.search(r'failed_total\{listener="requests",kind="http2"\} (\S+)', page).group(1))

    print(f"{'flood':<14} {'p50/ms':>8} {'p99/ms':>8} {'failed':>8} {'ended':>8} {'by weir':>8} {'memory/KiB':>12}")
    worst = 0
    for name, flood in FLOODS.items():
        before, failures, until, ended = memory(), failed(), time.monotonic() + SECONDS, []
        senders = [
            threading.Thread(target=send, args=(address, flood, until, ended)) for _ in range(SENDERS)
        ]
        for sender in senders:
            sender.start()
        took = others(address, until)
        after = memory()
        for sender in senders:
            sender.join()
        well = sorted(one for one in took if one is not None)
        at = lambda share: well[int(len(well) * share)] if well else float("inf")
        lost = len(took) - len(well)
        worst += lost
        print(f"{name:<14} {at(0.5):>8.1f} {at(0.99):>8.1f} {lost:>8} {len(ended):>8} "
              f"{failed() - failures:>8.0f} {after - before:>12}")
    sys.exit(1 if worst else 0)


if __name__ == "__main__":
    main()
