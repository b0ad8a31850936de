#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""The backend for PyTorch: its collectives, and DistributedDataParallel of a small network, by three switches, by hosts
alone, and by Gloo."""
import json
import os
import subprocess
import sys
import unittest

import yaml

import inc_tree
import lab
from linux_bridge import LinuxBridge
from test_incd import Daemons
from test_inc_manager import NOWHERE, Manager, on_switches

MODULES = os.path.join(lab.BIN, "../lib/python")
PROGRAM = os.path.join(os.path.dirname(os.path.realpath(__file__)), "torch_program.py")
# Debian's PyTorch is of the system's Python.
PYTHON = "/usr/bin/python3"
# Of single precision, over a few steps.
ROUNDING = 1e-5


def missing():
    """Why the test cannot run, or an empty string."""
    found = [PYTHON, "-c", "import importlib.util as u, sys; sys.exit(u.find_spec('torch') is None)"]
    if not os.path.exists(PYTHON) or subprocess.run(found, check=False).returncode != 0:
        return "PyTorch is not installed"
    if not os.path.isdir(MODULES):
        return "PyTorch's headers were not installed when weft was built"
    return ""


class Lopsided(inc_tree.Tree):
    """Three hosts on a leaf and one on the other: a sum of three depends on their order, of two it does not."""

    def start(self, faults=(), top=""):
        made = {switch["name"]: switch for switch in yaml.safe_load(inc_tree.switches(self.lab, faults))}
        for rows, name in (("ports", "name"), ("addresses", "port")):
            moved = [row for row in made["leaf2"][rows] if row[name] == "h3"]
            made["leaf1"][rows] += moved
            made["leaf2"][rows] = [row for row in made["leaf2"][rows] if row not in moved]
        for route in made["root"]["routes"]:
            if route["prefix"] == "10.0.3.0/24":
                route["via"] = ["10.1.1.1"]
        self.lab.start("".join(f"  - {json.dumps(switch)}\n" for switch in made.values()), top)


class LopsidedManager(Manager):
    """Of such a tree."""

    def start(self):
        text, there = lab.read(self._config), "switch: leaf2, switch_address: 10.0.3.1"
        with open(self._config, "w", encoding="utf-8") as file:
            file.write(text.replace(there, there.replace("leaf2", "leaf1")))
        super().start()


class Ranks:
    """Runs torch_program.py on hosts.

    sockets  of each host's weft-incd; empty: there is none"""

    def __init__(self, hosts, meet, sockets):
        self.hosts, self.meet, self.sockets, self.port = hosts, meet, sockets, 7400

    def run(self, *words, **settings):
        """Exit status and output of each rank, and all that they wrote beside it."""
        self.port += 1
        ranks = []
        for rank, (host, socket) in enumerate(zip(self.hosts, self.sockets)):
            environment = {**os.environ, "PYTHONPATH": MODULES, "WEFT_INC_SOCKET": socket, "OMP_NUM_THREADS": "1",
                           "GLOO_SOCKET_IFNAME": "eth0", "MASTER_ADDR": self.meet, "MASTER_PORT": str(self.port),
                           "RANK": str(rank), "WORLD_SIZE": str(len(self.hosts)), **settings}
            ranks.append(subprocess.Popen(
                ["ip", "netns", "exec", host.namespace, "timeout", "120", PYTHON, "-B", PROGRAM, *words],
                env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        ends = [rank.communicate(timeout=150) for rank in ranks]
        return [rank.returncode for rank in ranks], [out for out, _ in ends], "".join(error for _, error in ends)


class Torch(unittest.TestCase):
    def say(self, ranks, *words, **settings):
        """What the ranks said at their end, of which none has failed, and their logs."""
        codes, out, errors = ranks.run(*words, **settings)
        self.assertEqual(codes, [0] * len(codes), errors)
        return [json.loads(text.splitlines()[-1]) for text in out], errors

    def learned_alike(self, one, other):
        losses = [[float.fromhex(loss) for loss in who["losses"]] for who in (one, other)]
        for a, b in zip(*losses):
            self.assertAlmostEqual(a, b, delta=ROUNDING * abs(b))
        self.assertLess(losses[0][-1], 0.8 * losses[0][0], "it learns nothing")

    def all_by(self, said, reason):
        for one in said:
            self.assertEqual((one["group"]["reason"], list(one["group"]["calls"])), (reason, [reason]), one)

    def test_hosts_do_it_without_daemons(self):
        with lab.Lab() as l:
            hosts = [l.host(f"h{n}").address(f"10.0.1.{n}/24") for n in range(1, inc_tree.RANKS + 1)]
            LinuxBridge(l, [host.port_interface for host in hosts])
            said, log = self.say(Ranks(hosts, "10.0.1.1", [""] * len(hosts)), "collectives")
            self.assertIn("weft_torch: collectives of 4 ranks by their hosts: no_daemon, ", log)
            self.all_by(said, "no_daemon")

    def sums(self):
        """Packets that switches have added to sums."""
        return {switch: next(row["value"] for row in self.tree.lab.show("counters", "--switch", switch)
                             if (row["stage"], row["counter"]) == ("inc", "contributions")) for switch in NOWHERE}

    def nothing_is_left(self, manager):
        lab.wait_for("the end of all groups", lambda: not manager.groups(), 5)
        self.assertEqual(on_switches(self.tree), NOWHERE)

    def test_a_network_learns_by_switches(self):
        with lab.Lab() as l:
            self.tree = Lopsided(l)
            manager = LopsidedManager(l)
            ranks = Ranks(self.tree.hosts, "10.0.1.2", Daemons(l, manager).sockets)
            said, log = self.say(ranks, "collectives")
            self.assertRegex(log, r"weft_torch: group \d+: collectives of 4 ranks by switches")
            self.all_by(said, "none")
            self.nothing_is_left(manager)

            before = self.sums()
            gloo, _ = self.say(ranks, "train", "gloo")
            self.assertEqual(self.sums(), before)
            # Without `reproducible` the parameters are others in each run.
            first, _ = self.say(ranks, "train", "weft", WEFT_TORCH_REPRODUCIBLE="1")
            after = self.sums()
            for switch, count in before.items():
                self.assertGreater(after[switch], count, switch)
            second, _ = self.say(ranks, "train", "weft", WEFT_TORCH_REPRODUCIBLE="1")
            self.all_by(first + second, "none")
            for one in first + second:
                self.assertEqual((one["losses"], one["parameters"]), (first[0]["losses"], first[0]["parameters"]))
            self.learned_alike(first[0], gloo[0])
            self.nothing_is_left(manager)

            # Without a manager hosts do it, and say why; unless it has to be switches.
            manager.kill()
            hosts, log = self.say(ranks, "train", "weft")
            self.assertIn("weft_torch: collectives of 4 ranks by their hosts: no_manager", log)
            self.all_by(hosts, "no_manager")
            self.learned_alike(hosts[0], gloo[0])
            codes, _, errors = ranks.run("train", "weft", WEFT_TORCH_BACKEND="switch")
            self.assertNotIn(0, codes)
            self.assertIn("RuntimeError: weft: the group gets no switches: no_manager", errors)
            l.stop()


if __name__ == "__main__":
    if missing():
        print("SKIP: " + missing())
        sys.exit(77)
    lab.main()
