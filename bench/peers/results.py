# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""From trials to numbers: medians, spreads, ratios, targets, and the table on the terminal."""

import dataclasses
import statistics

from bench.peers import machine

# A switch that loses more than this share of what it received is not forwarding.
LOSS_LIMIT = 0.001


@dataclasses.dataclass(frozen=True)
class Trial:
    """One measured run of one system in one case. notes says why the trial is not to be trusted, empty when it is."""

    case: str
    system: str
    mpps: float
    gbit_s: float
    worker_share: float
    notes: tuple
    details: dict


@dataclasses.dataclass(frozen=True)
class Cell:
    """The trials of one system in one case, taken together."""

    case: str
    system: str
    mpps: float  # median
    low_mpps: float
    high_mpps: float
    gbit_s: float
    cycles: float  # TSC cycles per packet at the median, 0 when the machine has no TSC
    trials: int
    noisy: int
    notes: tuple
    details: dict


def make_trial(case, system, measured, not_idle, slow_after=""):
    """Judge a Measurement. not_idle says what kept the machine busy before the trial, slow_after how slow the core was
    after it."""
    notes = []
    if not_idle:
        notes.append(f"before it {not_idle}")
    if measured.busy:
        notes.append(measured.busy)
    if slow_after:
        notes.append(f"after it {slow_after}")
    if measured.share < machine.WORKER_SHARE_FLOOR:
        notes.append(f"worker had {measured.share:.0%} of its CPU")
    lost = measured.rx_packets - measured.tx_packets
    if lost > LOSS_LIMIT * measured.rx_packets:
        notes.append(f"lost {lost / measured.rx_packets:.1%} of what it received")
    return Trial(
        case=case,
        system=system,
        mpps=measured.tx_packets / measured.seconds / 1e6,
        gbit_s=measured.tx_bytes * 8 / measured.seconds / 1e9,
        worker_share=round(measured.share, 3),
        notes=tuple(notes),
        details=measured.details,
    )


