#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""Four guests with Soft-RoCE under three switches: every primitive, type and operation of MPI, a program of mpi4py, and
the HPC Challenge."""
import json
import time

import mpi_guests
import mpi_hpcc

# What tools/check does not wait for.
PROGRAM_S = 1800


class Matrix(mpi_guests.Compared):
    RANKS = (0, 1, 2, 3)
    PACKAGES = ("python3-mpi4py", *mpi_hpcc.PACKAGES)
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

    def test_3_hpcc(self):
        for machine in self.site.guests.values():
            mpi_hpcc.prepare(machine)
        found, seconds = {}, {}
        for how in (0, 1, 2):
            began = time.monotonic()
            out, collectives = self.run_hpcc(how)
            seconds[how] = time.monotonic() - began
            found[how] = mpi_hpcc.results(mpi_hpcc.report(self.site.first))
            self.assertEqual("MPI_COMM_WORLD: by switches" in out, how != 0, out)
            # HPCC asks for thousands; each switch of the tree ran some hundred of those of all ranks.
            self.assertEqual([name for name, count in collectives.items() if count >= 100],
                             ["leaf1", "leaf2", "root"] if how != 0 else [], collectives)
        summary, verdicts = found[0]
        self.assertEqual((summary["Success"], summary["HPL_N"]), ("1", str(mpi_hpcc.SIZE)))
        self.assertGreater(len(verdicts), 5)
        for how in (1, 2):
            self.assertEqual(found[how], found[0], f"coll_weft_use {how}")
        print("hpcc without, with, and only with switches: " + ", ".join(f"{s:.0f} s" for s in seconds.values()))

    def run_hpcc(self, use):
        """What it prints, and by switch the most collectives that `weft-inc group show` had of a group of all
        guests."""
        job = self.site.mpirun(*mpi_hpcc.command(), settings=("--mca", "coll_weft_use", str(use)), timeout=PROGRAM_S)
        most, deadline = {}, time.monotonic() + PROGRAM_S
        while not job.ended(2) and time.monotonic() < deadline:
            for group in self.site.manager.groups():
                if len(group["hosts"]) == len(self.RANKS):
                    self.note_collectives(group["group"], most)
        return self.end(job, max(1, deadline - time.monotonic())), dict(sorted(most.items()))

    def note_collectives(self, group, most):
        try:
            shown = json.loads(self.site.manager.run("--json", "group", "show", str(group)))
        except AssertionError:
            return  # it has just ended
        for switch in shown["switches"]:
            most[switch["name"]] = max(most.get(switch["name"], 0), int(switch.get("collectives") or 0))


if __name__ == "__main__":
    mpi_guests.main()
