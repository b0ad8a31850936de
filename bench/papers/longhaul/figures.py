#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""Figures 8, 9, 11 to 13, 15 to 18, 23 and 24 of the long-haul paper beside what the runs of agree.py and themis.py
gave.

Usage: figures.py [--html OUT]

Runs nothing: writes figures.md of agree.json and themis.json, and with --html a page with bar charts. Slowdowns are the
authors' metric (metric.py); of several seeds the mean."""
import argparse
import os
import sys

import agree
import metric
import runs
import themis

sys.path.insert(0, runs.ROOT)

from bench.report import charts, page  # noqa: E402

# Scheme: where its runs are, as (series, variant). DCQCN of the paper's figures had its ACKs and CNPs in the data class
# and THEMIS above it, so plain DCQCN is here twice.
SCHEMES = {
    "DCQCN, ACKs with the data": (agree.RESULTS, "fig8"),
    "DCQCN": (agree.RESULTS, "fig2"),  # the runs of published-none, of more seeds
    "Annulus": (themis.RESULTS, "published-annulus"),
    "Annulus, QCN": (themis.RESULTS, "published-annulus_qcn"),
    "Annulus, QCN and Fb": (themis.RESULTS, "published-annulus_fb"),
    "BiCC": (themis.RESULTS, "published-bicc"),
    "BiCC + PNP": (themis.RESULTS, "published-bicc_pnp"),
    "PNP": (themis.RESULTS, "published-pnp"),
    "TRP": (themis.RESULTS, "published-trp"),
    "PNP + TRP": (themis.RESULTS, "published-both"),
    "TRP, pace": (themis.RESULTS, "published_pace-trp"),
    "PNP + TRP, pace": (themis.RESULTS, "published_pace-both"),
}
LOW, ANNULUS, BICC, THEMIS = "DCQCN, ACKs with the data", "Annulus", "BiCC", "PNP + TRP"
FLOWS = ("within", "between")


def authors(variant, load, file):
    """One of the authors' runs: ({flows: mean}, {flows: P99}, mean of all)."""
    _, within, p99_within, between, p99_between, everything = next(
        row for row in themis.PUBLISHED[variant][load] if row[0] == file)
    return dict(zip(FLOWS, (within, between))), dict(zip(FLOWS, (p99_within, p99_between))), everything


def plain(load, figure):
    """Of plain DCQCN as Figures 8, 9 and 12 have it; figure: 0 the mean, 1 P99, 2 means by size."""
    return {flows: agree.PUBLISHED["fig8"][load][flows][figure] for flows in FLOWS}


# The authors' constants: NS3/analysis/fct/fct.py, p99/2.py, overall/overall.py, ablation/ablation.py.
FIG8 = {
    **{(load, LOW): plain(load, 2) for load in runs.LOADS},
    (30, ANNULUS): {"within": (3.960, 3.216, 4.620), "between": (1.016, 1.026, 1.249)},
    (50, ANNULUS): {"within": (9.261, 6.973, 7.357), "between": (1.059, 1.075, 1.565)},
    (70, ANNULUS): {"within": (15.61, 12.44, 13.75), "between": (1.172, 1.174, 1.887)},
    (30, BICC): {"within": (5.002, 4.115, 2.832), "between": (1.026, 1.043, 11.52)},
    (50, BICC): {"within": (9.972, 8.076, 4.246), "between": (1.086, 1.107, 14.71)},
    (70, BICC): {"within": (16.47, 13.86, 6.823), "between": (1.171, 1.201, 12.66)},
    (30, THEMIS): {"within": (2.029, 2.296, 3.846), "between": (1.015, 1.029, 1.459)},
    (50, THEMIS): {"within": (2.521, 2.504, 4.751), "between": (1.196, 1.143, 2.966)},
    (70, THEMIS): {"within": (3.713, 3.432, 7.168), "between": (2.277, 2.251, 6.481)},
}
FIG9 = {
    **{(load, LOW): plain(load, 1) for load in runs.LOADS},
    **{(load, ANNULUS): authors("published-annulus", load, "Fig. 8, 9")[1] for load in runs.LOADS},
    **{(load, BICC): authors("published-bicc", load, "Fig. 8, 9")[1] for load in runs.LOADS},
    **{(load, THEMIS): authors("published-both", load, "fct_test2")[1] for load in runs.LOADS},
}
FIG12 = {
    **{(load, LOW): agree.PUBLISHED["fig8"][load]["all"][0] for load in runs.LOADS},
    **{(load, ANNULUS): authors("published-annulus", load, "Fig. 8, 9")[2] for load in runs.LOADS},
    **{(load, BICC): authors("published-bicc", load, "Fig. 8, 9")[2] for load in runs.LOADS},
    **{(load, THEMIS): authors("published-both", load, "fct_test2")[2] for load in runs.LOADS},
}
FIG15 = {
    (70, LOW): plain(70, 0), (70, "PNP"): authors("published-pnp", 70, "fct_test_1")[0],
    (70, "TRP"): authors("published-trp", 70, "fct_test_2")[0],
    (70, THEMIS): authors("published-both", 70, "fct_test2")[0],
}


