#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""The same flows in weft-sim and in ConWeave's public model (ns-3.19), and what became of them in both.

    weft-sim sweep public_model.yaml --out results
    public_model.py flows results flows.txt      # FLOW_FILE of the model: copy it to its folder config
    public_model.py compare results model        # model holds irn_fecmp.txt, gbn_conweave.txt, ...: FCT_OUTPUT_FILEs
"""
import argparse
import json
import pathlib
import re
import statistics
import sys

START_S = 2  # where the model's flows begin
POLICIES = {"ecmp": "fecmp", "letflow": "letflow", "conga": "conga", "conweave": "conweave"}
SIZES = (0, 10_000, 100_000, 10**12)


def results(folder):
    """(transport, policy) -> transfers, in the order in which they begin."""
    found = {}
    for path in sorted(folder.glob("*.json")):
        run = json.loads(path.read_text(encoding="utf-8"))
        if path.name == "sweep.json" or "transfers" not in run:
            continue
        settings = dict(each.split("=", 1) for each in run["run"]["set"])
        policy = re.search(r"policy: (\w+)", settings["switch.pipeline"])[1]
        found[settings["nic.transport"], policy] = run["transfers"]
    return found


def write_flows(transfers, path):
    """The model's layout: the count, then source, destination, priority, bytes, and seconds of the start."""
    lines = [str(len(transfers))]
    for each in transfers:
        start = START_S * 10**9 + each["start_ns"]
        lines.append(f'{each["from"]} {each["to"]} 3 {each["bytes"]} {start // 10**9}.{start % 10**9:09d}')
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def of_model(path):
    """Of each flow: hosts, bytes and start, which name it, then how long it took and would have taken alone."""
    flows = []
    for line in path.read_text(encoding="utf-8").splitlines():
        source, destination, _, _, size, start, fct, alone = map(int, line.split())
        flows.append((source, destination, size, start - START_S * 10**9, fct, alone))
    return flows


def slowdowns_by_flow(flows):
    """(from, to, bytes) -> (start, slowdown): a start is read as a floating point number there, and may be 1 ns off."""
    named = {}
    for source, destination, size, start, fct, alone in flows:
        named.setdefault((source, destination, size), []).append((start, max(1.0, fct / alone)))
    return {key: sorted(values) for key, values in named.items()}


def pairs(ours, theirs):
    """(bytes, our slowdown, the model's) of each flow that ended in both."""
    ours, theirs = slowdowns_by_flow(ours), slowdowns_by_flow(theirs)
    for key, values in theirs.items():
        for start, slowdown in values:
            mine = [own for at, own in ours.get(key, []) if abs(at - start) <= 1]
            if len(mine) != 1:
                sys.exit(f"flow {key} at {start}: {len(mine)} of ours")
            yield key[2], mine[0], slowdown


def percentile(values, share):
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def compare(transfers, path):
    """Prints a line for all flows, and one for each class of sizes."""
    ours = [(t["from"], t["to"], t["bytes"], t["start_ns"], t["fct_ns"], t["standalone_ns"]) for t in transfers]
    both = list(pairs(ours, of_model(path)))
    rows = []
    for least, most in [(0, SIZES[-1]), *zip(SIZES, SIZES[1:])]:
        mine = [own for size, own, _ in both if least < size <= most]
        other = [model for size, _, model in both if least < size <= most]
        row = [f"{least}-{most}" if most != SIZES[-1] or least else "all", len(mine)]
        for measure in (statistics.fmean, lambda v: percentile(v, 0.5), lambda v: percentile(v, 0.99)):
            row += [round(measure(mine), 3), round(measure(other), 3)]
        rows.append(row + [round(100 * (row[2] / row[3] - 1), 1)])
    return len(transfers) - len(both), rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    flows = commands.add_parser("flows", help="writes the flows of a result as a file for the model")
    flows.add_argument("results", type=pathlib.Path)
    flows.add_argument("out", type=pathlib.Path)
    both = commands.add_parser("compare", help="prints slowdowns of both")
    both.add_argument("results", type=pathlib.Path)
    both.add_argument("model", type=pathlib.Path)
    both.add_argument("--json", action="store_true", help="prints JSON")
    options = parser.parse_args()
    found = results(options.results)
    if not found:
        sys.exit(f"{options.results}: no results")
    if options.command == "flows":
        return write_flows(next(iter(found.values())), options.out)
    table = {}
    for (transport, policy), transfers in sorted(found.items()):
        path = options.model / f"{transport}_{POLICIES[policy]}.txt"
        if path.exists():
            table[f"{transport} {policy}"] = compare(transfers, path)
    if options.json:
        return print(json.dumps(table))
    print("bytes, flows, then mean, median and 99 % of weft-sim and of the model, and the difference of means in %")
    for name, (missing, rows) in table.items():
        print(name, f"({missing} did not end)" if missing else "")
        for row in rows:
            print("   ", *row)
    return None


if __name__ == "__main__":
    main()
