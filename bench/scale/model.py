# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""What more workers than the machine has CPUs would do, from what one and two cost: a model, not a measurement.

Each worker is taken to have a core to itself. Two workers of one switch have twice the ports of one, and share a
machine. So they are compared with one worker that has as many ports, times what two processes, which share nothing but
the machine, reach beside one ("apart"): what the two workers lack to that is what they do to each other.

    alone      cycles of a packet with one worker that has the ports of two
    company    what case "own", in which workers have nothing of each other's, lacks with two of them. It
               does not grow with their number: a worker to which nobody hands anything reads one line, however many
               others there are (switch/runtime/ring_news.h)
    meeting    what a case lacks beyond that with two workers: hand-overs, and lines that several workers write. With W
               workers the other one is another worker in (W - 1) / W of all cases, with two in half of them
    cycles(W)  alone + company + meeting * 2 * (W - 1) / W

Speed-ups are over one worker with as many ports. Packets between more ports come in smaller bursts and cost more, with
one worker as with many: that is not in it. Neither are memory bandwidth, caches that many cores share, sockets, and
clocks that fall under load. Where the two CPUs are threads of one core, meetings stay in its first cache: between cores
they cost more than the model says."""

import dataclasses

COUNTS = (4, 8, 12, 14)


@dataclasses.dataclass(frozen=True)
class Costs:
    """Of a packet of one case, in TSC cycles."""

    alone: float
    company: float
    meeting: float  # with two workers
    handed: float  # times that a packet is handed over with two workers

    @property
    def hand_over(self):
        """What one costs, if all meetings are hand-overs; None in a case without."""
        return self.meeting / self.handed if self.handed else None

    def cycles(self, workers):
        """With so many workers."""
        if workers == 1:
            return self.alone
        return self.alone + self.company + self.meeting * 2 * (workers - 1) / workers

    def speedup(self, workers):
        """Times the rate of one worker with as many ports."""
        return workers * self.alone / self.cycles(workers)


def _alone_and_lacking(result):
    """Cycles of a packet with one worker that has the ports of two, and those that two workers lack; None where
    something was not measured."""
    points = {point["workers"]: point for point in result["points"]}
    one, two = points.get(1), points.get(2)
    if not one or not two or not two.get("apart_pps") or not two.get("alone_pps"):
        return None
    alone = one["cycles"] * one["pps"] / two["alone_pps"]
    possible_pps = two["alone_pps"] * two["apart_pps"] / one["pps"]
    return alone, (possible_pps / two["pps"] - 1) * alone


def costs(results):
    """{title: Costs} of the cases that were measured with one and two workers, apart, and alone with the ports of two;
    {} without "own", as nothing else says what company costs. Noise makes no cost negative."""
    own = {result["build"]: _alone_and_lacking(result) for result in results if result["case"] == "own"}
    found = {}
    for result in results:
        measured, base = _alone_and_lacking(result), own.get(result["build"])
        if not measured or not base:
            continue
        alone, lacking = measured
        company = max(0.0, base[1])
        handed = next(point["handed"] for point in result["points"] if point["workers"] == 2)
        found[result["title"]] = Costs(alone, company, max(0.0, lacking - company), handed)
    return found


def table(results):
    """(header, rows of text) for the report; no rows when there is nothing to model from."""
    header = ["case", "cycles alone", "company", "meeting", "of a hand-over"] + [f"{n} workers" for n in COUNTS]
    rows = [[title, f"{c.alone:.0f}", f"{c.company:.1f}", f"{c.meeting:.1f}",
             "-" if c.hand_over is None else f"{c.hand_over:.0f}"] + [f"{c.speedup(n):.1f}x" for n in COUNTS]
            for title, c in costs(results).items()]
    return header, rows
