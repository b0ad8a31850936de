#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""Runs weft-flow for EPIC's Tables 6 and 36 to 43, and writes them beside the paper's numbers.

Usage: tables.py [--weft-flow FILE] [--check]
  --check  says what differs from the paper or is out of order, and writes nothing; exit code 1 if anything does
Writes tables.md here."""
import argparse
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.realpath(__file__))
ROOT = os.path.realpath(os.path.join(HERE, "../../../.."))
POLICIES = ["ring", "edge_disjoint", "spatial", "temporal"]
NAMES = {"ring": "Ring", "edge_disjoint": "EDT", "spatial": "Spatial Mux", "temporal": "Temporal Mux"}
UNITS = ["4", "8", "16", "32"]

# Seconds: (model, scale-up) -> number of the table, and rows of policies. EPIC appendix L.3.
PAPER = {
    ("gpt3-175b", False): (36, [[253] * 4, [179] * 4, [179, 158, 137, 137], [158, 137, 137, 137]]),
    ("gpt3-13b", False): (37, [[33.55] * 4, [20.66] * 4, [20.66, 19.10, 17.54, 17.54], [19.10, 17.54, 17.54, 17.54]]),
    ("llama-65b", False): (38, [[211] * 4, [129] * 4, [129, 121, 113, 113], [121, 113, 113, 113]]),
    ("llama-7b", False): (39, [[37.78] * 4, [21.29] * 4, [21.29, 20.49, 19.68, 19.68], [20.49, 19.68, 19.68, 19.68]]),
    ("gpt3-175b", True): (40, [[106] * 4, [84.6] * 4, [84.6, 63.6, 63.6, 63.6], [84.6, 63.6, 63.6, 63.6]]),
    ("gpt3-13b", True): (41, [[7.94] * 4, [6.38] * 4, [6.38, 4.82, 4.82, 4.82], [6.38, 4.82, 4.82, 4.82]]),
    ("llama-65b", True): (42, [[47.6] * 4, [39.8] * 4, [110.0, 39.8, 32.0, 32.0], [110.0, 39.8, 32.0, 32.0]]),
    ("llama-7b", True): (43, [[5.01] * 4, [4.20] * 4, [4.20, 3.40, 3.40, 3.40], [4.20, 3.40, 3.40, 3.40]]),
}
# Cells of Table 42 that contradict the other tables: slower than Ring, and the next one where 4 units should be.
CONTRADICTIONS = {(42, policy, units) for policy in ("spatial", "temporal") for units in ("4", "8")}
TOLERANCE = 0.01


def sweep(program):
    """Mean job completion time by (model, scale-up, policy, units)."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([program, "sweep", os.path.join(HERE, "tables.yaml"), "--out", folder], check=True,
                       stdout=subprocess.DEVNULL)
        with open(os.path.join(folder, "sweep.json")) as file:
            runs = json.load(file)
    times = {}
    for run in runs:
        key = run["set"]
        times[key["workload.jobs.0.model"], "scale_up" in key, key["policy"],
              key["memory.units"]] = run["summary"]["jct_mean_s"]
    return times


def differences(times):
    """What is not as the paper has it, in sentences."""
    out = []
    for (model, scale_up), (number, rows) in PAPER.items():
        for policy, row in zip(POLICIES, rows):
            for units, paper in zip(UNITS, row):
                ours = times[model, scale_up, policy, units]
                if (number, policy, units) in CONTRADICTIONS:
                    continue
                if abs(ours / paper - 1) > TOLERANCE:
                    out.append(f"Table {number}, {NAMES[policy]}, {units} units: {ours:.4g} s, the paper's {paper} s")
        for units in UNITS:
            ordered = [times[model, scale_up, policy, units] for policy in POLICIES]
            if any(better > worse * 1.000001 for worse, better in zip(ordered, ordered[1:])):
                out.append(f"Table {number}, {units} units: {ordered} is not in order")
    return out


def markdown(times):
    lines = ["# Tables 6 and 36 to 43: job completion time, s", "",
             "Ours / the paper's. Written by `tables.py`; Table 6 is Tables 36 and 40 with 4 and 8 units."]
    for (model, scale_up), (number, rows) in PAPER.items():
        lines += ["", f"## Table {number}: {model}{', scale-up' if scale_up else ''}", "",
                  "| units | " + " | ".join(UNITS) + " |", "|---" * (len(UNITS) + 1) + "|"]
        for policy, row in zip(POLICIES, rows):
            cells = [f"{times[model, scale_up, policy, units]:.2f} / {paper}" +
                     (" (!)" if (number, policy, units) in CONTRADICTIONS else "")
                     for units, paper in zip(UNITS, row)]
            lines.append(f"| {NAMES[policy]} | " + " | ".join(cells) + " |")
    lines += ["", "(!) contradicts the paper's other tables; see README.md."]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weft-flow", default=os.path.join(ROOT, "build/bin/weft-flow"))
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    times = sweep(options.weft_flow)
    wrong = differences(times)
    for sentence in wrong:
        print(sentence)
    if options.check:
        sys.exit(1 if wrong else 0)
    with open(os.path.join(HERE, "tables.md"), "w") as file:
        file.write(markdown(times))


if __name__ == "__main__":
    main()
