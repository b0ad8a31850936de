# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""What a run of a lab has found: a table for the terminal, an HTML page with plots, and JSON."""
import dataclasses
import json
import os

from bench.report import charts, page

from tools.lab import experiment, flow_report

# A path that carried less of the bytes of a leaf with senders than this carried no data.
_USED_SHARE = 0.02
_HONESTY = (
    "What is claimed here is correctness: which packets are sent again, which NACKs reach a sender, which paths carry "
    "traffic, and that every packet is accounted for. It is not speed, and no microseconds: hosts and fabric share the "
    "CPUs of one machine, and the scheduling of processes moves each of these numbers by milliseconds."
)


_LEGEND = (
    "Mbit/s: all bytes over the time until the last flow ended. resent: packets that a sender repeated; spurious: "
    "those of them that the receiver had already. NACKs: sent by the receivers; heeded: those that reached a sender in "
    "time to count (a NACK that is overtaken by a later acknowledgement does not). paths: uplinks of a leaf with "
    "senders that carried data."
)


@dataclasses.dataclass(frozen=True)
class Outcome:
    lab: object
    jitter: experiment.Jitter
    limits: experiment.Limits
    results: list
    origin: experiment.Origin


@dataclasses.dataclass(frozen=True)
class Row:
    """A variant in numbers; None where there is nothing to count."""

    name: str
    gbps: float
    seconds: float
    packets: int
    retransmitted: int
    spurious: int
    nacks_sent: int
    nacks_heeded: int | None
    timeouts: int | None
    drops: int
    paths_used: float
    paths: int
    filter: dict | None

    @property
    def retransmit_percent(self):
        return 100 * self.retransmitted / max(1, self.packets)


FILTER_COUNTERS = ("seen", "valid", "blocked", "compensated", "guard", "unknown")


def row(result):
    """The numbers of a variant, over all flows."""
    qps = [qp for flow in result.flows for qp in flow.summary["qps"]]

    def total(key):
        return sum(qp[key] for qp in qps) if all(key in qp for qp in qps) else None

    seconds = max(flow.summary["seconds"] for flow in result.flows)
    shares = {switch: leaf for switch, leaf in path_shares(result).items() if switch in result.sending_racks}
    used = [sum(share >= _USED_SHARE for share in leaf) for leaf in shares.values() if sum(leaf) > 0]
    return Row(
        name=result.variant.name,
        gbps=8e-9 * sum(flow.summary["messages"] * flow.summary["bytes"] for flow in result.flows) / max(1e-9, seconds),
        seconds=seconds,
        packets=total("request_packets"),
        retransmitted=total("retransmitted"),
        spurious=total("spurious"),
        nacks_sent=total("server_naks_sent"),
        nacks_heeded=total("naks"),
        timeouts=total("timeouts"),
        drops=sum(drop["packets"] for drop in result.drops
                  if drop["severity"] != "info" or drop["reason"] == experiment.LOST),
        paths_used=sum(used) / len(used) if used else 0.0,
        paths=max(map(len, shares.values()), default=0),
        filter=filter_sums(result.filter_rows),
    )


def filter_sums(rows):
    """The counters of nack_filter over all switches and workers; None without a filter."""
    return {key: sum(each[key] for each in rows) for key in FILTER_COUNTERS} if rows else None


def path_shares(result):
    """SWITCH -> the share of the bytes of its uplinks that each of them sent."""
    sent = {(port["switch"], port["port"]): port["tx_bytes"] for port in result.ports}
    out = {}
    for switch, names in result.uplinks.items():
        counts = [sent.get((switch, name), 0) for name in names]
        out[switch] = [count / max(1, sum(counts)) for count in counts]
    return out


# --- terminal --------------------------------------------------------------------------------------------------------


def timing_text(jitter, limits):
    return (f"  round trip: {jitter.idle_typical_us / 1000:.2f} ms on the idle fabric (longest "
            f"{jitter.idle_max_us / 1000:.2f}), {jitter.busy_typical_us / 1000:.2f} ms under load (longest "
            f"{jitter.busy_max_us / 1000:.2f}), {jitter.probes} probes each\n"
            f"  queue that one rack's flows can build on one path: {jitter.backlog_us / 1000:.1f} ms\n"
            f"  from this: guard {limits.guard_us / 1000:g} ms, retransmission timeout {limits.rto_us / 1000:g} ms")


