# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""Adds a run of tools/check --full to bench/results/check.json: date, commit, machine, and what passed.

Usage: check_record.py FOLDER_OF_JUNIT_FILES SECONDS FILE"""

import datetime
import json
import pathlib
import platform
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

KEPT = 30  # runs, of which each may be one part


def counts(path):
    """(passed, failed, skipped) of a JUnit file that CTest wrote."""
    suite = ElementTree.parse(path).getroot()
    total, failed, skipped = (int(suite.get(name, "0")) for name in ("tests", "failures", "skipped"))
    return total - failed - skipped, failed, skipped


def machine():
    with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
        names = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    return f"{names[0] if names else platform.machine()}, {len(names)} CPUs"


def main(folder, seconds, target):
    rows = [[path.stem, *counts(path)] for path in sorted(pathlib.Path(folder).glob("*.xml"))]
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True)
    path = pathlib.Path(target)
    empty = {
        "title": "tools/check --full",
        "how": "tools/check --full [PART...]",
        "what": "Tests passed, failed and skipped, by suite.",
        "measurements": [],
        "notes": [],
    }
    record = json.loads(path.read_text(encoding="utf-8")) if path.exists() else empty
    run = {
        "date": datetime.date.today().isoformat(),
        "commit": commit.stdout.strip(),
        "machine": machine(),
        "conditions": f"{int(seconds) // 60} min",
        "columns": ["suite", "passed", "failed", "skipped"],
        "rows": rows,
    }
    record["measurements"] = [run, *record["measurements"]][:KEPT]
    path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:4])
