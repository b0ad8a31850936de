#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""Jobs with the same memory of switches: there is enough for one of them. Each asks for it in front of every
collective; the switches run it, or the hosts do, and who did is counted."""
import json
import os
import signal
import unittest

import inc_tree
import lab
import test_inc_turns
from test_inc_manager import LEASE_MS, NOWHERE, Manager, on_switches
from test_incd import Daemons, signal_rank, slot_bytes

FIRST, SECOND = (0, 2), (1, 3)  # hosts of the jobs: both need all three switches
# Groups with a window of three messages take 52 KiB at a switch, and of what is left nothing is of use.
MEMORY_KB = 64
SIZES = ("-b", "4096", "-e", "65536", "-f", "16", "-w", "1", "-d", "int32", "--window", "3", "--json")


class Blocks(test_inc_turns.Jobs):
    def make(self, l):
        self.tree = inc_tree.Tree(l)
        self.manager = Manager(l, policy="temporal\nduty: 0.5", memory_kb=MEMORY_KB)
        self.daemons = Daemons(l, self.manager)

    def both_share(self, times, *words):
        """The two jobs, whose groups have come to be in the same memory; each measures a size so many times."""
        jobs = [self.job(hosts, *SIZES, "-n", str(times), *words, port=7000 + number)
                for number, hosts in enumerate((FIRST, SECOND))]
        lab.wait_for("two groups in one block", self.two_groups_share)
        return jobs

    def blocks(self):
        """By switch, the memory that groups have there."""
        return {switch: [row["block"] for row in self.tree.show("groups", switch)] for switch in NOWHERE}

    def two_groups_share(self):
        blocks = self.blocks()
        return all(len(of) == 2 and of[0] is not None and of[0] == of[1] for of in blocks.values())

    def nothing_is_left(self):
        lab.wait_for("the end of all groups", lambda: not self.manager.groups(), 2 * LEASE_MS / 1000 + 3)
        self.assertEqual(on_switches(self.tree), NOWHERE)
        self.assertEqual([slot_bytes(self.tree, switch) for switch in NOWHERE], [0, 0, 0])

    def test_both_jobs_use_the_switches_and_give_right_sums(self):
        with lab.Lab() as l:
            self.make(l)
            jobs = self.both_share(times=400)
            self.assertEqual([slot_bytes(self.tree, switch) > 0 for switch in NOWHERE], [True] * 3)
            group = self.manager.groups()[0]
            self.assertTrue(group["turns"])
            for job in jobs:
                report = self.report(job)
                self.assertEqual(report["reason"], "none")
                calls = report["calls"]
                self.assertLessEqual(set(calls), {"none", "busy"})
                self.assertGreater(calls["none"], 20, "the switches did some of the work")
                self.assertGreater(calls.get("busy", 0), 20, "and the hosts did")
            self.nothing_is_left()
            l.stop()

    def test_groups_of_one_job_are_told_when_to_begin(self):
        rhythm = ("--period-us", "1000", "--job", "5", "--duty")
        with lab.Lab() as l:
            self.make(l)
            jobs = self.both_share(400, *rhythm, "0.4")
            groups = self.manager.groups()
            self.assertEqual([(group["job"], group["duty_per_mille"]) for group in groups], [(5, 400)] * 2)
            self.assertEqual(sorted(int(group["offset_ns"]) for group in groups), [0, 400_000])
            says = self.manager.run("explain", "h1", "h3", "--window", "3", *rhythm, "0.2")
            self.assertIn("its bursts begin 800000 ns into the period of 1000000 ns", says)
            shown = self.manager.run("group", "show", str(groups[0]["group"]))
            self.assertRegex(shown, r"period_us\s+1000")
            self.assertIn("busy for too much of the time",
                          self.manager.refused("explain", "h1", "h3", "--window", "3", *rhythm, "0.3"))
            reports = [self.report(job) for job in jobs]
            self.assertEqual({report["offset_ns"] for report in reports}, {0, 400_000})
            self.nothing_is_left()
            l.stop()

    def test_who_dies_in_its_turn_leaves_the_memory_to_others(self):
        with lab.Lab() as l:
            self.make(l)
            first = self.job(FIRST, *test_inc_turns.LONG, "--window", "3", port=7000)
            second = self.job(SECOND, *SIZES, "-n", "400", port=7001)
            lab.wait_for("two groups in one block", self.two_groups_share)
            for rank in FIRST:
                signal_rank(self.tree, rank, signal.SIGKILL)
            report = self.report(second)
            self.assertEqual(report["reason"], "none")
            first.kill()
            self.nothing_is_left()
            # Nobody is there to be met.
            report = self.report(self.job(SECOND, *SIZES, "-n", "50", port=7002))
            self.assertEqual((report["reason"], list(report["calls"])), ("none", ["none"]))
            self.nothing_is_left()
            l.stop()

    def test_a_manager_that_restarts_goes_on_with_both(self):
        with lab.Lab() as l:
            self.make(l)
            jobs = self.both_share(times=1500)
            before = {group["group"]: group["generation"] for group in self.manager.groups()}
            blocks = self.blocks()
            self.manager.kill()
            self.manager.start()
            self.assertEqual({group["group"]: group["generation"] for group in self.manager.groups()}, before)
            # Who would have memory of its own gets none, and who takes turns finds the block as busy as it was.
            says = self.manager.refused("explain", "h1", "h3", "--window", "3", "--duty", "1")
            self.assertIn("memory", says)
            self.assertIn("busy for too much of the time",
                          self.manager.refused("explain", "h1", "h3", "--window", "3", "--duty", "0.6"))
            self.assertEqual(self.blocks(), blocks)
            for job in jobs:
                self.assertEqual(self.report(job)["reason"], "none")
            self.nothing_is_left()
            l.stop()

    def busy_somewhere(self):
        """Both groups have been refused turns, so hosts are at work in between."""
        return all(row["turns"] > 20 and row["turns_refused"] > 20 for row in self.tree.show("groups", "root"))

    def test_switches_that_restart_take_neither_job_with_them(self):
        """Three rounds: at the moment of the loss some ranks may wait for a turn, others have the answer, hosts may be
        at work."""
        with lab.Lab() as l:
            self.make(l)
            for _ in range(3):
                jobs = self.both_share(times=800)
                lab.wait_for("turns that come, and that do not", self.busy_somewhere)
                l.kill()
                self.tree.start()
                for job in jobs:
                    calls = self.report(job)["calls"]
                    self.assertGreater(calls.get("lost", 0), 0, calls)
                    self.assertGreater(calls.get("busy", 0), 20, calls)
                self.nothing_is_left()
                # Nobody is there to be met, and nobody has the memory.
                report = self.report(self.job(SECOND, *SIZES, "-n", "50", port=7002))
                self.assertEqual((report["reason"], list(report["calls"])), ("none", ["none"]))
                self.nothing_is_left()
            l.stop()


if __name__ == "__main__":
    lab.main()
