#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""Runs weft-flow for EPIC's Tables 6, 34 and 36 to 45 and Figures 16 and 20 to 24, and writes them beside the paper's
numbers.

Usage: tables.py [--weft-flow FILE] [--results FOLDER] [--check]
  --results FOLDER  of weft-flow sweep; what is there is not run again
  --check           says what differs from the paper or is out of order, and writes nothing; exit code 1 if anything
                    does. Without the traces (Tables 44 and 45, and the figures), which take minutes
Writes tables.md and figures/ here."""
import argparse
import json
import os
import subprocess
import sys
import tempfile

import figures

HERE = os.path.dirname(os.path.realpath(__file__))
ROOT = os.path.realpath(os.path.join(HERE, "../../../.."))
POLICIES = ["ring", "edge_disjoint", "spatial", "temporal"]
NAMES = {"ring": "Ring", "edge_disjoint": "EDT", "spatial": "Spatial Mux", "temporal": "Temporal Mux"}
UNITS = ["4", "8", "16", "32"]
TRACES = (3, 4, 5, 6)  # sections of the sweep that take minutes

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
# Seconds of an iteration, with rings and in the network (Mode II). EPIC appendix K.5.
PAPER_34_III = {"gpt3-175b": 32.37, "gpt3-13b": 1.159, "llama-65b": 8.856, "llama-7b": 1.134}
PAPER_34 = {"gpt3-175b": (33.19, 32.35), "gpt3-13b": (1.403, 1.154), "llama-65b": (10.08, 8.831),
            "llama-7b": (1.261, 1.132)}
# Mean seconds by policy: Table 44 of all jobs, Table 45 of those with 8 GPUs in Trace 2.
PAPER_44 = {"Trace 1": [6190, 4108, 3920, 3750], "Trace 2": [6245, 4635, 4722, 4621],
            "Trace 3": [6267, 4666, 4791, 4618]}
PAPER_45 = {"without scale-up": [72.0, 56.0, 56.2, 56.0], "with scale-up": [41.9, 41.1, 40.9, 40.9]}
TOLERANCE = 0.01


def sweep(program, folder, small):
    """Runs the sweep, without the sections of traces if it is to be small. Summaries of its runs, with what was set."""
    empty = [argument for section in TRACES if small for argument in ("--set", f"sweep.{section}.policy=[]")]
    subprocess.run([program, "sweep", os.path.join(HERE, "tables.yaml"), "--out", folder, *empty], check=True,
                   stdout=subprocess.DEVNULL)
    with open(os.path.join(folder, "sweep.json"), encoding="utf-8") as file:
        return [(run["set"], run["summary"]) for run in json.load(file)]


def single_jobs(runs):
    """Mean job completion time by (model, scale-up, policy, units), of Tables 36 to 43."""
    model = "workload.jobs.0.model"
    return {(key[model], "scale_up" in key, key["policy"], key["memory.units"]): summary["jct_mean_s"]
            for key, summary in runs if model in key and not key[model].startswith("table33-")}


def iterations(runs):
    """Seconds by (model, policy), of Table 34."""
    out = {}
    for key, summary in runs:
        named = key.get("workload.jobs.0.model", key.get("workload.jobs", ""))
        for model in PAPER_34:
            if "table33-" + model in named:
                out[model, key["policy"]] = summary["jct_mean_s"]
    return out


def traces(runs):
    """Mean job completion times of all jobs and of those with 8 GPUs, by (trace, policy)."""
    out = {}
    for key, summary in runs:
        if figures.trace_of(key):
            out[figures.trace_of(key), key["policy"]] = (summary["jct_mean_s"], summary["jct_of_8_gpus_mean_s"])
    return out


def differences(times, of_34):
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
    for model, cells in PAPER_34.items():
        for policy, paper in zip(("ring", "spatial"), cells):
            if abs(of_34[model, policy] / paper - 1) > TOLERANCE:
                out.append(f"Table 34, {model}, {policy}: {of_34[model, policy]:.4g} s, the paper's {paper} s")
    return out


def table(head, rows):
    return ["", "| " + " | ".join(head) + " |", "|---" * len(head) + "|"] + ["| " + " | ".join(row) + " |"
                                                                              for row in rows]


def single_job_tables(times):
    lines = []
    for (model, scale_up), (number, rows) in PAPER.items():
        lines += ["", f"## Table {number}: {model}{', scale-up' if scale_up else ''}"]
        lines += table(["units", *UNITS], [
            [NAMES[policy]] + [f"{times[model, scale_up, policy, units]:.2f} / {paper}" +
                               (" (!)" if (number, policy, units) in CONTRADICTIONS else "")
                               for units, paper in zip(UNITS, row)]
            for policy, row in zip(POLICIES, rows)])
    return lines + ["", "(!) contradicts the paper's other tables; see README.md."]


def scaled(ours, paper):
    """Cells of a column: ours times the one factor that makes Ring's the paper's, the paper's, and both over Ring."""
    factor = paper[0] / ours[0]
    cells = [f"{o * factor:.4g} / {p}" + (f" ({o / ours[0]:.3f} / {p / paper[0]:.3f})" if i else "")
             for i, (o, p) in enumerate(zip(ours, paper))]
    return factor, cells


