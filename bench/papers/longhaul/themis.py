#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""Runs PNP alone, TRP alone and both at the two edge switches of dcqcn_30.yaml, dcqcn_50.yaml and dcqcn_70.yaml,
Annulus as CNPs from the senders' ToRs, and BiCC, and writes what comes out beside what the authors' raw files give.

Usage: themis.py [--weft-sim FILE] [--seeds N] [--loads 30 50 70] [--variants NAME...] [--table]
  --table  runs nothing, writes themis.md of the results that are there

Every run that ends is added to themis.json, so that a run that is stopped goes on where it was. Settings: `published`
has what the authors' simulation does otherwise than the paper or a real switch (runs.FABRIC, and the artefacts that the
stages have as options); `honest` has the stages' defaults on the fabric as dcqcn_*.yaml has it, with finite buffers at
the edge switches and ACKs in the data class, the same for every scheme; `published_pace` and `pace` are the two with
trp's other mode; `own` and `own_pace` have the stages' defaults on the fabric of `published`; `own_pace_harder`,
`own_pace_departure` and `own_pace_halves` slow down more; other names that begin with `published_` are `published` with
one thing otherwise (OTHERWISE)."""
import math

import metric
import runs

RESULTS = runs.Results("themis.json")
REMOTE = {"esw0": "10.0.32.0/19", "esw1": "10.0.0.0/19"}

# Options of the stages that follow the authors' simulation: CNPs to sources in the other data centre too, 5 us and 2
# more (switch-node.cc:440-478); state per pair of hosts, two steps per alpha CNPs, no bounds, ACKs pass (130-206,
# 237-296). They clear marks to Not-ECT, but their switches mark whatever a packet says of ECN: here that is ECT(0).
# Their loop port marks as any port of its rate (KMIN_MAP, KMAX_MAP), and where there is PNP its marks become CNPs at
# once (431-478).
PUBLISHED_PNP = "sources: any, cnp_interval_us: 7"
PUBLISHED_TRP = ("rule: code, state_per: pair, hold_acks: false, max_loops: 1000000, max_hold_us: 0, "
                 "buffer_kb: 3000000, max_packets: 1500000, charge: false")
LOOP_ECN = "kmin_kb: 1600, kmax_kb: 25600"
STAGES = {
    "published": {"pnp": PUBLISHED_PNP, "trp": PUBLISHED_TRP, "loop_ecn": LOOP_ECN},
    # The loop port has a memory of its own here as well, so that settings differ in what the stages decide alone.
    "honest": {"pnp": "", "trp": "charge: false"},
    "pace": {"pnp": "", "trp": "mode: pace, charge: false"},
    # The defaults on the fabric of the authors, for what pace is worth beside their numbers.
    "own": {"pnp": "", "trp": "charge: false"},
    "own_pace": {"pnp": "", "trp": "mode: pace, charge: false"},
}
# What brings more of the authors' gain: PNP tells sources in the other data centre as well, steps come sooner, and a
# packet may wait for ten round trips, with the room for it. `_pair` has one bucket for all flows of two hosts.
HARDER = "mode: pace, alpha: 1, max_hold_us: 10000, buffer_kb: 3000000, max_packets: 1500000, charge: false"
STAGES["own_pace_harder"] = {"pnp": PUBLISHED_PNP, "trp": HARDER}
STAGES["own_pace_harder_pair"] = {"pnp": PUBLISHED_PNP, "trp": f"{HARDER}, state_per: pair, hold_acks: false"}
# What waits already gets slower with each CNP as well, and the rate is halved each time, as at a sender.
STAGES["own_pace_departure"] = {"pnp": PUBLISHED_PNP, "trp": f"{HARDER}, pace_at: departure"}
STAGES["own_pace_halves"] = {"pnp": PUBLISHED_PNP, "trp": f"{HARDER}, pace_at: departure, pace_law: halves"}
# BiCC: VOQs at the edge switches with the round trip inside a data centre for a limit, 8.4 us at 100 Gbit/s. Its
# near-source loop is pnp; the paper lets it have none that a sender can use (section VII-A), nor bounds for its VOQs.
BICC = {"published": "buffer_kb: 1000000, max_packets: 500000, charge: false", "honest": "charge: false"}
for settings, options in BICC.items():
    STAGES[settings]["bicc"] = options
# Which schemes have a stage.
STAGES_OF = {"trp": ("trp", "both"), "bicc": ("bicc", "bicc_pnp"), "pnp": ("pnp", "both", "bicc_pnp")}
STAGES["published_pace"] = {"pnp": PUBLISHED_PNP, "trp": "mode: pace, " + PUBLISHED_TRP}
# With both stages, and one thing otherwise than in `published`: words, options. `sets`: what else --set gets.
IRN = ["nic.transport=irn", "nic.rto_us=4000"]
OTHERWISE = {
    "unmarked": ("the loop port marks nothing", {"loop_ecn": ""}),
    "not_ect": ("marks are cleared to Not-ECT, which switches behind heed", {"pnp": "clear_to: not_ect"}),
    "uncleared": ("marks are not cleared (Figure 16)", {"pnp": "clear_to: ce"}),
    "uncleared55": ("and receivers send a CNP per 55 us, as in the authors' run (Figure 16)",
                    {"pnp": "clear_to: ce", "sets": ["nic.cc.cnp_interval_us=55"]}),
    "uncleared55_acks": ("and the loop port holds ACKs as well",
                         {"pnp": "clear_to: ce", "trp": "hold_acks: true", "sets": ["nic.cc.cnp_interval_us=55"]}),
    "every": ("a CNP for every mark (Figure 16)", {"pnp": "cnp_interval_us: 0"}),
    "store": ("CNP_Store alone, written after 1 ms (Figure 18)", {"trp": "insert_delay_us: 1000, cache: 1"}),
    "cache": ("CNP_Cache alone (Figure 18)", {"trp": "insert_delay_us: 10000000, cache: 1024"}),
    "store_cache": ("CNP_Store, written after 1 ms, and CNP_Cache (Figure 18)",
                    {"trp": "insert_delay_us: 1000, cache: 1024"}),
    "irn": ("receivers that take any order, aligned recovery (Figure 23)", {"sets": IRN}),
    "irn_direct": ("receivers that take any order, direct recovery (Figure 23)",
                   {"trp": "recovery: direct", "sets": IRN}),
    "alpha3": ("alpha 3 (Figure 24)", {"trp": "alpha: 3"}),
    "alpha8": ("alpha 8 (Figure 24)", {"trp": "alpha: 8"}),
    "beta250": ("beta 250 us (Figure 24)", {"trp": "beta_us: 250"}),
    "beta1000": ("beta 1000 us (Figure 24)", {"trp": "beta_us: 1000"}),
}


def joined(options, more):
    """Options of a stage, with some of them otherwise."""
    keys = dict(one.split(": ", 1) for one in options.split(", "))
    keys.update(one.split(": ", 1) for one in more.split(", "))
    return ", ".join(f"{key}: {value}" for key, value in keys.items())


for name, (_, changed) in OTHERWISE.items():
    STAGES["published_" + name] = {
        **STAGES["published"], **{key: value if key == "loop_ecn" else joined(STAGES["published"][key], value)
                                  for key, value in changed.items() if key != "sets"}}


def honest(distance_ns):
    """What --set gets, for data centres so far apart: at the edge switches 32 MB that all ports share, and headroom of
    201 MB for 500 us."""
    buffer_mb = 32 + math.ceil(201 * distance_ns / runs.WAN_NS)
    return ["nic.ack_dscp=3", "switch.unlimited=[]",
            f"switch.buffers=[{{switch: esw0, buffer_mb: {buffer_mb}}}, {{switch: esw1, buffer_mb: {buffer_mb}}}]"]


# Annulus: a ToR answers marks of packets that leave its rack, as the authors' stand-in does (branch
# ns3-debug-Annulus, switch-node.cc:384-398: no interval, Not-ECT) and with the interval of a receiver.
# `annulus_qcn` has QCN's samples instead of marks, with the numbers of 802.1Qau; in `annulus_fb` senders have QCN's
# reaction point beside DCQCN and cut by how congested the port is (Fb). `annulus_fb_slow` is to show what the length of
# its recovery does: it has the timer of DCQCN here, and no byte counter.
ANNULUS = {"published": {"annulus": "clear_to: not_ect, cnp_interval_us: 0",
                         **{name: "trigger: qcn, cnp_interval_us: 0"
                            for name in ("annulus_qcn", "annulus_fb", "annulus_fb_slow")}},
           "honest": {"annulus": "", **{name: "trigger: qcn"
                                        for name in ("annulus_qcn", "annulus_fb", "annulus_fb_slow")}}}
NEAR_QCN = "nic.cc.near_qcn=1"
SENDERS = {"annulus_fb": [NEAR_QCN],
           "annulus_fb_slow": [NEAR_QCN, "nic.cc.near_t_us=900", "nic.cc.near_b_kb=1000000"]}

# mean and P99 within and between data centres, mean of all; facts of each file in the README.
PUBLISHED = {
    "published-pnp": {30: [("fct_1", 3.016, 20.09, 1.177, 2.940, 2.059)],
                      50: [("fct_1", 5.196, 36.17, 1.395, 5.504, 3.215)],
                      70: [("fct_1", 8.071, 45.34, 1.675, 7.606, 4.721), ("fct_11", 8.403, 55.3, 1.703, 8.62, 4.895),
                           ("fct_test_1", 8.248, 49.5, 1.705, 7.85, 4.821)]},
    "published-trp": {50: [("fct_2", 4.783, 40.0, 4.975, 39.9, 4.883)],
                      70: [("fct_test_2", 7.683, 54.83, 10.536, 63.35, 9.177)]},
    "published-both": {30: [("fct", 2.760, 15.8, 1.230, 3.86, 1.964), ("fct_test", 2.700, 13.0, 1.295, 4.84, 1.969),
                            ("fct_test2", 2.956, 21.64, 1.227, 3.672, 2.057)],
                       50: [("fct", 3.775, 18.32, 2.097, 13.58, 2.901), ("fct_test", 3.611, 16.67, 2.078, 13.81, 2.812),
                            ("fct_test2", 3.555, 16.88, 1.975, 13.81, 2.732)],
                       70: [("fct", 4.912, 22.0, 5.245, 28.3, 5.086), ("fct_test", 5.480, 28.9, 3.773, 22.4, 4.586),
                            ("fct_test2", 5.175, 25.10, 4.201, 27.23, 4.665)]},
    "published_uncleared55-both": {70: [("fct_ecn", 5.354, 48.1, 10.671, 63.5, 8.138)]},
    "published_uncleared55_acks-both": {70: [("fct_ecn", 5.354, 48.1, 10.671, 63.5, 8.138)]},
    "published-annulus": {30: [("Fig. 8, 9", 3.962, 39.20, 1.129, 2.717, 2.487)],
                          50: [("Fig. 8, 9", 7.493, 59.40, 1.294, 4.091, 4.263)],
                          70: [("Fig. 8, 9", 13.516, 91.77, 1.502, 5.365, 7.225)]},
    "published-bicc": {30: [("Fig. 8, 9", 3.669, 45.72, 5.930, 272, 4.845)],
                       50: [("Fig. 8, 9", 6.571, 73.77, 7.104, 279, 6.834)],
                       70: [("Fig. 8, 9", 11.053, 89.02, 6.082, 181, 8.933)]},
    "published-none": {30: [("Fig. 2", 3.788, None, 1.151, None, None)],
                       50: [("Fig. 2", 7.137, None, 1.265, None, None)],
                       70: [("Fig. 2", 13.661, None, 1.504, None, None)]},
}
SCHEMES = ("none", "annulus", "annulus_qcn", "annulus_fb", "annulus_fb_slow", "bicc", "bicc_pnp", "pnp", "trp", "both")
# Pauses and how long they lasted on all links together, ms, of the raw files pfc, pfc_test2 and the like beside those
# of slowdowns.
PAUSES = {
    "published-none": {30: [("pfc_0", 992, 5.447)]},
    "published-pnp": {30: [("pfc_1", 92, 0.401)], 50: [("pfc_1", 569, 3.868)],
                      70: [("pfc_1", 457, 5.046), ("pfc_11", 847, 6.127), ("pfc_test_1", 895, 8.042)]},
    "published-trp": {70: [("pfc_test_2", 2652, 13.385)]},
    "published-both": {30: [("pfc", 21, 0.065)], 50: [("pfc", 187, 1.387)], 70: [("pfc", 104, 0.757)]},
}
# metric.held_by_waits() of the same files: the most, the most in the first 10 ms, the mean, all in MB, and the longest
# wait in ms.
HELD = {
    "published-pnp": {30: [("fct_1", 1.84, 1.01, 0.75, 0.42)], 50: [("fct_1", 9.07, 3.88, 3.45, 0.89)],
                      70: [("fct_1", 16.63, 6.99, 8.73, 1.14)]},
    "published-trp": {70: [("fct_test_2", 1992.69, 328.61, 824.0, 78.29)]},
    "published-both": {30: [("fct", 6.81, 0.82, 1.39, 1.35), ("fct_test", 5.52, 0.57, 1.44, 0.97),
                            ("fct_test2", 8.96, 0.71, 1.56, 2.01)],
                       50: [("fct", 87.12, 5.46, 20.42, 3.99), ("fct_test", 48.33, 7.0, 14.38, 5.82),
                            ("fct_test2", 52.83, 3.67, 14.43, 6.12)],
                       70: [("fct", 785.49, 38.13, 234.67, 23.04), ("fct_test", 309.68, 26.98, 91.08, 12.47),
                            ("fct_test2", 461.99, 7.5, 127.09, 20.81)]},
    "published_uncleared55-both": {70: [("fct_ecn", 955.35, 12.6, 333.69, 27.54)]},
}
# Whom the same runs have stopped: hosts, ToRs, leaves, edge switches (the second column of their pfc files).
PAUSED = {
    "published-none": {30: [("pfc_0", 235, 332, 425, 0)]},
    "published-pnp": {30: [("pfc_1", 0, 0, 92, 0)], 50: [("pfc_1", 0, 2, 567, 0)],
                      70: [("pfc_1", 38, 264, 119, 36), ("pfc_11", 49, 347, 451, 0), ("pfc_test_1", 38, 334, 487, 36)]},
    "published-trp": {70: [("pfc_test_2", 2544, 0, 72, 36)]},
    "published-both": {30: [("pfc", 0, 0, 21, 0)], 50: [("pfc", 1, 0, 186, 0)], 70: [("pfc", 8, 0, 60, 36)]},
}
VARIANTS = [f"{s}-{scheme}" for s in STAGES for scheme in SCHEMES
            if ("pace" not in s and s != "own" or scheme in ("trp", "both")) and
            (s.removeprefix("published_") not in OTHERWISE or scheme == "both")]


def pipeline(options, scheme, esw):
    """Of an edge switch, with these options of the stages."""
    stages = ["parse"]
    if scheme != "none":
        stages.append("rdma_track: { max_qps: 32768, pairing: off }")
    for stage, schemes in STAGES_OF.items():
        if scheme in schemes:
            more = options[stage]
            if stage == "trp" and options.get("loop_ecn"):
                more += f", loop_ecn: {{ {options['loop_ecn']}, notify: {str(scheme in STAGES_OF['pnp']).lower()} }}"
            stages.append(f"{stage}: {{ remote: [{REMOTE[esw]}]{', ' + more if more else ''} }}")
    stages += ["l3", "lb: { policy: ecmp }"]
    return "[" + ", ".join("{ " + s + " }" if ":" in s else s for s in stages) + "]"


def annulus(settings, scheme):
    """What --set gets for all ToRs, each with the hosts behind all others for its remote ones."""
    subnets = [f"10.0.{8 * tor}.0/21" for tor in range(8)]
    more = f", {ANNULUS[settings][scheme]}" if ANNULUS[settings][scheme] else ""
    stages = [f"[parse, {{ rdma_track: {{ max_qps: 32768, pairing: off }} }}, {{ pnp: {{ remote: "
              f"[{', '.join(one for one in subnets if one != own)}]{more} }} }}, l3, {{ lb: {{ policy: ecmp }} }}]"
              for own in subnets]
    return ["switch.pipelines=[" + ", ".join(f"{{ switch: tor{tor}, pipeline: {stages[tor]} }}" for tor in range(8)) +
            "]"]


def pipelines(options, scheme):
    """What --set gets for both edge switches; nothing without a scheme."""
    if scheme == "none":
        return []
    return ["switch.pipelines=[" + ", ".join(
        f"{{ switch: {esw}, pipeline: {pipeline(options, scheme, esw)} }}" for esw in REMOTE) + "]"]


def sets_of(variant):
    settings, _, scheme = variant.partition("-")
    published = settings.startswith(("published", "own"))
    sets = runs.fabric() if published else honest(runs.WAN_NS)
    sets += SENDERS.get(scheme, [])
    sets += OTHERWISE.get(settings.removeprefix("published_"), ("", {}))[1].get("sets", [])
    if scheme in STAGES_OF["trp"] and published:
        sets.append("mbufs=4000000")  # one and a half million packets may be held at each edge switch
    return sets + (annulus(settings, scheme) if scheme in ANNULUS["honest"] else pipelines(STAGES[settings], scheme))


def spread(values):
    text = f"{metric.mean(values):.3f}"
    return text + (f" ({min(values):.2f} to {max(values):.2f})" if len(values) > 1 else "")


def near(ours, published, tolerance):
    """Within the tolerance of the nearest of the authors' runs, or between them."""
    published = [p for p in published if p is not None]
    if not published:
        return ""
    if min(published) <= ours <= max(published):
        return "yes"
    off = min((ours / p - 1 for p in published), key=abs)
    return ("yes" if abs(off) <= tolerance else "no") + f" ({off:+.0%})"


