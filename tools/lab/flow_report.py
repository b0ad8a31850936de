# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""The part of a report that tells flows apart, for labs that give them names: what each of them got, its throughput and
its sending rate over time (as Figures 3 and 10 of the long-haul paper), and what pnp, trp and the stages that restore
order did."""
from bench.report import charts

# What is shown of a stage's table, summed over switches and workers.
STAGE_COUNTERS = {
    "pnp": ("marked", "cnps_sent", "marks_cleared", "unknown_qp"),
    "trp": ("cnps_seen", "cnps_unpaired", "throttled", "recovered", "flushed"),
    "reorder": ("packets_held", "expired", "late", "overflowed", "leaps", "went_back"),
    "conweave": ("reroutes", "held_packets", "resumed", "flushed", "given_up", "no_queue", "overflowed", "stale"),
}


def mbps(flow):
    """What a flow got, over the time that it took."""
    return 8e-6 * flow.summary["messages"] * flow.summary["bytes"] / max(1e-9, flow.summary["seconds"])


def tables(outcome):
    """Rows of texts, the first one the header, for each table that there is something to say in."""
    found = []
    flows = outcome.lab.workload.flows
    if any(flow.name for flow in flows):
        found.append([("Mbit/s by flow", *(flow.text() for flow in flows))] + [
            (result.variant.name, *(f"{mbps(flow):.2f}" for flow in result.flows)) for result in outcome.results])
    for stage, counters in STAGE_COUNTERS.items():
        rows = [(result.variant.name, stage_sums(result, stage)) for result in outcome.results]
        if any(sums for _, sums in rows):
            found.append([(stage, *(counter.replace("_", " ") for counter in counters))] + [
                (name, *(str(sums[counter]) for counter in counters)) for name, sums in rows if sums])
    return found


def stage_sums(result, stage):
    """The counters of a stage over all switches; None where no switch has it."""
    rows = result.stages.get(stage)
    return {counter: sum(row[counter] for row in rows) for counter in STAGE_COUNTERS[stage]} if rows else None


def add_to(page, outcome):
    """Adds tables and figures to a page."""
    found = tables(outcome)
    if found:
        page.heading("Flows")
    for header, *rows in found:
        page.table(header, rows)
    if not any(flow.name for flow in outcome.lab.workload.flows):
        return
    for result in outcome.results:
        name = result.variant.name
        _figure(page, [(flow, [sample[:2] for sample in flow.samples]) for flow in result.flows],
                f"Throughput, {name}", f"{name}: bytes of each flow's messages that were completed, every "
                                       f"{outcome.lab.sample_ms} ms.")
        _figure(page, [(flow, flow.rates) for flow in result.flows], f"Sending rates, {name}",
                f"{name}: the rate that congestion control allows each sender.")


def _figure(page, curves, label, caption):
    lines = [charts.Line(flow.flow.text(), [(seconds, 1000 * gbps) for seconds, gbps in points])
             for flow, points in curves if points]
    if lines:
        page.figure(charts.line_chart(lines, "seconds", "Mbit/s", y_from_zero=True, label=label), caption)
