#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""Explores everything that can happen in small collectives, and writes it beside EPIC's Tables 7 and 8.

Usage: exhaustive.py [--quick] [--test FILE] [--log FILE...]
  --quick         what tools/check runs, less than a minute
  --test FILE     the program (build/tests/inc_exhaustive_test)
  --log FILE...   what earlier runs of it printed, instead of a new one
Takes an hour; writes exhaustive.md here. WEFT_EXHAUSTIVE_MINUTES and WEFT_EXHAUSTIVE_STATES bound it, and
WEFT_EXHAUSTIVE_CASES names the cases to run (tests/collectives/engine/exhaustive_test.cc)."""
import argparse
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.realpath(__file__))
ROOT = os.path.realpath(os.path.join(HERE, "../../.."))
LINE = re.compile(r"(?P<name>.+?) +(?P<states>\d+) states by (?P<renamings>\d+) +(?P<transitions>\d+) transitions, "
                  r"diameter +(?P<diameter>\d+), copies (?P<copies>\d+), (?P<seconds>[\d.]+) s, "
                  r"(?P<megabytes>[\d.]+) MB")
SKIPPED = re.compile(r"(?P<name>.+): not run( to the end, which is(?P<why> beyond \d+ million states))?$")
HEAD = """<!-- Written by exhaustive.py. -->
# Everything that can happen in small collectives

Tree-3-2: four ranks, two leaves, a root. The control message and two packets of data, W = 1; in Mode I a message of two
packets and one of one. One packet may be lost, at any time. The paper says neither what its window is nor in which
order packets of a channel arrive: these are numbers of two models of one protocol. Of states that ranks make of each
other when they change places, one is counted here: of an AllReduce up to 8, where one rank is the root up to 2.

| mode, operation | diameter | EPIC | transitions | EPIC | states | EPIC | time | EPIC, 75 cores | memory, MB |
|---|---|---|---|---|---|---|---|---|---|"""
SUM = """
{cases} cases, {states:,} states, {transitions:,} transitions, {minutes:.0f} minutes on one core; nothing wrong was
found. Cases of up to {again} states are explored again with other hashes, with the same number of states. A case that
names no mode is of Mode II. The largest:

| case | states | transitions | diameter | copies | time, s | memory, MB |
|---|---|---|---|---|---|---|"""
# What only a full run explores.
NOT_QUICK = """
Not run here, but with WEFT_EXHAUSTIVE=full:

- Tree-3-2 without a fault: AllReduce, and sequences that end in one, in Mode I and in Mode III with ACKs on arrival
- Tree-3-2 with one fault: the same in Mode I, and its other sequences; sequences that end in an AllReduce in Mode III,
  and with a loss in Mode II; `reforward` with a loss; Mode III with ACKs on arrival
- any order: duplicates in the sequences of Modes I and III; faults in the tree, and the tree in Modes I and III, but
  for the barrier of Mode III
- timers that expire too early, in the tree: all but the barriers of Modes I and III
- two faults in the tree: AllReduce and sequences that end in one in Mode II; Mode I but for its barrier"""
# Diameter, total, distinct states of Table 8; time of Table 7.
PAPER = {"allreduce, tree, 1 lost": ("II, AllReduce", 77, 3981257, 901703, "20 s"),
         "reduce, tree, 1 lost": ("II, Reduce", 57, 52105, 14136, "3 s"),
         "broadcast, tree, 1 lost": ("II, Broadcast", 60, 1763880, 320128, "10 s"),
         "allreduce, iii, tree, 1 lost": ("III, AllReduce", 115, 2242781644, 439476508, "146 min"),
         "reduce, iii, tree, 1 lost": ("III, Reduce", 65, 2291727, 447972, "9 s"),
         "broadcast, iii, tree, 1 lost": ("III, Broadcast", 67, 67902618, 9911424, "113 s"),
         "allreduce, i, tree, 1 lost": ("I, AllReduce", None, None, None, None),
         "reduce, i, tree, 1 lost": ("I, Reduce", None, None, None, None),
         "broadcast, i, tree, 1 lost": ("I, Broadcast", None, None, None, None)}


def run(test, quick):
    """What the exploration prints, shown as it comes."""
    lines = []
    with subprocess.Popen([test], stdout=subprocess.PIPE, text=True,
                          env=dict(os.environ, **({} if quick else {"WEFT_EXHAUSTIVE": "full"}))) as process:
        for line in process.stdout:
            print(line, end="", flush=True)
            lines.append(line)
    if process.returncode != 0:
        sys.exit(f"{test}: exit code {process.returncode}")
    return lines


def tables(lines, quick):
    cases = {}
    for line in lines:
        found = LINE.match(line)
        if found:
            cases[found["name"]] = found.groupdict()
    skipped = {}
    for line in lines:
        found = SKIPPED.match(line)
        if found and found["name"] not in cases:
            skipped[found["name"]] = found["name"] + (found["why"] or "")
    out = [HEAD]
    for name, (title, diameter, total, distinct, time) in PAPER.items():
        c = cases.get(name)
        paper = [f"{v:,}" if isinstance(v, int) else v or "" for v in (diameter, total, distinct, time)]
        ours = [f"{int(c[k]):,}" for k in ("diameter", "transitions", "states")] if c else ["not run"] * 3
        time = f"{c['seconds']} s" if c else ""
        memory = c["megabytes"] if c else ""
        out.append(f"| {title} | {ours[0]} | {paper[0]} | {ours[1]} | {paper[1]} | {ours[2]} | {paper[2]} | {time} | "
                   f"{paper[3]} | {memory} |")
    largest = sorted(cases.values(), key=lambda c: -int(c["states"]))[:25]
    states = sum(int(c["states"]) for c in cases.values())
    transitions = sum(int(c["transitions"]) for c in cases.values())
    seconds = sum(float(c["seconds"]) for c in cases.values())
    out.append(SUM.format(cases=len(cases), states=states, transitions=transitions, minutes=seconds / 60,
                          again="20,000" if quick else "5 million"))
    out += [f"| {c['name']} | {int(c['states']):,} | {int(c['transitions']):,} | {c['diameter']} | {c['copies']} | "
            f"{c['seconds']} | {c['megabytes']} |" for c in largest]
    if skipped:
        out += ["", "Not run, or not to the end:", ""] + [f"- {one}" for one in skipped.values()]
    if quick:
        out.append(NOT_QUICK)
    return "\n".join(out) + "\n"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--test", default=os.path.join(ROOT, "build/tests/inc_exhaustive_test"))
    parser.add_argument("--log", nargs="+")
    parser.add_argument("--quick", action="store_true")
    args = parser.parse_args()
    if args.log:
        lines = []
        for name in args.log:
            with open(name, encoding="utf-8") as file:
                lines += file.readlines()
    else:
        lines = run(args.test, args.quick)
    with open(os.path.join(HERE, "exhaustive.md"), "w", encoding="utf-8") as file:
        file.write(tables(lines, args.quick))


if __name__ == "__main__":
    main()
