# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""The search of bench/ndr on devices that are formulas: ideal, noisy, bimodal, too fast, too slow."""

import pathlib
import random
import sys
import types
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

from bench.ndr import devices, report  # noqa: E402
from bench.ndr import search as ndr  # noqa: E402

NDR = ndr.Goal("NDR", 0.0)
PDR = ndr.Goal("PDR", 0.005)
HIGHEST = 10e6


class Device:
    """Forwards `capacity(trial number)` packets per second, and loses the rest."""

    def __init__(self, capacity, generator_pps=HIGHEST):
        self.capacity = capacity if callable(capacity) else lambda _: capacity
        self.generator_pps = generator_pps
        self.trials = 0

    def measure(self, rate_pps, seconds):
        self.trials += 1
        intended = int(rate_pps * seconds)
        sent = min(intended, int(self.generator_pps * seconds))
        received = min(sent, int(self.capacity(self.trials) * seconds))
        return ndr.Trial(rate_pps, seconds, intended, sent, received)


def find(device, goals=(NDR, PDR), highest_pps=HIGHEST):
    return ndr.search(device.measure, list(goals), highest_pps)[0]


class Leaky(Device):
    """Loses a packet of every trial besides."""

    def measure(self, rate_pps, seconds):
        trial = super().measure(rate_pps, seconds)
        return ndr.Trial(rate_pps, seconds, trial.intended, trial.sent, min(trial.received, trial.sent - 1))


