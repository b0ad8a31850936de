#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""Clocks that jump under groups that run: the time of day of manager, daemons, switches and ranks, which tells nobody
how long ago something was; and a manager that does not run for longer than its leases."""
import json
import mmap
import os
import signal
import struct
import time
import unittest
from unittest import mock

import inc_ranks
import inc_tree
import lab
from test_inc_manager import LEASE_MS, Manager
from test_incd import LONG, QUICK, Daemons

HERE = os.path.dirname(os.path.realpath(__file__))
DAY_S, YEAR_S = 86_400.0, 365 * 86_400.0


class Jump:
    """The time of day of all programs that are started with `environment`."""

    def __init__(self, l):
        library, path = os.path.join(l.directory, "clock_jump.so"), os.path.join(l.directory, "jump")
        lab.run("cc", "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-o", library,
                os.path.join(HERE, "clock_jump.c"), "-lm")
        with open(path, "wb") as file:
            file.write(struct.pack("d", 0))
        with open(path, "r+b") as file:
            self._map = mmap.mmap(file.fileno(), 8)
        self.environment = {"LD_PRELOAD": library, "WEFT_CLOCK_JUMP": path}

    def to(self, seconds):
        """From the machine's own time."""
        self._map[:] = struct.pack("d", seconds)


class Clocks(unittest.TestCase):
    def start(self):
        self.tree = inc_tree.Tree(self.lab)
        self.manager = Manager(self.lab)
        self.daemons = Daemons(self.lab, self.manager)

    def ranks(self, *words, **options):
        ranks = inc_ranks.Ranks(self.tree, "allreduce", *words, each=self.daemons.options, **options)
        self.addCleanup(ranks.kill)
        return ranks

    def generation(self):
        groups = self.manager.groups()
        return groups[0]["generation"] if [g["state"] for g in groups] == ["running"] else None

    def collectives(self):
        return self.tree.show("groups", "root")[0]["collectives"]

    def goes_on(self, generation, ranks):
        """The group has its lease for longer than one lasts, and its ranks run collectives."""
        before = self.collectives()
        time.sleep(2 * LEASE_MS / 1000)
        self.assertEqual(self.generation(), generation)
        self.assertGreater(self.collectives(), before)
        self.assertEqual([process.poll() for process in ranks.processes], [None] * inc_tree.RANKS)

    def test_the_time_of_day_ends_nothing_and_keeps_nothing(self):
        with lab.Lab() as self.lab:
            jump = Jump(self.lab)
            with mock.patch.dict(os.environ, jump.environment):
                # The date is told as it jumps: otherwise all of this would be about nothing.
                jump.to(-20 * YEAR_S)
                self.assertLess(int(lab.run("date", "+%Y")), time.gmtime().tm_year - 15)
                jump.to(0)
                self.start()
                ranks = self.ranks(*LONG)
                lab.wait_for("a running group", self.generation)
                generation = self.generation()
                for seconds in (DAY_S, -DAY_S, 10 * YEAR_S, -10 * YEAR_S, 0):
                    jump.to(seconds)
                    self.goes_on(generation, ranks)
                # And in the midst of calls that have a time limit, back and forth.
                for number in range(100):
                    jump.to(DAY_S * (-1) ** number)
                    time.sleep(0.02)
                self.goes_on(generation, ranks)
                # Who dies in a day that begins anew is found out as soon as any other.
                jump.to(-DAY_S)
                for process in self.daemons.processes:
                    process.kill()
                lab.wait_for("the end of the lease", lambda: not self.manager.groups(), 2 * LEASE_MS / 1000 + 3)
                ranks.kill()
                for number in range(inc_tree.RANKS):
                    self.daemons.processes[number].wait()
                    self.daemons.start(number)
                out, ends = self.ranks(*QUICK, port=7001).results()
                self.assertEqual([status for status, _ in ends], [0] * inc_tree.RANKS, ends)
                self.assertEqual(json.loads(out)["reason"], "none")
            self.lab.stop()

    def test_a_manager_that_did_not_run_for_longer_than_a_lease_ends_no_group(self):
        with lab.Lab() as self.lab:
            self.start()
            ranks = self.ranks(*LONG)
            lab.wait_for("a running group", self.generation)
            generation = self.generation()
            for _ in range(3):
                self.manager.send(signal.SIGSTOP)
                time.sleep(3 * LEASE_MS / 1000)
                self.manager.send(signal.SIGCONT)
                self.goes_on(generation, ranks)
            self.assertIn("did not run for", lab.read(self.manager.log))
            # Its ranks' silence from then on counts in full.
            for process in self.daemons.processes:
                process.kill()
            lab.wait_for("the end of the lease", lambda: not self.manager.groups(), 2 * LEASE_MS / 1000 + 3)
            self.lab.stop()


if __name__ == "__main__":
    lab.main()
