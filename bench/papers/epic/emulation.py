#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""EPIC's emulation (appendix J, Tables 19 to 24) on this machine: four hosts under Tree-3-2 and three switches in one
weft-switch; each mode, rings of the same hosts, and Open MPI over the same switches. Hosts are namespaces with weft's
own RNIC in `weft-inc perf`, where Open MPI takes TCP, or guests with Soft-RoCE for both. Needs root.

Usage: emulation.py [--guests] [--largest BYTES] [--out FILE] [COLLECTIVE...]
  --guests         hosts are guests
  --largest BYTES  of a vector; 1K, 1M and 1G are powers of 1024 (64M, with guests 16M)
  --out FILE       emulation.md here, or emulation_guests.md; a table that is named alone replaces its section of it
Writes the numbers beside the paper's."""
import argparse
import json
import os
import pathlib
import platform
import re
import sys
import types

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[2] / "tests/live"))

import inc_ranks  # noqa: E402
import inc_tree  # noqa: E402
import lab  # noqa: E402
from test_inc_mpi import Mpi  # noqa: E402

SIZES = {"4K": 4096, "16K": 16384, "64K": 65536, "256K": 1 << 18, "1M": 1 << 20, "4M": 1 << 22, "16M": 1 << 24,
         "64M": 1 << 26, "256M": 1 << 28, "1G": 1 << 30}
# Mbit/s by size; a barrier is requests per second.
PAPER = {
    "allreduce": {"i": [2.47, 10.24, 35.89, 78.97, 182.44, 247.87, 381.91, 417.60, 425.77, 426.94],
                  "ii": [14.74, 48.10, 67.32, 85.11, 88.96, 93.74, 86.64, 89.33, 94.11, 97.86],
                  "iii": [15.69, 64.14, 88.69, 86.77, 72.54, 75.54, 74.86, 75.46, 75.13, 75.64],
                  "mpi": [1.71, 3.72, 14.89, 21.12, 73.90, 181.22, 316.46, 249.17, 434.01, 501.59]},
    "reduce": {"i": [4.49, 25.29, 88.78, 108.50, 210.33, 449.22, 511.03, 504.83, 511.96, 506.10],
               "ii": [19.02, 66.77, 103.23, 112.01, 98.91, 98.82, 96.11, 97.17, 95.25, 93.96],
               "iii": [18.65, 49.05, 82.01, 105.59, 105.75, 107.95, 110.28, 112.99, 107.59, 110.28],
               "mpi": [9.70, 37.94, 14.90, 30.29, 51.77, 184.31, 328.64, 311.63, 343.51, 454.53]},
    "reduce_scatter": {"i": [3.27, 9.69, 19.64, 62.09, 71.67, 72.54, 70.88, 70.66, 70.10, 68.47],
                       "ii": [6.55, 21.84, 65.53, 104.85, 104.85, 101.68, 96.55, 95.69, 95.35, 70.20],
                       "iii": [6.48, 24.63, 57.72, 98.65, 95.06, 116.64, 120.05, 121.37, 118.08, 120.32],
                       "mpi": [1.71, 6.83, 5.28, 17.37, 73.54, 181.02, 345.97, 436.25, 464.15, 601.30]},
    "broadcast": {"i": [35.23, 14.17, 50.57, 75.10, 78.75, 81.84, 81.92, 90.75, 78.53, 76.33],
                  "ii": [25.23, 62.27, 117.95, 115.80, 125.39, 139.29, 145.74, 132.86, 142.72, 138.55],
                  "iii": [48.30, 165.46, 324.95, 381.13, 230.07, 210.80, 209.80, 188.76, 188.09, 223.44],
                  "mpi": [9.55, 36.47, 14.89, 58.17, 222.20, 599.20, 902.72, 1212.81, 832.36, 984.33]},
    "allgather": {"i": [32.66, 119.70, 92.34, 181.59, 281.61, 302.07, 316.87, 322.67, 308.44, 313.16],
                  "ii": [6.35, 24.40, 75.88, 147.62, 200.50, 216.69, 265.47, 276.48, 272.88, 262.54],
                  "iii": [0.01, 0.04, 0.18, 0.71, 2.84, 10.87, 37.18, 95.66, 146.18, 169.30],
                  "mpi": [6.83, 27.32, 33.57, 107.00, 194.20, 384.41, 429.84, 585.25, 566.77, 826.64]},
    "barrier": {"i": [1331.25], "ii": [590.00], "iii": [2502.15], "mpi": [37.81]},
}
NUMBER = {"allreduce": 19, "reduce": 20, "reduce_scatter": 21, "broadcast": 22, "allgather": 23, "barrier": 24}
SOLUTIONS = {"i": "EPIC-I", "ii": "EPIC-II", "iii": "EPIC-III", "ring": "hosts' own ring", "mpi": "Open MPI"}
# The largest size of a part of the runs: times that it is measured, and before that. Many of small vectors, in seconds.
PARTS = ((1 << 18, 100, 10), (1 << 22, 10, 2), (1 << 26, 2, 1), (1 << 28, 1, 1), (1 << 30, 1, 0))
# 64 KiB are a message of EPIC-I; slots of Mode III are those of all messages under way.
MESSAGE_PACKETS, WINDOW = 16, 8
MODES = {**inc_tree.modes(12), "iii": {"mode": "iii", "slots": 2 * MESSAGE_PACKETS * WINDOW, "timeout": 12}}


