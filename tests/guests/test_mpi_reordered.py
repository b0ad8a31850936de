#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""Twenty runs of an MPI program over links that reorder packets: the results have the same bits in all of them. Three
guests with Soft-RoCE, two of them at one leaf: what is reduced to one of these two is a sum of three at that leaf,
which depends on their order."""
import mpi_guests

RUNS = 20


class Reordered(mpi_guests.Compared):
    RANKS = (0, 1, 2)
    FAULTS = ({"match": {"kind": "roce"}, "reorder": {"ratio": 0.05, "gap_us": 500}},)

    def reordered(self):
        """Packets that others have overtaken so far, at all switches."""
        return sum(row["reordered"] for row in self.lab.show("impair"))

    def run_once(self):
        self.assertIn("MPI_COMM_WORLD: by switches", self.output("/tmp/" + self.program, "/tmp/results", "few"))
        return self.site.results("/tmp/results")

    def test_all_runs_have_the_same_bits(self):
        self.compare_results("few", mpi_guests.FEW)
        first = self.site.results("/tmp/results")
        before = self.reordered()
        self.assertGreater(before, 0)
        for number in range(2, RUNS + 1):
            found = self.run_once()
            self.assertGreater(self.reordered(), before, "every run has packets that are overtaken")
            before = self.reordered()
            for rank, (ours, theirs) in enumerate(zip(found, first)):
                different = [name for name in theirs if ours[name] != theirs[name]]
                self.assertEqual((list(ours), different), (list(theirs), []), f"rank {rank} in run {number}")
        self.lab.stop()


if __name__ == "__main__":
    mpi_guests.main()
