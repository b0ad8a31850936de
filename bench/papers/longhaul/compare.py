#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""FCT slowdowns of a run of dcqcn_30.yaml or dcqcn_70.yaml, in the authors' metric. Usage: compare.py RESULT.json

What the authors published stands in agree.md and themis.md beside runs with their settings."""

import json
import sys

import metric


def main():
    (path,) = sys.argv[1:]
    with open(path, encoding="utf-8") as text:
        rows = metric.of_result(json.load(text))
    print(f"{'flows':8}{'count':>8}{'mean':>10}{'p99':>10}{'to 10 KiB':>12}{'to 100 KiB':>12}{'larger':>10}")
    for name, row in rows.items():
        small, middle, large = row["bins"]
        print(f"{name:8}{row['flows']:8}{row['mean']:10.3f}{row['p99']:10.2f}{small:12.3f}{middle:12.3f}{large:10.3f}")


if __name__ == "__main__":
    main()
