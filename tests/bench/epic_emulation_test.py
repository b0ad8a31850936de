# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""bench/papers/epic/emulation.py: every size is measured once, and the paper's tables have a number for each."""

import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench" / "papers" / "epic"))

import emulation  # noqa: E402


class EmulationTest(unittest.TestCase):
    def test_every_size_is_in_one_part(self):
        for count in range(1, len(emulation.SIZES) + 1):
            sizes = list(emulation.SIZES.values())[:count]
            parts = list(emulation.parts(sizes))
            self.assertEqual([size for part, _, _ in parts for size in part], sizes)
            self.assertTrue(all(times > 0 for _, times, _ in parts))

    def test_the_paper_has_a_number_for_every_size(self):
        for collective, rows in emulation.PAPER.items():
            self.assertEqual(set(rows), {"i", "ii", "iii", "mpi"})
            self.assertIn(collective, emulation.NUMBER)
            for values in rows.values():
                self.assertEqual(len(values), 1 if collective == "barrier" else len(emulation.SIZES))


if __name__ == "__main__":
    unittest.main()
