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


def result(case, alone, cycles_of_two, handed, machine=1.0, build=""):
    """machine: the share of two cores that the two CPUs are."""
    return {
        "case": case, "build": build, "title": case + build,
        "points": [
            {"workers": 1, "pps": HZ / alone, "cycles": alone, "handed": 0},
            {"workers": 2, "pps": machine * 2 * HZ / cycles_of_two, "cycles": cycles_of_two / machine,
             "handed": handed, "apart_pps": machine * 2 * HZ / alone},
        ],
    }


class Model(unittest.TestCase):
    def test_costs_that_two_workers_have_are_found_whatever_the_machine_takes(self):
        for share in (1.0, 0.6):
            # 200 cycles alone, 4 for the rings of the other, 60 for a hand-over.
            found = model.costs([result("own", 200, 204, 0, share), result("uniform", 200, 234, 0.5, share)])
            self.assertAlmostEqual(found["own"].poll, 4)
            self.assertEqual(found["own"].hand_over, 0)
            self.assertAlmostEqual(found["uniform"].alone, 200)
            self.assertAlmostEqual(found["uniform"].hand_over, 60)

    def test_hand_overs_grow_with_the_share_of_others_and_rings_with_their_number(self):
        costs = model.Costs(alone=200, poll=4, hand_over=60, handed=0.5)
        self.assertAlmostEqual(costs.cycles(1), 200)
        self.assertAlmostEqual(costs.cycles(2), 234)
        self.assertAlmostEqual(costs.cycles(4), 200 + 3 * 4 + 0.75 * 60)
        self.assertAlmostEqual(costs.speedup(4), 4 * 200 / 257)
        self.assertAlmostEqual(model.Costs(200, 0, 0, 0).speedup(14), 14)

    def test_noise_makes_nothing_faster_than_linear(self):
        found = model.costs([result("own", 200, 190, 0), result("uniform", 200, 199, 0.5)])
        self.assertEqual([found[case].speedup(14) for case in ("own", "uniform")], [14, 14])

    def test_nothing_is_modelled_from_what_was_not_measured(self):
        own, uniform = result("own", 200, 204, 0), result("uniform", 200, 234, 0.5)
        self.assertEqual(model.costs([uniform]), {})
        self.assertEqual(model.costs([result("own", 200, 204, 0, build="before"), uniform]).keys(), {"ownbefore"})
        del own["points"][1]["apart_pps"]
        self.assertEqual(model.costs([own, uniform]), {})
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
