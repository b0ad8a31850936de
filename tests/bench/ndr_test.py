#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""bench/ndr as a program, on a weft-switch whose ports have a known rate. Needs root and two CPUs."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SKIPPED = 77
KNOWN_MPPS = 0.1


def run(*arguments):
    build = pathlib.Path(os.environ["WEFT_BIN"]).parent
    return subprocess.run([ROOT / "bench/ndr/run", "--build", build, *arguments], capture_output=True, text=True,
                          timeout=150, check=False)


class Ndr(unittest.TestCase):
    def test_what_a_device_with_a_known_rate_does_is_found(self):
        with tempfile.TemporaryDirectory() as out:
            result = run("--devices", "weft-limited", "--trials", "3", "--trial-s", "0.2", "--highest-mpps", "0.2",
                         "--no-hugepages", "--out", out)
            if "had to share its CPU" in result.stderr:
                self.skipTest(result.stderr.strip())
            self.assertEqual(result.returncode, 0, result.stderr)
            (found,) = json.loads(pathlib.Path(out, "results.json").read_text(encoding="utf-8"))["results"]
            page = pathlib.Path(out, "report.html").read_text(encoding="utf-8")
        known = found["known_pps"]
        self.assertAlmostEqual(known / 1e6, KNOWN_MPPS, delta=0.001)
        # How near to it NDR comes, the machine decides; nothing makes more of a device than it is.
        self.assertLessEqual(found["ndr_pps"], 1.01 * known)
        self.assertLessEqual(found["pdr_pps"], 1.01 * known)
        self.assertLessEqual(found["ndr_pps"], 1.01 * found["pdr_pps"])
        self.assertGreater(found["pdr_pps"], 0.5 * known)
        self.assertAlmostEqual(found["mrr_pps"] / known, 1, delta=0.1)
        self.assertEqual(set(found["latency_ns"]), {"idle", "10%", "50%", "90%"})
        self.assertEqual((found["reordered"], found["duplicates"]), (0, 0))
        self.assertIn("weft L2 at a known rate", page)
        self.assertIn("<svg", page)

    def test_wrong_words_are_said_in_one_line(self):
        result = run("--devices", "weft-l9")
        self.assertEqual(result.returncode, 2)
        self.assertIn("unknown device 'weft-l9'; known: weft-l2,", result.stderr)
        result = run("--cpus", "0,0")
        self.assertEqual((result.returncode, result.stderr),
                         (1, "ndr: two CPUs are needed, one for the generator and one for the device\n"))


if __name__ == "__main__":
    if os.getuid() != 0 or len(os.sched_getaffinity(0)) < 2:
        print("skipped: needs root and two CPUs")
        sys.exit(SKIPPED)
    unittest.main()
