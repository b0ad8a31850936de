# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""What more workers than the machine has CPUs would do, from what one and two cost: a model, not a measurement.

Each worker is taken to have a core to itself. What a packet costs is then what it costs alone, and what its hand-overs
and the other workers' rings cost on top. Both come from two workers of one switch beside two processes of one worker
each on the same CPUs ("apart"): those share the machine and nothing else, so what the switch lacks to them is its own.

    alone      cycles of a packet with one worker
    poll       what case "own", which hands nothing over, lacks with two workers: the rings of one
               other worker. It is taken to grow with every other worker, which is the worst that it can do.
    hand-over  what a case lacks beyond that, for each of its hand-overs
    handed(W)  handed(2) * 2 * (W - 1) / W, as owners are drawn from W workers
    cycles(W)  alone + poll * (W - 1) + hand-over * handed(W)

Memory bandwidth, caches that many cores share, sockets and clocks that fall under load are not in it. Where the two
CPUs are threads of one core, hand-overs stay in its first cache: between cores they cost more than the model says."""

import dataclasses

COUNTS = (4, 8, 12, 14)


@dataclasses.dataclass(frozen=True)
class Costs:
    """Of one case, in TSC cycles. poll is for each other worker and packet."""

    alone: float
    poll: float
    hand_over: float
    handed: float  # times that a packet is handed over with two workers

    def cycles(self, workers):
        """Of a packet with so many workers."""
        handed = self.handed * 2 * (workers - 1) / workers
        return self.alone + self.poll * (workers - 1) + self.hand_over * handed

    def speedup(self, workers):
        """Times the rate of one worker."""
        return workers * self.alone / self.cycles(workers)


def _points(result):
    """(one worker, two workers, what two lack to two processes as a share), None where one of them was not measured."""
    points = {point["workers"]: point for point in result["points"]}
    one, two = points.get(1), points.get(2)
    if not one or not two or not two.get("apart_pps"):
        return None
    return one, two, two["apart_pps"] / two["pps"] - 1


def costs(results):
    """{title: Costs} of the cases that were measured with one and two workers and apart; {} without "own", as nothing
    else says what rings cost that nobody uses. Noise makes no cost negative."""
    own = {result["build"]: _points(result) for result in results if result["case"] == "own"}
    found = {}
    for result in results:
        points, base = _points(result), own.get(result["build"])
        if not points or not base:
            continue
        one, two, lacking = points
        poll = max(0.0, base[2]) * base[0]["cycles"]
        beyond = max(0.0, lacking * one["cycles"] - poll)
        hand_over = beyond / two["handed"] if two["handed"] else 0.0
        found[result["title"]] = Costs(one["cycles"], poll, hand_over, two["handed"])
    return found


def table(results):
    """(header, rows of text) for the report; no rows when there is nothing to model from."""
    header = ["case", "cycles alone", "a hand-over", "rings of one other"] + [f"{n} workers" for n in COUNTS]
    rows = [[title, f"{c.alone:.0f}", f"{c.hand_over:.0f}" if c.handed else "-", f"{c.poll:.1f}"]
            + [f"{c.speedup(n):.1f}x" for n in COUNTS] for title, c in costs(results).items()]
    return header, rows
