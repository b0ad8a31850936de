#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""Runs weft-sim for EPIC's Tables 25 to 32 and its equation (2), and writes them beside the paper's numbers.

Usage: tables.py [--weft-sim FILE] [--jobs N] [--largest SIZE] [--quick] [TABLE...]
  --jobs N        simulations at a time (one per core)
  --largest SIZE  leaves larger vectors out of Tables 25 to 29: 64M, ... (1G)
  --quick         the same as --largest 4M
Writes tables.md here; a table that is named alone replaces its section of it."""
import argparse
import concurrent.futures
import json
import math
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.realpath(__file__))
ROOT = os.path.realpath(os.path.join(HERE, "../../.."))
SIZES = {"4K": 4096, "16K": 16384, "64K": 65536, "256K": 1 << 18, "1M": 1 << 20, "4M": 1 << 22, "64M": 1 << 26,
         "256M": 1 << 28, "1G": 1 << 30}
LOSS = [0, 0.1, 0.5, 1, 2, 5, 8, 10, 12, 15]

# Gbit/s by size; EPIC appendix K.
PAPER = {
    "allreduce": {"ii": [6.10, 20.35, 48.83, 75.12, 84.92, 87.54, 88.25, 88.28, 88.30],
                  "iii": [10.17, 30.52, 61.04, 81.38, 88.78, 89.03, 89.90, 89.92, 89.92],
                  "ring": [1.02, 3.81, 12.21, 27.90, 41.12, 46.64, 48.66, 48.76, 48.79]},
    "reduce": {"ii": [10.17, 30.52, 61.04, 81.38, 88.78, 90.84, 91.46, 91.49, 91.50],
               "iii": [10.17, 30.52, 61.04, 81.38, 88.78, 90.84, 91.46, 91.49, 91.50]},
    "reducescatter": {"ii": [10.17, 30.52, 61.04, 81.38, 88.78, 90.84, 91.46, 91.49, 91.50],
                      "iii": [10.17, 30.52, 61.04, 81.38, 88.78, 90.84, 91.46, 91.49, 91.50],
                      "ring": [1.91, 7.12, 23.74, 53.41, 77.68, 87.64, 91.24, 91.43, 91.48]},
    "broadcast": {"ii": [10.17, 30.52, 61.04, 81.38, 88.78, 90.84, 91.46, 91.49, 91.50],
                  "iii": [10.17, 30.52, 61.04, 81.38, 88.78, 90.84, 91.46, 91.49, 91.50]},
    "allgather": {"ii": [6.98, 22.71, 52.08, 76.59, 87.29, 90.42, 91.43, 91.48, 91.49],
                  "iii": [7.18, 23.25, 52.79, 76.97, 87.41, 90.45, 91.43, 91.48, 91.49],
                  "ring": [13.35, 37.15, 67.02, 83.88, 89.50, 90.99, 91.47, 91.49, 91.50]},
}
NUMBER = {25: "allreduce", 26: "reduce", 27: "reducescatter", 28: "broadcast", 29: "allgather"}
BARRIER = {"ii": 2e5, "iii": 3.33e5, "rank0": 1.42e5}
LOSSY = {"ii": [87.54, 86.33, 86.81, 86.09, 84.46, 79.52, 75.48, 73.01, 47.17, 39.01],
         "iii": [89.03, 88.53, 88.53, 88.28, 87.54, 84.92, 82.67, 81.17, 79.72, 77.74]}
LINKS = {"ii": [87.54, 79.52, 74.05, 70.07, 64.97, 63.78, 59.07, 55.31, 52.52],
         "iii": [89.03, 84.92, 82.02, 79.31, 77.54, 76.78, 75.67, 74.94, 72.34]}
# Its rows, whose labels are swapped in the paper against the text.
TABLE_35 = {"true": dict(zip(("4K", "16K", "64K", "256K", "1M", "4M", "16M", "64M"),
                             (13.96, 38.66, 70.37, 88.09, 94.38, 95.99, 95.87, 90.45))),
            "false": dict(zip(("4K", "16K", "64K", "256K", "1M", "4M", "16M", "64M"),
                              (13.96, 38.66, 70.37, 88.09, 94.38, 44.60, 43.32, 20.25)))}
SEEDS = (1, 2, 3)
MESSAGE_PACKETS = 16  # of star.yaml
INCOMPLETE = 5  # exit code of weft-sim
LONGEST_RUN_S = 3600


class Runs:
    """weft-sim with these settings; `jobs` at a time."""

    def __init__(self, program, jobs):
        self.program = program
        self.pool = concurrent.futures.ThreadPoolExecutor(jobs)

    def start(self, **sets):
        return self.pool.submit(self.run, sets)

    def run(self, sets):
        with tempfile.TemporaryDirectory() as folder:
            out = os.path.join(folder, "out.json")
            command = [self.program, "run", os.path.join(HERE, "star.yaml"), "--json", out]
            for key, value in sets.items():
                command += ["--set", f"{key.replace('__', '.')}={value}"]
            done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST_RUN_S)
            if done.returncode not in (0, INCOMPLETE):
                sys.exit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr}")
            with open(out, encoding="utf-8") as file:
                report = json.load(file)
        print(".", end="", file=sys.stderr, flush=True)
        if not report["summary"]["complete"]:
            return math.inf  # a rank has given up
        # What EPIC counts: of an AllReduce until the work requests of all ranks have ended, else until all have
        # arrived.
        transfers = report["transfers"]
        if sets.get("workload__operation", "allreduce") == "allreduce" and "workload" not in sets:
            return max(t["start_ns"] + t["fct_ns"] for t in transfers)
        return max(t["received_ns"] for t in transfers)


def gbps(size, ns):
    return size * 8 / ns


def row(name, values):
    return "| " + " | ".join([name] + values) + " |"


def head(names):
    return [row(names[0], names[1:]), "|" + "---|" * len(names)]


def throughput(runs, number, sizes):
    operation = NUMBER[number]
    lines = [f"## Table {number}: {operation}, Gbit/s by bytes of the vector", ""] + head([""] + list(sizes))
    waiting = {}
    modes = ["i", *PAPER[operation]]
    for mode in modes:
        for size, count in sizes.items():
            if mode == "ring":
                sets = {"workload": f"{{kind: ring_{operation}, bytes: {count}}}"}
            else:
                sets = {"workload__operation": operation, "workload__bytes": count, "workload__group__mode": mode,
                        "workload__group_per_root": "true"}
            waiting[mode, size] = runs.start(**sets)
    for mode in modes:
        name = "ring" if mode == "ring" else "mode " + mode
        ours = [gbps(sizes[s], waiting[mode, s].result()) for s in sizes]
        lines.append(row(name + ", here", [f"{x:.2f}" for x in ours]))
        if mode == "i":
            continue  # EPIC has no numbers of it
        theirs = PAPER[operation][mode]
        lines.append(row(name + ", EPIC", [f"{x:.2f}" for x, _ in zip(theirs, sizes)]))
        lines.append(row("difference", [f"{(o / t - 1) * 100:+.0f} %" for o, t in zip(ours, theirs)]))
    return lines


def barrier(runs, *_):
    times = 1000
    waiting = {mode: runs.start(workload__operation="barrier", workload__bytes=0, workload__times=times,
                                workload__group__mode=mode) for mode in ("i", "ii", "iii")}
    waiting["rank0"] = runs.start(workload="{kind: barrier_rank0}")
    lines = ["## Table 30: Barrier, per second", ""] + head(["", "here", "EPIC"])
    for mode, run in waiting.items():
        count = 1 if mode == "rank0" else times
        ours = count / (run.result() * 1e-9)
        name = "all to rank 0" if mode == "rank0" else "mode " + mode
        lines.append(row(name, [f"{ours:.3g}", f"{BARRIER[mode]:.3g}" if mode in BARRIER else ""]))
    return lines


def side_by_side(runs, *_):
    size = SIZES["4M"]
    cases = {"ReduceScatter": {"workload__operation": "reducescatter"},
             "AllGather": {"workload__operation": "allgather"},
             "both": {"workload__operation": "reducescatter", "workload__beside": "allgather"}}
    lines = ["## Figure 14: ReduceScatter beside AllGather, 4 MB each, Gbit/s", "",
             "Of what each rank contributes or receives, both operations together.", ""]
    lines += head(["", *cases])
    for mode in ("i", "ii", "iii"):
        waiting = {name: runs.start(workload__bytes=size, workload__group__mode=mode, workload__group_per_root="true",
                                    **sets) for name, sets in cases.items()}
        lines.append(row(f"mode {mode}, here",
                         [f"{gbps(size * (2 if n == 'both' else 1), w.result()):.1f}" for n, w in waiting.items()]))
    return lines


def mean_over_seeds(runs, **sets):
    return [runs.start(seed=seed, **sets) for seed in SEEDS]


def spread(waiting):
    values = [gbps(SIZES["4M"], w.result()) for w in waiting]
    return f"{sum(values) / len(values):.1f} ({min(values):.1f} to {max(values):.1f})"


def loss(runs, *_):
    lines = ["## Table 31: AllReduce of 4 MB, one link that loses packets, Gbit/s", "",
             f"Means over {len(SEEDS)} seeds, and their range.", ""]
    lines += head(["loss, %"] + [str(x) for x in LOSS])
    irn = {"nic__transport": "irn"}
    gbn = {"nic__rto_us": 100, "workload__group__timeout": 5}  # longer than a window takes, which is sent again
    modes = {"mode i": {"workload__group__mode": "i", **irn},
             "mode ii": {"workload__group__mode": "ii", **irn},
             "mode ii, reforward": {"workload__group__mode": "ii", "workload__group__duplicates": "reforward", **irn},
             "mode iii": {"workload__group__mode": "iii", **irn},
             "mode i, go-back-N": {"workload__group__mode": "i", **gbn},
             "mode ii, go-back-N": {"workload__group__mode": "ii", **gbn},
             "mode iii, go-back-N": {"workload__group__mode": "iii", **gbn}}
    waiting = {name: [mean_over_seeds(runs, faults__0__loss=x / 100, **sets) for x in LOSS]
               for name, sets in modes.items()}
    for name in modes:
        lines.append(row(name + ", here", [spread(w) for w in waiting[name]]))
    for mode, values in LOSSY.items():
        lines.append(row(f"mode {mode}, EPIC", [str(x) for x in values]))
    return lines


def links(runs, *_):
    lines = ["## Table 32: AllReduce of 4 MB, 5 % loss on so many links, Gbit/s", ""] + head(
        ["links"] + [str(n) for n in range(9)])
    for mode in ("i", "ii", "iii"):
        waiting = []
        for count in range(9):
            faults = "[" + ", ".join(f"{{link: host{h}/leaf0, loss: 0.05}}" for h in range(count)) + "]"
            waiting.append(mean_over_seeds(runs, workload__group__mode=mode, faults=faults, nic__transport="irn"))
        lines.append(row(f"mode {mode}, here", [spread(w) for w in waiting]))
        if mode in LINKS:
            lines.append(row(f"mode {mode}, EPIC", [str(x) for x in LINKS[mode]]))
    return lines


def congested(runs, sizes_of_table=("1K", "4K", "16K", "64K", "256K", "1M", "4M", "16M", "64M")):
    """A ninth host sends to the last rank, whose link is the bottleneck of all: what CNPs of the switch are for."""
    sizes = {"1K": 1024, "16M": 1 << 24, **SIZES}
    lines = ["## Table 35: AllReduce, 200 Gbit/s, half of one link taken by another flow, DCQCN, Gbit/s", "",
             "Of the paper's first three columns two are called 16K; their numbers are those of 4K, 16K and 64K.", ""]
    lines += head(["mode", "ACKs", "CNPs of the switch", *sizes_of_table])
    ways = [("i", "", "", "")] + [("iii", acks, cnps, f", acks: {acks}, early_cnp: {cnps}")
                                  for acks in ("room", "arrival") for cnps in ("true", "false")]
    for mode, acks, cnps, options in ways:
        waiting = [runs.start(faults="[]", topology__hosts_per_leaf=9, topology__link_gbps=200,
                              switch__ecn="by_speed", nic__cc="{kind: dcqcn}", nic__rto_us=200, workload__hosts=8,
                              workload__background="[{from: 8, to: 7}]", workload__bytes=sizes[size],
                              workload__group=f"{{mode: {mode}, rnr_timer: 1, timeout: 6{options}}}")
                   for size in sizes_of_table]
        lines.append(row(mode, [acks, cnps] + [f"{gbps(sizes[s], w.result()):.1f}"
                                               for s, w in zip(sizes_of_table, waiting)]))
    for name, theirs in TABLE_35.items():
        lines.append(row("iii, EPIC", ["", name] + [f"{theirs[s]:.1f}" if s in theirs else "" for s in sizes_of_table]))
    return lines


def packet_size(runs, *_):
    """Tables 9 to 13: what NCCL loses by packets of 256 bytes instead of 1024, at 64 MB."""
    paper = {"allreduce": 36.01 / 40.99, "reducescatter": 62.24 / 72.29, "allgather": 62.01 / 70.26}
    lines = ["## Tables 9 to 13: rings of 64 MB with packets of 256 bytes, relative to 1024", ""]
    lines += head(["", "here", "EPIC's testbed"])
    waiting = {(name, mtu): runs.start(workload=f"{{kind: ring_{name}, bytes: {SIZES['64M']}}}", nic__mtu=mtu)
               for name in paper for mtu in (256, 1024)}
    for name, theirs in paper.items():
        ours = waiting[name, 1024].result() / waiting[name, 256].result()
        lines.append(row(name, [f"{ours:.3f}", f"{theirs:.3f}"]))
    return lines


def space(runs, *_):
    """F.3: throughput by the size of the window, in units of what is under way on the path."""
    fractions, one = (0.25, 0.5, 1, 1.5, 2), (1024 + 82) * 8 / 100
    lines = ["## F.3: AllReduce of 4 MB (Tree-4-8: 1 MB), Gbit/s by window, relative to 2 (2H - 2) L B", ""]
    lines += head(["tree", "mode", "packets of 1"] + [str(f) for f in fractions])
    for depth in (2, 3, 4):
        size, path = (1 << 20 if depth == 4 else 1 << 22), 2 * (2 * depth - 2) * 1000 / one
        for mode in ("i", "ii", "iii"):
            waiting = [runs.start(topology=tree(depth), faults="[]", workload__bytes=size, workload__message_packets=1,
                                  workload__window=max(1, round(f * path)), workload__group__mode=mode)
                       for f in fractions]
            lines.append(row(f"Tree-{depth}-8", [mode, f"{path:.0f}"] + [f"{gbps(size, w.result()):.1f}"
                                                                          for w in waiting]))
    return lines


def tree(depth):
    """Topology of 8^(depth - 1) ranks: every switch has eight children."""
    rates = "link_gbps: 100, delay_ns: 1000"
    if depth < 4:
        leaves = 8 ** (depth - 2)
        return f"{{ kind: leaf_spine, leaves: {leaves}, spines: {depth - 2}, hosts_per_leaf: 8, {rates} }}"
    switches = ["root"] + [f"m{i}" for i in range(8)] + [f"l{i}" for i in range(64)]
    hosts = [f"{{name: h{i}-, switch: l{i}, count: 8}}" for i in range(64)]
    edges = [f"{{a: m{i}, b: root}}" for i in range(8)] + [f"{{a: l{i}, b: m{i // 8}}}" for i in range(64)]
    return (f"{{ kind: explicit, {rates}, switches: [{', '.join(switches)}], hosts: [{', '.join(hosts)}], "
            f"links: [{', '.join(edges)}] }}")


def equation(runs, *_):
    """(2H - 2) L + (2H - 1) MU/B + S/B, with M = 1 in (2); headers and the control message are in it."""
    size, packet, headers = 1 << 20, 1024, 14 + 20 + 8 + 12 + 4 + 24
    one = (packet + headers) * 8 / 100
    lines = ["## Equations (1) and (2): AllReduce of 1 MB over trees of depth H, us", "",
             "Until every rank has its result and its own packets are acknowledged.", ""]
    lines += head(["tree", "ranks", "(1)", "mode i", "(2)", "mode ii", "mode iii"])
    waiting = {(depth, mode): runs.start(topology=tree(depth), faults="[]", workload__bytes=size,
                                         workload__window=32, workload__group__mode=mode)
               for depth in (2, 3, 4) for mode in ("i", "ii", "iii")}
    for depth in (2, 3, 4):
        ns = (2 * depth - 2) * 1000 + (2 * depth - 2) * one + (size / packet) * one
        whole = ns + (2 * depth - 2) * (MESSAGE_PACKETS - 1) * one
        ours = [f"{waiting[depth, mode].result() / 1000:.2f}" for mode in ("i", "ii", "iii")]
        formulas = [f"{whole / 1000:.2f}", f"{ns / 1000:.2f}"]
        lines.append(row(f"Tree-{depth}-8", [str(8 ** (depth - 1)), formulas[0], ours[0], formulas[1], *ours[1:]]))
    return lines


SECTIONS = {**{str(n): throughput for n in NUMBER}, "30": barrier, "31": loss, "32": links,
            "35": lambda runs, *_: congested(runs), "figure14": side_by_side,
            "packet": packet_size, "space": space, "equation": equation}


def positive(text):
    """An argument that is a whole number from 1."""
    if not text.isdigit() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number from 1")
    return int(text)


def write(path, known):
    sections = sorted(known.values(), key=lambda lines: (lines[0].startswith("## Eq"), lines[0]))
    with open(path, "w", encoding="utf-8") as file:
        file.write("# EPIC, appendix K, by weft-sim\n\nWritten by tables.py; README.md says what differs and why.\n\n")
        file.write("\n\n".join("\n".join(lines) for lines in sections) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weft-sim", default=os.path.join(ROOT, "build/bin/weft-sim"))
    parser.add_argument("--jobs", type=positive, default=os.cpu_count())
    parser.add_argument("--largest", choices=SIZES, default="1G")
    parser.add_argument("--quick", dest="largest", action="store_const", const="4M")
    parser.add_argument("table", nargs="*", help=", ".join(SECTIONS))
    options = parser.parse_args()
    unknown = [t for t in options.table if t not in SECTIONS]
    if unknown:
        parser.error(f"no table {unknown[0]}; there are {', '.join(SECTIONS)}")
    runs = Runs(options.weft_sim, options.jobs)
    sizes = {n: s for n, s in SIZES.items() if s <= SIZES[options.largest]}
    path = os.path.join(HERE, "tables.md")
    known = {}
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            for part in re.split(r"(?m)^(?=## )", file.read())[1:]:
                known[part.splitlines()[0]] = part.rstrip().splitlines()
    for name in options.table or SECTIONS:
        lines = SECTIONS[name](runs, int(name) if name.isdigit() else 0, sizes)
        known[lines[0]] = lines
        print(f" {name}", file=sys.stderr)
        write(path, known)


if __name__ == "__main__":
    main()
