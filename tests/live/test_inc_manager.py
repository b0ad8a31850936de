#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""weft-inc-manager with the switches of conf/inc-tree.yaml: groups of four weft-rnic that it makes and takes back."""
import json
import os
import shutil
import signal
import subprocess
import time
import unittest

import inc_tree
import lab

CALM = ("--timeout", "40", "-m", "1024", "--rto-us", "200000")
LEASE_MS, PROBE_MS = 1500, 200


def start_logged(command, path, says="listening"):
    """Starts a program that says in its log when it listens; what an earlier one said is not taken for it."""
    with open(path, "a", encoding="utf-8") as log:
        before = os.path.getsize(path)
        process = lab.spawn(command, stderr=log)
    lab.wait_for(f"{command[0]} to listen",
                 lambda: says in lab.read(path)[before:] or process.poll() is not None)
    return process


class Manager:
    """The program, with the file of conf/ for this lab, and its client.

    tcp        `control.tcp` of its file, where it has that
    namespace  where it runs, if not in this one
    etcd       its store, in place of a database
    waits      for another one that leads: start() returns when it does
    reach      what weft-inc is told of where managers are; default: its socket
    policy     `policy` of its file, and what follows it
    memory_kb  that it may give of each switch"""

    def __init__(self, l, lease_ms=LEASE_MS, tcp=None, namespace=None, etcd=None, waits=False, reach=(),
                 name="inc-manager", policy="spatial", memory_kb=4096):
        self._lab = l
        self._says = "waiting for the lead" if waits else "listening"
        self._inside = ["ip", "netns", "exec", namespace] if namespace else []
        self.socket = os.path.join(l.directory, name + ".sock")
        self._reach = reach or ("--socket", self.socket)
        self._config = os.path.join(l.directory, name + ".yaml")
        text = lab.read(os.path.join(inc_tree.ROOT, "conf/inc-manager/inc-tree.yaml"))
        for old, new in (("/run/weft/weft.sock", l.socket), ("/run/weft/inc-manager.sock", self.socket),
                         ("/var/lib/weft/inc-manager.db", os.path.join(l.directory, "inc.db")),
                         ("lease_ms: 5000", f"lease_ms: {lease_ms}\nprobe_ms: {PROBE_MS}"),
                         ("policy: spatial", f"policy: {policy}"),
                         ("memory_kb: 4096", f"memory_kb: {memory_kb}")):
            assert old in text, old
            text = text.replace(old, new)
        if etcd:
            text = text.replace(f"store: {l.directory}/inc.db", f"etcd: {json.dumps(etcd)}", 1)
        if tcp:
            text = text.replace("control: {", f"control: {{ tcp: {json.dumps(tcp)},", 1)
        with open(self._config, "w", encoding="utf-8") as file:
            file.write(text)
        self._process = None
        self.log = os.path.join(l.directory, name + ".log")
        l.evidence.add(lambda folder: shutil.copy(self.log, folder))
        self.start()
        l.on_exit(self.kill)

    def start(self):
        self._process = start_logged([*self._inside, os.path.join(lab.BIN, "weft-inc-manager"), "-c",
                                      self._config], self.log, self._says)
        assert self._process.poll() is None, lab.read(self.log)

    def send(self, number):
        """To the program itself, which setpriv has become."""
        self._process.send_signal(number)

    def ended(self):
        return self._process.poll()

    def kill(self, number=signal.SIGKILL):
        if self._process.poll() is None:
            self._process.send_signal(number)
        return self._process.wait(timeout=10)

    def command(self, *words):
        return [os.path.join(lab.BIN, "weft-inc"), *self._reach, *words]

    def run(self, *words, **options):
        return lab.run(*self.command(*words), **options)

    def refused(self, *words):
        done = subprocess.run(self.command(*words), capture_output=True, text=True, timeout=30, check=False)
        assert done.returncode == 1, f"{words}: {done.returncode} {done.stdout} {done.stderr}"
        return done.stdout + done.stderr

    def groups(self):
        return json.loads(self.run("--json", "group", "list"))["groups"]

    def create(self, hellos, *words):
        """Makes a group and holds its lease; the process, and what the ranks are told."""
        process = lab.spawn(self.command("group", "create", "--hold", *words), stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, text=True)
        process.stdin.write("".join(json.dumps(hello) + "\n" for hello in hellos) + "\n")
        process.stdin.flush()
        return process, [json.loads(process.stdout.readline()) for _ in hellos]


