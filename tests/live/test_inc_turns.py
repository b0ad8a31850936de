#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""Jobs that need the same links take turns: with edge-disjoint trees both jobs, h1 and h3, h2 and h4, need the links of
both leaves with the root. Who comes second waits, or runs by its hosts."""
import json
import signal
import time
import types
import unittest

import inc_ranks
import inc_tree
import lab
from test_inc_manager import LEASE_MS, NOWHERE, Manager, on_switches
from test_incd import Daemons, signal_rank

PATIENCE_MS = 20_000
FIRST, SECOND = (0, 2), (1, 3)  # hosts of the jobs
# Until somebody ends it.
LONG = ("-b", "4096", "-e", "4096", "-n", "100000", "-w", "0", "-c", "0", "--backend", "inc")
SHORT = ("-b", "65536", "-e", "65536", "-n", "20", "-w", "1", "--json")


class Jobs(unittest.TestCase):
    """Of ranks on some of the hosts, each with its daemon."""

    def job(self, hosts, *words, port):
        place = types.SimpleNamespace(hosts=[self.tree.hosts[host] for host in hosts])
        ranks = inc_ranks.Ranks(place, "allreduce", *words, ranks=len(hosts), meet=f"10.0.{hosts[0] + 1}.2", port=port,
                                each=lambda rank: self.daemons.options(hosts[rank]))
        self.addCleanup(ranks.kill)
        return ranks

    def report(self, ranks):
        out, ends = ranks.results()
        self.assertEqual([status for status, _ in ends], [0] * len(ends), ends)
        report = json.loads(out)
        for row in report["rows"]:
            self.assertEqual((row["out_of_place"]["wrong"], row["in_place"]["wrong"]), (0, 0))
        return report


class Turns(Jobs):
    def make(self, l, patience_ms):
        self.tree = inc_tree.Tree(l)
        self.manager = Manager(l, policy=f"edge_disjoint\npatience_ms: {patience_ms}")
        self.daemons = Daemons(l, self.manager)

    def who_has_it(self):
        """The hosts of the groups that run: never more than one."""
        running = [g for g in self.manager.groups() if g["state"] == "running"]
        self.assertLessEqual(len(running), 1, running)
        return running[0]["hosts"] if running else []

    def wait_in_line(self, ranks, seconds):
        """The second job has asked, and the first one keeps what it has."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.assertEqual(self.who_has_it(), ["h1", "h3"])
            self.assertEqual([process.poll() for process in ranks.processes], [None, None])
            time.sleep(0.1)

    def test_who_comes_second_waits_for_its_turn(self):
        with lab.Lab() as l:
            self.make(l, PATIENCE_MS)
            first = self.job(FIRST, *LONG, port=7000)
            lab.wait_for("the first job's group", lambda: self.who_has_it() == ["h1", "h3"])
            says = self.manager.refused("explain", "h2", "h4")
            self.assertIn("every tree needs links that other groups have", says)
            second = self.job(SECOND, *SHORT, "--backend", "inc", port=7001)
            self.wait_in_line(second, 1.5)
            # The first one dies: with its lease all of its switches and links are free, and the second has its turn.
            signal_rank(self.tree, FIRST[1], signal.SIGKILL)
            lab.wait_for("the second job's turn", lambda: self.who_has_it() == ["h2", "h4"] or
                         second.processes[0].poll() is not None, 2 * LEASE_MS / 1000 + 5)
            report = self.report(second)
            self.assertEqual((report["reason"], list(report["calls"])), ("none", ["none"]))
            first.kill()
            lab.wait_for("the end of all groups", lambda: not self.manager.groups(), 2 * LEASE_MS / 1000 + 3)
            self.assertEqual(on_switches(self.tree), NOWHERE)
            l.stop()

    def test_without_patience_its_hosts_do_the_work(self):
        with lab.Lab() as l:
            self.make(l, 0)
            first = self.job(FIRST, *LONG, port=7000)
            lab.wait_for("the first job's group", lambda: self.who_has_it() == ["h1", "h3"])
            report = self.report(self.job(SECOND, *SHORT, "--backend", "auto", port=7001))
            self.assertEqual((report["reason"], list(report["calls"])), ("no_tree", ["no_tree"]))
            self.assertIn("links_taken", report["detail"])
            self.assertEqual(self.who_has_it(), ["h1", "h3"])
            first.kill()
            l.stop()


if __name__ == "__main__":
    lab.main()
