#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""weft-incd on each host of Tree-3-2, between programs that use the host library and weft-inc-manager."""
import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
import unittest
from unittest import mock

import inc_ranks
import inc_tree
import lab
from test_inc_manager import EVERYWHERE, LEASE_MS, NOWHERE, Manager, on_switches, start_logged

QUICK = ("-b", "1024", "-e", "65536", "-f", "8", "-n", "3", "-w", "1", "--json")
# Until somebody ends it.
LONG = ("-b", "4096", "-e", "4096", "-n", "100000", "-w", "0", "-c", "0")


class Daemons:
    """One for each host. The manager's socket is a file, which all namespaces see."""

    def __init__(self, l, manager):
        self._lab, self._manager = l, manager
        self.sockets = [os.path.join(l.directory, f"incd{n}.sock") for n in range(inc_tree.RANKS)]
        self.logs = [os.path.join(l.directory, f"incd{n}.log") for n in range(inc_tree.RANKS)]
        self.processes = [None] * inc_tree.RANKS
        for number in range(inc_tree.RANKS):
            l.evidence.add(lambda folder, log=self.logs[number]: shutil.copy(log, folder))
            self.start(number)
        l.on_exit(self.stop)

    def start(self, number):
        self.processes[number] = start_logged(
            [os.path.join(lab.BIN, "weft-incd"), "--socket", self.sockets[number], "--manager-socket",
             self._manager.socket], self.logs[number])

    def end(self, number, how=signal.SIGTERM):
        self.processes[number].send_signal(how)
        return self.processes[number].wait(timeout=10)

    def stop(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()

    def options(self, rank):
        return "--daemon", self.sockets[rank]


def signal_rank(tree, rank, number, program="weft-inc"):
    """`ip netns exec` and `timeout` stand in front of the program."""
    for pid in lab.run("ip", "netns", "pids", tree.hosts[rank].namespace).split():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if lab.read(f"/proc/{pid}/comm").strip() == program:
                os.kill(int(pid), number)


def slot_bytes(tree, switch):
    """Of its memory for slots, what the switch itself counts as taken."""
    return next(row["bytes"] for row in tree.show("memory", switch) if row["of"] == "switch")


class Incd(unittest.TestCase):
    def start(self, l, *words, **options):
        ranks = inc_ranks.Ranks(self.tree, "allreduce", *words, each=self.daemons.options, **options)
        self.addCleanup(ranks.kill)
        return ranks

    def make(self, l):
        self.tree = inc_tree.Tree(l)
        self.manager = Manager(l)
        self.daemons = Daemons(l, self.manager)

    def group_runs(self):
        """A group of four ranks, whose generation is returned."""
        lab.wait_for("a running group", lambda: [g["state"] for g in self.manager.groups()] == ["running"])
        return self.manager.groups()[0]["generation"]

    def report(self, ranks):
        out, ends = ranks.results()
        self.assertEqual([status for status, _ in ends], [0] * len(ends), ends)
        return json.loads(out)

    def nothing_is_left(self, seconds=5):
        lab.wait_for("the end of the group", lambda: not self.manager.groups(), seconds)
        self.assertEqual(on_switches(self.tree), NOWHERE)

    def test_programs_get_switches_and_give_them_back(self):
        with lab.Lab() as l:
            self.make(l)
            report = self.report(self.start(l, *QUICK))
            self.assertEqual((report["reason"], list(report["calls"])), ("none", ["none"]))
            self.assertTrue(all(row["in_place"]["wrong"] == 0 for row in report["rows"]))
            self.nothing_is_left(1)
            self.assertEqual([self.daemons.end(n) for n in range(4)], [0] * 4)
            self.assertFalse(os.path.exists(self.daemons.sockets[0]))
            # Without daemons, and with a daemon but without a manager, hosts do it and say why.
            self.assertEqual(self.report(self.start(l, *QUICK))["reason"], "no_daemon")
            for number in range(4):
                self.daemons.start(number)
            self.manager.kill(signal.SIGTERM)
            with mock.patch.dict(os.environ, WEFT_INC_LOG="info"):
                ranks = self.start(l, *QUICK)
            out, ends = ranks.results()
            report = json.loads(out)
            self.assertEqual(report["reason"], "no_manager")
            self.assertIn("is weft-inc-manager running?", report["detail"])
            says = ends[0][1]
            self.assertRegex(says, "(?m)^weftinc: info: rank 0 of 4: by hosts: no_manager, .*running\\?$")
            self.assertIn("weftinc: info: rank 0 of 4: allreduce of 65536 bytes by hosts: no_manager\n", says)
            self.assertEqual(says.count("bytes by hosts: no_manager\n"), report["calls"]["no_manager"], says)
            l.stop()

    def doctor(self, host, *words):
        done = subprocess.run(["ip", "netns", "exec", self.tree.hosts[host].namespace, inc_ranks.INC, "--socket",
                               self.manager.socket, "--json", "doctor", *self.daemons.options(host), *words],
                              capture_output=True, text=True, timeout=30, check=False)
        return done.returncode, {one["check"]: one for one in json.loads(done.stdout)}

    def test_the_doctor_finds_what_is_missing(self):
        with lab.Lab() as l:
            self.make(l)
            status, found = self.doctor(2)
            self.assertEqual((status, [name for name, one in found.items() if not one["fine"]]), (0, []), found)
            self.assertEqual(list(found), ["rnic", "mtu", "daemon", "manager", "gid", "host", "switch",
                                           "path", "icrc"])
            self.assertIn("10.0.3.2 of eth0", found["gid"]["detail"])
            self.assertIn("the ICRC is right in both directions", found["icrc"]["detail"])
            self.nothing_is_left(0)
            self.assertIn("h3", found["host"]["detail"])
            self.tree.hosts[2].ip("link", "set", "eth0", "mtu", "900")
            self.daemons.end(2)
            status, found = self.doctor(2)
            self.assertEqual((status, [name for name, one in found.items() if not one["fine"]]), (1, ["mtu", "daemon"]))
            self.assertIn("512", found["mtu"]["detail"])
            # An address that the manager does not know.
            self.tree.hosts[2].address("10.0.3.77/24")
            status, found = self.doctor(2, "--rnic", "10.0.3.77")
            self.assertFalse(found["host"]["fine"])
            self.assertFalse(found["gid"]["fine"])
            self.assertIn("its h3 is 10.0.3.2 of eth0: name this address", found["gid"]["detail"])
            l.stop()
            lab.wait_for("silence", lambda: not self.doctor(1)[1]["switch"]["fine"])
            self.assertFalse(self.doctor(1, "--interface", "nothing")[1]["rnic"]["fine"])

    def test_the_doctor_names_who_drops_packets_with_a_wrong_icrc(self):
        both = [{"name": name, "match": {"kind": "roce", "ports": [port]}, "corrupt": {"ratio": 1, "where": where},
                 "enabled": False} for name, port, where in (("to", "host", "payload"), ("from", "leaf", "any"))]
        with lab.Lab() as l:
            # Every cable is a switch of its own, whose port `host` hears the host, and `leaf` the leaf.
            self.tree = inc_tree.Tree(l, both)
            self.manager = Manager(l)
            self.daemons = Daemons(l, self.manager)
            weftctl = (os.path.join(lab.BIN, "weftctl"), "--socket", l.socket, "set", "impair")
            for rule, says in (("to", "leaf2 drops packets of this host: "),
                               ("from", "this host's RNIC drops packets of leaf2: ")):
                lab.run(*weftctl, rule, "on", "--switch", "cable-h3")
                status, found = self.doctor(2)
                self.assertEqual((status, found["icrc"]["fine"]), (1, False), found)
                self.assertIn(says, found["icrc"]["detail"])
                self.assertIn("wrong ICRC", found["icrc"]["detail"])
                lab.run(*weftctl, rule, "off", "--switch", "cable-h3")
                status, found = self.doctor(2)
                self.assertEqual((status, found["icrc"]["fine"]), (0, True), found)
            self.nothing_is_left(0)
            l.stop()

    def top(self):
        """What the only group did in a quarter of a second."""
        return json.loads(self.manager.run("--json", "top", "-n", "1", "-i", "0.25"))["groups"][0]

    def test_an_operator_sees_what_a_group_does_and_who_keeps_it_waiting(self):
        with lab.Lab() as l:
            self.make(l)
            ranks = self.start(l, *LONG)
            self.group_runs()
            number = self.manager.groups()[0]["group"]
            lab.wait_for("collectives", lambda: (self.top()["collectives_per_s"] or 0) > 0)
            self.assertGreater(self.top()["mbytes_per_s"], 0)
            self.assertRegex(self.manager.run("top", "-n", "1", "-i", "0.1"), rf"(?m)^group\b.*\n *{number}\b")
            self.assertIn(f"Group {number} of 4 ranks runs on 3 switches under root.\nRank ",
                          self.manager.run("group", "explain", str(number)))
            signal_rank(self.tree, 2, signal.SIGSTOP)
            lab.wait_for("rank 2 to be named", lambda: self.top()["waits_for"] == "rank 2 (h3)")
            self.assertEqual(self.top()["collectives_per_s"], 0)
            self.assertIn("rank 2 (h3)", self.manager.run("top", "-n", "1", "-i", "0.1"))
            signal_rank(self.tree, 2, signal.SIGCONT)
            lab.wait_for("collectives", lambda: self.top()["collectives_per_s"] > 0)
            self.manager.run("topology", "--svg", os.path.join(l.directory, "fabric.svg"))
            drawing = lab.read(os.path.join(l.directory, "fabric.svg"))
            for name in ("leaf1", "leaf2", "root", "h4"):
                self.assertIn(f">{name}<", drawing)
            ranks.kill()
            self.nothing_is_left()
            self.assertIn(f"no group {number}", self.manager.refused("group", "explain", str(number)))
            l.stop()

    def test_a_rank_that_dies_holds_nothing_and_the_others_hear_of_it(self):
        with lab.Lab() as l:
            self.make(l)
            for victim in (2, 0):
                ranks = self.start(l, *LONG)
                self.group_runs()
                self.assertEqual(len(on_switches(self.tree)["root"]), 1)
                signal_rank(self.tree, victim, signal.SIGKILL)
                started = time.monotonic()
                self.nothing_is_left(LEASE_MS / 1000)
                _, ends = ranks.results(timeout=30)
                self.assertLess(time.monotonic() - started, 10)
                for rank, (status, error) in enumerate(ends):
                    if rank != victim:
                        self.assertEqual(status, 1, error)
                        self.assertRegex(error, "gone from the switches|rank 0|is gone|retry counter exceeded")
            self.assertEqual(self.report(self.start(l, *QUICK))["reason"], "none")
            l.stop()

    def test_ranks_that_disagree_learn_which_of_them_said_what(self):
        """At one leaf, and between the leaves, where the root notices it."""
        with lab.Lab() as l:
            self.make(l)
            for number, small in enumerate(((3,), (2, 3))):
                ranks = inc_ranks.Ranks(self.tree, "allreduce", "-n", "1", "-w", "0", port=7500 + number,
                                        each=lambda rank, small=small: (*self.daemons.options(rank), *(
                                            ("-b", "4096", "-e", "4096") if rank in small else
                                            ("-b", "8192", "-e", "8192"))))
                self.addCleanup(ranks.kill)
                _, ends = ranks.results(timeout=30)
                for rank, (status, error) in enumerate(ends):
                    with self.subTest(small=small, rank=rank):
                        self.assertEqual(status, 1, error)
                        self.assertIn("ranks began different collectives", error)
                        self.assertRegex(error, "4096 bytes")
                        self.assertRegex(error, "8192 bytes")
                        self.assertRegex(error, r"\branks? (2, )?3\b")
                self.nothing_is_left()
            l.stop()

    def test_a_group_that_loses_its_switches_goes_on_with_right_results(self):
        with lab.Lab() as l:
            self.make(l)
            # Larger than what ranks keep for others; what is over at some ranks, and not at the others.
            for number, (primitive, size, times) in enumerate((("allreduce", 524288, 60), ("reduce", 65536, 250),
                                                               ("broadcast", 65536, 250))):
                ranks = inc_ranks.Ranks(self.tree, primitive, "-b", str(size), "-e", str(size), "-n", str(times), "-w",
                                        "0", "--json", each=self.daemons.options, port=7300 + number)
                self.addCleanup(ranks.kill)
                self.group_runs()
                lab.wait_for("collectives", lambda: any(row["collectives"] > 20 for row in
                                                        self.tree.show("groups", "root")), 10)
                # As by an operator: nobody dies, so that hosts can go on.
                self.manager.run("group", "destroy", str(self.manager.groups()[0]["group"]))
                report = self.report(ranks)
                self.assertGreater(report["calls"].get("lost", 0), 0, report["calls"])
                for row in report["rows"]:
                    self.assertEqual((row["out_of_place"]["wrong"], row["in_place"]["wrong"]), (0, 0), primitive)
                self.nothing_is_left()
            l.stop()

    def test_a_daemon_or_manager_that_is_started_again_goes_on(self):
        with lab.Lab() as l:
            self.make(l)
            ranks = self.start(l, *LONG)
            generation = self.group_runs()
            self.daemons.end(1, signal.SIGKILL)
            self.daemons.start(1)
            self.daemons.end(0)
            self.daemons.start(0)
            time.sleep(2 * LEASE_MS / 1000)
            self.assertEqual([g["generation"] for g in self.manager.groups()], [generation], "its lease is held")
            self.manager.kill()
            self.manager.start()
            time.sleep(2 * LEASE_MS / 1000)
            self.assertEqual([g["generation"] for g in self.manager.groups()], [generation])
            self.assertEqual({switch: len(groups) for switch, groups in on_switches(self.tree).items()},
                             {switch: len(groups) for switch, groups in EVERYWHERE.items()})
            # A daemon that does not come back: its rank's lease ends, and with it the group.
            self.daemons.end(3, signal.SIGKILL)
            lab.wait_for("the end of the lease", lambda: generation not in [g["generation"] for g in
                                                                            self.manager.groups()], 6)
            ranks.kill()
            self.nothing_is_left(2 * LEASE_MS / 1000 + 3)
            l.stop()


if __name__ == "__main__":
    lab.main()
