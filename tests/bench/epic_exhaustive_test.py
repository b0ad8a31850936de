# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""bench/papers/epic/exhaustive.py: what runs have printed, by themselves or under ctest -V, is a page and results."""

import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
sys.path.insert(0, str(ROOT / "bench" / "papers" / "epic"))

import exhaustive  # noqa: E402
from bench.report import measurements  # noqa: E402

BARRIER = "barrier, reforward           9 states by 2   10 transitions, diameter   8, copies 0, 0.0 s, 0.1 MB"
ALLREDUCE = "allreduce, tree, 1 lost  28565 states by 8  52089 transitions, diameter  73, copies 1, 6.0 s, 1.5 MB"
LINES = ["[ RUN      ] IncExhaustive.NothingGoesWrong", BARRIER, ALLREDUCE, "reduce, tree, 1 lost: not run",
         "reduce, i, tree, any order: not run to the end, which is beyond 100 million states"]
UNDER_CTEST = [f"192: {line}" for line in LINES]


class ExhaustiveTest(unittest.TestCase):
    def test_the_same_lines_under_ctest_are_the_same_cases(self):
        cases, skipped = exhaustive.parse(LINES)
        self.assertEqual((cases, skipped), exhaustive.parse(UNDER_CTEST))
        self.assertEqual(list(cases), ["barrier, reforward", "allreduce, tree, 1 lost"])
        self.assertEqual(cases["barrier, reforward"]["states"], "9")
        self.assertEqual(skipped, ["reduce, tree, 1 lost", "reduce, i, tree, any order beyond 100 million states"])

    def test_what_another_log_has_was_run(self):
        cases, skipped = exhaustive.parse([*LINES, ALLREDUCE.replace("allreduce", "reduce").replace("28565", "28566")])
        self.assertEqual(cases["reduce, tree, 1 lost"]["states"], "28566")
        self.assertEqual(skipped, ["reduce, i, tree, any order beyond 100 million states"])

    def test_the_page_names_the_run_and_what_is_not_in_it(self):
        page = exhaustive.page(*exhaustive.parse(UNDER_CTEST), False, "2026-01-02", "abc1234")
        self.assertIn("| II, AllReduce | 73 | 77 | 52,089 | 3,981,257 | 28,565 | 901,703 | 6.0 s | 20 s | 1.5 |", page)
        self.assertIn("| II, Reduce | not run | 57 | not run | 52,105 | not run | 14,136 |  | 3 s |  |", page)
        self.assertIn("2026-01-02, abc1234:\n2 cases, 28,574 states, 52,099 transitions, 0 minutes", page)
        self.assertTrue(page.endswith("Not run, or not to the end:\n\n- reduce, tree, 1 lost\n"
                                      "- reduce, i, tree, any order beyond 100 million states\n"))

    def test_results_are_those_of_the_page(self):
        results = exhaustive.results(*exhaustive.parse(LINES), "2026-01-02", "abc1234", "a machine")
        measurement, = results["measurements"]
        self.assertEqual(measurement["rows"][0], ["II, AllReduce", 73, 77, 52089, 3981257, 28565, 901703, 6.0, "20 s"])
        self.assertEqual(measurement["rows"][1], ["II, Reduce", None, 57, None, 52105, None, 14136, None, "3 s"])
        self.assertIn("28,574 states", measurement["conditions"])
        self.assertIn("| II, AllReduce | 73 | 77 |", measurements.page({"exhaustive": results}))


if __name__ == "__main__":
    unittest.main()
