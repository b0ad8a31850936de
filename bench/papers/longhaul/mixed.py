#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""Figure 14 of the long-haul paper: WebSearch at 30 % load, micro-bursts at 30 % and pipeline parallelism across the
data centres at 20 %, all at once.

Usage: mixed.py [--weft-sim FILE] [--seeds N] [--variants NAME...] [--flows OUT [--local]] [--table]
  --flows OUT  runs nothing, writes the flows that the runs have, in the form of flows_30.txt; with --local those whose
               bursts stay inside a data centre
  --table      runs nothing, writes mixed.md of the results that are there

The paper names the three shares and no more: how the traffic is made is ours (flows()). Every run that ends is added to
mixed.json."""
import os
import random
import tempfile

import metric
import runs
import themis

RESULTS = runs.Results("mixed.json")
HOSTS = 2 * metric.HOSTS_PER_DATA_CENTRE
HOST_BYTES_S = 12.5e9
DURATION_S = 0.010
START_S = 2.0

# A burst is an answer of several servers to one client at once. Whether they are in one data centre the paper does not
# say: `anywhere` is the pattern of its WebSearch traffic, `local` what micro-bursts are in data centres.
BURST_SHARE, BURST_SENDERS, BURST_BYTES = 0.30, 8, 128 * 1024
# Each host has a stage of a pipeline, whose next one is in the other data centre: it sends one tensor per period, all
# hosts as their clocks have it.
PIPELINE_SHARE, TENSOR_BYTES = 0.20, 2_500_000

# What the text claims of the mean of all flows: THEMIS against each of them.
CLAIMED = {"low": 0.711, "published-annulus": 0.516, "published-bicc": 0.540}
SCHEMES = {
    "low": "DCQCN, ACKs with the data",
    "published-none": "DCQCN",
    "published-annulus": "Annulus",
    "published-bicc": "BiCC",
    "published-both": "PNP + TRP",
    "published_pace-both": "PNP + TRP, pace",
    "honest-none": "DCQCN, honest",
    "honest-annulus": "Annulus, honest",
    "honest-bicc": "BiCC, honest",
    "honest-both": "PNP + TRP, honest",
}
BURSTS = {"": "Bursts from any hosts to any other", "local:": "Bursts inside a data centre"}
VARIANTS = [bursts + scheme for bursts in BURSTS for scheme in SCHEMES]


def web_search():
    """The authors' flows at 30 % load, their first part."""
    with open(os.path.join(runs.HERE, "flows_30.txt"), encoding="utf-8") as lines:
        rows = [line.split() for line in lines][1:]
    flows = ((int(f[0]), int(f[1]), int(f[4]), float(f[5])) for f in rows if len(f) >= 6)
    return [flow for flow in flows if flow[3] < START_S + DURATION_S]


def micro_bursts(rng, local):
    """Bursts at random times to random hosts, from senders that are others each time: of all hosts, or of the same data
    centre."""
    rate = BURST_SHARE * HOSTS * HOST_BYTES_S / (BURST_SENDERS * BURST_BYTES)
    made, at = [], START_S
    while True:
        at += rng.expovariate(rate)
        if at >= START_S + DURATION_S:
            return made
        receiver = int(rng.random() * HOSTS)
        others = [host for host in range(HOSTS)
                  if host != receiver and (not local or metric.within(host, receiver))]
        for _ in range(BURST_SENDERS):
            made.append((others.pop(int(rng.random() * len(others))), receiver, BURST_BYTES, at))


def pipeline(rng):
    """A tensor of each host to the same host of the other data centre, per period."""
    period = TENSOR_BYTES / (PIPELINE_SHARE * HOST_BYTES_S)
    made = []
    for host in range(HOSTS):
        at = START_S + rng.random() * period
        while at < START_S + DURATION_S:
            made.append((host, (host + metric.HOSTS_PER_DATA_CENTRE) % HOSTS, TENSOR_BYTES, at))
            at += period
    return made


