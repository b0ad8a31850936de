#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""Runs dcqcn_30.yaml and dcqcn_70.yaml with finite buffers at the edge switches beside unlimited ones, and 30 % with
some other settings, and writes what comes out.

Usage: finite_buffers.py [--weft-sim FILE] [--loads 30 70] [--again] [--table]
  --again  runs also what is in finite_buffers.json; 30 % takes half a minute each, 70 % minutes
  --table  runs nothing, writes finite_buffers.md of the results that are there

Every run that ends is added to finite_buffers.json with its commit and date, so that a series that is stopped goes on
where it was. Slowdowns are those of weft-sim: at least 1, over its own time of the flow alone. In the page the tables
stand between two comments with their names; the text around them is written by hand."""
import argparse
import os

import metric
import runs

RESULTS = runs.Results("finite_buffers.json")
PAGE = os.path.join(runs.HERE, "finite_buffers.md")
FINITE = ["switch.unlimited=[]", "switch.buffers=[{switch: esw0, buffer_mb: 233}, {switch: esw1, buffer_mb: 233}]"]
VARIANTS = {"unlimited": [], "finite": FINITE}
# At 30 % load, by what the page calls them.
OTHERS = {"no_ecn": ("`switch.ecn=disabled`", ["switch.ecn=disabled"]),
          **{f"{mb}_mb": (f"`switch.buffer_mb={mb}`", [f"switch.buffer_mb={mb}"]) for mb in (320, 8, 4)},
          "t_d_50": ("`nic.cc.t_d_us=50`", ["nic.cc.t_d_us=50"])}
FLOWS = {"between": "between data centres", "within": "within one", "all": "all"}


def jobs(loads):
    """(load, variant, seed, sets), the short ones first."""
    for load in loads:
        for variant, sets in VARIANTS.items():
            yield load, variant, 1, sets
    if 30 in loads:
        for variant, (_, sets) in OTHERS.items():
            yield 30, variant, 1, sets
        for seed in (2, 3):
            yield 30, "unlimited", seed, []


def figures_of(result):
    """What finite_buffers.json keeps of a run."""
    slow = {flows: [] for flows in FLOWS}
    for transfer in result["transfers"]:
        slowdown = max(1.0, transfer["fct_ns"] / transfer["standalone_ns"])
        slow["within" if metric.within(transfer["from"], transfer["to"]) else "between"].append(slowdown)
        slow["all"].append(slowdown)
    summary = result["summary"]
    return {**{flows: {"flows": len(values), "mean": round(metric.mean(values), 4),
                       "p99": round(metric.percentile(values, 0.99), 3)} for flows, values in slow.items()},
            "pfc_pauses": summary["pfc_pauses"], "drops": summary["drops"], "cpu_s": round(summary["cpu_s"])}


def run_missing(program, loads, again):
    stamp = runs.stamp()

    def measure(program, load, seed, sets):
        return {**stamp, **figures_of(runs.result_of(program, f"dcqcn_{load}.yaml", seed, sets))}
    RESULTS.run_missing(program, jobs(loads), measure, again)


def buffers_table():
    lines = ["| load | flows | mean, unlimited | finite | P99, unlimited | finite | commits |",
             "|---|---|---|---|---|---|---|"]
    for load in runs.LOADS:
        by_variant = [RESULTS.of_variant(load, variant).get(1) for variant in VARIANTS]
        if not all(by_variant):
            continue
        commits = ", ".join(sorted({figures["commit"] for figures in by_variant}))
        for flows, words in FLOWS.items():
            cells = [f"{figures[flows][key]:.4g}" for key in ("mean", "p99") for figures in by_variant]
            lines.append(f"| {load} % | {words} ({by_variant[0][flows]['flows']}) | " + " | ".join(cells) +
                         f" | {commits} |")
    return lines


def others_table():
    lines = ["| settings | within one | between data centres | commit |", "|---|---|---|---|"]
    rows = [(f"as it stands, seed {seed}", figures)
            for seed, figures in RESULTS.of_variant(30, "unlimited").items()]
    rows += [(words, RESULTS.of_variant(30, variant).get(1)) for variant, (words, _) in OTHERS.items()]
    for words, figures in rows:
        if figures:
            lines.append(f"| {words} | {figures['within']['mean']:.2f} | {figures['between']['mean']:.3f} | "
                         f"{figures['commit']} |")
    return lines


TABLES = {"buffers": buffers_table, "others": others_table}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weft-sim", default=runs.WEFT_SIM)
    parser.add_argument("--loads", type=int, nargs="+", default=list(runs.LOADS), choices=runs.LOADS)
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--table", action="store_true")
    arguments = parser.parse_args()
    if not arguments.table:
        run_missing(arguments.weft_sim, arguments.loads, arguments.again)
    with open(PAGE, encoding="utf-8") as text:
        contents = runs.page_with_tables(text.read(), lambda name: TABLES[name]())
    with open(PAGE, "w", encoding="utf-8") as text:
        text.write(contents)


if __name__ == "__main__":
    main()