def trace_tables(of_traces):
    columns = {name: scaled([of_traces[name, policy][0] for policy in POLICIES], paper)
               for name, paper in PAPER_44.items()}
    lines = ["", "## Table 44: mean of all jobs, 2,048 GPUs", "",
             "In brackets, over Ring's. Seconds are ours times one factor for each trace, which makes Ring's the "
             "paper's (Traces 2 and 3 train table45-llama-7b, whose efficiency of 0.07 is fitted on Table 45): " +
             ", ".join(f"{factor:.3g} ({name})" for name, (factor, _) in columns.items()) + "."]
    lines += table(["policy", *columns], [[NAMES[policy]] + [cells[i] for _, cells in columns.values()]
                                          for i, policy in enumerate(POLICIES)])
    names = ("Trace 2", "Trace 2 with scale-up")
    ours = [[of_traces[name, policy][1] for policy in POLICIES] for name in names]
    factor = PAPER_45["without scale-up"][0] / ours[0][0]
    lines += ["", "## Table 45: mean of jobs with 8 GPUs, Trace 2", "",
              f"Seconds are ours times {factor:.3g} in both columns, which makes Ring's without scale-up the paper's."]
    return lines + table(["policy", *PAPER_45], [
        [NAMES[policy]] + [f"{column[i] * factor:.1f} / {paper[i]}" for column, paper in zip(ours, PAPER_45.values())]
        for i, policy in enumerate(POLICIES)])


def markdown(runs, of_jobs):
    of_34 = iterations(runs)
    lines = ["# Tables 6, 34 and 36 to 45: job completion time, s", "",
             "Ours / the paper's. Written by `tables.py`; Table 6 is Tables 36 and 40 with 4 and 8 units.", "",
             "## Table 34: an iteration of training", "",
             "Ring's cells are fitted, by the efficiency of GPUs. EPIC's are beside those of Mode II; weft-flow does "
             "not tell the modes apart, which differ by 0.4 % at most, and the last column has the paper's of Mode "
             "III."]
    lines += table(["model", "Ring", "EPIC-II", "gain, %", "EPIC-III"], [
        [model, *(f"{of_34[model, policy]:.4g} / {paper}" for policy, paper in zip(("ring", "spatial"), cells)),
         f"{(1 - of_34[model, 'spatial'] / of_34[model, 'ring']) * 100:.1f} / {(1 - cells[1] / cells[0]) * 100:.1f}",
         f"{of_34[model, 'spatial']:.4g} / {PAPER_34_III[model]}"]
        for model, cells in PAPER_34.items()])
    of_traces = traces(runs)
    factor = PAPER_44["Trace 2"][0] / of_traces["Trace 2", "ring"][0]
    lines += single_job_tables(single_jobs(runs)) + trace_tables(of_traces)
    return "\n".join(lines + figures.write(of_jobs, NAMES, factor, os.path.join(HERE, "figures"))) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weft-flow", default=os.path.join(ROOT, "build/bin/weft-flow"))
    parser.add_argument("--results")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        runs = sweep(options.weft_flow, options.results or scratch, options.check)
        of_jobs = figures.times(options.results or scratch)
    wrong = differences(single_jobs(runs), iterations(runs))
    for sentence in wrong:
        print(sentence)
    if options.check:
        sys.exit(1 if wrong else 0)
    with open(os.path.join(HERE, "tables.md"), "w", encoding="utf-8") as file:
        file.write(markdown(runs, of_jobs))


if __name__ == "__main__":
    main()