def averaged(load, scheme):
    """flows -> (mean, P99, means by size) over the seeds, and how many seeds; None without runs."""
    results, variant = SCHEMES[scheme]
    seeds = results.of_variant(load, variant)
    if not seeds:
        return None
    out = {}
    for flows in ("within", "between", "all"):
        rows = [run[flows] for run in seeds.values()]
        out[flows] = (metric.mean([row["mean"] for row in rows]), metric.mean([row["p99"] for row in rows]),
                      [metric.mean([row["bins"][i] for row in rows]) for i in range(len(metric.BIN_NAMES))])
    return out, len(seeds)


def tolerance(load, flows):
    """How far the authors' own repeated runs lie apart."""
    return 0.30 if load == 70 and flows == "between" else 0.10


def pair(ours, theirs, allowed, repeated=()):
    """Both numbers, and whether they match: also when ours lies between those of the authors' repeated runs."""
    if theirs is None:
        return f"{ours:.2f}"
    off = ours / theirs - 1
    between = repeated and min(repeated) <= ours <= max(repeated)
    verdict = "" if abs(off) <= allowed else ", between their runs" if between else ", no match"
    return f"{ours:.2f} / {theirs:.2f} ({off:+.0%}{verdict})"


def repeated(load, scheme, column):
    """What the authors' runs of a scheme have, where several are published."""
    found = [row[column] for row in themis.PUBLISHED.get(SCHEMES[scheme][1], {}).get(load, [])]
    return found if len(found) > 1 else ()


def figure_tables(load):
    found = {scheme: averaged(load, scheme) for scheme in SCHEMES}
    found = {scheme: each for scheme, each in found.items() if each}
    if not found:
        return []
    lines = [f"### Figure 8, {load} % load: mean by size of flow", "",
             "| scheme | seeds | " +
             " | ".join(f"{flows}, {size}" for flows in FLOWS for size in metric.BIN_NAMES) +
             " |", "|---" * 8 + "|"]
    for scheme, (rows, seeds) in found.items():
        theirs = FIG8.get((load, scheme), {})
        lines.append(f"| {scheme} | {seeds} | " + " | ".join(
            pair(rows[flows][2][i], theirs[flows][i] if flows in theirs else None, tolerance(load, flows))
            for flows in FLOWS for i in range(len(metric.BIN_NAMES))) + " |")
    lines += ["", f"### Figures 9, 12 and 15, {load} % load: P99, mean of all flows, means", "",
              "| scheme | P99 within | P99 between | all | within | between |", "|---" * 6 + "|"]
    for scheme, (rows, _) in found.items():
        p99, means = FIG9.get((load, scheme), {}), FIG15.get((load, scheme), {})
        lines.append("| " + " | ".join([
            scheme,
            *(pair(rows[flows][1], p99.get(flows), 2 * tolerance(load, flows), repeated(load, scheme, column))
              for flows, column in zip(FLOWS, (2, 4))),
            pair(rows["all"][0], FIG12.get((load, scheme)), tolerance(load, "between"), repeated(load, scheme, 5)),
            *(pair(rows[flows][0], means.get(flows), tolerance(load, flows), repeated(load, scheme, column))
              for flows, column in zip(FLOWS, (1, 3)))]) + " |")
    return lines + [""]


