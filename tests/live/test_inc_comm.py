#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""The host library (libweftinc) over Tree-3-2 of conf/inc-tree.yaml, with weft's own RNIC in each rank's process."""
import json
import subprocess
import sys
import time
import unittest

import inc_ranks
import inc_tree
import lab

GROUP, WINDOW = 7, 4
# Fewer elements than ranks, and several windows of messages.
SIZES = ("-b", "16", "-e", "262144", "-f", "128", "-n", "3", "-w", "1", "--json")
COLLECTIVES = ("allreduce", "reduce", "broadcast", "barrier", "reduce_scatter", "allgather")


class HostLibrary(unittest.TestCase):
    def run_ranks(self, ranks, reason):
        self.addCleanup(ranks.kill)
        out, ends = ranks.results()
        self.assertEqual([status for status, _ in ends], [0] * len(ends), ends)
        report = json.loads(out)
        self.assertEqual(report["reason"], reason)
        self.assertGreater(report["calls"][reason], 0)
        self.assertEqual(list(report["calls"]), [reason])
        for row in report["rows"]:
            self.assertEqual((row["out_of_place"]["wrong"], row["in_place"]["wrong"]), (0, 0))
        return report

    def by_hand(self, tree, *words, group=GROUP, **mode):
        """Ranks whose group `weftctl inc create` makes."""
        ranks = inc_ranks.Ranks(tree, *words, "--by-hand", "--backend", "inc", "--window", str(WINDOW),
                                each=lambda rank: ("--daemon", ""))
        self.addCleanup(ranks.kill)
        ranks.join(tree, group, WINDOW, message_packets=4, **mode)
        return ranks

    def test_switches_run_every_collective(self):
        with lab.Lab() as l:
            tree = inc_tree.Tree(l)
            for number, name in enumerate(COLLECTIVES):
                report = self.run_ranks(self.by_hand(tree, name, *SIZES, group=GROUP + number), "none")
                self.assertEqual(report["group"], GROUP + number)
                row = [row for row in tree.show("groups", "root") if row["group"] == GROUP + number][0]
                # ReduceScatter and AllGather are one Reduce, or Broadcast, for each rank.
                calls = report["calls"]["none"] * (4 if name in ("reduce_scatter", "allgather") else 1)
                self.assertEqual(row["collectives"], calls)
                tree.remove(GROUP + number)
            l.stop()

    def test_switches_in_other_modes_and_types(self):
        with lab.Lab() as l:
            tree = inc_tree.Tree(l)
            options = inc_tree.modes(10)
            for number, (mode, words) in enumerate((("i", ("-d", "half")), ("iii", ("-d", "int64", "-o", "max")),
                                                    ("ii", ("-d", "bfloat16")))):
                self.run_ranks(self.by_hand(tree, "allreduce", *SIZES, *words, group=GROUP + number, **options[mode]),
                               "none")
                tree.remove(GROUP + number)
            l.stop()

    def test_ranks_do_not_wait_for_a_host_that_is_cut_off(self):
        with lab.Lab() as l:
            tree = inc_tree.Tree(l)
            # In the place of rank 0: its kernel takes connections, and nothing is said.
            mute = subprocess.Popen(["ip", "netns", "exec", tree.hosts[0].namespace, sys.executable, "-c",
                                     "import socket, time; s = socket.create_server(('10.0.1.2', 7000)); "
                                     "print(flush=True); time.sleep(60)"], stdout=subprocess.PIPE, text=True)
            self.addCleanup(mute.wait)
            self.addCleanup(mute.kill)
            self.addCleanup(mute.stdout.close)
            mute.stdout.readline()
            words = ("ip", "netns", "exec", tree.hosts[1].namespace, inc_ranks.INC, "perf", "--rank", "1", "--ranks",
                     "2", "--meet", "10.0.1.2:7000", "--timeout", "2", "--daemon", "")
            with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as rank:
                self.addCleanup(rank.kill)
                lab.wait_for("a connection", lambda: "10.0.1.2:7000" in lab.run(
                    "ip", "netns", "exec", tree.hosts[1].namespace, "ss", "-Htn", "state", "established"))
                time.sleep(0.5)  # it has said who it is, and waits for the others
                self.assertIsNone(rank.poll())
                l.kill()
                self.assertIn("another rank is gone", rank.communicate(timeout=15)[1])
                self.assertNotEqual(rank.returncode, 0)
            # Nor for one that cannot be reached at all.
            done = subprocess.run(words, capture_output=True, text=True, timeout=15, check=False)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("rank 0 is not at 10.0.1.2:7000", done.stderr)

    def test_hosts_alone(self):
        with lab.Lab() as l:
            tree = inc_tree.Tree(l)
            for backend in ("ring", "tree"):
                for name in COLLECTIVES:
                    ranks = inc_ranks.Ranks(tree, name, *SIZES, "--backend", backend, "--daemon", "")
                    self.run_ranks(ranks, "hosts_asked")
            # Three ranks, and nobody to ask for switches.
            ranks = inc_ranks.Ranks(tree, "allreduce", *SIZES, "--daemon", "/nowhere/incd.sock", ranks=3)
            report = self.run_ranks(ranks, "no_daemon")
            self.assertIn("rank 0", report["detail"])
            self.assertEqual(tree.show("groups", "root"), [])
            l.stop()

    def test_losses_are_repaired(self):
        with lab.Lab() as l:
            tree = inc_tree.Tree(l, inc_tree.FAULTS)
            self.run_ranks(self.by_hand(tree, "allreduce", *SIZES), "none")
            ranks = inc_ranks.Ranks(tree, "allreduce", *SIZES, "--backend", "ring", "--daemon", "")
            self.run_ranks(ranks, "hosts_asked")
            l.stop()


if __name__ == "__main__":
    lab.main()