class Search(unittest.TestCase):
    def test_an_ideal_device_is_found_to_half_a_percent(self):
        for capacity in (20e3, 333e3, 1e6, 3.21e6, 9.9e6):
            with self.subTest(capacity):
                device = Device(capacity)
                no_drop, partial = find(device)
                self.assertLessEqual(no_drop.lower_pps, capacity + 1)
                self.assertGreaterEqual(no_drop.rate_pps, capacity * 0.995)
                self.assertLessEqual(no_drop.upper_pps, capacity / 0.99)
                # 0.5 % above it, 0.5 % is lost.
                self.assertGreaterEqual(partial.lower_pps, capacity * 0.999)
                self.assertLessEqual(partial.lower_pps, capacity / 0.9949)
                self.assertLessEqual(partial.rate_pps, capacity * 1.0001)
                self.assertLess(device.trials, 400)

    def test_a_device_that_is_slow_now_and_then_is_judged_by_most_of_its_trials(self):
        rng = random.Random(7)
        no_drop, _ = find(Device(lambda _: 2e6 if rng.random() > 0.2 else 1.5e6))
        self.assertGreaterEqual(no_drop.rate_pps, 2e6 * 0.99)
        self.assertLessEqual(no_drop.lower_pps, 2e6)

    def test_a_device_that_is_slow_in_most_trials_is_slow(self):
        rng = random.Random(8)
        no_drop, _ = find(Device(lambda _: 2e6 if rng.random() > 0.8 else 1.5e6))
        self.assertLessEqual(no_drop.lower_pps, 1.5e6 * 1.0001)
        self.assertGreaterEqual(no_drop.rate_pps, 1.5e6 * 0.99)

    def test_noise_widens_nothing_but_the_time_it_takes(self):
        rng = random.Random(9)
        no_drop, partial = find(Device(lambda _: rng.gauss(2e6, 2e6 * 0.002)))
        self.assertAlmostEqual(no_drop.lower_pps / 2e6, 1, delta=0.01)
        self.assertAlmostEqual(partial.lower_pps / 2e6, 1.005, delta=0.01)
        self.assertLessEqual(no_drop.lower_pps, partial.lower_pps)

    def test_a_few_losses_at_any_rate_leave_pdr_and_no_ndr(self):
        no_drop, partial = find(Leaky(2e6))
        self.assertEqual((no_drop.lower_pps, no_drop.rate_pps), (0.0, 0.0))
        self.assertGreaterEqual(partial.rate_pps, 2e6 * 0.99)

    def test_a_device_faster_than_the_generator_has_only_a_lower_bound(self):
        no_drop, partial = find(Device(HIGHEST * 2))
        for found in (no_drop, partial):
            self.assertEqual(found.lower_pps, HIGHEST)
            self.assertEqual(found.upper_pps, float("inf"))

    def test_a_generator_that_is_short_is_an_error_and_no_result(self):
        with self.assertRaisesRegex(ndr.SearchError, "asked for 10.000 Mpps and sent 8.000"):
            find(Device(9e6, generator_pps=8e6))

    def test_the_highest_rate_is_one_that_the_generator_really_sends(self):
        # What it does not have to write because there is no room costs it less.
        def measure(rate_pps, seconds):
            can = 3e6 if rate_pps < 5e6 else 4e6
            return ndr.Trial(rate_pps, seconds, int(rate_pps), int(min(rate_pps, can)), int(min(rate_pps, can)))

        rate_pps = ndr.highest_sent(measure, 8e6)
        self.assertTrue(3e6 * 0.85 <= rate_pps <= 3e6, rate_pps)
        self.assertEqual(ndr.highest_sent(measure, 2e6), 2e6)
        with self.assertRaisesRegex(ndr.SearchError, "and sent 0.000"):
            ndr.highest_sent(lambda rate_pps, seconds: ndr.Trial(rate_pps, seconds, int(rate_pps), 0, 0), 8e6)

    def test_one_trial_with_a_short_generator_is_measured_again(self):
        class Interrupted(Device):
            def measure(self, rate_pps, seconds):
                trial = super().measure(rate_pps, seconds)
                if self.trials % 3 != 0:
                    return trial
                return ndr.Trial(rate_pps, seconds, trial.intended, trial.sent // 2, trial.received // 2)

        no_drop, _ = find(Interrupted(2e6))
        self.assertGreaterEqual(no_drop.rate_pps, 2e6 * 0.99)
        self.assertLessEqual(no_drop.lower_pps, 2e6)

    def test_verdicts_wait_until_the_trials_left_cannot_turn_them(self):
        goal = ndr.Goal("", 0.0, trials=5, exceed_ratio=0.5)
        bounds = ndr.Bounds()
        good, bad = ndr.Trial(1, 1, 10, 10, 10), ndr.Trial(1, 1, 10, 10, 9)
        seen = []
        for trial in (good, bad, good, bad, good):
            bounds.add(trial, 1)
            seen.append(bounds.verdict(goal, 1))
        self.assertEqual(seen, ["", "", "", "", "lower"])
        for trial in (bad, bad):
            bounds.add(trial, 1)
        self.assertEqual(bounds.verdict(goal, 1), "upper")


class Report(unittest.TestCase):
    def result(self, device):
        return report.throughputs(find(device)) | {
            "title": "a device", "mrr_pps": HIGHEST, "generator_pps": HIGHEST, "known_pps": None, "trials": 1,
            "reordered": 0, "duplicates": 0, "curve": [],
            "latency_ns": {load: [{"p50": 1000 * n, "p99": 2000 * n, "p99.9": 3000 * n}]
                           for n, load in enumerate(report.LOADS, 1)},
        }

    def test_only_a_goal_that_no_rate_was_too_high_for_is_at_least(self):
        fast, leaky, slow = (self.result(d) for d in (Device(HIGHEST * 2), Leaky(HIGHEST * 2), Device(2e6)))
        self.assertEqual([report.throughput(fast, goal) for goal in ("NDR", "PDR")], [">= 10.000", ">= 10.000"])
        self.assertEqual([report.throughput(leaky, goal) for goal in ("NDR", "PDR")], ["0.000", ">= 10.000"])
        self.assertEqual(slow["at_least"], [])
        self.assertIn("NDR 0.000 Mpps, PDR >= 10.000, MRR 10.000", report.line(leaky))

    def test_latency_of_an_idle_device_stands_beside_that_under_load(self):
        self.assertEqual(report.LOADS, ("idle", "10%", "50%", "90%"))
        result = self.result(Device(2e6))
        self.assertIn("p50 and p99 at 1 kpps 1.0 and 2.0 us, p50 and p99 at 50% of PDR 3.0 and 6.0 us",
                      report.line(result))
        facts = {"cpu": "a CPU", "cpu_family": "1", "cpu_model": "2", "cpus": 2, "virtual": True, "tsc_hz": 2e9,
                 "memory_mb": 1024, "kernel": "6", "worker_cpu": 1, "frame_bytes": 82, "qps": 16, "directions": 1,
                 "trials": 1, "trial_s": 1.0}
        page = report.page_of(facts, [result])
        for words in ("p99.9 at 1 kpps", "p99.9 at 10% of PDR", "p50 at 90% of PDR"):
            self.assertIn(words, page)


class Devices(unittest.TestCase):
    def test_weft_is_measured_polling_and_as_it_idles_by_default(self):
        settings = types.SimpleNamespace(worker_cpu=1, mbufs=16384, burst=32, hugepages=True)
        found = {device.name: device.configuration("/nowhere", settings, 82)
                 for device in devices.DEVICES if isinstance(device, devices.Weft)}
        self.assertEqual(found["weft-l2"]["idle"], "poll")
        self.assertEqual(found["weft-l2-adaptive"], found["weft-l2"] | {"idle": "adaptive"})


if __name__ == "__main__":
    unittest.main()