# Figures that take one thing of THEMIS away, or set it otherwise: runs of themis.py, and what the paper says. Where it
# has no numbers the claim of its text stands.
PARTS = {
    "Figure 16, aligning with DCQCN: what marks and CNPs do": (
        ["published-both", "published_uncleared-both", "published_uncleared55-both", "published_uncleared55_acks-both",
         "published_every-both"],
        "without either, flows between data centres take much longer"),
    "Figure 18, what CNP_Cache and CNP_Store are worth": (
        ["published-both", "published_store_cache-both", "published_store-both", "published_cache-both"],
        "both together have the lowest slowdown; the bar of PFC is void, for their code sends resumes in its place"),
    "Figure 23, recovery where receivers take any order": (
        ["published_irn-both", "published_irn_direct-both"], "direct recovery is as good as aligned recovery"),
    "Figure 24, alpha and beta": (
        ["published-both", "published_alpha3-both", "published_alpha8-both", "published_beta250-both",
         "published_beta1000-both"], "the mean of all flows changes by less than 4 %"),
}


def words_of(variant):
    settings = variant.partition("-")[0].removeprefix("published").removeprefix("_")
    return themis.OTHERWISE[settings][0] if settings else "PNP + TRP"


def parts_table(title, load):
    variants, claim = PARTS[title]
    results = {variant: found for variant in variants if (found := themis.RESULTS.of_variant(load, variant))}
    common = set.intersection(*(set(found) for found in results.values())) if results else set()
    rows = []
    first = None
    for variant, found in results.items():
        seeds = {seed: found[seed] for seed in common}
        if not seeds:
            continue
        means = {flows: metric.mean([r[flows]["mean"] for r in seeds.values()])
                 for flows in ("within", "between", "all")}
        first = first or means
        theirs = themis.PUBLISHED.get(variant, {}).get(load, [])
        rows.append(f"| {words_of(variant)} | {len(seeds)} | " + " | ".join(
            pair(means[flows], metric.mean([t[i] for t in theirs]) if theirs else None, tolerance(load, "between"))
            for flows, i in (("within", 1), ("between", 3), ("all", 5))) +
            f" | {means['all'] / first['all'] - 1:+.1%} | {metric.mean([r['nacks'] for r in seeds.values()]):.0f} |")
    if len(rows) < 2:
        return []
    return [f"### {title}, {load} % load", "", f"The paper: {claim}.", "",
            "| run | seeds | within | between | all | all, to the first | NACKs |", "|---" * 7 + "|", *rows, ""]


# Figure 11 as its script counts: the share of time in which anybody is paused, from the first pause to the first resume
# of whatever port.
FIG11 = {(30, LOW): 4.32, (50, LOW): 14.38, (70, LOW): 16.76, (30, ANNULUS): 3.75, (50, ANNULUS): 9.61,
         (70, ANNULUS): 14.78, (30, BICC): 0.30, (50, BICC): 0.38, (70, BICC): 0.67, (30, THEMIS): 0.17,
         (50, THEMIS): 1.83, (70, THEMIS): 1.12}


# Whose edge switches Figure 13 is about.
HELD = {"published-pnp": "PNP", "published-trp": "TRP", "published-both": "PNP + TRP",
        "published_uncleared-both": "marks are not cleared",
        "published_uncleared55-both": "nor are they, a CNP per 55 us",
        "own_pace-both": "PNP + TRP, pace, own settings"}


