# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""The HTML report of the speed comparison, computed from the results alone."""

from bench.peers import results
from bench.report import charts
from bench.report.page import Cell, Page

_MOODS = {"target met": "good", "floor met": "fair", "missed": "bad"}
_REST = "receive and loop"
_TRANSMIT = "tx"  # weft meters sending as if it were a stage
# Colours by kind of system: testpmd, OVS, weft.
_COLOURS = (("testpmd", 7), ("ovs", 2), ("weft", 1))


def render(facts, cells, plan):
    """The report as HTML text. facts describe machine and run, plan is the module with cases, systems and targets."""
    page = Page("weft-switch, testpmd and OVS-DPDK on one core")
    page.paragraph(_machine(facts))
    page.paragraph(
        "Every system forwards the same RoCEv2 frames between two pcap ports that replay for ever and discard what "
        "they send, with one worker core, the same burst and the same buffers. A number is the median of the trials, "
        "the line on a bar their spread. Cycles per packet are the rate of the time stamp counter divided by the "
        "packet rate."
    )
    for name, why in facts.get("refused", {}).items():
        page.paragraph(f"Not measured: {name}, because {why}.")
    _judgement(page, facts, cells, plan)
    for case in plan.CASES:
        if any(name == case.name for name, _ in cells):
            _case(page, facts, case, cells, plan)
    _stages(page, facts, cells, plan)
    return page.html()


def _machine(facts):
    versions, settings = facts["versions"], facts["settings"]
    kind = "virtual machine" if facts["virtual"] else "machine"
    parts = [
        f"{facts['cpu']} (family {facts['cpu_family']}, model {facts['cpu_model']}), {facts['cpus']} CPUs, {kind}, "
        f"TSC {facts['tsc_hz'] / 1e9:.3f} GHz, {facts['memory_mb'] / 1024:.0f} GiB, Linux {facts['kernel']}."
    ]
    parts.append("Versions: " + ", ".join(f"{name} {text}" for name, text in versions.items() if text) + ".")
    parts.append(
        f"{settings['rounds']} rounds of {settings['trial_s']:g} s after {settings['warm_up_s']:g} s, worker on CPU "
        f"{facts['worker_cpu']}, burst {settings['burst']}, {settings['mbufs']} buffers."
    )
    return " ".join(parts)


def _judgement(page, facts, cells, plan):
    rows = [
        (
            verdict.system,
            Cell(verdict.case, "text"),
            Cell(verdict.text, "text"),
            "-" if verdict.value is None else f"{verdict.value:.2f}",
            Cell(verdict.outcome, _MOODS.get(verdict.outcome, "")),
        )
        for verdict in results.verdicts(cells, plan.CASES, plan.TARGETS, plan.IO, plan.ABOVE_IO)
    ]
    page.heading("Targets")
    page.table(("pipeline", Cell("traffic", "text"), Cell("wanted", "text"), "measured", "outcome"), rows)
    for text in distances(facts, cells, plan):
        page.paragraph(text)


def _case(page, facts, case, cells, plan):
    page.heading(case.title)
    rows = []
    for system in plan.SYSTEMS:
        cell = cells.get((case.name, system.name))
        if cell:
            colour = next((number for prefix, number in _COLOURS if system.name.startswith(prefix)), 1)
            note = "noisy" if 2 * cell.noisy > cell.trials else ""
            rows.append(charts.Row(system.title, [charts.Bar(cell.mpps, cell.low_mpps, cell.high_mpps, note)], colour))
    text = f"Packets per second of one core, both ports together; mean frame {case.mean_frame_bytes:.0f} B."
    marks = _marks(facts, case, cells, plan)
    page.figure(charts.bar_chart(rows, "Mpps", marks=marks, label=f"Mpps, {case.title}"), text)
    page.table(results.HEADER, results.table_rows(cells, case, plan.SYSTEMS, plan.IO, plan.OVS, plan.OVS_NORMAL))


