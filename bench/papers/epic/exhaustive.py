#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""Explores everything that can happen in small collectives, and writes it beside EPIC's Tables 7 and 8.

Usage: exhaustive.py [--quick] [--test FILE] [--log FILE... --date DATE --commit HASH [--machine NAME]]
  --quick         what tools/check runs, less than a minute
  --test FILE     the program (build/tests/inc_exhaustive_test)
  --log FILE...   what earlier runs of it printed, by themselves or under ctest -V, instead of a new one; of a case that
                  is in several the last counts
  --date, --commit, --machine  of these runs; without --machine it was this one
Takes an hour; writes exhaustive.md here, and bench/results/exhaustive.json for the page of bench/report/results.
WEFT_EXHAUSTIVE_MINUTES and WEFT_EXHAUSTIVE_STATES bound it, and WEFT_EXHAUSTIVE_CASES names the cases to run
(tests/collectives/engine/exhaustive_test.cc)."""
import argparse
import datetime
import json
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.realpath(__file__))
ROOT = os.path.realpath(os.path.join(HERE, "../../.."))
RESULTS = os.path.join(ROOT, "bench/results/exhaustive.json")
CTEST = r"(?:\d+: )?"  # what ctest -V puts in front of lines
LINE = re.compile(CTEST + r"(?P<name>.+?) +(?P<states>\d+) states by (?P<renamings>\d+) +"
                  r"(?P<transitions>\d+) transitions, diameter +(?P<diameter>\d+), copies (?P<copies>\d+), "
                  r"(?P<seconds>[\d.]+) s, (?P<megabytes>[\d.]+) MB")
SKIPPED = re.compile(CTEST + r"(?P<name>.+): not run( to the end, which is(?P<why> beyond \d+ million states))?$")
HEAD = """<!-- Written by exhaustive.py. -->
# Everything that can happen in small collectives

Tree-3-2: four ranks, two leaves, a root. The control message and two packets of data, W = 1; in Mode I a message of two
packets and one of one. One packet may be lost, at any time. The paper says neither what its window is nor in which
order packets of a channel arrive: these are numbers of two models of one protocol. Of states that ranks make of each
other when they change places, one is counted here: of an AllReduce up to 8, where one rank is the root up to 2.

| mode, operation | diameter | EPIC | transitions | EPIC | states | EPIC | time | EPIC, 75 cores | memory, MB |
|---|---|---|---|---|---|---|---|---|---|"""
SUM = """
{date}, {commit}:
{cases} cases, {states:,} states, {transitions:,} transitions, {minutes:.0f} minutes of one CPU. Nothing wrong was
found. Cases of up to {again} states are explored again with other hashes, with the same number of states; that
is not in these minutes. A case that names no mode is of Mode II. The largest:

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


def parse(lines):
    """Cases by name, and what the output says of those that it has no numbers of."""
    cases, skipped = {}, {}
    for line in lines:
        if found := LINE.match(line):
            cases[found["name"]] = found.groupdict()
        elif found := SKIPPED.match(line):
            skipped[found["name"]] = found["name"] + (found["why"] or "")
    return cases, [text for name, text in skipped.items() if name not in cases]


def totals(cases):
    return {"cases": len(cases), "minutes": sum(float(c["seconds"]) for c in cases.values()) / 60,
            **{key: sum(int(c[key]) for c in cases.values()) for key in ("states", "transitions")}}


def page(cases, skipped, quick, date, commit):
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
    out.append(SUM.format(**totals(cases), date=date, commit=commit, again="20,000" if quick else "5 million"))
    out += [f"| {c['name']} | {int(c['states']):,} | {int(c['transitions']):,} | {c['diameter']} | {c['copies']} | "
            f"{c['seconds']} | {c['megabytes']} |" for c in largest]
    if skipped:
        out += ["", "Not run, or not to the end:", ""] + [f"- {one}" for one in skipped]
    if quick:
        out.append(NOT_QUICK)
    return "\n".join(out) + "\n"


def results(cases, skipped, date, commit, machine):
    """bench/results/exhaustive.json."""
    rows = []
    for name, (title, diameter, total, distinct, time) in PAPER.items():
        c = cases.get(name)
        ours = [int(c["diameter"]), int(c["transitions"]), int(c["states"]), float(c["seconds"])] if c else [None] * 4
        rows.append([title, *(cell for pair in zip(ours, (diameter, total, distinct, time)) for cell in pair)])
    all_of_them = totals(cases)
    conditions = (f"in all {all_of_them['cases']} cases, {all_of_them['states']:,} states, "
                  f"{all_of_them['transitions']:,} transitions, {all_of_them['minutes']:.0f} minutes of one CPU; "
                  f"{len(skipped)} not run, or not to the end")
    heads = ("diameter", "transitions", "states", "s")
    return {"title": "Everything that can happen in small collectives", "how": "bench/papers/epic/exhaustive.py",
            "what": "Tree-3-2 with a loss, as in EPIC's Tables 7 and 8: what stands below are numbers of two models of "
                    "one protocol, see bench/papers/epic/exhaustive.md. EPIC's times are those of 75 cores.",
            "measurements": [{
                "date": date, "commit": commit, "machine": machine, "conditions": conditions,
                "columns": ["mode, operation", *(cell for head in heads for cell in (head, f"EPIC, {head}"))],
                "rows": rows}],
            "notes": []}


def this_machine():
    with open("/proc/cpuinfo", encoding="utf-8") as info:
        model = re.search(r"model name\s*: (.*)", info.read())
    return f"{model[1] if model else 'unknown'}, {os.cpu_count()} CPUs"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--test", default=os.path.join(ROOT, "build/tests/inc_exhaustive_test"))
    parser.add_argument("--log", nargs="+")
    parser.add_argument("--date")
    parser.add_argument("--commit")
    parser.add_argument("--machine", default=this_machine())
    parser.add_argument("--quick", action="store_true")
    args = parser.parse_args()
    if args.log:
        if not args.date or not args.commit:
            parser.error("--log needs --date and --commit")
        lines = []
        for name in args.log:
            with open(name, encoding="utf-8") as file:
                lines += file.readlines()
    else:
        args.date = args.date or datetime.datetime.now(datetime.timezone.utc).date().isoformat()
        args.commit = args.commit or subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], check=True,
                                                    capture_output=True, text=True).stdout.strip()
        lines = run(args.test, args.quick)
    cases, skipped = parse(lines)
    with open(os.path.join(HERE, "exhaustive.md"), "w", encoding="utf-8") as file:
        file.write(page(cases, skipped, args.quick, args.date, args.commit))
    with open(RESULTS, "w", encoding="utf-8") as file:
        file.write(json.dumps(results(cases, skipped, args.date, args.commit, args.machine), indent=1,
                              ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