def table(load):
    lines = [f"### {load} % load", "",
             "| settings, scheme | run | within: mean | P99 | between: mean | P99 | all | matches: within, between |",
             "|---|---|---|---|---|---|---|---|"]
    found = False
    for variant in VARIANTS:
        theirs = PUBLISHED.get(variant, {}).get(load, [])
        seeds = RESULTS.of_variant(load, variant)
        if not seeds:
            continue
        found = True
        for name, *values in theirs:
            lines.append(f"| {variant.replace('-', ', ')} | authors, `{name}` | " +
                         " | ".join("-" if v is None else f"{v:.3f}" for v in values) + " | |")
        column = {(flows, figure): [r[flows][figure] for r in seeds.values()]
                  for flows in ("within", "between", "all") for figure in ("mean", "p99")}
        # The spread of the authors' own repeated runs: 10 % within, 30 % between at 70 %.
        verdict = ", ".join(v for v in (
            near(metric.mean(column["within", "mean"]), [t[1] for t in theirs], 0.10),
            near(metric.mean(column["between", "mean"]), [t[3] for t in theirs], 0.30 if load == 70 else 0.10)) if v)
        cells = [spread(column[k]) for k in (("within", "mean"), ("within", "p99"), ("between", "mean"),
                                             ("between", "p99"), ("all", "mean"))]
        lines.append(f"| {variant.replace('-', ', ')} | weft, seeds {', '.join(map(str, seeds))} | " +
                     " | ".join(cells) + f" | {verdict} |")
    return lines + [""] if found else []


