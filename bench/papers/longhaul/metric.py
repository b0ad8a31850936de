# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""FCT slowdowns of the long-haul paper's runs as its authors count them, from transfers of weft-sim.

A slowdown is the time from post to acknowledgement over the authors' time of the flow alone (Themis @d941dc1,
NS3/simulation/scratch/third.cc:985-991): twice the propagation, 1000 bytes at every hop on the way there, and all bytes
with 48 around each packet on the slowest link. It counts one packet twice and no acknowledgement; slowdowns below 1 are
kept. Percentiles are interpolated. Flow sizes are split at 10 * 1024 and 100 * 1024 bytes."""

HOSTS_PER_TOR = 4
HOSTS_PER_DATA_CENTRE = 16
BINS = (10 * 1024, 100 * 1024)
BIN_NAMES = ("to 10 KiB", "to 100 KiB", "larger")
AUTHORS_START_NS = 2_000_000_000  # when the first flows of their files can start
# held_by_waits(): how long a window is, and how many short flows it needs.
HELD_WINDOW_NS = 2_000_000
HELD_FEWEST = 10
# The part of a run that the authors' code records queues of: QLEN_MON_START and QLEN_MON_END of their config.txt.
HELD_FIRST_NS = 10_000_000


def within(a, b):
    return a // HOSTS_PER_DATA_CENTRE == b // HOSTS_PER_DATA_CENTRE


def standalone_ns(a, b, size, wan_ns=500_000):
    if a // HOSTS_PER_TOR == b // HOSTS_PER_TOR:
        links = [(100, 1000)] * 2
    elif within(a, b):
        links = [(100, 1000)] * 4
    else:
        links = [(100, 1000), (100, 1000), (400, 1000), (1600, wan_ns), (400, 1000), (100, 1000), (100, 1000)]
    packets = (size - 1) // 1000 + 1
    one_way = sum(1000 * 8 / rate for rate, _ in links)
    return int(2 * sum(delay for _, delay in links) + one_way + (size + 48 * packets) * 8 / 100)


def percentile(values, share):
    """Between the two values around the rank, in proportion."""
    values = sorted(values)
    at = share * (len(values) - 1)
    low = int(at)
    high = min(low + 1, len(values) - 1)
    return values[low] + (values[high] - values[low]) * (at - low)


def mean(values):
    return sum(values) / len(values) if values else float("nan")


def figures(transfers, wan_ns=500_000):
    """From (from, to, bytes, fct_ns) of flows: mean, P99 and means by size, of flows within a data centre, between two,
    and of all."""
    rows = {"within": [], "between": [], "all": []}
    for a, b, size, fct in transfers:
        slowdown = fct / standalone_ns(a, b, size, wan_ns)
        rows["within" if within(a, b) else "between"].append((size, slowdown))
        rows["all"].append((size, slowdown))
    out = {}
    for name, flows in rows.items():
        slow = [s for _, s in flows]
        bins = ([s for size, s in flows if size <= BINS[0]],
                [s for size, s in flows if BINS[0] < size <= BINS[1]],
                [s for size, s in flows if size > BINS[1]])
        out[name] = {"flows": len(slow), "mean": round(mean(slow), 4), "p99": round(percentile(slow, 0.99), 3),
                     "bins": [round(mean(b), 4) for b in bins]}
    return out


def of_result(result, wan_ns=500_000):
    """The same of a JSON result of weft-sim; every flow must have ended."""
    flows = [(t["from"], t["to"], t["bytes"], t["fct_ns"]) for t in result["transfers"] if "fct_ns" in t]
    if len(flows) != len(result["transfers"]):
        raise ValueError(f"{len(result['transfers']) - len(flows)} flows did not end")
    return figures(flows, wan_ns)


def most_under_way(result):
    """How many flows of a JSON result were under way at once: {flows: most}."""
    out = {}
    for name in ("within", "between", "all"):
        events = []
        for t in result["transfers"]:
            if name == "all" or within(t["from"], t["to"]) == (name == "within"):
                events += [(t["start_ns"], 1), (t["start_ns"] + t["fct_ns"], -1)]
        now, most = 0, 0
        for _, change in sorted(events):
            now += change
            most = max(most, now)
        out[name] = most
    return out


def flows_of_authors_file(path):
    """(from, to, bytes, start_ns, fct_ns) of a result file of the authors: sip dip sport dport bytes start_ns fct_ns
    standalone_ns flow_id."""
    flows = []
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            f = line.split()
            flows.append((int(f[0], 16) >> 8 & 0xFFFF, int(f[1], 16) >> 8 & 0xFFFF, int(f[4]),
                          int(f[5]) - AUTHORS_START_NS, int(f[6])))
    return flows


def of_authors_file(path):
    """figures() of it."""
    return figures((a, b, size, fct) for a, b, size, _, fct in flows_of_authors_file(path))


def held_by_waits(flows, wan_ns=500_000):
    """How much must have waited at the edge switches of the receivers, by Little's law: what waits on average is the
    rate at which bytes come, times how long each waits. Works where nothing but FCTs is known.

    Of (from, to, bytes, start_ns, fct_ns). How long bytes wait is what flows to 100 KiB between data centres take
    longer than alone, all of which are sent at once; waiting elsewhere, tens of microseconds, is counted too. The bytes
    of a flow are spread evenly over its time. In windows of HELD_WINDOW_NS while flows begin: the most, the most in
    the first HELD_FIRST_NS and the mean in MB, both edge switches added up, and the longest that such a flow waited, in
    ms."""
    out = {"most_mb": 0.0, "first_mb": 0.0, "mean_mb": 0.0, "longest_ms": 0.0}
    for to_first in (False, True):
        rows = [f for f in flows if not within(f[0], f[1]) and (f[1] < HOSTS_PER_DATA_CENTRE) == to_first]
        bytes_of, waits_of = {}, {}
        for a, b, size, start, fct in rows:
            for i in range(int(start // HELD_WINDOW_NS), int((start + fct) // HELD_WINDOW_NS) + 1):
                inside = min(start + fct, (i + 1) * HELD_WINDOW_NS) - max(start, i * HELD_WINDOW_NS)
                bytes_of[i] = bytes_of.get(i, 0) + size * inside / fct
            if size <= BINS[1]:
                waits_of.setdefault(int((start + wan_ns) // HELD_WINDOW_NS), []).append(
                    fct - standalone_ns(a, b, size, wan_ns))
        held = {i: bytes_of[i] * mean(waits) / HELD_WINDOW_NS / 1e6 for i, waits in waits_of.items()
                if len(waits) >= HELD_FEWEST}
        out["most_mb"] += max(held.values(), default=0)
        out["first_mb"] += max((mb for i, mb in held.items() if i < HELD_FIRST_NS / HELD_WINDOW_NS), default=0)
        out["mean_mb"] += mean(held.values()) if held else 0
        out["longest_ms"] = max(out["longest_ms"], *(max(waits) / 1e6 for waits in waits_of.values()))
    return {name: round(value, 2) for name, value in out.items()}


def held_of_result(result, wan_ns=500_000):
    """The same of a JSON result of weft-sim of which every flow has ended."""
    return held_by_waits([(t["from"], t["to"], t["bytes"], t["start_ns"], t["fct_ns"]) for t in result["transfers"]],
                         wan_ns)