def flows(local):
    """All (from, to, bytes, start in s), the same each time."""
    rng = random.Random(14)
    return sorted(web_search() + micro_bursts(rng, local) + pipeline(rng), key=lambda flow: flow[3])


def write_flows(text, local):
    made = flows(local)
    text.write(f"{len(made)}\n")
    for a, b, size, at in made:
        text.write(f"{a} {b} 3 100 {size} {at:.9f}\n")


def sets_of(scheme):
    if scheme == "low":
        return [*themis.sets_of("published-none"), "nic.ack_dscp=3", "nic.cnp_dscp=3"]
    return themis.sets_of(scheme)


def measure_with(local):
    def measure(program, load, seed, sets):
        with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as text:
            write_flows(text, local)
            text.flush()
            return runs.run(program, load, seed, [*sets, f"workload.file={text.name}"])
    return measure


def table(bursts):
    found = {scheme: RESULTS.of_variant(30, bursts + scheme) for scheme in SCHEMES}
    mean = {scheme: {flows: metric.mean([r[flows]["mean"] for r in seeds.values()])
                     for flows in ("within", "between", "all")} for scheme, seeds in found.items() if seeds}
    rows = []
    for scheme, means in mean.items():
        results = found[scheme].values()
        both = "honest-both" if scheme.startswith("honest") else "published-both"
        less = "-" if both not in mean else f"{1 - mean[both]['all'] / means['all']:.0%}"
        flows_of = next(iter(results))
        rows.append((SCHEMES[scheme], str(len(results)), f"{means['within']:.2f}", f"{means['between']:.2f}",
                     f"{means['all']:.2f}", f"{metric.mean([r['within']['p99'] for r in results]):.1f}",
                     f"{metric.mean([r['pfc_pauses'] for r in results]):.0f}", less,
                     format(CLAIMED[scheme], ".0%") if scheme in CLAIMED else "-",
                     f"{flows_of['within']['flows']} + {flows_of['between']['flows']}"))
    columns = ("scheme", "seeds", "within", "between", "all", "P99 within", "pauses", "PNP + TRP has less, of all",
               "claimed", "flows within + between")
    return [f"## {BURSTS[bursts]}", "", *runs.table_of(columns, rows), ""] if rows else []


def write_table():
    lines = ["# Figure 14: three kinds of traffic at once", "",
             "FCT slowdowns in the authors' metric, made by `mixed.py`: WebSearch at 30 % load (the authors' flows, "
             f"their first {DURATION_S * 1000:.0f} ms), bursts of {BURST_SENDERS} senders with "
             f"{BURST_BYTES // 1024} KiB each to one host at {BURST_SHARE:.0%}, and {TENSOR_BYTES / 1e6:.1f} MB from "
             f"each host to one in the other data centre per period at {PIPELINE_SHARE:.0%}. The paper gives the "
             "shares alone, and no numbers but how much less the mean of all flows is with THEMIS. `honest`: the one "
             "setting for all schemes of `themis.py`, beside which PNP + TRP has it as well.", ""]
    runs.write_page("mixed.md", lines + [line for bursts in BURSTS for line in table(bursts)])


def main():
    parser = runs.parser_of(__doc__, VARIANTS, seeds=1)
    parser.add_argument("--flows", metavar="OUT")
    parser.add_argument("--local", action="store_true")
    arguments = parser.parse_args()
    if arguments.flows:
        with open(arguments.flows, "w", encoding="utf-8") as text:
            return write_flows(text, arguments.local)
    for variant in [] if arguments.table else arguments.variants:
        jobs = [(30, variant, seed, sets_of(variant.removeprefix("local:"))) for seed in range(1, arguments.seeds + 1)]
        RESULTS.run_missing(arguments.weft_sim, jobs, measure_with(variant.startswith("local:")))
    return write_table()


if __name__ == "__main__":
    main()
