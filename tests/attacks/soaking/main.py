"""Lets two weirs soak and says what became of them: `main.py WEIR FOLDER SECONDS`."""

import asyncio
import collections
import multiprocessing
import sys
import time
from pathlib import Path

import backend
import clients
import judge
from ground import Redis, Weir

SAMPLE, FLAP, RELOAD = 5, 20, 30
# A key of Redis outlives its drain by a little.
FORGOTTEN_WITHIN = 90


async def flapping(redis, ends, events):
    number = 0
    while time.monotonic() + FLAP < ends:
        await asyncio.sleep(FLAP)
        events[await redis.flap(number)] += 1
        number += 1


async def reloading(weirs, ends, events):
    number = 0
    while time.monotonic() + RELOAD < ends:
        await asyncio.sleep(RELOAD)
        number += 1
        for weir in weirs:
            weir.reload(number)
        events["reloads"] += 1


async def sample(redis, weirs):
    values = {}
    for weir in weirs:
        measured = await asyncio.to_thread(weir.measured)
        values |= {f"{weir.name} {name}": value for name, value in measured.items()}
    keys, about = await redis.ask("DBSIZE"), await redis.ask("INFO clients")
    fields = dict(line.split(":", 1) for line in (about or "").splitlines() if ":" in line)
    values["keys"] = int(keys[1:]) if keys else None
    values["clients"] = int(fields["connected_clients"]) if fields else None
    return values


def short(values):
    return " ".join("-" if value is None else f"{value:.0f}" for value in values.values())


async def sampling(redis, weirs, begun, ends):
    samples = []
    while time.monotonic() < ends:
        values = await sample(redis, weirs)
        second = time.monotonic() - begun
        if not samples:
            print("second " + " ".join(name.replace(" ", ".") for name in values))
        samples.append((second, values))
        print(f"{second:.0f} {short(values)}", flush=True)
        await asyncio.sleep(SAMPLE)
    return samples


async def remains(redis, weirs):
    """What is still held once everybody has gone, and Redis has had its time to forget."""
    until = time.monotonic() + FORGOTTEN_WITHIN
    while True:
        values = await sample(redis, weirs)
        held = {
            name: value for name, value in values.items()
            if value and name.split(" ")[-1] in ("connections", "in_flight", "waiting", "buckets")
        }
        # The heartbeat's own.
        if values["keys"] is None or values["keys"] > 2:
            held["keys"] = values["keys"]
        if not held or time.monotonic() > until:
            print(f"at rest: {short(values)}")
            return [f"{name} is {value} at rest" for name, value in held.items()]
        await asyncio.sleep(1)


async def soak(redis, weirs, seconds, crowds):
    begun, events = time.monotonic(), collections.Counter()
    samples, _, _ = await asyncio.gather(
        sampling(redis, weirs, begun, begun + seconds - 1),
        flapping(redis, begun + seconds, events),
        reloading(weirs, begun + seconds, events),
    )
    counts = collections.Counter()
    for told in crowds:
        counts += await asyncio.to_thread(told.recv)
    print("\n" + ", ".join(f"{what}: {times}" for what, times in events.items()))
    faults = judge.answered(counts)
    faults += await remains(redis, weirs)
    print()
    return faults + judge.flat(samples, warm_up=max(60, seconds / 5) if seconds > 120 else 10)


def logged(weir):
    text = weir.text()
    return [f"{weir.name} logged `{word}`" for word in ("panicked", "ERROR") if word in text]


def main():
    binary, folder, seconds = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    spawn = multiprocessing.get_context("spawn")

    def begin(run, *arguments):
        told, tells = spawn.Pipe(duplex=False)
        spawn.Process(target=run, args=(*arguments, tells), daemon=True).start()
        return told

    port = begin(backend.run).recv()
    redis, weirs = Redis(folder), []
    try:
        for name in ("a", "b"):
            weirs.append(Weir(binary, folder, name, redis.port, port))
        addresses = [weir.listen for weir in weirs]
        crowds = [begin(clients.run, addresses, seconds, is_http2) for is_http2 in (False, True)]
        faults = asyncio.run(soak(redis, weirs, seconds, crowds))
        for weir in weirs:
            wrong = {
                name: value for name, value in weir.metrics().items()
                if value and name.startswith("weir_config_reloads_total") and "success" not in name
            }
            faults += [f"{weir.name}: {name} is {value}" for name, value in wrong.items()]
            if (code := weir.end()) != 0:
                faults.append(f"{weir.name} ended with {code}")
            faults += logged(weir)
    finally:
        redis.end()
        for weir in weirs:
            weir.process.kill()
    print("\nverdict: " + ("; ".join(faults) or "flat, and nothing is left"))
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
