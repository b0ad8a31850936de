# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""EPIC's Figures 16 and 20 to 24 from the results of a sweep of tables.yaml: distributions of job completion times.

The paper has them as pictures. Its text has three numbers of Figure 16: the 99th percentiles of Ring, EDT and Temporal
Mux. tables.py writes what this makes of them."""
import json
import os
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[3]))

from bench.report import charts  # noqa: E402

QUANTILES = (0.50, 0.88, 0.98, 0.99)
MOST_POINTS = 250  # of a curve: as many as can be seen
# Number: title, trace as trace_of() calls it, GPUs of the jobs (0: all), and from which share of them on.
FIGURES = {
    16: ("tail 15 % of Trace 2", "Trace 2", 0, 0.85),
    20: ("Trace 1", "Trace 1", 0, 0),
    21: ("Trace 2", "Trace 2", 0, 0),
    22: ("Trace 3", "Trace 3", 0, 0),
    23: ("jobs of 8 GPUs in Trace 2, scale-up", "Trace 2 with scale-up", 8, 0),
    24: ("jobs of 8 GPUs in Trace 2, scale-up that adds up", "Trace 2 with scale-up that adds up", 8, 0),
}
PAPER_16 = {"ring": 7115, "edge_disjoint": 5420, "temporal": 4917}  # seconds, 99 % (7.5)


def trace_of(key):
    """What a run of a trace is called, by what was set; None for other runs."""
    if "workload" not in key:
        return None
    derived = "Trace 2" if key["fabric.cores_per_spine"] == "8" else "Trace 3"
    name = "Trace 1" if "trace1" in key["workload"] else derived
    servers = key.get("scale_up", "")
    return name + (" with scale-up" if servers else "") + (" that adds up" if "in_network: true" in servers else "")


def times(folder):
    """(seconds, GPUs) of all jobs, by (trace, policy)."""
    out = {}
    for path in sorted(pathlib.Path(folder).glob("*.json")):
        if path.name == "sweep.json":
            continue
        report = json.loads(path.read_text(encoding="utf-8"))
        key = dict(one.split("=", 1) for one in report["run"]["set"])
        if trace_of(key):
            ended = [job for job in report["jobs"] if "jct_s" in job]
            out[trace_of(key), key["policy"]] = [(job["jct_s"], job["gpus"]) for job in ended]
    return out


def quantile(ordered, share):
    """The least of them that so many are not above, as weft-flow has it."""
    return ordered[max(-int(-share * len(ordered) // 1), 1) - 1]


def curve(ordered, start):
    """Points of a distribution: seconds, and percent of jobs that took no longer."""
    first = int(start * len(ordered))
    step = max(1, (len(ordered) - first) // MOST_POINTS)
    places = sorted({*range(first, len(ordered), step), len(ordered) - 1})
    return [(ordered[i], 100 * (i + 1) / len(ordered)) for i in places]


def of_figure(number, found, policies):
    """Times in order, by policy."""
    _, trace, gpus, _ = FIGURES[number]
    return {policy: sorted(s for s, of_job in found[trace, policy] if gpus in (0, of_job)) for policy in policies}


def plot(number, ordered, names):
    title, _, _, start = FIGURES[number]
    lines = [charts.Line(names[policy], curve(values, start), step=True) for policy, values in ordered.items()]
    return charts.standalone(charts.line_chart(lines, "job completion time, s", "percent of jobs",
                                               label=f"Figure {number}: {title}"))


def write(found, names, factor, folder):
    """Writes the plots into a folder, and returns lines of Markdown. names are those of the policies, in their order;
    factor makes Ring's mean of Trace 2 the paper's."""
    os.makedirs(folder, exist_ok=True)
    lines = ["", "## Figures 16 and 20 to 24: quantiles of job completion time", "",
             "Seconds of ours, as they are. The paper has pictures; what its text says of Figure 16 is below."]
    for number, (title, _, _, _) in FIGURES.items():
        ordered = of_figure(number, found, names)
        with open(os.path.join(folder, f"figure{number}.svg"), "w", encoding="utf-8") as file:
            file.write(plot(number, ordered, names) + "\n")
        if number == 16:  # the same jobs as in Figure 21
            tail = ordered
            continue
        lines += ["", f"Figure {number}, [{title}](figures/figure{number}.svg)" +
                  (" ([Figure 16](figures/figure16.svg): its tail)" if number == 21 else "") + ":", "",
                  "| policy | " + " | ".join(f"{share:.0%}" for share in QUANTILES) + " |",
                  "|---" * (len(QUANTILES) + 1) + "|"]
        lines += [f"| {names[policy]} | " + " | ".join(f"{quantile(values, share):.5g}" for share in QUANTILES) + " |"
                  for policy, values in ordered.items()]
    last = {policy: quantile(values, 0.99) for policy, values in tail.items()}
    lines += ["", "## Figure 16: 99th percentile of Trace 2", "",
              f"Ours times {factor:.3g}, as in Table 44, and over Ring's in brackets.", "",
              "| policy | ours | the paper's |", "|---|---|---|"]
    for policy, name in names.items():
        paper = PAPER_16.get(policy)
        lines.append(f"| {name} | {last[policy] * factor:,.0f} ({last[policy] / last['ring']:.3f}) | " +
                     (f"{paper:,} ({paper / PAPER_16['ring']:.3f})" if paper else "not in the text") + " |")
    return lines
