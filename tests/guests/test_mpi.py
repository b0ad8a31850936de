#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""MPI programs of guests with Soft-RoCE, whose collectives three switches run: the results are those of the same
programs without weft, and the switches did the work."""
import mpi_guests


class Mpi(mpi_guests.Compared):
    RANKS = (0, 2)

    def test_switches_give_the_results_of_open_mpi(self):
        self.assertGreater(self.compare_results("few", mpi_guests.FEW), mpi_guests.FEW)
        self.lab.stop()


if __name__ == "__main__":
    mpi_guests.main()
