# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""What bench/scale found: a line in the terminal, and a page."""

from bench.peers import machine
from bench.report import charts, page
from bench.scale import model


def speedup(points, point):
    """How many times the rate of the fewest workers, per worker of those: 1 to W where that is one worker."""
    return point["pps"] / points[0]["pps"] * points[0]["workers"]


def of_apart(point):
    """The share of what as many processes of one worker each reach side by side: what sharing a switch costs. What
    those lack to W times one, the machine lacks. None where it was not measured."""
    return point["pps"] / point["apart_pps"] if point.get("apart_pps") else None


def alone_words(point):
    """The rate as times one worker with the same ports, as words; "" where that was not measured."""
    return f"{point['pps'] / point['alone_pps']:.2f}x one with these ports" if point.get("alone_pps") else ""


def apart_words(points, point):
    """Those processes' rate as times one, and the share, as words; "" where they were not measured."""
    share = of_apart(point)
    if share is None:
        return ""
    return f"{share:.2f} of {speedup(points, point) / share:.2f}x apart"


def lost_words(point):
    """What the trial that lost most lost, and for how long its workers had no CPU; "" when nothing was lost."""
    if not point["lost"]:
        return ""
    waited = [f" while workers waited {t['waited_s'] * 1e3:.0f} ms for their CPUs"
              for t in point.get("trials", ()) if t["lost"] == point["lost"]]
    return f"{point['lost']:,} lost" + "".join(waited[:1])


def line(result):
    points = result["points"]
    parts = [f"W={p['workers']}: {p['pps'] / 1e6:.2f} Mpps ({speedup(points, p):.2f}x"
             + "".join(f", {words}" for words in (alone_words(p), apart_words(points, p)) if words)
             + f"), {p['cycles']:.0f} cycles, "
             f"{p['handed']:.2f} handed over" + (f", {lost_words(p)}" if p["lost"] else "") for p in points]
    return f"{result['title']}: " + "; ".join(parts)


def page_of(facts, results):
    out = page.Page("weft-switch with more and more workers")
    out.paragraph(
        f"{machine.in_words(facts)} Each worker polls two generator ports of 64 queue pairs. Medians of "
        f"{facts['rounds']} trials of {facts['trial_s']:g} s, which the cases take in turns; of the quiet ones where "
        "there are two."
    )
    most = max(p["workers"] for r in results for p in r["points"])
    if most > 1:
        lines = [charts.Line(r["title"], [(p["workers"], speedup(r["points"], p)) for p in r["points"]], dots=True)
                 for r in results]
        lines.append(charts.Line("linear", [(1, 1), (most, most)], dashed=True))
        out.figure(charts.line_chart(lines, "workers", "times one worker", y_from_zero=True,
                                     label="Rate by the number of workers"))
    out.table(["case", "workers", "Mpps", "low", "high", "times one", "with as many ports", "of W switches apart",
               "cycles a packet", "handed over", "rings full", "lost"],
              [[r["title"], str(p["workers"]), f"{p['pps'] / 1e6:.2f}", f"{p['low'] / 1e6:.2f}",
                f"{p['high'] / 1e6:.2f}", f"{speedup(r['points'], p):.2f}", alone_words(p), apart_words(r["points"], p),
                f"{p['cycles']:.0f}", f"{p['handed']:.2f}", f"{p['rings_full']:,}", lost_words(p) or "0"]
               for r in results for p in r["points"]])
    out.paragraph("Cycles are those of all workers together, of the time stamp counter, for a packet that is received; "
                  "the generators' are in them. Handed over: how often a packet changes its worker, on average. "
                  "Apart: as many "
                  "processes of one worker each, side by side on the same CPUs, which share nothing but the machine; "
                  "the share of their rate is what code can change.")
    header, rows = model.table(results)
    if rows:
        out.heading("A model, not a measurement")
        out.paragraph(
            "More workers than were measured, each on a core to itself: times one worker with as many ports. From TSC "
            "cycles of a packet: those of such a worker, what two workers that have nothing of each other's lack, and "
            "what workers that meet lack beyond that, in half of all cases with two and in (W-1)/W with W. Memory, "
            "shared caches and sockets are not in it; where the two CPUs share a core, meetings of cores cost more "
            "(model.py).")
        out.table(header, rows)
    return out.html()
