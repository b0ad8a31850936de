# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""What bench/ndr found: a line in the terminal, and a page."""

from bench.peers import machine
from bench.report import charts, page

LOADS = ("10%", "50%", "90%")
QUANTILES = ("p50", "p99", "p99.9")


def mpps(value):
    return f"{value / 1e6:.3f}"


def throughput(result, key):
    return (">= " if result["fast"] else "") + mpps(result[key])


def latency_us(result, load, quantile):
    """Of the slower direction, in microseconds; None where it was not measured."""
    directions = result["latency_ns"].get(load)
    return max(d[quantile] for d in directions) / 1e3 if directions else None


def line(result):
    parts = [f"{result['title']}: NDR {throughput(result, 'ndr_pps')} Mpps",
             f"PDR {throughput(result, 'pdr_pps')}", f"MRR {mpps(result['mrr_pps'])}"]
    half = latency_us(result, "50%", "p50")
    if half is not None:
        parts.append(f"p50 and p99 at half of PDR {half:.1f} and {latency_us(result, '50%', 'p99'):.1f} us")
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
    rows = [charts.Row(r["title"], [charts.Bar(r[key] / 1e6, note=">=" if r["fast"] and key != "mrr_pps" else "")
                                    for key in ("ndr_pps", "pdr_pps", "mrr_pps")]) for r in results]
    out.figure(charts.bar_chart(rows, "Mpps", series=("NDR", "PDR", "MRR"), label="Throughput of each device"),
               ">= stands where the generator, and not the device, was the limit.")
    out.table(["device", "NDR Mpps", "PDR Mpps", "MRR Mpps", "generator Mpps", "reordered", "duplicates", "trials"],
              [[r["title"], throughput(r, "ndr_pps"), throughput(r, "pdr_pps"), mpps(r["mrr_pps"]),
                mpps(r["generator_pps"]), f"{r['reordered']:,}", f"{r['duplicates']:,}", str(r["trials"])]
               for r in results])
    out.heading("Time in the device, microseconds")
    out.table(["device"] + [f"{q} at {load} of PDR" for load in LOADS for q in QUANTILES],
              [[r["title"]] + ["-" if (us := latency_us(r, load, q)) is None else f"{us:.1f}"
                               for load in LOADS for q in QUANTILES] for r in results])
    curves = [charts.Line(r["title"], [(rate / 1e6, loss * 100) for rate, loss in r["curve"]], dots=True)
              for r in results if len(r["curve"]) > 1]
    if curves:
        out.heading("Loss at the rates that were tried")
        out.figure(charts.line_chart(curves, "Mpps sent", "% lost", y_from_zero=True, label="Loss against rate"))
    return out.html()