def short(value):
    return f"{value:.0f}" if value >= 10 or value == int(value) else f"{value:.1f}"


def of_all(ours, theirs):
    """Of our seeds the mean and, of several, the extremes; then what the authors' runs have."""
    text = short(metric.mean(ours)) if ours else "-"
    text += f" ({short(min(ours))} to {short(max(ours))})" if len(ours) > 1 else ""
    return text + (f" / {', '.join(short(value) for value in theirs)}" if theirs else "")


def pauses_table(load):
    rows = []
    for scheme, (results, variant) in SCHEMES.items():
        seeds = [r for r in results.of_variant(load, variant).values() if "pfc_paused_ms" in r]
        if not seeds:
            continue
        theirs = themis.PAUSES.get(variant, {}).get(load, [])
        told = themis.PAUSED.get(variant, {}).get(load, [])
        cells = [of_all([r["pfc_pauses"] for r in seeds], [t[1] for t in theirs]),
                 of_all([r["pfc_paused_ms"] for r in seeds], [t[2] for t in theirs])]
        for i, kind in enumerate(runs.KINDS):
            known = [r["paused"][kind] for r in seeds if "paused" in r]
            cells.append(of_all(known, [t[i + 1] for t in told]))
        rows.append(f"| {scheme} | {len(seeds)} | " + " | ".join(cells) + f" | {FIG11.get((load, scheme), '-')} |")
    if not rows:
        return []
    return [f"### Figure 11, {load} % load: pauses", "",
            "Ours / those of the authors' raw files, each of one run: how many, how long on all links together, and "
            "who was told to pause. The bars of the figure cannot be compared: their script takes the pauses of all "
            "ports for those of one, which the first resume of any port ends, and their runs are older than those of "
            "the other figures.",
            "", "| scheme | seeds | pauses | ms | " + " | ".join(f"told: {kind}" for kind in runs.KINDS) +
            " | their bar, % |", "|---" * 9 + "|", *rows, ""]


def held_table(load):
    """Figure 13."""
    rows = []
    for variant, words in HELD.items():
        seeds = list(themis.RESULTS.of_variant(load, variant).values())
        theirs = themis.HELD.get(variant, {}).get(load, [])
        if not seeds and not theirs:
            continue
        cells = [of_all([r["trp"]["most_held_bytes"] / 1e6 for r in seeds if "trp" in r], [])]
        for i, key in enumerate(("most_mb", "first_mb", "mean_mb", "longest_ms")):
            cells.append(of_all([r["held_by_waits"][key] for r in seeds if "held_by_waits" in r],
                                [t[i + 1] for t in theirs]))
        rows.append(f"| {words} | {len(seeds)} | " + " | ".join(cells) + " |")
    if not rows:
        return []
    return [f"### Figure 13, {load} % load: what waits at the edge switches, MB", "",
            "Ours / theirs, both edge switches added up. The first column is what our loop ports held at most. The "
            "others are had of the FCTs alone, theirs as well as ours, by Little's law "
            "(`metric.held_by_waits`, means over 2 ms): the most, the most in the first 10 ms, the mean, and how long "
            "a flow to 100 KiB waited at most, in ms. PNP alone holds nothing: its row is what queues elsewhere make "
            "of this estimate. The paper has less than 70 MB at 70 % load.",
            "", "| scheme | seeds | held | most | most in 10 ms | mean | longest, ms |", "|---" * 7 + "|", *rows, ""]


# Figure 17, from the files of its script (analysis/event-driven): pairs of hosts of which TRP heard first, and how many
# of these had a flow under way at once; flows of the run, and how many of them were under way at once.
FIG17 = {"flows": 4986, "flows between data centres": 2611, "flows under way": 803,
         "flows between data centres, under way": 693, "pairs that TRP has slowed down": 418}


