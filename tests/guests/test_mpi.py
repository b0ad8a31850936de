#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""MPI programs of guests with Soft-RoCE, whose collectives three switches run: the results are those of the same
programs without weft, and the switches did the work."""
import json
import sys
import unittest

import judge
import mpi_guests
from judge import live


class Mpi(unittest.TestCase):
    RANKS = (0, 2)

    @classmethod
    def setUpClass(cls):
        cls.lab = cls.enterClassContext(live.Lab())
        cls.site = mpi_guests.Site(cls.lab, cls.RANKS)
        cls.program = cls.site.compile("mpi_results.c")

    def compare(self, with_switches, without):
        """Records of all ranks; returns how many."""
        count = 0
        for rank, (ours, theirs) in enumerate(zip(with_switches, without)):
            self.assertEqual(list(ours), list(theirs))
            found = [mpi_guests.differ(name, ours[name], theirs[name], len(without)) for name in ours]
            self.assertEqual([why for why in found if why], [], f"rank {rank}")
            for name, (result, _, in_pairs) in ours.items():
                # Reproducible: the order of children at each switch.
                if in_pairs:
                    self.assertEqual(result, in_pairs, f"rank {rank}: {name}")
            count += len(ours)
        return count

    def proof(self, collectives):
        """Of the only group: all switches of its tree have run so many collectives at least."""
        listed = self.site.manager.groups()
        self.assertEqual([group["state"] for group in listed], ["running"])
        shown = json.loads(self.site.manager.run("--json", "group", "show", str(listed[0]["group"])))
        self.assertEqual(shown["hosts"], [f"h{rank + 1}" for rank in self.RANKS])
        self.assertEqual([switch["name"] for switch in shown["switches"] if switch["collectives"] >= collectives],
                         ["leaf1", "leaf2", "root"], shown)

    def test_switches_give_the_results_of_open_mpi(self):
        # Three types, of two lengths: two operations of allreduce and reduce, a bcast and a barrier.
        collectives = 3 * 2 * (2 * 2 + 2)
        job = self.site.mpirun("/tmp/" + self.program, "/tmp/results", "few", "/tmp/go",
                               settings=("--mca", "coll_weft_use", "2"))
        job.wait_for("done", mpi_guests.RUN_S)
        self.proof(collectives)
        self.site.first.check("touch /tmp/go")
        code, out = job.wait()
        self.assertEqual(code, 0, out)
        self.assertIn("MPI_COMM_WORLD: by switches", out)
        compared = self.compare(self.site.results("/tmp/results"), self.site.results_here(self.program, "few"))
        self.assertGreater(compared, collectives)
        live.wait_for("the end of the group", lambda: not self.site.manager.groups(), 5)
        for switch in ("leaf1", "leaf2", "root"):
            self.assertEqual(self.site.tree.show("groups", switch), [])
        self.lab.stop()


if __name__ == "__main__":
    if mpi_guests.missing():
        print("SKIP: " + mpi_guests.missing())
        sys.exit(77)
    judge.main()