def _wanted(facts, case, system, cells, plan):
    """Speed that meets every target of a system in a case, None without one or when a base was not measured."""
    above_io = case.above_io if system == plan.ABOVE_IO else 0.0
    return results.target_mpps(cells, case.name, system, plan.TARGETS, plan.IO, above_io, facts["tsc_hz"])


def _marks(facts, case, cells, plan):
    """The speed that would meet the targets of each pipeline in a case."""
    if case.floor_mpps:
        return [charts.Mark(case.floor_mpps, f"wanted {case.floor_mpps:g}")]
    marks = []
    for system in plan.SYSTEMS if case.judged else ():
        wanted = _wanted(facts, case, system.name, cells, plan)
        if wanted:
            marks.append(charts.Mark(wanted, f"{system.title} target {wanted:.0f}"))
    return marks


def split_cycles(cell):
    """[(stage, cycles per packet)] of a weft cell, the last one being all that is not a stage. [] without stages."""
    stages = cell.details.get("stages") if cell else None
    if not stages or not cell.cycles:
        return []
    return [*stages.items(), (_REST, max(cell.cycles - sum(stages.values()), 0.0))]


def _stages(page, facts, cells, plan):
    for case in plan.CASES:
        found = [
            (system.title, dict(split_cycles(cells[case.name, system.name])))
            for system in plan.SYSTEMS
            if split_cycles(cells.get((case.name, system.name)))
        ]
        if not found:
            continue
        longest_first = sorted((split for _, split in found), key=len, reverse=True)
        names = [name for name in dict.fromkeys(name for split in longest_first for name in split) if name != _REST]
        names.append(_REST)
        rows = [(title, [split.get(name, 0.0) for name in names]) for title, split in found]
        page.heading(f"Where weft's cycles go: {case.title}")
        page.figure(
            charts.stacked_bar_chart(rows, "TSC cycles per packet", names, label=f"Cycles per stage, {case.title}"),
            f"'{_REST}' is what is left: the receive side of the ports and the worker's loop. '{_TRANSMIT}' is the "
            "transmit side.",
        )


def distances(facts, cells, plan):
    """Sentences that say, for each pipeline with targets, how far it is from them and what costs most."""
    texts = []
    for case in plan.CASES:
        for system in dict.fromkeys(target.system for target in plan.TARGETS) if case.judged else ():
            cell, io = cells.get((case.name, system)), cells.get((case.name, plan.IO))
            wanted = _wanted(facts, case, system, cells, plan)
            if cell and wanted and facts["tsc_hz"]:
                texts.append(_distance(f"{system}, {case.title}", cell, facts["tsc_hz"] / (wanted * 1e6), io))
    return texts


def _distance(name, cell, wanted_cycles, io):
    gap = cell.cycles - wanted_cycles
    comparison = "more than" if gap > 0 else "fewer than"
    text = f"{name}: {cell.cycles:.0f} cycles per packet, {abs(gap):.0f} {comparison} the {wanted_cycles:.0f} "
    text += "at which every target is met."
    split = dict(split_cycles(cell))
    if not split or io is None:
        return text
    rest = split.pop(_REST) + split.pop(_TRANSMIT, 0.0)
    stages = sorted(split.items(), key=lambda entry: entry[1], reverse=True)
    text += f" Ports and loop take {rest:.0f} (testpmd io, which does nothing else, needs {io.cycles:.0f}), "
    text += f"the stages {sum(split.values()):.0f}: "
    text += ", ".join(f"{stage} {cycles:.0f}" for stage, cycles in stages) + "."
    if gap > 0:
        extra = ("ports and loop beyond testpmd io", rest - io.cycles)
        part, cycles = max([*stages, extra], key=lambda entry: entry[1])
        could = "could" if cycles > gap else "could not"
        text += f" The largest part is {part}, {cycles:.0f} cycles; it {could} close the gap alone."
    return text
