#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""HPCC beside DCQCN, between data centres 500 us and 1 us apart (Figure 19 of the paper): what the distance costs flows
within a data centre.

Usage: hpcc.py [--weft-sim FILE] [--seeds N] [--loads 30 70] [--table]
  --table  runs nothing, writes hpcc.md of the results that are there

The authors publish no values of that figure, only that HPCC's slowdown within a data centre is up to 136 % higher over
the long link, and their code cannot repeat it. The settings are those of dcqcn_*.yaml, with HPCC's T being the shortest
round trip that each queue pair has seen. `HPCC, PNP` is section VIII: the edge switches send back to inter-DC senders
what ports of their own data centre have told."""
import argparse
import json
import os

import yaml

import metric
import runs
import themis

RESULTS = runs.Results("hpcc.json")
DISTANCES = {"long": 500_000, "short": 1_000}
PNP = ["switch.pipelines=[" + ", ".join(
    f"{{ switch: {esw}, pipeline: [parse, {{ rdma_track: {{ max_qps: 32768, pairing: off }} }}, "
    f"{{ pnp: {{ remote: [{remote}], telemetry: true }} }}, l3, {{ lb: {{ policy: ecmp }} }}] }}"
    for esw, remote in themis.REMOTE.items()) + "]"]
CONTROLS = {"dcqcn": [], "hpcc": ["nic.cc={kind: hpcc}"], "hpcc0": ["nic.cc={kind: hpcc, max_stage: 0}"],
            "pnp": ["nic.cc={kind: hpcc, near_rtt_us: 16}", *PNP]}
LABELS = {"dcqcn": "DCQCN", "hpcc": "HPCC", "hpcc0": "HPCC, maxStage 0", "pnp": "HPCC, PNP"}


def links(load, wan_ns):
    """What --set gets for the links of an experiment, the one between the data centres being so long."""
    with open(os.path.join(runs.HERE, f"dcqcn_{load}.yaml"), encoding="utf-8") as text:
        found = yaml.safe_load(text)["topology"]["links"]
    for link in found:
        if "delay_ns" in link:
            link["delay_ns"] = wan_ns
    return "topology.links=" + json.dumps(found)


def run(program, load, control, distance, seed):
    result = runs.result_of(program, f"dcqcn_{load}.yaml", seed,
                            [links(load, DISTANCES[distance]), *CONTROLS[control]])
    figures = metric.of_result(result, DISTANCES[distance])
    figures["pfc_pauses"] = result["summary"]["pfc_pauses"]
    figures["cpu_s"] = round(result["summary"]["cpu_s"])
    return figures


def mean_of(load, control, distance, what):
    seeds = RESULTS.of_variant(load, f"{control}-{distance}").values()
    return metric.mean([what(figures) for figures in seeds]) if seeds else None


def table():
    lines = ["# HPCC and DCQCN over a long and a short link", "",
             "FCT slowdowns in the authors' metric (`metric.py`), made by `hpcc.py`; of several seeds the mean.", "",
             "| load | control | within: mean, long | short | the distance | P99, long | short | between: mean, long | "
             "short | pauses, long | short |", "|---|---|---|---|---|---|---|---|---|---|---|"]
    for load in runs.LOADS:
        for control, label in LABELS.items():
            def both(what, form="{:.2f}"):
                return [form.format(mean_of(load, control, distance, what)) for distance in DISTANCES]
            if any(not RESULTS.of_variant(load, f"{control}-{distance}") for distance in DISTANCES):
                continue
            means = [mean_of(load, control, distance, lambda f: f["within"]["mean"]) for distance in DISTANCES]
            cells = [f"{load} %", label, *both(lambda f: f["within"]["mean"]), f"{means[0] / means[1] - 1:+.0%}",
                     *both(lambda f: f["within"]["p99"]), *both(lambda f: f["between"]["mean"]),
                     *both(lambda f: f["pfc_pauses"], "{:.0f}")]
            lines.append("| " + " | ".join(cells) + " |")
    with open(os.path.join(runs.HERE, "hpcc.md"), "w", encoding="utf-8") as text:
        text.write("\n".join(lines) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--weft-sim", default=runs.WEFT_SIM)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--loads", type=int, nargs="+", default=list(runs.LOADS), choices=runs.LOADS)
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    if not options.table:
        for seed in range(1, options.seeds + 1):
            for load in options.loads:
                for control in CONTROLS:
                    for distance in DISTANCES:
                        key = f"{load} {control}-{distance} {seed}"
                        if key not in RESULTS.load():
                            RESULTS.add(key, run(options.weft_sim, load, control, distance, seed))
                            print(key, RESULTS.load()[key]["within"], flush=True)
    table()


if __name__ == "__main__":
    main()