def make_cell(trials, tsc_hz):
    """Median over the quiet trials when they are two, or half of all; otherwise over all trials."""
    quiet = [trial for trial in trials if not trial.notes]
    used = quiet if len(quiet) >= min(2, (len(trials) + 1) // 2) else trials
    # median_low is always a trial that took place, so that its details belong to it.
    median = statistics.median_low(trial.mpps for trial in used)
    middle = next(trial for trial in used if trial.mpps == median)
    return Cell(
        case=middle.case,
        system=middle.system,
        mpps=median,
        low_mpps=min(trial.mpps for trial in used),
        high_mpps=max(trial.mpps for trial in used),
        gbit_s=middle.gbit_s,
        cycles=tsc_hz / (median * 1e6) if median else 0.0,
        trials=len(trials),
        noisy=len(trials) - len(quiet),
        notes=tuple(dict.fromkeys(note for trial in trials for note in trial.notes)),
        details=middle.details,
    )


def make_cells(trials, tsc_hz):
    """{(case, system): Cell} of all trials."""
    grouped = {}
    for trial in trials:
        grouped.setdefault((trial.case, trial.system), []).append(trial)
    return {key: make_cell(group, tsc_hz) for key, group in grouped.items()}


def ratio(cells, case, system, base):
    """Speed of a system over that of another in the same case, None when one of them was not measured."""
    one, other = cells.get((case, system)), cells.get((case, base))
    return one.mpps / other.mpps if one and other and other.mpps else None


def above(cells, case, system, base):
    """TSC cycles of a packet that a system takes beyond another in the same case, None when one was not measured."""
    one, other = cells.get((case, system)), cells.get((case, base))
    return one.cycles - other.cycles if one and other and one.cycles and other.cycles else None


@dataclasses.dataclass(frozen=True)
class Verdict:
    """A target applied to a cell. outcome: "target met", "floor met", "missed" or "not measured"."""

    case: str
    system: str
    text: str
    value: float | None
    outcome: str


def _outcome(value, target, floor):
    if value is None:
        return "not measured"
    return "target met" if value >= target else "floor met" if value >= floor else "missed"


def verdicts(cells, cases, targets, io="", above_io=""):
    """All targets in all measured cases that they apply to. above_io: the system that the cases' cycles above io hold
    for."""
    found = []
    measured = {name for name, _ in cells}
    for case in (case for case in cases if case.name in measured):
        for target in targets if case.judged else ():
            value = ratio(cells, case.name, target.system, target.base)
            text = f"{target.target:.2f} x {target.base}, floor {target.floor:.2f}"
            outcome = _outcome(value, target.target, target.floor)
            found.append(Verdict(case.name, target.system, text, value, outcome))
        if case.above_io and above_io:
            value = above(cells, case.name, above_io, io)
            outcome = "not measured" if value is None else "target met" if value <= case.above_io else "missed"
            found.append(Verdict(case.name, above_io, f"at most {case.above_io:.0f} cycles above {io}", value, outcome))
        for system in sorted({target.system for target in targets}) if case.floor_mpps else ():
            cell = cells.get((case.name, system))
            value = cell.mpps if cell else None
            outcome = _outcome(value, case.floor_mpps, case.floor_mpps)
            found.append(Verdict(case.name, system, f"{case.floor_mpps:.1f} Mpps per core", value, outcome))
    return found


def target_mpps(cells, case, system, targets, io="", above_io=0.0, tsc_hz=0):
    """Speed that meets every target of a system in a case, None when a base was not measured. above_io: cycles that it
    may take beyond io, 0 for any."""
    wanted = []
    if above_io and tsc_hz:
        base = cells.get((case, io))
        if not base or not base.cycles:
            return None
        wanted.append(tsc_hz / (base.cycles + above_io) / 1e6)
    for target in targets:
        if target.system == system:
            base = cells.get((case, target.base))
            if not base:
                return None
            wanted.append(target.target * base.mpps)
    return max(wanted, default=None)


def before_and_after(cells, cases, systems):
    """(system, case, speed after / before) of what was measured with two builds."""
    found = []
    for case in cases:
        for after in (system.after for system in systems if hasattr(system, "after")):
            value = ratio(cells, case.name, after.name, f"{after.name}-before")
            if value is not None:
                found.append((after.name, case.name, value))
    return found


def beside_a_bridge(cells, cases, systems):
    """(system, case, its speed / that of a bridge which passes the same packets on) of what was measured with both."""
    found = []
    for case in cases:
        for system in systems:
            bridge = getattr(system, "same_packets", "")
            value = ratio(cells, case.name, system.name, bridge) if bridge else None
            if value is not None:
                found.append((system.name, case.name, value))
    return found


# --- terminal --------------------------------------------------------------------------------------------------------

HEADER = ("system", "Mpps", "min", "max", "Gbit/s", "cycles/pkt", "above io", "x io", "x OVS", "x NORMAL", "trials")


def table_rows(cells, case, systems, io, ovs, normal):
    """Rows of text for one case, one per system that was measured."""
    rows = []
    for system in systems:
        cell = cells.get((case.name, system.name))
        if not cell:
            continue
        bases = (io, ovs, normal) if system.comparable else (None, None, None)
        beyond = above(cells, case.name, system.name, io) if system.comparable else None
        ratios = [ratio(cells, case.name, system.name, base) for base in bases]
        rows.append(
            (
                system.title,
                f"{cell.mpps:.2f}",
                f"{cell.low_mpps:.2f}",
                f"{cell.high_mpps:.2f}",
                f"{cell.gbit_s:.1f}",
                f"{cell.cycles:.1f}" if cell.cycles else "-",
                "-" if beyond is None else f"{beyond:.1f}",
                *("-" if value is None else f"{value:.2f}" for value in ratios),
                f"{cell.trials}" + (f" ({cell.noisy} noisy)" if cell.noisy else ""),
            )
        )
    return rows


def format_table(header, rows):
    """Aligned text: the first column to the left, the others to the right."""
    widths = [max(len(row[column]) for row in (header, *rows)) for column in range(len(header))]
    lines = []
    for row in (header, *rows):
        cells = [text.rjust(width) for text, width in zip(row[1:], widths[1:])]
        lines.append("  ".join((row[0].ljust(widths[0]), *cells)).rstrip())
    return "\n".join(lines)


def terminal_report(cells, plan):
    """The whole result as text. plan: the module with cases, systems and targets."""
    cases, systems = plan.CASES, plan.SYSTEMS
    parts = []
    for case in cases:
        rows = table_rows(cells, case, systems, plan.IO, plan.OVS, plan.OVS_NORMAL)
        if rows:
            parts.append(f"{case.title} (mean {case.mean_frame_bytes:.0f} B, {case.mbuf_bytes} B mbufs)")
            parts.append(format_table(HEADER, rows) + "\n")
    judged = [
        (f"{v.system}, {v.case}", v.text, "-" if v.value is None else f"{v.value:.2f}", v.outcome)
        for v in verdicts(cells, cases, plan.TARGETS, plan.IO, plan.ABOVE_IO)
    ]
    if judged:
        parts.append(format_table(("target", "wanted", "measured", "outcome"), judged) + "\n")
    two_builds = before_and_after(cells, cases, systems)
    compared = [(f"{system}, {case}", f"{value:.3f}") for system, case, value in two_builds]
    if compared:
        parts.append(format_table(("two builds", "after / before"), compared) + "\n")
    alike = [(f"{system}, {case}", f"{value:.2f}") for system, case, value in beside_a_bridge(cells, cases, systems)]
    if alike:
        parts.append(format_table(("the same packets", "x bridge"), alike) + "\n")
    for cell in cells.values():
        if cell.noisy:
            parts.append(f"noisy {cell.noisy} of {cell.trials}: {cell.case}, {cell.system}: {cell.notes[0]}")
    parts.append("cycles/pkt is the TSC rate divided by the packet rate; above io is what that is beyond testpmd "
                 "io's; x io, x OVS and x NORMAL are ratios of packet rates.")
    return "\n".join(parts)
