# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""Distributions of EPIC's figures from reports of weft-flow."""
import json
import pathlib
import sys
import tempfile
import unittest
import xml.dom.minidom

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench/papers/epic/flow"))

import figures  # noqa: E402

NAMES = {"ring": "Ring", "edge_disjoint": "EDT", "spatial": "Spatial Mux", "temporal": "Temporal Mux"}
DERIVED = "{ kind: csv, file: traces/cluster03.csv }"
SETS = [["workload={ kind: trace1 }", "fabric.cores_per_spine=8"], [f"workload={DERIVED}", "fabric.cores_per_spine=8"],
        [f"workload={DERIVED}", "fabric.cores_per_spine=4"],
        [f"workload={DERIVED}", "fabric.cores_per_spine=8", "scale_up={ gpus: 8, gbps: 16000 }"],
        [f"workload={DERIVED}", "fabric.cores_per_spine=8", "scale_up={ gpus: 8, in_network: true }"]]


class Figures(unittest.TestCase):
    def test_a_quantile_is_the_least_that_so_many_are_not_above(self):
        hundred = list(range(1, 101))
        self.assertEqual([figures.quantile(hundred, share) for share in figures.QUANTILES], [50, 88, 98, 99])
        self.assertEqual(figures.quantile([3, 4], 0.99), 4)
        self.assertEqual(figures.quantile([3, 4], 0.01), 3)

    def test_a_curve_begins_where_its_tail_does_and_ends_with_all(self):
        points = figures.curve(list(range(1000)), 0.85)
        self.assertEqual(points[0], (850, 85.1))
        self.assertEqual(points[-1], (999, 100))
        self.assertLess(len(figures.curve(list(range(5000)), 0)), 300)

    def test_runs_of_a_sweep_become_six_figures_and_their_quantiles(self):
        with tempfile.TemporaryDirectory() as scratch:
            folder = pathlib.Path(scratch)
            for number, sets in enumerate(SETS):
                for place, policy in enumerate(NAMES):
                    # One job of another size, and one that has not ended.
                    jobs = [{"gpus": 8, "jct_s": float(s * 10 ** (place + 1))} for s in range(1, 101)]
                    jobs += [{"gpus": 16, "jct_s": 1e9}, {"gpus": 8}]
                    report = {"run": {"set": [*sets, f"policy={policy}"]}, "jobs": jobs}
                    (folder / f"{number}{place}.json").write_text(json.dumps(report))
            (folder / "other.json").write_text(json.dumps({"run": {"set": ["policy=ring"]}, "jobs": []}))
            (folder / "sweep.json").write_text("[]")
            found = figures.times(folder)
            self.assertEqual(len(found), len(SETS) * len(NAMES))
            text = "\n".join(figures.write(found, NAMES, 0.5, folder / "figures"))
            for number in figures.FIGURES:
                page = (folder / f"figures/figure{number}.svg").read_text()
                xml.dom.minidom.parseString(page)
                self.assertEqual(page.count("stroke-width=\"2\""), len(NAMES))
        # All jobs in Figures 20 to 22, those of 8 GPUs in 23 and 24.
        self.assertEqual(text.count("| EDT | 5100 | 8900 | 9900 | 10000 |"), 3)
        self.assertEqual(text.count("| EDT | 5000 | 8800 | 9800 | 9900 |"), 2)
        self.assertIn("| EDT | 5,000 (10.000) | 5,420 (0.762) |", text)
        self.assertIn("| Spatial Mux | 50,000 (100.000) | not in the text |", text)


if __name__ == "__main__":
    unittest.main()