def parts(sizes, of=PARTS):
    """(sizes, times, warmup) of runs that take seconds each."""
    least = 0
    for most, times, warmup in of:
        part = [size for size in sizes if least < size <= most]
        if part:
            yield part, times, warmup
        least = most


class Namespaces:
    """Hosts that are namespaces. Every run has switches of its own."""

    FILE, LARGEST = "emulation.md", "64M"
    HEAD = """# EPIC, appendix J, by weft-switch

Written by emulation.py; README.md says what differs and why.
"""
    PARTS = PARTS

    def perf(self, solution, words):
        """What `weft-inc perf --json` says."""
        with lab.Lab() as l:
            tree = inc_tree.Tree(l)
            how = ("--backend", "ring") if solution == "ring" else ("--backend", "inc", "--by-hand")
            ranks = inc_ranks.Ranks(tree, *words, *how, each=lambda rank: ("--daemon", ""))
            if solution != "ring":
                ranks.join(tree, 7, WINDOW, message_packets=MESSAGE_PACKETS, **MODES[solution])
            out, ends = ranks.results()
            if any(status for status, _ in ends):
                raise RuntimeError(f"{' '.join(words)}, {solution}: {ends}")
            l.stop()
        return json.loads(out)

    def mpi(self, words):
        """What mpi_times prints."""
        with lab.Lab() as l:
            mpi = Mpi(inc_tree.Tree(l), types.SimpleNamespace(sockets=[]), HERE / "mpi_times.c", words)
            status, out = mpi.run("--mca", "coll", "^weft")
            if status:
                raise RuntimeError(f"{' '.join(words)}, Open MPI: {out}")
            l.stop()
        return out

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return False


def by_weft(hosts, collective, solution, sizes):
    """Microseconds by size."""
    found = {}
    for part, times, warmup in [([8], 500, 50)] if collective == "barrier" else parts(sizes, hosts.PARTS):
        said = hosts.perf(solution, (
            collective, "-b", str(part[0]), "-e", str(part[-1]), "-f", "4", "-n", str(times), "-w", str(warmup),
            "--json", "--mtu", "4096", "--message-packets", str(MESSAGE_PACKETS), "--window", str(WINDOW), "--timeout",
            "120"))
        for row in said["rows"]:
            if row["out_of_place"]["wrong"]:
                raise RuntimeError(f"{collective}, {solution}: wrong results")
            found[row["bytes"]] = row["out_of_place"]["time_us"]
    return found


def by_mpi(hosts, collective, sizes):
    """The same; without sizes that its messages are too large for."""
    found = {}
    for part, times, _ in [([0], 500, 0)] if collective == "barrier" else parts(sizes, hosts.PARTS):
        out = hosts.mpi((collective, str(times), *map(str, part)))
        found.update((int(size), float(us)) for size, us in re.findall(r"^(\d+) ([\d.]+)$", out, re.M))
    return found


def cell(value):
    return "too large" if value is None else f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def section(hosts, collective, largest):
    """A table, as Markdown."""
    names = [name for name, size in SIZES.items() if size <= largest]
    sizes = [SIZES[name] for name in names]
    barrier = collective == "barrier"
    lines = [f"## Table {NUMBER[collective]}: {collective}, " + ("per second" if barrier else
                                                                 "Mbit/s by bytes of the vector"), "",
             "|  | " + ("barriers" if barrier else " | ".join(names)) + " |",
             "|---" * (2 if barrier else len(names) + 1) + "|"]
    for solution, title in SOLUTIONS.items():
        if barrier and solution == "ring":
            continue  # the hosts' own barrier is no ring
        print(f"{collective}: {title}", file=sys.stderr, flush=True)
        times = (by_mpi(hosts, collective, sizes) if solution == "mpi" else
                 by_weft(hosts, collective, solution, sizes))
        ours = ([1e6 / us for us in times.values()] if barrier else
                [size * 8 / times[size] if size in times else None for size in sizes])
        rows = [(f"{title}, here", ours)]
        if solution in PAPER[collective]:
            rows.append((f"{title}, EPIC", PAPER[collective][solution][:len(ours)]))
        lines += [f"| {name} | " + " | ".join(map(cell, values)) + " |" for name, values in rows]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--guests", action="store_true")
    parser.add_argument("--largest", choices=SIZES)
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("collective", nargs="*", choices=[[], *PAPER])
    arguments = parser.parse_args()
    if arguments.guests:
        from emulation_guests import Guests as Hosts  # needs QEMU
    else:
        Hosts = Namespaces
    out = arguments.out or HERE / Hosts.FILE
    old = out.read_text(encoding="utf-8") if out.exists() else Hosts.HEAD
    sections = {int(number): "## " + text.strip() + "\n" for text in re.split(r"(?m)^## ", old)[1:]
                for number in re.findall(r"^Table (\d+)", text)}
    cpu = next(line.split(":")[1].strip() for line in lab.read("/proc/cpuinfo").splitlines() if "model name" in line)
    machine = f"{cpu}, {os.cpu_count()} CPUs, Linux {platform.release()}"
    with Hosts() as hosts:
        for collective in arguments.collective or PAPER:
            text = section(hosts, collective, SIZES[arguments.largest or Hosts.LARGEST])
            title, _, rest = text.partition("\n")
            sections[NUMBER[collective]] = f"{title}\n\n{machine}\n{rest}"
            print(text, flush=True)
            out.write_text(Hosts.HEAD + "".join("\n" + sections[number] for number in sorted(sections)),
                           encoding="utf-8")


if __name__ == "__main__":
    main()
