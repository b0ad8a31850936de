#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""Runs weft-sim for the tables of this folder's pages, and writes the tables there and into bench/results/themis.json.

Usage: tables.py [--weft-sim FILE] [--tables NAME...] [--again] [--write] [--check]
  --tables NAME...  runs what these tables need; without it what all need, but for `larger`, which takes an hour
  --again           runs also what is in tables.json
  --write           runs nothing, writes the tables of the results that are there
  --check           writes nothing: exit code 1 if a page or bench/results/themis.json is stale, or if one of the short
                    runs (PINNED) does not give exactly what tables.json has of it

Every run that ends is added to tables.json with its commit and date, so that a series that is stopped goes on where it
was. In the pages a table stands between two comments with its name; the text around it is written by hand."""
import argparse
import json
import os
import sys

HERE = os.path.dirname(os.path.realpath(__file__))
ROOT = os.path.realpath(os.path.join(HERE, "../../.."))
sys.path.insert(0, os.path.join(HERE, "../longhaul"))
sys.path.insert(0, HERE)

import experiments  # noqa: E402
import runs  # noqa: E402

RESULTS = runs.Results(os.path.join(HERE, "tables.json"))
JSON_PAGE = os.path.join(ROOT, "bench/results/themis.json")
SUMMARY = ("completion_ms", "goodput_gbps", "mean_rate_gbps", "retransmit_ratio", "spurious_retransmit_ratio",
           "nacks_sent", "nacks_false", "timeouts", "drops", "ecn_marks", "packet_hops")
FILTER = ("nacks_seen", "nacks_blocked", "compensated_packet", "compensated_guard", "nacks_path_down", "nacks_unknown")


def figures_of(result):
    """What tables.json keeps of a run."""
    summary = result["summary"]
    if not summary["complete"]:
        sys.exit("a run did not end: " + json.dumps(result["run"]))
    figures = {key: summary[key] for key in SUMMARY}
    times = sorted(transfer["fct_ns"] for transfer in result["transfers"])
    figures["fct_median_ms"] = (times[(len(times) - 1) // 2] + times[len(times) // 2]) / 2e6
    figures["filter"] = {key: summary["stages"].get("nack_filter", {}).get(key, 0) for key in FILTER}
    figures["trace"] = result["trace_hash"]
    return figures


def measure(program, run):
    result = runs.result_of(program, os.path.join(HERE, run.file), run.seed, run.sets)
    return figures_of(result), round(result["summary"]["cpu_s"], 1)


def run_missing(program, tables, again):
    stamp, done = runs.stamp(), set()
    for table in tables:
        for run in table.runs():
            if run.key in done or (run.key in RESULTS.load() and not again):
                continue
            figures, cpu_s = measure(program, run)
            RESULTS.add(run.key, {**stamp, "cpu_s": cpu_s, **figures})
            done.add(run.key)
            print(f"{table.name}: {run.key}: {figures['completion_ms']} ms, {cpu_s} s", flush=True)


def rows_of(table, results):
    """(commits, date of the last one, cells) of each row of which there are results."""
    out = []
    for labels, by_role in table.rows:
        found = {role: results[run.key] for role, run in by_role.items() if run.key in results}
        if found:
            cells = list(labels) + [cell(found) for _, cell in table.columns]
            commits = ", ".join(sorted({f["commit"] for f in found.values()}))
            out.append((commits, max(f["date"] for f in found.values()), cells))
    return out


def markdown(table, results):
    heads = [*table.labels, *(title for title, _ in table.columns), "commit"]
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for commits, _, cells in rows_of(table, results):
        lines.append("| " + " | ".join([*cells, commits]) + " |")
    return lines


def json_page(results):
    """bench/results/themis.json: each table, once for each commit that it has rows of."""
    measurements = []
    for table in experiments.TABLES:
        rows = rows_of(table, results)
        for commits in sorted({row[0] for row in rows}):
            mine = [row for row in rows if row[0] == commits]
            measurements.append({
                "date": max(date for _, date, _ in mine), "commit": commits, "machine": "any: virtual time",
                "conditions": f"{table.name}: {table.conditions}",
                "columns": [*table.labels, *(title for title, _ in table.columns)],
                "rows": [cells for _, _, cells in mine]})
    page = {"title": "Themis: figures of the paper, and what it does not show",
            "how": "bench/papers/themis/tables.py", "what": experiments.WHAT, "measurements": measurements,
            "notes": experiments.NOTES}
    return json.dumps(page, indent=1, ensure_ascii=False) + "\n"


def written(results):
    """Contents by file."""
    out = {JSON_PAGE: json_page(results)}
    by_name = {table.name: table for table in experiments.TABLES}
    for name in sorted(os.listdir(HERE)):
        if name.endswith(".md"):
            with open(os.path.join(HERE, name), encoding="utf-8") as text:
                out[os.path.join(HERE, name)] = runs.page_with_tables(
                    text.read(), lambda table: markdown(by_name[table], results))
    return out


def stale(results):
    """Files whose contents are not those that the results give."""
    out = []
    for path, contents in written(results).items():
        if not os.path.exists(path) or open(path, encoding="utf-8").read() != contents:
            out.append(os.path.relpath(path, ROOT))
    return out


def check(program):
    """What is wrong, as lines."""
    results = RESULTS.load()
    wrong = [f"{path} is stale: run bench/papers/themis/tables.py --write" for path in stale(results)]
    for run in experiments.PINNED:
        figures, _ = measure(program, run)
        known = results[run.key]
        wrong += [f"{run.key}: {key} is {figures[key]}, tables.json has {known[key]}"
                  for key in figures if figures[key] != known[key]]
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [table.name for table in experiments.TABLES]
    parser.add_argument("--weft-sim", default=runs.WEFT_SIM)
    parser.add_argument("--tables", nargs="+", choices=names, default=[name for name in names if name != "larger"])
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    if arguments.check:
        wrong = check(arguments.weft_sim)
        print("\n".join(wrong) or f"{len(experiments.PINNED)} runs are as tables.json has them")
        sys.exit(1 if wrong else 0)
    if not arguments.write:
        run_missing(arguments.weft_sim, [t for t in experiments.TABLES if t.name in arguments.tables], arguments.again)
    for path, contents in written(RESULTS.load()).items():
        with open(path, "w", encoding="utf-8") as text:
            text.write(contents)


if __name__ == "__main__":
    main()
