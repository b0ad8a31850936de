# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""The highest rates at which a device loses no more than allowed: a search without processes, clocks or files.

After draft-ietf-bmwg-mlrsearch ("Multiple Loss Ratio Search"), with trials of one length. A rate is a lower bound of a
goal when no more than `exceed_ratio` of the time at it was lossy, in whatever way the trials that are not done yet
would end; it is an upper bound when more was lossy, however they would end. So one bad trial, in which something else
ran on the machine, does not decide.
"""

import dataclasses
import math


class SearchError(Exception):
    """The measurement says nothing about the device. The message says why."""


@dataclasses.dataclass(frozen=True)
class Trial:
    """What was measured: packets per second as intended, packets that were really sent, and what came of them."""

    rate_pps: float
    seconds: float
    intended: int
    sent: int
    received: int
    duplicates: int = 0
    reordered: int = 0
    latency_ns: tuple = ()

    @property
    def loss_ratio(self):
        return max(0.0, 1 - self.received / self.sent) if self.sent else 0.0


@dataclasses.dataclass(frozen=True)
class Goal:
    """A throughput that is looked for. NDR: loss_ratio 0. PDR: 0.005."""

    name: str
    loss_ratio: float
    trials: int = 21  # seconds at one rate, when a trial takes one
    exceed_ratio: float = 0.5
    width: float = 0.005  # of the last two bounds, as a share of the upper one


@dataclasses.dataclass
class Found:
    """A goal's bounds. rate_pps is what may be reported: the lower bound less what is lost there."""

    goal: Goal
    lower_pps: float = 0.0  # 0: no rate was low enough
    upper_pps: float = math.inf  # infinite: none was too high
    rate_pps: float = 0.0

    @property
    def at_least(self):
        """The device may do more: the fastest rate that the generator sends was not too high."""
        return self.upper_pps == math.inf


class Bounds:
    """The trials so far, by rate, and what they say of a goal."""

    def __init__(self):
        self.trials = {}

    def add(self, trial, rate_pps):
        self.trials.setdefault(rate_pps, []).append(trial)

    def verdict(self, goal, rate_pps):
        """"lower", "upper", or "" while more trials are needed."""
        trials = self.trials.get(rate_pps, [])
        high = sum(trial.loss_ratio > goal.loss_ratio for trial in trials)
        missing = max(0, goal.trials - len(trials))
        allowed = max(len(trials), goal.trials) * goal.exceed_ratio
        if high > allowed:
            return "upper"
        return "lower" if high + missing <= allowed else ""

    def found(self, goal):
        found = Found(goal)
        for rate_pps in sorted(self.trials):
            verdict = self.verdict(goal, rate_pps)
            if verdict == "upper":
                # What is above a rate that is too high counts no more, even if it looked good.
                found.upper_pps = rate_pps
                break
            if verdict == "lower":
                found.lower_pps = rate_pps
        if found.lower_pps:
            found.rate_pps = found.lower_pps * (1 - self._loss(goal, found.lower_pps))
        return found

    def _loss(self, goal, rate_pps):
        """The loss that a share of exceed_ratio of the trials does not exceed: conditional throughput of the draft."""
        losses = sorted(trial.loss_ratio for trial in self.trials[rate_pps])
        return losses[min(len(losses) - 1, int(len(losses) * (1 - goal.exceed_ratio)))]


def measured(measure, rate_pps, seconds, short=0.005, tries=10):
    """A trial in which the generator did what it was told; SearchError when it never does."""
    for _ in range(tries):
        trial = measure(rate_pps, seconds)
        # Two frames may be on the edge of the trial.
        if trial.sent + 2 >= trial.intended * (1 - short):
            return trial
    raise SearchError(
        f"the generator was asked for {rate_pps / 1e6:.3f} Mpps and sent {trial.sent / trial.seconds / 1e6:.3f}: it is "
        "slower than the device, or had to share its CPU"
    )


def highest_sent(measure, highest_pps, seconds=1.0, step=0.85, least=0.05):
    """The first rate from highest_pps down that the generator really sends. A frame without room costs it less than
    one that it writes, so flat out it is faster than at a rate that the device takes. SearchError when it does not
    send the share `least` of highest_pps either."""
    rate_pps = highest_pps
    while True:
        try:
            measured(measure, rate_pps, seconds, tries=3)
            return rate_pps
        except SearchError:
            if rate_pps * step < highest_pps * least:
                raise
            rate_pps *= step


def search(measure, goals, highest_pps, lowest_pps=1000.0, seconds=1.0, progress=lambda *_: None):
    """[Found] for the goals, in their order, and the Bounds behind them.

    measure(rate_pps, seconds) is a Trial. highest_pps is what the generator can do. Goals are worked off from the
    highest loss ratio down: what is found for one narrows the next.
    """
    bounds = Bounds()

    def classify(goal, rate_pps):
        while not bounds.verdict(goal, rate_pps):
            trial = measured(measure, rate_pps, seconds)
            bounds.add(trial, rate_pps)
            progress(goal, rate_pps, trial)
        return bounds.verdict(goal, rate_pps)

    # Where to begin: what a device lets through that gets as much as can be sent.
    first = measured(measure, highest_pps, seconds)
    bounds.add(first, highest_pps)
    start = min(highest_pps, max(lowest_pps, first.received / first.seconds))
    for goal in sorted(goals, key=lambda g: -g.loss_ratio):
        rate_pps = start
        while True:
            classify(goal, rate_pps)
            found = bounds.found(goal)
            if found.lower_pps >= highest_pps or found.upper_pps <= lowest_pps:
                break
            if found.lower_pps and found.upper_pps < math.inf:
                if found.upper_pps - found.lower_pps <= goal.width * found.upper_pps:
                    break
                rate_pps = math.sqrt(found.lower_pps * found.upper_pps)
            elif found.lower_pps:
                rate_pps = min(highest_pps, found.lower_pps * (1 + 4 * goal.width))
            else:
                rate_pps = max(lowest_pps, _below(bounds, goal, found.upper_pps))
        start = bounds.found(goal).lower_pps or lowest_pps
    return [bounds.found(goal) for goal in goals], bounds


def _below(bounds, goal, upper_pps):
    """Steps down that grow: 1, 2, 4, ... times the width."""
    tried = sum(bounds.verdict(goal, rate) == "upper" for rate in bounds.trials)
    return upper_pps * (1 - min(0.5, goal.width * 2**tried))