def entries_table():
    """At 70 % load."""
    seeds = [r for r in themis.RESULTS.of_variant(70, "published-both").values() if "under_way" in r]
    if not seeds:
        return []
    r = seeds[0]
    ours = {"flows": r["all"]["flows"], "flows between data centres": r["between"]["flows"],
            "flows under way": r["under_way"]["all"],
            "flows between data centres, under way": r["under_way"]["between"],
            "pairs that TRP has slowed down": r["trp"]["flows_throttled"]}
    return ["### Figure 17, 70 % load: entries", "",
            "A table of all queue pairs has as many entries as there have been flows; one of those between data "
            "centres, from which a queue pair is taken when it is destroyed, as many as are under way. What the figure "
            "shows is another table, TRP's: 418 pairs of hosts without removal, and 133 at most with it. One seed.",
            "",
            "| entries | ours / theirs |", "|---|---|",
            *(f"| {words} | {ours[words]} / {theirs} |" for words, theirs in FIG17.items()), ""]


def write_table():
    lines = ["# Figures 8, 9, 11 to 13, 15 to 18, 23 and 24", "",
             "Ours / the authors' constant, made by `figures.py` of `agree.json` and `themis.json`. Settings are those",
             "of the authors' runs (`published` in `themis.md`); `DCQCN` has its ACKs above the data, as THEMIS had",
             "them, and the paper's bar is the other one. A value matches within 10 %, between data centres at 70 %",
             "load within 30 %, P99 within twice as much: how far the authors' repeated runs lie apart; or where it",
             "lies between those runs. `pace` is weft's own.",
             ""]
    lines += entries_table()
    for load in runs.LOADS:
        lines += figure_tables(load) + pauses_table(load) + held_table(load)
        for title in PARTS:
            lines += parts_table(title, load)
    with open(os.path.join(runs.HERE, "figures.md"), "w", encoding="utf-8") as text:
        text.write("\n".join(lines).rstrip() + "\n")


def bars(load, value, published):
    rows = []
    for scheme in SCHEMES:
        found = averaged(load, scheme)
        if found:
            theirs = published.get((load, scheme))
            rows.append(charts.Row(scheme, [charts.Bar(round(value(found[0]), 3)),
                                            charts.Bar(theirs) if theirs is not None else None]))
    return rows


def html():
    made = page.Page("Figures 8, 9, 12, 16, 18, 23 and 24 of the long-haul paper")
    made.paragraph("FCT slowdowns in virtual time beside the authors' numbers, where they have published some.")
    for load in runs.LOADS:
        for flows in FLOWS:
            words = f"{flows} {'a data centre' if flows == 'within' else 'data centres'}, {load} % load"
            for i, size in enumerate(metric.BIN_NAMES):
                figure(made, f"Figure 8: mean, flows {words}, {size}", bars(
                    load, lambda rows, flows=flows, i=i: rows[flows][2][i],
                    {key: value[flows][i] for key, value in FIG8.items()}))
            figure(made, f"Figure 9: P99, flows {words}", bars(
                load, lambda rows, flows=flows: rows[flows][1], {key: value[flows] for key, value in FIG9.items()}))
        figure(made, f"Figure 12: mean of all flows, {load} % load", bars(load, lambda rows: rows["all"][0], FIG12))
        for title, (variants, _) in PARTS.items():
            rows = []
            for variant in variants:
                if seeds := themis.RESULTS.of_variant(load, variant):
                    rows.append(charts.Row(words_of(variant), [
                        charts.Bar(round(metric.mean([r[flows]["mean"] for r in seeds.values()]), 3))
                        for flows in (*FLOWS, "all")]))
            if len(rows) > 1:
                made.heading(f"{title}, {load} % load")
                made.figure(charts.bar_chart(rows, "slowdown", series=(*FLOWS, "all"), label=title))
    return made.html()


def figure(made, words, rows):
    if rows:
        made.heading(words)
        made.figure(charts.bar_chart(rows, "slowdown", series=("weft", "authors"), label=words))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    runs.add_html(parser)
    arguments = parser.parse_args()
    write_table()
    runs.write_html(arguments.html, html)


if __name__ == "__main__":
    main()
