# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""bench/micro: the programs measure something, and refuse what they do not know. Their figures are not judged here."""

import json
import pathlib
import subprocess
import sys
import unittest

PROGRAMS = pathlib.Path(sys.argv.pop(1))
NAMES = ("exchange", "inc", "l3", "lb", "longhaul", "nic", "pipeline", "policy", "queues", "rings", "spray", "stages",
         "track", "wire")


def run(name, *arguments):
    return subprocess.run([PROGRAMS / f"micro_{name}", *arguments], capture_output=True, text=True, timeout=100)


class ArgumentsTest(unittest.TestCase):
    def test_all_programs_are_looked_at(self):
        self.assertEqual(sorted(p.name for p in PROGRAMS.glob("micro_*")), [f"micro_{name}" for name in NAMES])

    def test_unknown_ones_are_refused(self):
        for name in NAMES:
            with self.subTest(name):
                done = run(name, "--bogus")
                self.assertNotEqual(done.returncode, 0)
                self.assertRegex(done.stderr, r"--bogus|usage: ")

    def test_help_is_no_error(self):
        for name in NAMES:
            with self.subTest(name):
                done = run(name, "--help")
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assertRegex(done.stdout, r"usage: \S*micro_|--benchmark_filter")


class FiguresTest(unittest.TestCase):
    def test_every_stage_of_a_router_takes_time(self):
        done = run("l3", "--benchmark_filter=routing/v4_router", "--benchmark_format=json")
        self.assertEqual(done.returncode, 0, done.stderr)
        (result,) = json.loads(done.stdout)["benchmarks"]
        self.assertNotIn("error_occurred", result)
        for stage in ("parse", "rdma_track", "l3", "lb", "l3+lb", "real_time"):
            self.assertGreater(result[stage], 0, stage)

    def test_tracking_takes_time_and_memory(self):
        done = run("track", "16")
        self.assertEqual(done.returncode, 0, done.stderr)
        qps, cycles, median, nanoseconds, ratio, memory = done.stdout.splitlines()[1].split()
        self.assertEqual((qps, ratio), ("16", "-"))
        for figure in (cycles, median, nanoseconds, memory):
            self.assertGreater(float(figure), 0)

    def test_acks_of_an_rnic_are_not_among_its_packets(self):
        done = run("nic", "--benchmark_filter=headers_only", "--benchmark_format=json")
        self.assertEqual(done.returncode, 0, done.stderr)
        (result,) = json.loads(done.stdout)["benchmarks"]
        # Messages of 64 packets, each with one ACK.
        self.assertAlmostEqual(result["packets/s"] / result["ACKs/s"], 64, delta=1)


if __name__ == "__main__":
    unittest.main()
