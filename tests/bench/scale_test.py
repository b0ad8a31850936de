#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""bench/scale as a program: traffic goes where each case says, nothing is lost under PFC. Needs root and two CPUs."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SKIPPED = 77
BUILD = pathlib.Path(os.environ.get("WEFT_BIN", ROOT / "build/bin")).parent

sys.path.insert(0, str(ROOT))
from bench.peers import machine  # noqa: E402
from bench.scale import cases, report  # noqa: E402


def run(*arguments):
    return subprocess.run([ROOT / "bench/scale/run", "--build", BUILD, *arguments], capture_output=True, text=True,
                          timeout=150, check=False)


class Scale(unittest.TestCase):
    def test_every_case_is_a_configuration_that_weft_switch_accepts(self):
        with tempfile.TemporaryDirectory() as folder:
            for case in cases.CASES:
                for workers in (1, 2, 3):
                    path = pathlib.Path(folder, "weft.yaml")
                    path.write_text(json.dumps(cases.configuration(case, list(range(workers)))), encoding="utf-8")
                    done = subprocess.run([BUILD / "bin/weft-switch", "-c", path, "--check"], capture_output=True,
                                          text=True, check=False)
                    self.assertEqual(done.returncode, 0, f"{case.name}: {done.stdout}{done.stderr}")

    def test_traffic_goes_where_the_case_says(self):
        with tempfile.TemporaryDirectory() as out:
            done = run("--workers", "1,2", "--rounds", "1", "--trial-s", "0.4", "--no-hugepages", "--out", out)
            self.assertEqual(done.returncode, 0, done.stderr)
            found = json.loads(pathlib.Path(out, "results.json").read_text(encoding="utf-8"))["results"]
            page = pathlib.Path(out, "report.html").read_text(encoding="utf-8")
        self.assertEqual([r["case"] for r in found], [case.name for case in cases.CASES])
        handed = {}
        for result in found:
            one, two = result["points"]
            self.assertEqual((one["workers"], one["handed"], two["workers"]), (1, 0, 2), result["title"])
            self.assertGreater(min(one["pps"], two["pps"]), 10_000, result["title"])
            self.assertNotIn("apart_pps", one)
            self.assertNotIn("alone_pps", one)
            self.assertGreater(two["alone_pps"], 10_000, result["title"])
            self.assertGreater(two["apart_pps"], 10_000, result["title"])
            handed[result["case"]] = two["handed"]
        self.assertEqual(handed["own"], 0)
        # With RSS packets come to their worker. A port with qos is left through its owner.
        self.assertEqual((handed["uniform"], handed["spray"]), (0, 0))
        for case in ("one-queue", "uniform-qp", "uniform-qos"):
            self.assertAlmostEqual(handed[case], 0.5, delta=0.1, msg=case)
        (incast,) = (r for r in found if r["case"] == "incast")
        self.assertEqual([point["drops"] for point in incast["points"]], [{}, {}])
        self.assertIn("<svg", page)

    def test_wrong_words_are_said_in_one_line(self):
        self.assertIn("unknown case 'best'; known: own,", run("--cases", "best").stderr)
        self.assertIn("from 1 to", run("--workers", "1000").stderr)
        self.assertIn("found 'two'", run("--workers", "two").stderr)

    def test_a_rate_is_compared_with_that_of_one_worker(self):
        points = [{"workers": 1, "pps": 10}, {"workers": 4, "pps": 30}]
        self.assertEqual([report.speedup(points, point) for point in points], [1, 3])
        points = [{"workers": 2, "pps": 20}, {"workers": 4, "pps": 36}]
        self.assertEqual([report.speedup(points, point) for point in points], [2, 3.6])


    def test_switches_side_by_side_are_the_bound_that_a_rate_is_held_against(self):
        points = [{"workers": 1, "pps": 10}, {"workers": 2, "pps": 12, "apart_pps": 16}]
        self.assertEqual([report.of_apart(point) for point in points], [None, 0.75])
        self.assertEqual([report.apart_words(points, point) for point in points], ["", "0.75 of 1.60x apart"])

    def test_trials_in_which_others_had_the_cpus_do_not_count_unless_all_are_such(self):
        def trial(pps, waited_s):
            return cases.Trial(workers=2, pps=pps, cycles=1, handed=0, rings_full=0, lost=0, drops={},
                               waited_s=waited_s)

        good, other, bad = trial(30, 0.19), trial(31, 0), trial(10, 0.21)
        self.assertEqual(cases.quiet([bad, good, other], 2), [good, other])
        self.assertEqual(cases.quiet([bad, good], 2), [bad, good])
        self.assertEqual(cases.quiet([bad, bad, good, other], 0.01), [bad, bad, good, other])

    def test_what_is_lost_stands_beside_the_time_that_workers_had_no_cpu(self):
        point = {"lost": 1200, "trials": [{"lost": 0, "waited_s": 0.9}, {"lost": 1200, "waited_s": 0.0125}]}
        self.assertEqual(report.lost_words(point), "1,200 lost while workers waited 12 ms for their CPUs")
        self.assertEqual(report.lost_words({"lost": 0, "trials": [{"lost": 0, "waited_s": 1}]}), "")

    def test_a_thread_that_has_no_cpu_waits(self):
        spin = "import threading\nthreading.Thread(target=lambda: exec('while True: pass'), daemon=True).start()\n" \
               "while True: pass"
        cpu = str(min(os.sched_getaffinity(0)))
        with subprocess.Popen(["taskset", "-c", cpu, sys.executable, "-c", spin]) as process:
            self.addCleanup(process.kill)
            deadline = time.monotonic() + 20
            while time.monotonic() < deadline:
                waits = machine.seconds_without_cpu(process.pid, "python")
                if len(waits) == 2 and sum(waits.values()) > 0.01:
                    break
                time.sleep(0.05)
            self.assertEqual(len(waits), 2)
            self.assertGreater(sum(waits.values()), 0.01)
            self.assertEqual(machine.seconds_without_cpu(process.pid, "worker"), {})
            process.kill()
        self.assertEqual(machine.seconds_without_cpu(process.pid, "python"), {})

    def test_what_switches_do_side_by_side_is_a_sum_and_a_packet_counts_where_it_was(self):
        one = cases.Trial(workers=1, pps=30, cycles=100, handed=0, rings_full=1, lost=2, drops={"a": 2})
        other = cases.Trial(workers=1, pps=10, cycles=200, handed=1, rings_full=2, lost=4, drops={"a": 1, "b": 3})
        self.assertEqual(cases.together([one, other]), cases.Trial(
            workers=2, pps=40, cycles=125, handed=0.25, rings_full=3, lost=6, drops={"a": 3, "b": 3}))
        self.assertEqual(cases.together([one]), one)


if __name__ == "__main__":
    if os.getuid() != 0 or len(os.sched_getaffinity(0)) < 2:
        print("skipped: needs root and two CPUs")
        sys.exit(SKIPPED)
    unittest.main()
