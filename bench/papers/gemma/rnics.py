#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""Which load balancer for which RNIC: tables of bench/results from the results of sweeps.

    for f in rnics incast allreduce slow_spine dead_link; do weft-sim sweep $f.yaml --out results/$f; done
    rnics.py results --commit HASH       # writes bench/results/lb_rnics.json
    rnics.py results --commit HASH --show    # prints it
"""
import argparse
import datetime
import json
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[3]
OUT = ROOT / "bench/results/lb_rnics.json"
WORKLOADS = {"rnics": "AliStorage, 80 %", "incast": "AliStorage, 40 %, and incasts", "allreduce": "AllReduce",
             "slow_spine": "AliStorage, a slow spine", "dead_link": "AliStorage, a link that dies"}
RNICS = {"gbn": "go-back-N, PFC", "nic_sr": "NIC-SR, PFC", "irn": "IRN, no PFC"}


def policy_of(setting):
    """What a reader calls it: the policy, and the reorder buffer where nothing says that it belongs to it."""
    name = re.search(r"policy: (\w+)", setting)[1]
    if name == "psn":
        return "Themis"
    if name == "gemma":
        guard = re.search(r"guard_us: (\d+)", setting)
        return f"gemma, guard {guard[1]} us" if guard else name
    return name + (" + reorder" if "reorder" in setting else "")


def runs(folder):
    """(policy, RNIC) -> summary, in the order of the sweep."""
    found = {}
    for item in json.loads((folder / "sweep.json").read_text(encoding="utf-8")):
        found[policy_of(item["set"]["switch.pipeline"]), RNICS[item["set"]["nic.transport"]]] = item["summary"]
    return found


def rounded(value, digits=2):
    return None if value is None else round(value, digits)


def out_of_order(summary):
    """Percent of the packets that reached an RNIC before an earlier one. Results of older versions do not say it."""
    return rounded(100 * summary["out_of_order"] / summary["packets"], 3) if "out_of_order" in summary else None


def figure(workload, summary):
    """What policies are compared by: the mean slowdown of flows, or the time of the collective."""
    return summary["completion_ms"] if workload == "allreduce" else summary["fct_slowdown_mean"]


def of_workload(workload, found):
    columns, rows = ["RNIC", "policy"], []
    flows = workload != "allreduce"
    columns += ["mean", "median", "99 %", "99.9 %"] if flows else ["completion, ms"]
    if flows:
        columns += ["up to 10 KB, 99 %", "above 1 MB, mean"]
    columns += ["out of order, %", "sent again, %", "NACKs", "lost", "pauses"]
    for rnic in RNICS.values():
        for (policy, of_rnic), summary in found.items():
            if of_rnic != rnic:
                continue
            if not summary["complete"]:
                rows.append([rnic, policy, "not all flows ended"] + [None] * (len(columns) - 3))
                continue
            row = [rnic, policy]
            if flows:
                sizes = {each["at_most_bytes"]: each for each in summary["fct_slowdown_by_bytes"]}
                row += [rounded(summary[f"fct_slowdown_{key}"]) for key in ("mean", "p50", "p99", "p999")]
                row += [rounded(sizes.get(10_000, {}).get("p99")), rounded(sizes.get(10_000_000, {}).get("mean"))]
            else:
                row += [rounded(summary["completion_ms"], 3)]
            row += [out_of_order(summary), rounded(100 * summary["retransmit_ratio"], 3), summary["nacks_sent"],
                    summary["drops"], summary["pfc_pauses"]]
            rows.append(row)
    return columns, rows


def best_and_worst(all_runs):
    """For operators: a line for each RNIC and workload."""
    rows = []
    for rnic in RNICS.values():
        for workload, found in all_runs.items():
            figures = sorted((figure(workload, summary), policy) for (policy, of_rnic), summary in found.items()
                             if of_rnic == rnic and summary["complete"])
            ecmp = dict((policy, value) for value, policy in figures)["ecmp"]
            best, second, worst = figures[0], figures[1], figures[-1]
            rows.append([rnic, WORKLOADS[workload], best[1], rounded(best[0]), second[1], rounded(second[0]),
                         rounded(ecmp), worst[1], rounded(worst[0])])
    return ["RNIC", "traffic", "best", "", "second", " ", "ecmp", "worst", "  "], rows


def document(all_runs, commit):
    facts = {"date": datetime.date.today().isoformat(), "commit": commit, "machine": "any: virtual time"}
    columns, rows = best_and_worst(all_runs)
    tables = [{**facts, "conditions": "best and worst, by mean slowdown of flows, AllReduce by its time in ms",
               "columns": columns, "rows": rows}]
    for workload, found in all_runs.items():
        columns, rows = of_workload(workload, found)
        tables.append({**facts, "conditions": f"{workload}.yaml: {WORKLOADS[workload]}", "columns": columns,
                       "rows": rows})
    notes = json.loads(OUT.read_text(encoding="utf-8"))["notes"] if OUT.exists() else []
    return {"title": "Which load balancer for which RNIC",
            "how": "weft-sim sweep of bench/papers/gemma/{rnics,incast,allreduce,slow_spine,dead_link}.yaml, and "
                   "bench/papers/gemma/rnics.py",
            "what": "FCT slowdown of flows, and completion of AllReduce. Leaf-spine 4 x 4 x 8 of 100 Gbit/s, 1 us a "
                    "link, twice oversubscribed, loads of the links between switches, DCQCN preset conweave, one seed; "
                    "defaults of all policies.",
            "measurements": tables, "notes": notes}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("results", type=pathlib.Path)
    parser.add_argument("--commit", required=True)
    parser.add_argument("--show", action="store_true")
    arguments = parser.parse_args()
    all_runs = {workload: runs(arguments.results / workload) for workload in WORKLOADS
                if (arguments.results / workload / "sweep.json").exists()}
    text = json.dumps(document(all_runs, arguments.commit), indent=1, ensure_ascii=False) + "\n"
    if arguments.show:
        print(text, end="")
    else:
        OUT.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
