#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""Beyond the long-haul paper: packets sprayed inside each data centre, with data centres 10 ms apart.

Usage: spray.py [--weft-sim FILE] [--variants NAME...] [--table]
  --table  runs nothing, writes spray.md of the results that are there

The flows of 30 % load with RNICs that keep what comes early (nic_sr) and a window of 262,144 packets, what 100 Gbit/s
carry in a round trip of 20 ms. ToRs spread each flow by its hash, or each packet by its number, without and with the
filter of NACKs (../themis). Every run that ends is added to spray.json."""
import os
import tempfile

import yaml

import metric
import runs
import themis

RESULTS = runs.Results("spray.json")
DISTANCE_NS = 10_000_000
NIC = ["nic.transport=nic_sr", "nic.window=262144", "nic.rto_us=100000", "nic.ack_dscp=3"]
# Half a gigabyte is on the long link in each direction at times, in packets of 1000 bytes, and an ACK for each packet.
MBUFS = ["mbufs=4000000"]
# The filter asks whether a packet was to come before the one that a NACK is about, of those over as many paths. A ToR
# hears NACKs of senders in the other data centre as well, whose packets come over one path of its own.
FILTER = "switch.nack_filter={arrival_check: off, paths: 4, guard_us: 100}"
# PNP and TRP at the edge switches, with the defaults of the stages (`own` in themis.py).
THEMIS = themis.pipelines(themis.STAGES["own"], "both")
VARIANTS = {
    "ecmp": ("each flow over one path", []),
    "psn": ("each packet over the next path", ["switch.lb=psn"]),
    "psn_filter": ("the same, NACKs filtered", ["switch.lb=psn", FILTER]),
    "ecmp_both": ("each flow over one path; PNP and TRP", THEMIS),
    "psn_filter_both": ("each packet over the next path, NACKs filtered; PNP and TRP",
                        ["switch.lb=psn", FILTER, *THEMIS]),
}


def measure(program, load, seed, sets):
    with open(os.path.join(runs.HERE, f"dcqcn_{load}.yaml"), encoding="utf-8") as text:
        made = yaml.safe_load(text)
    del made["sweep"]
    made["topology"]["links"][-1]["delay_ns"] = DISTANCE_NS
    made["workload"]["file"] = os.path.join(runs.HERE, f"flows_{load}.txt")
    with tempfile.NamedTemporaryFile("w", suffix=".yaml", encoding="utf-8") as text:
        yaml.safe_dump(made, text, sort_keys=False)
        text.flush()
        result = runs.result_of(program, text.name, seed, sets)
    summary = result["summary"]
    return {**metric.of_result(result, DISTANCE_NS), "pfc_pauses": summary["pfc_pauses"],
            "nacks": summary["nacks_sent"], "nacks_false": summary["nacks_false"], "drops": summary["drops"],
            "sent_again": summary["retransmit_ratio"], "cpu_s": round(summary["cpu_s"])}


def write_table():
    columns = ("ToRs send", "within", "P99", "between", "P99", "pauses", "NACKs", "false ones that arrived",
               "sent again", "lost")
    rows = [(words, f"{r['within']['mean']:.2f}", f"{r['within']['p99']:.1f}", f"{r['between']['mean']:.3f}",
             f"{r['between']['p99']:.2f}", str(r["pfc_pauses"]), str(r["nacks"]), str(r["nacks_false"]),
             f"{r['sent_again']:.2%}", str(r["drops"]))
            for name, (words, _) in VARIANTS.items() for r in RESULTS.of_variant(30, name).values()]
    runs.write_page("spray.md", [
        "# Spraying inside each data centre, 10 ms apart", "",
        "30 % load, made by `spray.py`; FCT slowdowns in the authors' metric. One seed each.", "",
        *runs.table_of(columns, rows)])


def main():
    arguments = runs.parser_of(__doc__, VARIANTS).parse_args()
    jobs = [(30, name, 1, NIC + MBUFS + VARIANTS[name][1]) for name in arguments.variants]
    RESULTS.run_missing(arguments.weft_sim, [] if arguments.table else jobs, measure)
    write_table()


if __name__ == "__main__":
    main()
