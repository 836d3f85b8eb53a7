"""Is what was measured flat, and what is left afterwards nothing?"""

import statistics

# How much a value may have grown over the measured time, by the line that fits its
# samples best: a share of its mean, or so much, whichever is more. What the load itself
# makes go up and down is given more room; a leak of one in a hundred requests is far more.
TOLERATED = {
    "rss_kib": (0.10, 4096),
    "fds": (0.15, 30),
    "threads": (0.0, 0.5),
    "connections": (0.15, 30),
    "in_flight": (0.30, 20),
    "waiting": (0.30, 30),
    "buckets": (0.25, 100),
    "keys": (0.25, 150),
    "clients": (0.10, 3),
}


def grown(points):
    """By how much a line through `(second, value)` rises from the first to the last."""
    if len(points) < 3:
        return 0.0
    slope, _ = statistics.linear_regression(*zip(*points))
    return slope * (points[-1][0] - points[0][0])


def flat(samples, warm_up):
    """Prints a row for each series; which of them grew."""
    series = {}
    for second, values in samples:
        for name, value in values.items():
            if second >= warm_up and value is not None:
                series.setdefault(name, []).append((second, value))
    print(f"{'series':<16} {'mean':>10} {'least':>10} {'most':>10} {'grown':>10} {'may grow':>10}")
    faults = []
    for name, points in series.items():
        values = [value for _, value in points]
        share, least = TOLERATED[name.split(" ")[-1]]
        room = max(share * statistics.fmean(values), least)
        rise = grown(points)
        mark = "" if rise <= room else "  NOT FLAT"
        print(f"{name:<16} {statistics.fmean(values):>10.1f} {min(values):>10.0f} "
              f"{max(values):>10.0f} {rise:>10.1f} {room:>10.1f}{mark}")
        if mark:
            faults.append(f"{name} grew by {rise:.1f}")
    return faults


def answered(counts):
    """Prints what clients got, by path; which of it nothing explains."""
    faults = []
    for path in sorted({path for path, _ in counts}):
        of_path = {status: n for (at, status), n in sorted(counts.items()) if at == path}
        print(f"{path:<10} " + "  ".join(f"{status}: {n}" for status, n in of_path.items()))
        for status, count in of_path.items():
            # `on_failure = "closed"` says 503 while Redis is away.
            is_closed = path == "/guard" and status == "503"
            if status not in ("200", "101", "429", "left") and not is_closed:
                faults.append(f"{path}: {count} times {status}")
    left = sum(n for (_, status), n in counts.items() if status == "left")
    print(f"{sum(counts.values())} visits, {left / max(1, sum(counts.values())):.0%} left early")
    return faults
