# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""The model of bench/scale on made-up measurements whose costs are known."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

from bench.scale import model, report  # noqa: E402

HZ = 2e9
FACTS = {"cpu": "a CPU", "kernel": "6", "cpus": 2, "virtual": True, "rounds": 3, "trial_s": 1.0}


def result(case, alone, cycles_of_two, handed, machine=1.0, build="", with_ports=None):
    """machine: the share of two cores that the two CPUs are. with_ports: cycles of one worker with the ports of two."""
    with_ports = with_ports or alone
    return {
        "case": case, "build": build, "title": case + build,
        "points": [
            {"workers": 1, "pps": HZ / alone, "cycles": alone, "handed": 0},
            {"workers": 2, "pps": machine * 2 * HZ / cycles_of_two, "cycles": cycles_of_two / machine,
             "handed": handed, "apart_pps": machine * 2 * HZ / alone, "alone_pps": HZ / with_ports},
        ],
    }


class Model(unittest.TestCase):
    def test_costs_that_two_workers_have_are_found_whatever_the_machine_takes(self):
        for share in (1.0, 0.6):
            # 200 cycles alone, 4 for company, 60 for a hand-over.
            found = model.costs([result("own", 200, 204, 0, share), result("one-queue", 200, 234, 0.5, share)])
            self.assertAlmostEqual(found["own"].company, 4)
            self.assertEqual((found["own"].meeting, found["own"].hand_over), (0, None))
            self.assertAlmostEqual(found["one-queue"].alone, 200)
            self.assertAlmostEqual(found["one-queue"].meeting, 30)
            self.assertAlmostEqual(found["one-queue"].hand_over, 60)

    def test_what_more_ports_cost_one_worker_too_is_not_the_others_doing(self):
        for share in (1.0, 0.6):
            found = model.costs([result("own", 200, 204, 0, share),
                                 result("uniform", 200, 220, 0, share, with_ports=216)])
            self.assertAlmostEqual(found["uniform"].alone, 216)
            self.assertAlmostEqual(found["uniform"].meeting, 0)

    def test_what_is_lacking_counts_without_hand_overs_too(self):
        found = model.costs([result("own", 200, 204, 0), result("spray", 200, 244, 0)])
        self.assertAlmostEqual(found["spray"].meeting, 40)
        self.assertIsNone(found["spray"].hand_over)
        self.assertAlmostEqual(found["spray"].speedup(4), 4 * 200 / (200 + 4 + 60))

    def test_meetings_grow_with_the_share_of_others_and_company_does_not_grow(self):
        costs = model.Costs(alone=200, company=4, meeting=30, handed=0.5)
        self.assertAlmostEqual(costs.cycles(1), 200)
        self.assertAlmostEqual(costs.cycles(2), 234)
        self.assertAlmostEqual(costs.cycles(4), 200 + 4 + 0.75 * 60)
        self.assertAlmostEqual(costs.speedup(4), 4 * 200 / 249)
        self.assertAlmostEqual(model.Costs(200, 4, 0, 0).cycles(14), 204)
        self.assertAlmostEqual(model.Costs(200, 0, 0, 0).speedup(14), 14)

    def test_noise_makes_nothing_faster_than_linear(self):
        found = model.costs([result("own", 200, 190, 0), result("uniform", 200, 199, 0.5)])
        self.assertEqual([found[case].speedup(14) for case in ("own", "uniform")], [14, 14])

    def test_nothing_is_modelled_from_what_was_not_measured(self):
        own, uniform = result("own", 200, 204, 0), result("uniform", 200, 234, 0.5)
        self.assertEqual(model.costs([uniform]), {})
        self.assertEqual(model.costs([result("own", 200, 204, 0, build="before"), uniform]).keys(), {"ownbefore"})
        for missing in ("apart_pps", "alone_pps"):
            without = result("own", 200, 204, 0)
            del without["points"][1][missing]
            self.assertEqual(model.costs([without, uniform]), {})
        self.assertEqual(model.costs([{**own, "points": own["points"][:1]}]), {})

    def test_the_report_says_that_it_is_a_model(self):
        results = [result("own", 200, 204, 0), result("uniform", 200, 234, 0.5)]
        for each in results:
            for point in each["points"]:
                point.update(low=point["pps"], high=point["pps"], rings_full=0, lost=0)
        page = report.page_of(FACTS, results)
        self.assertRegex(page, r"A model, not a measurement(?s:.*)14 workers(?s:.*)>60<")
        for each in results:
            del each["points"][1]["apart_pps"]
        self.assertNotIn("A model", report.page_of(FACTS, results))


if __name__ == "__main__":
    unittest.main()
