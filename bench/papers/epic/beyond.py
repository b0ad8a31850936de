#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""Runs weft-sim for what EPIC's appendix K leaves out: loss on many links of deep trees beside section F.4, loss inside
the network, a rank that is away for a while, one that begins late, one that is slow, congestion control, other traffic
with and without PFC.

Usage: beyond.py [--weft-sim FILE] [--jobs N] [--bytes N] [--seeds N] [--out FILE] [SECTION...]
  --jobs N    simulations at a time (one per core)
  --bytes N   of each rank's vector (4194304)
  --seeds N   losses are drawn anew with each (3)
  --out FILE  where the tables go (beyond.md here)
A section that is named alone replaces its part of the file; one of vectors of another size stands beside it. Tree-4-8
has 512 ranks: with 4 MB, each of its runs takes minutes."""
import argparse
import math
import os
import re
import statistics
import sys

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
import tables  # pylint: disable=wrong-import-position

MODES = ("i", "ii", "iii")
LOSSES = (0.001, 0.005, 0.01, 0.02)
RANKS_GIVE_UP_LATE = {"nic__rto_us": 1000, "workload__group__timeout": 8}


class Runs(tables.Runs):
    """AllReduces of one size, some seeds each."""

    def __init__(self, options):
        super().__init__(options.weft_sim, options.jobs)
        self.bytes, self.seeds = options.bytes, options.seeds

    @property
    def size(self):
        """In words."""
        for unit, name in ((1 << 20, "MB"), (1 << 10, "KB")):
            if self.bytes % unit == 0:
                return f"{self.bytes // unit} {name}"
        return f"{self.bytes} bytes"

    @property
    def means(self):
        """What a cell says, for the text above a table."""
        return "One run each." if self.seeds == 1 else f"Means over {self.seeds} seeds."

    def one(self, **sets):
        return self.start(workload__bytes=self.bytes, **sets)

    def seeded(self, **sets):
        return [self.one(seed=seed, **sets) for seed in range(1, self.seeds + 1)]

    def cell(self, waiting):
        """Gbit/s: mean over seeds."""
        results = [w.result() for w in waiting]
        if any(math.isinf(ns) for ns in results):
            return "a rank gives up"
        return f"{statistics.mean(tables.gbps(self.bytes, ns) for ns in results):.1f}"


def irn(mode):
    """Selective repair, by the RNICs and by the switch where it repairs."""
    return {"nic__transport": "irn", "workload__group__mode": mode}


def decay(runs):
    lines = [f"## F.4: loss on every link, AllReduce of {runs.size}, Gbit/s", "",
             "The paper's T = B r^(2 (H - 1)) for Modes I and III, and B r^(2 (H - 1)(D - 1)) for Mode II, with B as "
             f"without loss. {runs.means} Trees of 8, 64 and 512 ranks.", ""]
    lines += tables.head(["tree", "mode", "no loss"] + [f"{100 * p:g} %" for p in LOSSES] +
                         [f"F.4, {100 * p:g} %" for p in LOSSES])
    waiting = {}
    for depth in (2, 3, 4):
        hosts = {"topology": tables.tree(depth)}
        for mode in MODES:
            clean = runs.one(**hosts, faults="[]", **irn(mode))
            waiting[depth, mode] = clean, [runs.seeded(**hosts, faults=f"[{{link: all, loss: {p}}}]", **irn(mode))
                                           for p in LOSSES]
    for (depth, mode), (clean, lossy) in waiting.items():
        base = tables.gbps(runs.bytes, clean.result())
        power = 2 * (depth - 1) * (7 if mode == "ii" else 1)
        lines.append(tables.row(f"Tree-{depth}-8", [mode, runs.cell([clean])] + [runs.cell(one) for one in lossy] +
                                [f"{base * (1 - p) ** power:.1f}" for p in LOSSES]))
    return lines


def inner(runs):
    lines = [f"## Loss on the links between switches, Tree-3-8, AllReduce of {runs.size}, Gbit/s", "", runs.means, ""]
    lines += tables.head(["mode", "no loss"] + [f"{100 * p:g} %" for p in LOSSES])
    ways = [(mode, {}) for mode in MODES] + [("ii, reforward", {"workload__group__duplicates": "reforward"})]
    waiting = {}
    for name, extra in ways:
        sets = {"topology": tables.tree(3), **irn(name.split(",", maxsplit=1)[0]), **extra}
        waiting[name] = [runs.seeded(faults=f"[{{link: fabric, loss: {p}}}]", **sets) for p in (0, *LOSSES)]
    for name, cells in waiting.items():
        lines.append(tables.row(name, [runs.cell(one) for one in cells]))
    return lines


def straggler(runs):
    lines = [f"## A rank whose link is down for a while, AllReduce of {runs.size}, us", "",
             "Go-back-N, timeouts of 1 ms and 7 retries. From 100 us on nothing gets through on one link.", ""]
    away = (0, 100, 1000, 5000, 10000)
    lines += tables.head(["mode"] + [f"away {us} us" for us in away])
    for mode in MODES:
        waiting = [runs.one(workload__group__mode=mode, faults="[]" if us == 0 else
                            f"[{{link: host0/leaf0, down_at_us: 100, up_at_us: {100 + us}}}]",
                            **RANKS_GIVE_UP_LATE) for us in away]
        lines.append(tables.row(mode, ["a rank gives up" if math.isinf(w.result()) else f"{w.result() / 1000:.0f}"
                                       for w in waiting]))
    return lines


def late(runs):
    """One rank calls later than the others, which have sent all that the group has room for."""
    behind = (0, 10, 100, 1000, 10000)
    lines = [f"## A rank that begins late, AllReduce of {runs.size}: us from its beginning to the end of all", "",
             "Timeouts of 262 us and 7 retries: the others hear RNR NAKs, and nobody gives up.", ""]
    lines += tables.head(["mode"] + [f"{us} us late" for us in behind])
    for mode in MODES:
        waiting = [runs.one(workload__group__mode=mode, faults="[]", workload__late=f"[{{host: 7, by_us: {us}}}]",
                            nic__rto_us=262) for us in behind]
        lines.append(tables.row(mode, [f"{w.result() / 1000 - us:.0f}" for w, us in zip(waiting, behind)]))
    return lines


def slow(runs):
    """One host of eight has a slower link: everybody waits for it. Who may run ahead of it, and how far?"""
    lines = [f"## One rank with a slower link, and what that link can carry, AllReduce of {runs.size}, Gbit/s", ""]
    rates = (100, 50, 25, 10, 1)
    lines += tables.head(["mode"] + [f"{rate} Gbit/s" for rate in rates])
    ways = [(mode, {}) for mode in MODES] + [("iii, ACKs on arrival", {"workload__group__acks": "arrival"})]
    waiting = {}
    for name, extra in ways:
        # Longer than what stands in front of the slow link takes: nothing is lost.
        sets = {"workload__group__mode": name.split(",", maxsplit=1)[0], "workload__group__timeout": 10,
                "nic__rto_us": 10000, "faults": "[]", **extra}
        waiting[name] = [runs.one(topology=one_slow_link(rate), **sets) for rate in rates]
    for name, cells in waiting.items():
        lines.append(tables.row(name, [f"{tables.gbps(runs.bytes, w.result()):.2f}" for w in cells]))
    # 82 bytes of headers and gaps around 1024 of payload, and an ACK of 84 for each packet the other way.
    lines.append(tables.row("the link", [f"{rate * 1024 / (1024 + 82 + 84):.2f}" for rate in rates]))
    return lines


def one_slow_link(rate):
    """Topology of eight hosts around one switch, the last of which has a link of so many Gbit/s."""
    return ("{ kind: explicit, link_gbps: 100, delay_ns: 1000, switches: [leaf0], hosts: [{name: host, switch: leaf0, "
            f"count: 7}}, {{name: slow, switch: leaf0, gbps: {rate}}}] }}")


def company(runs):
    lines = [f"## AllReduce of {runs.size} beside a flow on the link of one rank, Gbit/s of the AllReduce", "",
             "A ninth host sends to the last rank without end, with 1024 packets under way; the AllReduce has 256 "
             "(Mode III: 512 slots). Fair would be half of the link.", ""]
    networks = {"lossless (PFC)": {"switch__pfc": "true"}, "lossy": {},
                "PFC, ECN, DCQCN": {"switch__pfc": "true", "switch__ecn": "by_speed", "nic__cc": "{kind: dcqcn}"},
                "ECN, DCQCN": {"switch__ecn": "by_speed", "nic__cc": "{kind: dcqcn}"}}
    lines += tables.head(["mode"] + [f"{name}{beside}" for name in networks for beside in (", alone", "")])
    for mode in MODES:
        waiting = [runs.one(workload__group__mode=mode, workload__group__timeout=6,
                            topology__hosts_per_leaf=9, workload__hosts=8, faults="[]", nic__rto_us=200,
                            **({"workload__background": "[{from: 8, to: 7}]"} if beside else {}), **sets)
                   for sets in networks.values() for beside in (False, True)]
        lines.append(tables.row(mode, [runs.cell([w]) for w in waiting]))
    return lines


def shares(runs):
    """Without congestion control a queue serves flows by what they have under way. Which is larger?"""
    windows = (256, 512, 1024, 2048)
    lines = [f"## The same with PFC by what the other flow has under way, AllReduce of {runs.size}, Gbit/s", ""]
    lines += tables.head(["mode", "packets of the AllReduce"] + [f"{w} packets" for w in windows])
    # Under way to the last rank: results of the window, or those in the pipe's slots, of which there are twice as many.
    for mode, window, packets in [(mode, window, 16 * window * (2 if mode == "iii" else 1))
                                  for window in (16, 64) for mode in MODES]:
        waiting = [runs.one(workload__group__mode=mode, workload__group__timeout=6, topology__hosts_per_leaf=9,
                            workload__hosts=8, faults="[]", nic__rto_us=200, switch__pfc="true", nic__window=w,
                            workload__window=window, workload__background="[{from: 8, to: 7}]") for w in windows]
        lines.append(tables.row(mode, [str(packets)] + [runs.cell([w]) for w in waiting]))
    return lines


def timers(runs):
    """Mode III with loss: what a repair costs that is lost as well, which only a timer notices."""
    losses, ways = (0.02, 0.05, 0.1), ((20, 3), (10, 3), (20, 2), (10, 2))
    lines = [f"## Mode III, one link that loses packets, by timeouts, AllReduce of {runs.size}, Gbit/s", "",
             runs.means, ""]
    lines += tables.head(["ranks' timeout, us", "the switch's, us"] + [f"{100 * p:g} %" for p in losses])
    waiting = [[runs.seeded(nic__rto_us=rank, workload__group__timeout=hop,
                            faults=f"[{{link: host0/leaf0, loss: {p}}}]", **irn("iii")) for p in losses]
               for rank, hop in ways]
    for (rank, hop), cells in zip(ways, waiting):
        lines.append(tables.row(str(rank), [f"{4.096 * 2 ** hop:.0f}"] + [runs.cell(one) for one in cells]))
    return lines


SECTIONS = {"decay": decay, "inner": inner, "straggler": straggler, "late": late, "slow": slow, "company": company,
            "shares": shares, "timers": timers}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weft-sim", default=os.path.join(tables.ROOT, "build/bin/weft-sim"))
    parser.add_argument("--jobs", type=tables.positive, default=os.cpu_count())
    parser.add_argument("--bytes", type=tables.positive, default=1 << 22)
    parser.add_argument("--seeds", type=tables.positive, default=3)
    parser.add_argument("--out", default=os.path.join(tables.HERE, "beyond.md"))
    parser.add_argument("section", nargs="*", help=", ".join(SECTIONS))
    options = parser.parse_args()
    unknown = [s for s in options.section if s not in SECTIONS]
    if unknown:
        parser.error(f"no section {unknown[0]}; there are {', '.join(SECTIONS)}")
    known = {}
    if os.path.exists(options.out):
        with open(options.out, encoding="utf-8") as file:
            for part in re.split(r"(?m)^(?=## )", file.read())[1:]:
                known[part.splitlines()[0]] = part.rstrip()
    runs = Runs(options)
    for name in options.section or SECTIONS:
        lines = SECTIONS[name](runs)
        known[lines[0]] = "\n".join(lines)
        print(f" {name}", file=sys.stderr)
        with open(options.out, "w", encoding="utf-8") as file:
            file.write("# What EPIC's appendix K leaves out, by weft-sim\n\nWritten by beyond.py; README.md says why."
                       "\n\n" + "\n\n".join(known.values()) + "\n")


if __name__ == "__main__":
    main()
