#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""HPCC and TIMELY beside DCQCN, between data centres 500 us and 1 us apart (Figure 19 of the paper), and what PNP and
TRP do for them (section VIII).

Usage: other_cc.py [--weft-sim FILE] [--seeds N] [--loads 30 70] [--controls NAME...] [--settings long short honest]
                   [--table]
  --table  runs nothing, writes other_cc.md of the results that are there

The authors publish no values of that figure, only that HPCC's slowdown within a data centre is up to 136 % higher over
the long link, and their code cannot repeat it; TIMELY they leave out, and section VIII has no experiment. The settings
are those of dcqcn_*.yaml, with HPCC's T being the shortest round trip that each queue pair has seen, and TIMELY's
thresholds counting from it: absolute ones would cut every flow between the data centres down to its least rate.
`PNP`: the edge switches send back to inter-DC senders what ports of their own data centre have told, or echo their
requests. `TRP`: they throttle flows from afar when receivers send back long queues behind the edge switch, or take long
to answer."""
import argparse
import os

import metric
import runs
import themis

RESULTS = runs.Results("other_cc.json")
# How far the data centres are apart, a round trip without queues, and what else is set.
SETTINGS = {
    "long": (runs.WAN_NS, 1013, []),
    "short": (1_000, 15, []),
    "honest": (runs.WAN_NS, 1013, themis.honest(runs.WAN_NS)),
}


def esws(trp, pnp):
    """What --set gets for both edge switches; the options of the stages, None for none."""
    def stage(name, options, remote):
        return [] if options is None else [f"{{ {name}: {{ remote: [{remote}], {options} }} }}"]

    return ["switch.pipelines=[" + ", ".join(
        f"{{ switch: {esw}, pipeline: [" +
        ", ".join(["parse", "{ rdma_track: { max_qps: 32768, pairing: off } }", *stage("trp", trp, remote),
                   *stage("pnp", pnp, remote), "l3", "{ lb: { policy: ecmp } }"]) + "] }"
        for esw, remote in themis.REMOTE.items()) + "]"]


HPCC, HPCC_NEAR = "nic.cc={kind: hpcc}", "nic.cc={kind: hpcc, near_rtt_us: 16}"
HPCC_PNP, HPCC_TRP = "telemetry: true", "signals: [telemetry], charge: false"
TIMELY, TIMELY_NEAR = "nic.cc={kind: timely, above_base: 1}", "nic.cc={kind: timely, above_base: 1, near_echo: 1}"
TIMELY_PNP, TIMELY_TRP = "rtt_echo: true", "signals: [rtt], charge: false"
CONTROLS = {
    "dcqcn": ("DCQCN", []),
    "hpcc": ("HPCC", [HPCC]),
    "hpcc0": ("HPCC, maxStage 0", ["nic.cc={kind: hpcc, max_stage: 0}"]),
    "hpcc_t": ("HPCC, maxStage 0, T of the longest way",
               ["nic.cc={kind: hpcc, max_stage: 0, base_rtt_us: RTT}", "mbufs=3000000"]),
    "hpcc_low": ("HPCC, ACKs in the data class", [HPCC, "nic.ack_dscp=3"]),
    "hpcc_rate": ("HPCC, no window", ["nic.cc={kind: hpcc, windowless: 1}", "mbufs=3000000"]),
    "hpcc_rate_t": ("HPCC, no window, maxStage 0, T of the longest way",
                    ["nic.cc={kind: hpcc, windowless: 1, max_stage: 0, base_rtt_us: RTT}", "mbufs=3000000"]),
    "hpcc_fabric": ("HPCC, switches and wires of the authors", [HPCC, *runs.fabric(), "mbufs=3000000"]),
    "dcqcn_fabric": ("DCQCN, the same", [*runs.fabric(), "mbufs=3000000"]),
    "pnp": ("HPCC, PNP", [HPCC_NEAR, *esws(None, HPCC_PNP)]),
    "trp": ("HPCC, TRP", [HPCC, *esws(HPCC_TRP, None)]),
    "both": ("HPCC, PNP and TRP", [HPCC_NEAR, *esws(HPCC_TRP, HPCC_PNP)]),
    "timely": ("TIMELY", [TIMELY]),
    "timely_pnp": ("TIMELY, PNP", [TIMELY_NEAR, *esws(None, TIMELY_PNP)]),
    "timely_trp": ("TIMELY, TRP", [TIMELY, *esws(TIMELY_TRP, None)]),
    "timely_both": ("TIMELY, PNP and TRP", [TIMELY_NEAR, *esws(TIMELY_TRP, TIMELY_PNP)]),
}


def run(program, load, control, setting, seed):
    wan_ns, rtt_us, more = SETTINGS[setting]
    options = [option.replace("RTT", str(rtt_us)) for option in CONTROLS[control][1]]
    result = runs.result_of(program, f"dcqcn_{load}.yaml", seed, [runs.links_of(load, wan_ns), *options, *more])
    figures = metric.of_result(result, wan_ns)
    figures["pfc_pauses"] = result["summary"]["pfc_pauses"]
    figures["cpu_s"] = round(result["summary"]["cpu_s"])
    for stage in ("pnp", "trp"):
        if stage in result["summary"].get("stages", {}):
            figures[stage] = result["summary"]["stages"][stage]
    return figures


def mean_of(load, control, setting, what):
    seeds = RESULTS.of_variant(load, f"{control}-{setting}").values()
    return metric.mean([what(figures) for figures in seeds]) if seeds else None


def table():
    columns = ("load", "control", "within: mean, long", "short", "the distance", "P99, long", "short",
               "between: mean, long", "short", "P99, long", "pauses, long", "short",
               "honest: within", "P99", "between", "pauses")
    lines = ["# DCQCN, HPCC and TIMELY over a long and a short link", "",
             "FCT slowdowns in the authors' metric (`metric.py`), made by `other_cc.py`; of several seeds the mean. "
             "Honest: the long link, edge switches of finite buffers, ACKs in the data class, as for all schemes of "
             "`themis.py`.", "",
             "| " + " | ".join(columns) + " |", "|---" * len(columns) + "|"]
    for load in runs.LOADS:
        for control, (label, _) in CONTROLS.items():
            def both(what, form="{:.2f}"):
                return [cell(what, setting, form) for setting in ("long", "short")]

            def cell(what, setting, form="{:.2f}"):
                one = mean_of(load, control, setting, what)
                return "-" if one is None else form.format(one)
            if not RESULTS.of_variant(load, f"{control}-long"):
                continue
            means = [mean_of(load, control, setting, lambda f: f["within"]["mean"]) for setting in ("long", "short")]
            cells = [f"{load} %", label, *both(lambda f: f["within"]["mean"]),
                     "-" if means[1] is None else f"{means[0] / means[1] - 1:+.0%}",
                     *both(lambda f: f["within"]["p99"]), *both(lambda f: f["between"]["mean"]),
                     cell(lambda f: f["between"]["p99"], "long"), *both(lambda f: f["pfc_pauses"], "{:.0f}"),
                     *(cell(what, "honest") for what in (
                         lambda f: f["within"]["mean"], lambda f: f["within"]["p99"], lambda f: f["between"]["mean"])),
                     cell(lambda f: f["pfc_pauses"], "honest", "{:.0f}")]
            lines.append("| " + " | ".join(cells) + " |")
    with open(os.path.join(runs.HERE, "other_cc.md"), "w", encoding="utf-8") as text:
        text.write("\n".join(lines) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--weft-sim", default=runs.WEFT_SIM)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--loads", type=int, nargs="+", default=list(runs.LOADS), choices=runs.LOADS)
    parser.add_argument("--controls", nargs="+", default=list(CONTROLS), choices=CONTROLS)
    parser.add_argument("--settings", nargs="+", default=list(SETTINGS), choices=SETTINGS)
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    if not options.table:
        for seed in range(1, options.seeds + 1):
            for load in options.loads:
                for control in options.controls:
                    for setting in options.settings:
                        key = f"{load} {control}-{setting} {seed}"
                        if key not in RESULTS.load():
                            RESULTS.add(key, run(options.weft_sim, load, control, setting, seed))
                            print(key, RESULTS.load()[key]["within"], flush=True)
    table()


if __name__ == "__main__":
    main()