HEADER = ("", "Mbit/s", "seconds", "resent", "%", "spurious", "NACKs", "heeded", "timeouts", "drops", "paths")


def cells(each):
    """The cells of a variant under HEADER."""
    counts = (each.spurious, each.nacks_sent, each.nacks_heeded, each.timeouts, each.drops)
    mbps = 1000 * each.gbps
    return (each.name, f"{mbps:.0f}" if mbps >= 10 else f"{mbps:.2g}", f"{each.seconds:.1f}", str(each.retransmitted),
            f"{each.retransmit_percent:.1f}", *("-" if count is None else str(count) for count in counts),
            f"{each.paths_used:g} of {each.paths}")


def text_table(outcome):
    """The comparison as aligned text, and under it what nack_filter counted."""
    rows = [row(result) for result in outcome.results]
    text = "\n" + _aligned([HEADER, *map(cells, rows)])
    filtered = [each for each in rows if each.filter]
    if filtered:
        keys = list(filtered[0].filter)
        text += "\n\nnack_filter\n" + _aligned([("", *keys)] + [
            (each.name, *(str(each.filter.get(key, 0)) for key in keys)) for each in filtered])
    return text + "".join(f"\n\n{_aligned(table)}" for table in flow_report.tables(outcome))


def _aligned(rows):
    widths = [max(len(each[column]) for each in rows) for column in range(len(rows[0]))]
    lines = []
    for each in rows:
        first, *rest = (text.rjust(width) if column else text.ljust(width)
                        for column, (text, width) in enumerate(zip(each, widths)))
        lines.append("  ".join([first, *rest]).rstrip())
    lines.insert(1, "-" * max(map(len, lines)))
    return "\n".join(lines)


# --- HTML ------------------------------------------------------------------------------------------------------------


def html(outcome):
    made = page.Page(outcome.lab.title)
    rows = [row(result) for result in outcome.results]
    if outcome.lab.about:
        made.paragraph(outcome.lab.about)
    made.paragraph(_setting(outcome))
    made.paragraph(_HONESTY)
    made.table(HEADER, [(each.name, *_judged(each)) for each in rows])
    made.paragraph(_LEGEND)
    _throughput(made, outcome)
    flow_report.add_to(made, outcome)
    _nacks(made, outcome, rows)
    _paths(made, outcome)
    _conditions(made, outcome)
    return made.html()


def _judged(each):
    """The cells of a variant; retransmissions that nobody needed, and timeouts, stand out."""
    texts = list(cells(each))[1:]
    for column, value in ((4, each.spurious), (7, each.timeouts)):
        if value is not None:
            texts[column] = page.Cell(texts[column], "bad" if value else "good")
    return texts


def _setting(outcome):
    lab, nic = outcome.lab, outcome.lab.nic
    rate = f", {1000 * nic.rate_gbps:g} Mbit/s" if nic.rate_gbps else ""
    kind = {"weft_rnic": "weft-rnic", "soft_roce": "Linux Soft-RoCE in QEMU guests"}[nic.kind]
    slows = ", each NACK slows the sender down" if nic.nack_is_cnp else ""
    return (f"{len(lab.hosts)} hosts, {len(lab.workload.flows)} flows of {lab.workload.text()} at the same "
            f"time, over a fabric of weft-switch on this machine. The RNICs: {kind}, {nic.transport}, path MTU "
            f"{nic.mtu}, congestion control {nic.cc}{rate}{slows}.")


def _lines(outcome, column):
    """A curve for each variant: a column of the samples, summed over flows. A variant has one colour in all charts."""
    lines = []
    for place, result in enumerate(outcome.results):
        points = {}
        for flow in result.flows:
            for number, sample in enumerate(flow.samples[1:]):
                time_s = round((number + 1) * outcome.lab.sample_ms / 1000, 6)
                points[time_s] = points.get(time_s, 0) + sample[column]
            if column > 1 and flow.samples:  # a count stays where it was when a flow has ended
                _hold(points, flow, outcome, result, column)
        lines.append(charts.Line(result.variant.name, sorted(points.items()),
                                 colour=place % charts.SERIES_COLOURS + 1))
    return lines


def _hold(points, flow, outcome, result, column):
    longest = max(len(each.samples) for each in result.flows)
    for number in range(len(flow.samples), longest):
        time_s = round(number * outcome.lab.sample_ms / 1000, 6)
        points[time_s] = points.get(time_s, 0) + flow.samples[-1][column]


