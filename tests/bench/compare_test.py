# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""bench/compare with made-up programs whose costs are known, and its figures alone."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from bench.compare import figures  # noqa: E402

LINES = """cycles per packet (TSC), bursts of 32, lower quartile
bridge, 16 queue pairs        engine   7.5  parse   8.25  12 refused
bridge, 16 queue pairs        engine  17.5
  letflow  3.1 (0.2 %)
"""


class Figures(unittest.TestCase):
    def test_numbers_with_a_point_are_figures_and_have_names(self):
        self.assertEqual(figures.of_text(LINES), {
            "bridge, 16 queue pairs engine": 7.5,
            "bridge, 16 queue pairs engine | parse": 8.25,
            "bridge, 16 queue pairs engine #2": 17.5,
            "letflow": 3.1,
            "letflow | ": 0.2,
        })

    def test_google_benchmarks_are_read(self):
        text = json.dumps({"benchmarks": [{"name": "parse", "cpu_time": 4.5, "run_type": "iteration"},
                                          {"name": "parse_mean", "cpu_time": 4.4, "run_type": "aggregate"}]})
        self.assertEqual(figures.of_google(text), {"parse": 4.5})

    def test_ratios_are_those_of_the_rounds(self):
        # The machine gets slower and slower; each round both builds meet the same.
        old = [{"a": 10.0 * speed, "b": 5.0} for speed in (1, 2, 3, 4, 5)]
        new = [{"a": 11.0 * speed, "b": 5.0} for speed in (1, 2, 3, 4, 5)]
        a, b = figures.compare(old, new)
        self.assertAlmostEqual(a["ratio"], 1.1)
        self.assertEqual((a["verdict"], b["verdict"]), ("slower", ""))
        self.assertEqual(figures.compare(new, old)[0]["verdict"], "faster")

    def test_a_noisy_machine_says_nothing(self):
        old = [{"a": 10.0}] * 8
        new = [{"a": value} for value in (9.0, 11.5, 8.8, 12.0, 10.2, 9.7, 11.0, 9.1)]
        self.assertEqual(figures.compare(old, new)[0]["verdict"], "")

    def test_one_outlier_does_not_decide(self):
        old = [{"a": 10.0}] * 8
        new = [{"a": value} for value in (30.0, 10.9, 11.0, 11.1, 11.0, 10.9, 11.1, 9.0)]
        row = figures.compare(old, new)[0]
        self.assertEqual(row["verdict"], "slower")
        self.assertLess(row["high"], 12)

    def test_figures_of_one_build_alone_are_named(self):
        old, new = [{"a": 1.0, "gone": 1.0}], [{"a": 1.0, "new": 1.0}]
        self.assertEqual([row["name"] for row in figures.compare(old, new)], ["a"])
        self.assertEqual(figures.only_in_one(old, new), ["gone", "new"])


class Command(unittest.TestCase):
    """Two folders of programs that say what they are told to, and write down when they ran."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.write("old", "echo 'bridge  engine 10.0'")
        self.write("new", "echo 'bridge  engine 12.5'")

    def write(self, build, does):
        path = self.root / build / "bin/micro_pipeline"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\necho {build} >> {self.root}/ran\n{does}\n", encoding="utf-8")
        os.chmod(path, 0o755)

    def run_it(self, *more):
        return subprocess.run([sys.executable, "-B", ROOT / "bench/compare/run", self.root / "old", self.root / "new",
                               "--programs", "pipeline", *more], capture_output=True, text=True, check=False)

    def test_both_run_in_turns_and_the_ratio_is_printed(self):
        done = self.run_it("--rounds", "4", "--json", str(self.root / "out.json"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"bridge engine +10\.00 +12\.50 +1\.250 +1\.250 to 1\.250 +slower")
        self.assertEqual((self.root / "ran").read_text().split(), ["old", "new", "new", "old"] * 2)
        rows = json.loads((self.root / "out.json").read_text())["programs"]["pipeline"]
        self.assertEqual(rows[0]["ratio"], 1.25)

    def test_what_goes_wrong_is_said(self):
        self.write("new", "echo broken >&2; exit 3")
        done = self.run_it("--rounds", "1")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"compare: .*new/bin/micro_pipeline ended with 3: broken")
        self.write("new", "echo nothing")
        self.assertIn("printed no figures", self.run_it("--rounds", "1").stderr)
        (self.root / "new/bin/micro_pipeline").unlink()
        self.assertIn("missing: ", self.run_it("--rounds", "1").stderr)

    def test_unknown_programs_and_commits_are_refused(self):
        done = self.run_it("--programs", "pipelin")
        self.assertEqual(done.returncode, 2)
        self.assertIn("unknown program 'pipelin'; known: inc, l3,", done.stderr)
        done = subprocess.run([sys.executable, "-B", ROOT / "bench/compare/run", "no-such-commit", self.root / "new",
                               "--programs", "pipeline"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 1, done.stdout)


if __name__ == "__main__":
    unittest.main()
