#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""Runs plain DCQCN with the settings of the authors' simulator, over several seeds, and writes what comes out beside
what they published.

Usage: agree.py [--weft-sim FILE] [--seeds N] [--loads 30 50 70] [--variants NAME...] [--alone-seeds N] [--table]
  --alone-seeds N  seeds of the runs with one option switched off (default 3)
  --table          runs nothing, writes agree.md of the results that are there

Every run that ends is added to agree.json, so that a run that is stopped goes on where it was. agree.md is written from
it. Two references: Fig. 8, 9 and 12, whose ACKs and CNPs shared the data queue, and Fig. 2 and the one raw file, whose
ACKs were above it."""
import argparse
import functools
import os
import statistics

import metric
import runs

# The authors' line of code for each option: runs.FABRIC for what all their runs have.
OPTIONS = {
    "ack_dscp": (["nic.ack_dscp=3"], "ACKs in the data class: switch-node.cc:228, ACK_HIGH_PRIO 0"),
    "cnp_dscp": (["nic.cnp_dscp=3"], "CNPs as well, for they are a bit in ACKs: rdma-hw.cc:324"),
    **runs.FABRIC,
}
RESULTS = runs.Results("agree.json")

# What was published, by reference and load: mean, P99, means by size. None: not published.
PUBLISHED = {
    "fig8": {
        30: {"within": (5.213, 47.92, [6.438, 5.345, 4.692]), "between": (1.152, 2.657, [1.040, 1.054, 1.269]),
             "all": (3.100, None, None)},
        50: {"within": (14.017, 114.76, [26.43, 16.73, 7.82]), "between": (1.455, 5.256, [1.219, 1.235, 1.727]),
             "all": (7.471, None, None)},
        70: {"within": (23.575, 153.16, [39.05, 30.26, 12.64]), "between": (1.830, 7.311, [1.457, 1.460, 2.267]),
             "all": (12.192, None, None)},
    },
    "fig2": {
        30: {"within": (3.788, None, None), "between": (1.151, None, None)},
        50: {"within": (7.137, None, None), "between": (1.265, None, None)},
        70: {"within": (13.661, None, None), "between": (1.504, None, None)},
    },
    "raw55": {
        30: {"within": (4.131, 53.19, [5.798, 4.818, 2.972]), "between": (1.131, 2.340, [1.028, 1.043, 1.237]),
             "all": (2.570, 38.18, None)},
    },
}
# Plain DCQCN with data centres 1 us apart: Fig. 8 and 9, and Fig. 2.
PUBLISHED["fig8_short"] = {
    30: {"within": (2.944, 12.69, [2.462, 2.294, 3.679]), "between": (2.745, 12.50, [1.862, 1.881, 3.740])},
    50: {"within": (5.406, 34.21, [5.616, 4.863, 5.786]), "between": (4.764, 25.10, [3.569, 3.621, 6.166])},
    70: {"within": (9.933, 50.99, [12.63, 9.368, 9.521]), "between": (8.661, 39.28, [8.348, 7.209, 10.006])},
}
PUBLISHED["fig2_short"] = {
    30: {"within": (2.767, None, None), "between": (2.678, None, None)},
    50: {"within": (4.251, None, None), "between": (3.957, None, None)},
    70: {"within": (6.267, None, None), "between": (5.809, None, None)},
}
SHORT_NS = 1_000
TITLES = {
    "fig8": "Fig. 8, 9, 12: ACKs and CNPs in the data class",
    "fig2": "Fig. 2: ACKs and CNPs above the data",
    "raw55": "fct_0.txt, the one raw file of plain DCQCN: ACKs and CNPs above the data, a CNP per 55 us",
    "fig8_short": "Fig. 8 and 9, data centres 1 us apart: ACKs and CNPs in the data class",
    "fig2_short": "Fig. 2, data centres 1 us apart: ACKs and CNPs above the data",
    "stock": "dcqcn_*.yaml as they stand",
}
TOLERANCE = {"fig8": {30: 0.05, 50: 0.10, 70: 0.10}, "fig2": {30: 0.15, 50: 0.15, 70: 0.15}, "raw55": {30: 0.10}}
TOLERANCE.update({"fig8_short": TOLERANCE["fig8"], "fig2_short": TOLERANCE["fig2"]})
P99_TOLERANCE = 0.20


def options_of(reference):
    """Those that a reference has on."""
    return OPTIONS if reference.startswith("fig8") else runs.FABRIC


def sets_of(variant):
    """What --set gets."""
    if variant == "stock":
        return []
    reference, _, without = variant.partition("-")
    sets = [s for name in options_of(reference) if name != without for s in OPTIONS[name][0]]
    return sets + (["nic.cc.cnp_interval_us=55"] if reference == "raw55" else [])


def verdict(values, published, tolerance):
    """Whether the mean of the seeds is near enough, or the published value is among them."""
    mean = metric.mean(values)
    off = mean / published - 1
    inside = min(values) <= published <= max(values)
    good = abs(off) <= tolerance or inside
    words = f"{off:+.1%}" + (", in the range" if inside else "")
    spread = statistics.stdev(values) if len(values) > 1 else 0
    if not good and spread > 0:
        words += f"; {abs(published - mean) / spread:.1f} standard deviations of the seeds"
    return f"{mean:.3f}", ("yes" if good else "no") + f" ({words})"


def reference_table(load, reference):
    seeds = RESULTS.of_variant(load, reference)
    if not seeds:
        return []
    lines = [f"### {load} % load, {TITLES[reference]}", "",
             f"Seeds {', '.join(map(str, seeds))}.", "",
             "| flows | figure | published | mean of the seeds | matches | each seed |", "|---|---|---|---|---|---|"]
    for flows, (mean, p99, bins) in PUBLISHED[reference][load].items():
        rows = [("mean", mean, [r[flows]["mean"] for r in seeds.values()], TOLERANCE[reference][load])]
        if p99:
            rows.append(("P99", p99, [r[flows]["p99"] for r in seeds.values()], P99_TOLERANCE))
        for i, words in enumerate(metric.BIN_NAMES):
            if bins:
                rows.append((words, bins[i], [r[flows]["bins"][i] for r in seeds.values()], P99_TOLERANCE))
        for figure, published, values, tolerance in rows:
            ours, words = verdict(values, published, tolerance)
            each = " ".join(f"{v:.2f}" for v in values)
            lines.append(f"| {flows} | {figure}, {tolerance:.0%} | {published:.3f} | {ours} | {words} | {each} |")
    return lines + [""]


def alone_table(load, reference):
    base = RESULTS.of_variant(load, reference)
    rows = [("all options", base)]
    if reference == "fig8":
        rows.append(("none: " + TITLES["stock"], RESULTS.of_variant(load, "stock")))
    rows += [(f"without `{name}`", RESULTS.of_variant(load, f"{reference}-{name}")) for name in options_of(reference)]
    if len([seeds for _, seeds in rows if seeds]) < 2:
        return []
    lines = [f"### {load} % load, {TITLES[reference]}: one option switched off", "",
             "| settings | seeds | within | between | all | P99 within | pauses |", "|---|---|---|---|---|---|---|"]
    for words, seeds in rows:
        if not seeds:
            continue
        column = [metric.mean([r[flows]["mean"] for r in seeds.values()]) for flows in ("within", "between", "all")]
        p99 = metric.mean([r["within"]["p99"] for r in seeds.values()])
        pauses = metric.mean([r["pfc_pauses"] for r in seeds.values()])
        lines.append(f"| {words} | {len(seeds)} | " + " | ".join(f"{c:.3f}" for c in column) +
                     f" | {p99:.1f} | {pauses:.0f} |")
    return lines + [""]


def write_table():
    lines = ["# Plain DCQCN beside what the authors published", "",
             "FCT slowdowns in the authors' metric (`metric.py`), made by `agree.py`. The options, each with its line "
             "of the authors' code:", "", "| option | `--set` | source |", "|---|---|---|"]
    lines += [f"| `{name}` | `{'` `'.join(sets)}` | {words} |" for name, (sets, words) in OPTIONS.items()]
    lines += ["", "A value matches when the mean of the seeds is within the tolerance that stands beside its name, or "
              "the published value, which is one run, lies between the least and the largest of the seeds.", ""]
    for load in runs.LOADS:
        for reference in PUBLISHED:
            if load in PUBLISHED[reference]:
                lines += reference_table(load, reference)
        for reference in PUBLISHED:
            lines += alone_table(load, reference)
    with open(os.path.join(runs.HERE, "agree.md"), "w", encoding="utf-8") as text:
        text.write("\n".join(lines).rstrip() + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weft-sim", default=runs.WEFT_SIM)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--alone-seeds", type=int, default=3)
    parser.add_argument("--loads", type=int, nargs="+", default=list(runs.LOADS), choices=runs.LOADS)
    parser.add_argument("--variants", nargs="+")
    parser.add_argument("--table", action="store_true")
    arguments = parser.parse_args()
    plain = [reference for reference in PUBLISHED if not reference.endswith("_short")]
    short = [reference for reference in PUBLISHED if reference not in plain]
    alone = ["stock"] + [f"{reference}-{name}" for reference in ("fig8", "raw55") for name in options_of(reference)]
    variants = arguments.variants or plain + short + alone
    if unknown := [v for v in variants if v not in PUBLISHED and v not in alone]:
        parser.error(f"unknown variant {unknown[0]}; known: {', '.join(list(PUBLISHED) + alone)}")
    jobs = [(load, variant, seed, sets_of(variant)) for variant in variants
            for seed in range(1, (arguments.alone_seeds if variant in alone else arguments.seeds) + 1)
            for load in arguments.loads if load in PUBLISHED.get(variant.partition("-")[0], runs.LOADS)]
    if not arguments.table:
        RESULTS.run_missing(arguments.weft_sim, [job for job in jobs if job[1] not in short])
        RESULTS.run_missing(arguments.weft_sim, [job for job in jobs if job[1] in short], functools.partial(
            runs.run, wan_ns=SHORT_NS))
    write_table()


if __name__ == "__main__":
    main()