def _throughput(made, outcome):
    if not any(flow.samples for result in outcome.results for flow in result.flows):
        return
    made.heading("Throughput over time")
    lines = [dataclasses.replace(line, points=[(time_s, 1000 * gbps) for time_s, gbps in line.points])
             for line in _lines(outcome, 1)]
    made.figure(charts.line_chart(lines, "seconds", "Mbit/s", y_from_zero=True, label="Throughput"),
                "All flows together: bytes of messages that were completed. A curve ends when its last flow has "
                "sent everything, so a shorter one is the better one.")


def _nacks(made, outcome, rows):
    made.heading("NACKs")
    if any(flow.samples for result in outcome.results for flow in result.flows):
        _nacks_over_time(made, _lines(outcome, 3))
    bars = [charts.Row(each.name, [charts.Bar(count) if count is not None else None
                                   for count in (each.nacks_sent, each.nacks_heeded, each.spurious)]) for each in rows]
    made.figure(charts.bar_chart(bars, "packets", series=("NACKs sent", "NACKs heeded", "spurious retransmissions"),
                                 label="NACKs and what they cost"))
    filtered = [each for each in rows if each.filter]
    if filtered:
        keys = list(filtered[0].filter)
        made.table(("nack_filter", *(key.replace("_", " ") for key in keys)),
                   [(each.name, *(each.filter.get(key, 0) for key in keys)) for each in filtered])


def _nacks_over_time(made, lines):
    """Curves that stay at zero would lie on each other: their variants are named."""
    curves = [line for line in lines if any(count for _, count in line.points)]
    without = [line.name for line in lines if line not in curves]
    said = f" None was heeded in: {', '.join(without)}." if without else ""
    if curves:
        made.figure(charts.line_chart(curves, "seconds", "NACKs", y_from_zero=True, label="NACKs over time"),
                    "NACKs that the senders heeded until then." + said)
    else:
        made.paragraph("The senders heeded no NACK.")


def _paths(made, outcome):
    made.heading("Paths used")
    names = max((names for result in outcome.results for names in result.uplinks.values()), key=len, default=[])
    rows = []
    for result in outcome.results:
        for switch, shares in path_shares(result).items():
            if sum(shares) > 0:
                rows.append((f"{result.variant.name}, {switch}", [100 * share for share in shares]))
    made.figure(charts.stacked_bar_chart(rows, "% of bytes", names, label="Paths used", shares=True),
                "How the bytes that a leaf sent to the spines were spread over its uplinks.")


def _conditions(made, outcome):
    jitter, limits = outcome.jitter, outcome.limits
    made.heading("Conditions")
    made.table(("round trip, 64 bytes", "typical ms", "longest ms"), [
        ("idle fabric", f"{jitter.idle_typical_us / 1000:.2f}", f"{jitter.idle_max_us / 1000:.2f}"),
        ("under load", f"{jitter.busy_typical_us / 1000:.2f}", f"{jitter.busy_max_us / 1000:.2f}")])
    made.paragraph(f"Measured before the comparison, on the fabrics of the first and the last variant, with "
                   f"{jitter.probes} probes each. From the longest follow the guard, {limits.guard_us / 1000:g} ms, "
                   f"and the retransmission timeout, {limits.rto_us / 1000:g} ms. {os.cpu_count()} CPUs, Linux "
                   f"{os.uname().release}, {outcome.origin.text()}")


# --- JSON ------------------------------------------------------------------------------------------------------------


def json_text(outcome):
    """All that was measured."""
    return json.dumps({
        "lab": outcome.lab.name,
        **dataclasses.asdict(outcome.origin),
        "jitter": dataclasses.asdict(outcome.jitter),
        "limits": dataclasses.asdict(outcome.limits),
        "variants": [{
            "name": result.variant.name,
            "summary": {**dataclasses.asdict(row(result)), "retransmit_percent": row(result).retransmit_percent},
            "paths": path_shares(result),
            "flows": [{"from": flow.flow.source, "to": flow.flow.target, "name": flow.flow.name, **flow.summary,
                       "samples": flow.samples, "rates": flow.rates} for flow in result.flows],
            "nack_filter": result.filter_rows,
            "stages": result.stages,
            "ports": result.ports,
            "drops": result.drops,
        } for result in outcome.results],
    }, indent=1) + "\n"