def stages_table(load):
    columns = {
        "pauses": lambda r: r["pfc_pauses"],
        "paused, ms": lambda r: f"{r['pfc_paused_ms']:.2f}",
        "NACKs": lambda r: r["nacks"],
        "drops": lambda r: r["drops"],
        "pnp: marked": lambda r: r["pnp"]["marked"],
        "CNPs": lambda r: r["pnp"]["cnps_sent"],
        "trp: flows throttled": lambda r: r["trp"]["flows_throttled"],
        "trp, bicc: held": lambda r: (r.get("trp") or r["bicc"])["packets_held"],
        "trp: loops": lambda r: r["trp"]["loops"],
        "marks of the loop port": lambda r: r["trp"]["loop_marked"],
        "CNPs for them": lambda r: r["trp"]["loop_cnps_sent"],
        "most held, MB, both ESWs": lambda r: f"{(r.get('trp') or r['bicc'])['most_held_bytes'] / 1e6:.1f}",
    }

    def cell(column, result):
        try:
            return str(column(result))
        except KeyError:
            return "-"

    rows = []
    for variant in VARIANTS:
        for name, pauses, paused in PAUSES.get(variant, {}).get(load, []):
            rows.append(f"| {variant.replace('-', ', ')} | authors, `{name}` | {pauses} | {paused:.2f} |" +
                        " - |" * (len(columns) - 2))
        for seed, r in RESULTS.of_variant(load, variant).items():
            rows.append(f"| {variant.replace('-', ', ')} | {seed} | " +
                        " | ".join(cell(column, r) for column in columns.values()) + " |")
    if not rows:
        return []
    return [f"### What the stages did, {load} % load", "",
            "| settings, scheme | seed | " + " | ".join(columns) + " |", "|---" * (len(columns) + 2) + "|", *rows, ""]


def write_table():
    lines = ["# PNP and TRP beside the authors' raw files", "",
             "FCT slowdowns in the authors' metric (`metric.py`), made by `themis.py`. A mean matches when it is",
             "within 10 % of one of the authors' runs (between data centres at 70 %: 30 %), which is how far their own",
             "repeated runs lie apart, or between them. Of several seeds the mean stands first, then the extremes.", ""]
    for load in runs.LOADS:
        lines += table(load)
    for load in runs.LOADS:
        lines += stages_table(load)
    runs.write_page("themis.md", lines)


def main():
    arguments = runs.parser_of(__doc__, VARIANTS, seeds=3, loads=runs.LOADS).parse_args()
    jobs = [(load, variant, seed, sets_of(variant)) for seed in range(1, arguments.seeds + 1)
            for load in arguments.loads for variant in arguments.variants]
    RESULTS.run_missing(arguments.weft_sim, [] if arguments.table else jobs)
    write_table()


if __name__ == "__main__":
    main()
