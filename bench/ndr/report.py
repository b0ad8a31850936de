# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""What bench/ndr found: a line in the terminal, and a page."""

from bench.peers import machine
from bench.report import charts, page

SHARES = (0.1, 0.5, 0.9)  # of PDR, at which latency is measured
# A worker that polls for 50 us before it sleeps (idle: adaptive) sleeps before each frame at this rate, and before none
# at a tenth of PDR.
IDLE_PPS = 1000
IDLE = "idle"
LOADS = (IDLE,) + tuple(f"{share:.0%}" for share in SHARES)
QUANTILES = ("p50", "p99", "p99.9")


def mpps(value):
    return f"{value / 1e6:.3f}"


def throughputs(found):
    """What search.search found, for a result: rates, and the goals of which only a lower bound is known."""
    return {f"{f.goal.name.lower()}_pps": f.rate_pps for f in found} | {
        "at_least": [f.goal.name for f in found if f.at_least]}


def throughput(result, goal):
    return (">= " if goal in result["at_least"] else "") + mpps(result[f"{goal.lower()}_pps"])


def load_words(load):
    return f"at {IDLE_PPS / 1e3:g} kpps" if load == IDLE else f"at {load} of PDR"


def latency_us(result, load, quantile):
    """Of the slower direction, in microseconds; None where it was not measured."""
    directions = result["latency_ns"].get(load)
    return max(d[quantile] for d in directions) / 1e3 if directions else None


def line(result):
    parts = [f"{result['title']}: NDR {throughput(result, 'NDR')} Mpps",
             f"PDR {throughput(result, 'PDR')}", f"MRR {mpps(result['mrr_pps'])}"]
    for load in (IDLE, "50%"):
        if latency_us(result, load, "p50") is not None:
            parts.append(f"p50 and p99 {load_words(load)} {latency_us(result, load, 'p50'):.1f} and "
                         f"{latency_us(result, load, 'p99'):.1f} us")
    parts.append(f"{result['trials']} trials; the generator does {mpps(result['generator_pps'])}")
    if result["known_pps"]:
        off = result["ndr_pps"] / result["known_pps"] - 1
        parts.append(f"known: {mpps(result['known_pps'])}, off by {off * 100:+.2f} %")
    return ", ".join(parts)


def page_of(facts, results):
    out = page.Page("Throughput and latency of switches")
    out.paragraph(
        f"{machine.in_words(facts)} RoCEv2 frames of {facts['frame_bytes']} bytes, {facts['qps']} "
        f"queue pairs a direction, {facts['directions']} direction(s), memif ports, one CPU for the device and one for "
        f"the generator. Trials of {facts['trial_s']:g} s, {facts['trials']} decide on a rate."
    )
    out.paragraph(
        "NDR: the highest rate at which no frame is lost in at least half of the trials. PDR: no more than 0.5 %. MRR: "
        "what comes out when the generator sends as fast as it can."
    )
    rows = [charts.Row(r["title"], [charts.Bar(r[f"{goal.lower()}_pps"] / 1e6,
                                               note=">=" if goal in r["at_least"] else "")
                                    for goal in ("NDR", "PDR", "MRR")]) for r in results]
    out.figure(charts.bar_chart(rows, "Mpps", series=("NDR", "PDR", "MRR"), label="Throughput of each device"),
               ">= stands where the generator, and not the device, was the limit.")
    out.table(["device", "NDR Mpps", "PDR Mpps", "MRR Mpps", "generator Mpps", "reordered", "duplicates", "trials"],
              [[r["title"], throughput(r, "NDR"), throughput(r, "PDR"), mpps(r["mrr_pps"]),
                mpps(r["generator_pps"]), f"{r['reordered']:,}", f"{r['duplicates']:,}", str(r["trials"])]
               for r in results])
    out.heading("Time in the device, microseconds")
    out.table(["device"] + [f"{q} {load_words(load)}" for load in LOADS for q in QUANTILES],
              [[r["title"]] + ["-" if (us := latency_us(r, load, q)) is None else f"{us:.1f}"
                               for load in LOADS for q in QUANTILES] for r in results])
    curves = [charts.Line(r["title"], [(rate / 1e6, loss * 100) for rate, loss in r["curve"]], dots=True)
              for r in results if len(r["curve"]) > 1]
    if curves:
        out.heading("Loss at the rates that were tried")
        out.figure(charts.line_chart(curves, "Mpps sent", "% lost", y_from_zero=True, label="Loss against rate"))
    return out.html()
