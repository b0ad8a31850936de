#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""FCT slowdowns of a run of dcqcn_30.yaml or dcqcn_70.yaml beside the authors'. Usage: compare.py RESULT.json LOAD."""

import json
import sys

# What the authors' raw files give: average (fct.txt) and 99th percentile (fct_test2.txt) of the slowdown, by load.
AUTHORS = {
    "30": {"intra": (5.213, 47.92), "inter": (1.152, 2.66), "all": (3.100, None)},
    "70": {"intra": (23.575, 153.16), "inter": (1.830, 7.31), "all": (12.192, None)},
}
HOSTS_PER_DATA_CENTRE = 16


def percentile(values, share):
    return sorted(values)[int(share * (len(values) - 1) + 0.5)]


def main():
    path, load = sys.argv[1:]
    slowdowns = {"intra": [], "inter": [], "all": []}
    for transfer in json.load(open(path, encoding="utf-8"))["transfers"]:
        if "fct_ns" not in transfer:
            continue
        slowdown = max(1.0, transfer["fct_ns"] / transfer["standalone_ns"])
        same = transfer["from"] // HOSTS_PER_DATA_CENTRE == transfer["to"] // HOSTS_PER_DATA_CENTRE
        slowdowns["intra" if same else "inter"].append(slowdown)
        slowdowns["all"].append(slowdown)
    print(f"{'flows':8}{'count':>8}{'mean':>10}{'authors':>10}{'p99':>10}{'authors':>10}")
    for name, values in slowdowns.items():
        mean, p99 = AUTHORS[load][name]
        published = f"{p99:10.2f}" if p99 else f"{'-':>10}"
        print(
            f"{name:8}{len(values):8}{sum(values) / len(values):10.3f}{mean:10.3f}"
            f"{percentile(values, 0.99):10.2f}{published}"
        )


if __name__ == "__main__":
    main()
