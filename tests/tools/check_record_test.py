# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""tools/check_record.py: the record that tools/check --full leaves, newest first, in the format of bench/results."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from bench.report import measurements  # noqa: E402

JUNIT = '<testsuite name="x" tests="{}" failures="{}" skipped="{}"></testsuite>'


class Record(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.results, self.target = pathlib.Path(folder.name, "in"), pathlib.Path(folder.name, "out", "check.json")
        self.results.mkdir()
        self.target.parent.mkdir()

    def run_it(self, *counts):
        (self.results / "all.xml").write_text(JUNIT.format(*counts), encoding="utf-8")
        command = [sys.executable, ROOT / "tools/check_record.py", self.results, "125", self.target]
        subprocess.run(command, check=True, cwd=ROOT)
        return measurements.load(self.target.parent)["check"]["measurements"]

    def test_a_run_is_recorded_with_its_counts(self):
        (run,) = self.run_it(120, 1, 2)
        self.assertEqual(run["rows"], [["all", 117, 1, 2]])
        self.assertEqual(run["conditions"], "2 min")
        self.assertRegex(run["commit"], "^[0-9a-f]{7,}$")

    def test_runs_stand_newest_first_and_old_ones_go(self):
        for passed in range(1, 33):
            runs = self.run_it(passed, 0, 0)
        self.assertEqual([run["rows"][0][1] for run in runs], list(range(32, 2, -1)))


if __name__ == "__main__":
    unittest.main()
