#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""Which divisions of GPT-3-175B over 128 GPUs agree with EPIC's Tables 36 and 40, whose own (Table 33: 1,024 GPUs) does
not fit. Writes divisions.md here.

Usage: divisions.py [--weft-flow FILE]

Computing takes the same time under all policies, and a GPU's efficiency is not known: what rows of a table differ by is
what communicating takes, and has to agree. The efficiency that is left follows from Ring's row."""
import argparse
import json
import os
import subprocess
import tempfile

HERE = os.path.dirname(os.path.realpath(__file__))
ROOT = os.path.realpath(os.path.join(HERE, "../../../.."))
GPUS, LAYERS, BATCH, ITERATIONS = 128, 96, 128, 3
# Seconds with 8 units: Ring, and by how much EDT, spatial and temporal multiplexing are faster.
PAPER = {"": (253, [74, 95, 116]), "with scale-up": (106, [21.4, 42.4, 42.4])}
POLICIES = ["ring", "edge_disjoint", "spatial", "temporal"]
SCALE_UP = {"": "", "with scale-up": "{ gpus: 8, gbps: 16000 }"}
KEYS = "workload.jobs.0.tp,workload.jobs.0.dp,workload.jobs.0.pp,workload.jobs.0.micro_batches"
COMPUTE_S = ITERATIONS * 6 * 175e9 * BATCH * 2048 / (GPUS * 312e12)


def divisions():
    """TP, DP, PP and micro-batches of a sequence each."""
    for tp in (1, 2, 4, 8, 16, 32, 64, 128):
        for pp in (1, 2, 4, 8, 16, 32):
            dp = GPUS // (tp * pp)
            if tp * dp * pp == GPUS and LAYERS % pp == 0:
                yield tp, dp, pp, BATCH // dp if pp > 1 else 1


def times(program):
    """Seconds by (division, scale-up, policy)."""
    values = {KEYS: [";".join(map(str, d)) for d in divisions()], "scale_up": list(SCALE_UP.values()),
              "policy": POLICIES}
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([program, "sweep", os.path.join(HERE, "tables.yaml"), "--out", folder,
                        "--set", "workload.jobs.0.model=gpt3-175b", "--set", "memory.units=8",
                        "--set", "sweep=" + json.dumps(values)], check=True, stdout=subprocess.DEVNULL)
        with open(os.path.join(folder, "sweep.json"), encoding="utf-8") as file:
            runs = json.load(file)
    return {(tuple(int(run["set"][key]) for key in KEYS.split(",")), run["set"].get("scale_up", ""),
             run["set"]["policy"]): run["summary"]["jct_mean_s"] for run in runs}


def row(found, division):
    tp, dp, pp, micro = division
    compute = COMPUTE_S * (micro + pp - 1) / micro
    cells, fine = [f"{tp}, {dp}, {pp}"], True
    for name, (paper_ring, paper) in PAPER.items():
        ring, *others = (found[division, SCALE_UP[name], policy] for policy in POLICIES)
        left = paper_ring - (ring - compute)  # for computing
        cells += [f"{ring - other:.1f}" for other in others] + [f"{compute / left:.2f}" if left > 0 else "-"]
        fine = fine and 0 < compute / left <= 1.02 and all(
            abs(ring - other - wanted) <= 0.02 * wanted for other, wanted in zip(others, paper))
    return cells + ["yes" if fine else ""]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weft-flow", default=os.path.join(ROOT, "build/bin/weft-flow"))
    options = parser.parse_args()
    found = times(options.weft_flow)
    head = ["TP, DP, PP"]
    paper = ["the paper's"]
    for name, (_, differences) in PAPER.items():
        head += [f"{policy}{', ' + name if name else ''}" for policy in ("EDT", "spatial", "temporal", "efficiency")]
        paper += [f"{d:g}" for d in differences] + [""]
    rows = [paper + [""]] + [row(found, d) for d in divisions()]
    lines = ["# GPT-3-175B over 128 GPUs", "",
             "By how many seconds policies with 8 units are faster than rings, in Table 36 and, with scale-up, in "
             "Table 40, and the", "efficiency of GPUs that Ring's row leaves (- where communicating alone takes "
             "longer). Written by `divisions.py`.", "",
             "| " + " | ".join(head + ["agrees to 2 %"]) + " |", "|---" * (len(head) + 1) + "|"]
    lines += ["| " + " | ".join(r) + " |" for r in rows]
    with open(os.path.join(HERE, "divisions.md"), "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
