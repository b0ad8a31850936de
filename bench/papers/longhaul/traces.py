#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""Figures 3 and 10 of the long-haul paper, two flows whose rates are followed to the microsecond, and Figure 22, how
flows between data centres get their rate back when those within have ended.

Usage: traces.py [--weft-sim FILE] [--variants NAME...] [--again] [--html OUT]

Every run that ends is added to traces.json; traces.md is written from it, with the authors' numbers beside ours: those
of Figures 3 and 10 read from their traces (Themis @d941dc1, NS3/simulation/mix/test and test_destination), those of
Figure 22 the slowdowns of fct_recover, fct_send and the constants of their script. Settings are theirs (`published` of
themis.py). Near the source the ToR of both senders has one uplink; near the destination the data centres are 600 us
apart and the loop port is 1 us long."""
import argparse
import os
import sys
import tempfile

import yaml

import metric
import runs
import themis

sys.path.insert(0, runs.ROOT)

from bench.report import charts, page  # noqa: E402

RESULTS = runs.Results("traces.json")
SOURCE, DESTINATION, RECOVERY = "near_source", "near_destination", "recovery"
FLOWS = {"within": "within a data centre", "between": "between them"}


PUBLISHED = themis.STAGES["published"]


def with_recovery(stages, recovery):
    return {**stages, "trp": f"{stages['trp']}, recovery: {recovery}"}


# With a loop port that is as long as theirs near the destination.
LOOP = {**PUBLISHED, "trp": f"{PUBLISHED['trp']}, loop_delay_ns: 1000"}


# Name: (words, scenario, distance in ns, options of the stages, published).
# Published of a trace: by flows, (first cut us, its Gbit/s, the next three cuts, least Gbit/s and when first, first
# rise us, its Gbit/s, last change ms). Of Figure 22: slowdowns between, within, of all, and NACKs.
VARIANTS = {
    "fig3-long": ("Figure 3a: DCQCN, 500 us apart", SOURCE, 500_000, None, {
        "within": (51.608, 50.581, [(55.608, 25.776), (59.608, 13.282), (75.608, 7.209)], 0.1, 131.608, 1043.608,
                   50.050, 18.136),
        "between": (1052.252, 50.777, [(1060.252, 26.357), (1072.252, 14.212), (1076.252, 7.682)], 0.1, 1116.252,
                    3008.252, 50.050, 20.892)}),
    "fig3-short": ("Figure 3b: DCQCN, 1 us apart", SOURCE, 1_000, None, {
        "within": (51.608, 50.581, [(55.608, 25.776), (59.608, 13.282), (75.608, 7.209)], 3.950, 79.608, 979.608,
                   51.975, 19.376),
        "between": (54.252, 50.777, [(62.252, 26.357), (74.252, 14.212), (78.252, 7.709)], 1.350, 98.252, 998.252,
                    50.675, 17.574)}),
    "fig10-source": ("Figure 10a: THEMIS, near the source", SOURCE, 500_000, PUBLISHED, {
        "within": (55.426, 50.583, [(71.426, 26.907), (75.426, 14.456), (91.426, 8.145)], 8.145, 91.426, 991.426,
                   54.072, 16.019),
        "between": (46.052, 50.581, [(54.052, 26.061), (58.052, 13.573), (66.052, 7.244)], 2.180, 78.052, 978.052,
                    51.090, 15.950)}),
    "fig10-destination": ("Figure 10b: THEMIS, near the destination, 600 us apart", DESTINATION, 600_000,
                          with_recovery(LOOP, "aligned"), {
        "within": (653.690, 50.777, [(657.690, 26.073), (677.690, 14.292), (693.690, 8.198)], 0.815, 1609.690, 2509.690,
                   50.407, 18.410),
        "between": (1252.289, 50.777, [(1260.289, 26.455), (1272.289, 14.314), (1276.289, 7.818)], 0.1, 1336.289,
                    3256.289, 50.050, 18.116)}),
    "fig22-none": ("Figure 22: no recovery", RECOVERY, 600_000,
                   with_recovery(LOOP, "none"), (20.58, 4.521, 6.528, None)),
    "fig22-aligned": ("Figure 22: aligned", RECOVERY, 600_000,
                   with_recovery(LOOP, "aligned"), (4.513, 4.605, 4.594, 0)),
    "fig22-direct": ("Figure 22: direct", RECOVERY, 600_000,
                   with_recovery(LOOP, "direct"), (5.078, 6.690, 6.489, 855)),
}


# What the receivers' interval of 5 us is worth: the authors' code had none until a month before the paper's figures,
# and the cuts every 4 us in the traces of Figure 3 and 10b look so.
EVERY = ("fig3-long", "fig3-short", "fig10-destination", "fig22-none", "fig22-aligned", "fig22-direct")
VARIANTS |= {f"{name}-every": (f"{VARIANTS[name][0]}, a CNP for every mark", *VARIANTS[name][1:]) for name in EVERY}


# The same flows with the one setting for all schemes (`honest` of themis.py).
OWN = themis.STAGES["honest"]
HONEST = {"fig3-long": None, "fig3-short": None, "fig10-source": OWN,
          "fig10-destination": with_recovery(OWN, "aligned"),
          **{f"fig22-{recovery}": with_recovery(OWN, recovery) for recovery in ("none", "aligned", "direct")}}
VARIANTS |= {f"{name}-honest": (f"{VARIANTS[name][0]}, honest", *VARIANTS[name][1:3], stages, VARIANTS[name][4])
             for name, stages in HONEST.items()}


def experiment(scenario, distance_ns):
    """dcqcn_30.yaml with another topology and other flows."""
    with open(os.path.join(runs.HERE, "dcqcn_30.yaml"), encoding="utf-8") as text:
        made = yaml.safe_load(text)
    del made["sweep"]
    links = made["topology"]["links"]
    if scenario == SOURCE:
        links[:] = [link for link in links if link["a"] != "tor0" or link["b"] == "leaf0"]
    links[-1]["delay_ns"] = distance_ns
    made["workload"]["file"] = os.path.join(runs.HERE, f"flows_{scenario}.txt")
    made["name"] = scenario
    return made


def sets_of(name):
    _, _, distance, stages, _ = VARIANTS[name]
    sets = themis.honest(distance) if name.endswith("-honest") else runs.fabric()
    if stages is None:
        return sets
    return sets + ["mbufs=2000000", "switch.pipelines=[" + ", ".join(
        f"{{ switch: {esw}, pipeline: {themis.pipeline(stages, 'both', esw)} }}" for esw in themis.REMOTE) + "]"]


def trace_of(changes):
    """What is kept of a flow: its first changes, its least rate, its first rise, its last change."""
    points = [(change["at_us"], round(change["gbps"], 3)) for change in changes]
    rates = points[:-1] if points[-1][1] == 0 else points
    least = min(rate for _, rate in rates)
    cuts = [point for point in rates if point[1] < 99.9]
    rise = next((later for earlier, later in zip(rates, rates[1:]) if later[1] > earlier[1]), None)
    # For the picture a point each 50 us is enough, and every one of the first changes.
    shown, last = [], -1e9
    for at, rate in points:
        if len(shown) < 40 or at - last >= 50:
            shown.append([round(at, 1), rate])
            last = at
    return {"cuts": cuts[:6], "least": [least, next(at for at, rate in rates if rate == least)], "rise": rise,
            "last_us": rates[-1][0], "points": shown}


# Of the flows between data centres in Figure 22, when their rate is first cut and when it is raised again (ms, by 1
# Gbit/s and more), from the authors' traces Themis_recover.txt and Themis_send.txt.
RATES = {
    "fig22-aligned": {(1, 31): (1250.1, [4.47, 5.37, 19.79]), (7, 25): (1257.1, [4.46, 5.36, 19.58])},
    "fig22-direct": {(1, 31): (1250.1, [4.07, 4.97, 8.83]), (7, 25): (1257.1, [4.32, 5.22, 9.15])},
}
BETWEEN = [(1, 31), (7, 25)]


def rises_of(changes):
    """When a flow was first cut, us, and its first rises, ms."""
    points = [(change["at_us"], change["gbps"]) for change in changes]
    cut = next((at for at, rate in points if rate < 99.9), None)
    rises = [round(later[0] / 1000, 2) for earlier, later in zip(points, points[1:]) if later[1] > earlier[1] + 1]
    return {"cut_us": cut, "rises_ms": rises[:6]}


def measure(program, name):
    _, scenario, distance, _, _ = VARIANTS[name]
    with tempfile.NamedTemporaryFile("w", suffix=".yaml", encoding="utf-8") as text:
        yaml.safe_dump(experiment(scenario, distance), text, sort_keys=False)
        text.flush()
        sets = sets_of(name) + [f"rates_every_us={1 if scenario == RECOVERY else 0.1}"]
        if name.endswith("-every"):
            sets.append("nic.cc.cnp_interval_us=0")
        result = runs.result_of(program, text.name, 1, sets)
    figures = metric.of_result(result, distance)
    summary = result["summary"]
    out = {flows: {"mean": figures[flows]["mean"]} for flows in ("within", "between", "all")}
    out |= {"nacks": summary["nacks_sent"], "pauses": summary["pfc_pauses"], "drops": summary["drops"],
            "cpu_s": round(summary["cpu_s"], 1)}
    for stage in ("pnp", "trp"):
        if stage in summary.get("stages", {}):
            out[stage] = {key: value for key, value in summary["stages"][stage].items() if value}
    if scenario == RECOVERY:
        out["rates"] = {f"{a} {b}": rises_of([change for change in result["rate_changes"]
                                              if (change["from"], change["to"]) == (a, b)]) for a, b in BETWEEN}
        return out
    for flows in FLOWS:
        changes = [change for change in result.get("rate_changes", ())
                   if metric.within(change["from"], change["to"]) == (flows == "within")]
        if changes:
            out[flows]["trace"] = trace_of(changes)
    return out


def off(ours, theirs):
    return f"{ours:.2f} / {theirs:.2f}"


def trace_table(found):
    lines = ["Ours / theirs, in microseconds and Gbit/s; ours are looked at each 100 ns.", "",
             "| run | flow | first cut | to | second cut | third | fourth | least rate | at | first rise | to | "
             "last change, ms |",
             "|---" * 12 + "|"]
    for name, (words, scenario, _, _, published) in VARIANTS.items():
        if scenario == RECOVERY or name not in found:
            continue
        for flows, text in FLOWS.items():
            ours = found[name][flows]["trace"]
            at, rate, more, least, least_at, rise_at, rise, end = published[flows]
            cells = [off(ours["cuts"][0][0], at), off(ours["cuts"][0][1], rate)]
            cells += [f"{ours['cuts'][i + 1][0]:.1f}: {ours['cuts'][i + 1][1]:.2f} / {t:.1f}: {r:.2f}"
                      if len(ours["cuts"]) > i + 1 else f"- / {t:.1f}: {r:.2f}" for i, (t, r) in enumerate(more)]
            cells += [off(ours["least"][0], least), off(ours["least"][1], least_at)]
            cells += [off(ours["rise"][0], rise_at), off(ours["rise"][1], rise)] if ours["rise"] else ["-", "-"]
            cells.append(f"{ours['last_us'] / 1000:.1f} / {end:.1f}")
            lines.append(f"| {words} | {text} | " + " | ".join(cells) + " |")
    return lines


def recovery_table(found):
    lines = ["Slowdowns in the authors' metric, ours / theirs.", "",
             "| run | between (2 flows) | within (14) | all | NACKs |", "|---|---|---|---|---|"]
    for name, (words, scenario, _, _, published) in VARIANTS.items():
        if scenario != RECOVERY or name not in found:
            continue
        ours, (between, within, everything, nacks) = found[name], published
        lines.append(f"| {words} | " + " | ".join(
            off(ours[flows]["mean"], theirs) for flows, theirs in
            (("between", between), ("within", within), ("all", everything))) +
            f" | {ours['nacks']} / {'not known' if nacks is None else nacks} |")
    lines += ["", "When the rates of the two flows between data centres are first cut, us, and raised, ms, "
              "ours / theirs.", "", "| run | flow | first cut | rises |", "|---|---|---|---|"]
    for name, (words, scenario, _, _, _) in VARIANTS.items():
        for a, b in BETWEEN if scenario == RECOVERY and name in found else []:
            ours = found[name]["rates"][f"{a} {b}"]
            theirs = RATES.get(name.removesuffix("-every").removesuffix("-honest"), {}).get((a, b))
            cut, rises = f"{ours['cut_us']:.1f}", " ".join(f"{at:.2f}" for at in ours["rises_ms"][:3])
            if theirs:
                cut, rises = f"{cut} / {theirs[0]:.1f}", f"{rises} / {' '.join(f'{at:.2f}' for at in theirs[1])}"
            lines.append(f"| {words} | {a} to {b} | {cut} | {rises} |")
    return lines


def tables(name):
    return (trace_table if name == "rates" else recovery_table)(RESULTS.load())


def write_page():
    path = os.path.join(runs.HERE, "traces.md")
    with open(path, encoding="utf-8") as text:
        contents = runs.page_with_tables(text.read(), tables)
    with open(path, "w", encoding="utf-8") as text:
        text.write(contents)


def html():
    made = page.Page("Figures 3 and 10 of the long-haul paper")
    made.paragraph("What congestion control lets two flows send, over time.")
    for name, found in RESULTS.load().items():
        if "trace" not in found["within"]:
            continue
        made.heading(VARIANTS[name][0])
        made.figure(charts.line_chart(
            [charts.Line(text, [(at / 1000, rate) for at, rate in found[flows]["trace"]["points"]])
             for flows, text in FLOWS.items()], "ms", "Gbit/s", y_from_zero=True, label=VARIANTS[name][0]))
    return made.html()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weft-sim", default=runs.WEFT_SIM)
    parser.add_argument("--variants", nargs="+", default=list(VARIANTS), choices=list(VARIANTS))
    parser.add_argument("--again", action="store_true", help="runs also what is in traces.json")
    runs.add_html(parser)
    arguments = parser.parse_args()
    for name in arguments.variants:
        if arguments.again or name not in RESULTS.load():
            RESULTS.add(name, measure(arguments.weft_sim, name))
            print(name, flush=True)
    write_page()
    runs.write_html(arguments.html, html)


if __name__ == "__main__":
    main()
