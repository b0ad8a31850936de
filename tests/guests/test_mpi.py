#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""MPI programs of guests with Soft-RoCE, whose collectives three switches run: the results are those of the same
programs without weft, and the switches did the work."""
import sys

import judge
import mpi_guests


class Mpi(mpi_guests.Compared):
    RANKS = (0, 2)

    def test_switches_give_the_results_of_open_mpi(self):
        # Three types, of two lengths: two operations of allreduce and reduce, a bcast and a barrier.
        collectives = 3 * 2 * (2 * 2 + 2)
        self.assertGreater(self.compare_results("few", collectives), collectives)
        self.lab.stop()


if __name__ == "__main__":
    if mpi_guests.missing():
        print("SKIP: " + mpi_guests.missing())
        sys.exit(77)
    judge.main()