def on_switches(tree):
    """Groups by switch."""
    return {switch: [row["group"] for row in tree.show("groups", switch)] for switch in ("leaf1", "leaf2", "root")}


NOWHERE = {"leaf1": [], "leaf2": [], "root": []}
EVERYWHERE = {"leaf1": [7], "leaf2": [7], "root": [7]}


class Groups(unittest.TestCase):
    """Groups of ranks that are ended with the test."""

    def make(self, tree, manager, *words, mode=(), group=7):
        """Ranks that have their group and begin; what holds it."""
        ranks = tree.start_ranks(group, *CALM, *words)
        self.addCleanup(self.end, ranks)
        hellos = [json.loads(rank.stdout.readline()) for rank in ranks]
        holder, told = manager.create(hellos, "--group", str(group), *mode)
        self.addCleanup(self.end, [holder])
        return ranks, holder, told

    @staticmethod
    def end(processes):
        """Without input they end by themselves."""
        for process in processes:
            if not process.stdin.closed:
                process.stdin.close()
        for process in processes:
            try:
                process.wait(timeout=15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            for stream in filter(None, (process.stdout, process.stderr)):
                stream.close()

    @staticmethod
    def release(ranks, told):
        for rank, line in zip(ranks, told):
            rank.stdin.write(json.dumps(line) + "\n")
            rank.stdin.flush()

    def expect_results(self, tree, ranks):
        for number, (rank, result) in enumerate(zip(ranks, tree.results(ranks))):
            self.assertEqual((result.get("error"), rank.returncode), ("", 0), f"rank {number}: {result}")


class IncManager(Groups):
    def test_ranks_get_a_group_and_it_is_gone_when_they_are_through(self):
        with lab.Lab() as l:
            tree = inc_tree.Tree(l)
            manager = Manager(l)
            says = manager.run("explain", "h1", "h2", "h3", "h4")
            self.assertIn("4 hosts gets a tree of 3 switches under root", says)
            for number, mode in enumerate(("i", "ii", "iii"), 7):
                words = ("-s", "65536", "-n", "3")
                ranks, holder, told = self.make(tree, manager, *words, mode=("--mode", mode), group=number)
                self.assertEqual([line["rank"] for line in told], [0, 1, 2, 3])
                self.release(ranks, told)
                self.expect_results(tree, ranks)
                # The switches did the work.
                rows = tree.show("groups", "root")
                self.assertEqual([(row["group"], row["mode"], row["collectives"]) for row in rows],
                                 [(number, mode, 12)])
                listed = manager.groups()[0]
                self.assertEqual((listed["state"], listed["mode"], listed["hosts"]),
                                 ("running", mode, ["h1", "h2", "h3", "h4"]))
                self.assertEqual({s["name"] for s in listed["switches"] if s["root"]}, {"root"})
                shown = json.loads(manager.run("--json", "group", "show", str(number)))["switches"]
                self.assertEqual({s["name"]: s["collectives"] for s in shown}, {"leaf1": 12, "leaf2": 12, "root": 12})
                used = sum(int(node["used_bytes"]) for node in json.loads(manager.run("--json", "topology"))["nodes"])
                self.assertEqual(used, sum(int(s["bytes"]) for s in listed["switches"]))
                holder.stdin.close()
                self.assertEqual(holder.wait(timeout=10), 0)
                self.assertEqual(on_switches(tree), NOWHERE)
                self.assertEqual(manager.groups(), [])
            self.assertIn("no group 7", manager.refused("group", "show", "7"))
            self.assertEqual(manager.kill(signal.SIGTERM), 0)
            l.stop()

    def test_who_is_not_heard_of_holds_nothing(self):
        with lab.Lab() as l:
            tree = inc_tree.Tree(l)
            manager = Manager(l)
            _, holder, _ = self.make(tree, manager)
            time.sleep(2 * LEASE_MS / 1000)
            self.assertEqual(on_switches(tree), EVERYWHERE, "its lease was renewed")
            holder.kill()
            lab.wait_for("the end of the lease", lambda: not manager.groups(), 2 * LEASE_MS / 1000 + 3)
            self.assertEqual(on_switches(tree), NOWHERE)
            self.assertIn("group 7 is gone from all switches", lab.read(manager.log))
            l.stop()

    def test_another_manager_goes_on_with_running_groups(self):
        with lab.Lab() as l:
            tree = inc_tree.Tree(l)
            manager = Manager(l)
            ranks, holder, told = self.make(tree, manager, "-s", "262144", "-n", "3")
            manager.kill()
            # A group that the store does not have, and one that is somebody else's.
            for number in (8, 70_000):
                hello = {"address": "10.0.1.2", "qp": 99, "first_psn": 0, "expects_psn": 0, "loss_recovery": "gbn",
                         "mtu": 1024}
                spec = {"id": number, "ranks": 2, "endpoints": [
                    {"address": f"10.0.{n}.1", "qp": 500 + number % 100, "peer": f"10.0.{n}.2", "peer_qp": hello["qp"],
                     "rank": n - 1, "first_rx": 0, "first_tx": 0} for n in (1, 2)]}
                tree.create("leaf1", spec)
            manager.start()
            self.release(ranks, told)
            self.expect_results(tree, ranks)
            self.assertEqual(on_switches(tree), {"leaf1": [7, 70_000], "leaf2": [7], "root": [7]})
            holder.stdin.close()
            self.assertEqual(holder.wait(timeout=10), 0)
            self.assertEqual(on_switches(tree), {"leaf1": [70_000], "leaf2": [], "root": []})
            l.stop()

    def test_a_switch_that_refuses_leaves_nothing_behind(self):
        with lab.Lab() as l:
            tree = inc_tree.Tree(l)
            manager = Manager(l)
            ranks = tree.start_ranks(7, *CALM)
            self.addCleanup(self.end, ranks)
            hellos = [json.loads(rank.stdout.readline()) for rank in ranks]
            # Memory that the manager does not know of is gone at the root.
            hog = {"id": 70_000, "ranks": 2, "window": 200, "message_packets": 4, "endpoints": [
                {"address": f"10.1.1.{n}", "qp": 5, "peer": f"10.1.1.{n + 1}", "peer_qp": 5, "rank": n // 2,
                 "first_rx": 0, "first_tx": 0} for n in (0, 2)]}
            tree.create("root", hog)
            done = subprocess.run(manager.command("group", "create", "--group", "7", "--window", "64"), text=True,
                                  input="".join(json.dumps(hello) + "\n" for hello in hellos), capture_output=True,
                                  timeout=30, check=False)
            self.assertEqual(done.returncode, 1, done.stdout)
            self.assertIn("root refused", done.stderr)
            self.assertEqual(on_switches(tree), {"leaf1": [], "leaf2": [], "root": [70_000]})
            self.assertEqual(manager.groups(), [])
            l.stop()

    def test_a_switch_that_was_stopped_is_found_again(self):
        with lab.Lab() as l:
            tree = inc_tree.Tree(l)
            manager = Manager(l)
            _, holder, _ = self.make(tree, manager)
            l.stop()
            lab.wait_for("silence", lambda: not any(
                node["up"] for node in json.loads(manager.run("--json", "topology"))["nodes"] if node["tier"]))
            self.assertIn("no way into the fabric", manager.refused("explain", "h1", "h2"))
            tree.start()
            lab.wait_for("the loss of the group", lambda: not manager.groups())
            self.assertEqual(holder.wait(timeout=10), 1)
            self.assertIn("gets a tree", manager.run("explain", "h1", "h2"))
            self.assertEqual(on_switches(tree), NOWHERE)
            l.stop()


if __name__ == "__main__":
    lab.main()
