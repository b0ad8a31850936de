#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""Four guests with Soft-RoCE under three switches: every primitive, type and operation of MPI, and a program of
mpi4py."""
import mpi_guests

# What tools/check does not wait for.
PROGRAM_S = 1800


class Matrix(mpi_guests.Compared):
    RANKS = (0, 1, 2, 3)
    PACKAGES = ("python3-mpi4py",)
    MEMORY_MB = 1536

    def test_1_every_primitive_type_and_operation(self):
        # Of eight integers and two floats, with ten and four operations: allreduce and reduce_scatter_block at all
        # ranks, reduce at one, bcast and allgather at all. Switches do not have the three logical operations.
        lengths, ranks = 4, len(self.RANKS)
        records = sum(types * lengths * (operations * (2 * ranks + 1) + 2 * ranks) for types, operations in
                      ((8, 10), (2, 4)))
        self.assertEqual(self.compare_results("all", 8 * lengths * 7 * 3), records)

    def test_2_mpi4py(self):
        for machine in self.site.guests.values():
            machine.put(mpi_guests.HERE + "/mpi_python.py", "/tmp/mpi_python.py")
        found = {}
        for how in (0, 1):
            out = self.output("python3", "/tmp/mpi_python.py", use=how, timeout=PROGRAM_S)
            self.assertEqual("MPI_COMM_WORLD: by switches" in out, how == 1, out)
            found[how] = [line for line in out.splitlines() if line.startswith("result")]
            self.assertEqual(len(found[how]), len(self.RANKS), out)
        self.assertEqual(found[1], found[0])


if __name__ == "__main__":
    mpi_guests.main()
