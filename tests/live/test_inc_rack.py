#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""A rack that loses a switch: two leaves, and two spines that are processes of their own. A job whose tree leads over a
spine that dies goes on by its hosts, moves to a tree over the other spine, and back when that one dies in turn."""
import json
import os
import shutil
import time
import unittest

import yaml

import inc_ranks
import inc_tree
import lab
from test_inc_manager import LEASE_MS, PROBE_MS, start_logged
from test_inc_manager import Manager as OneManager
from test_incd import Daemons, slot_bytes

SPINES, LEAVES, MTU = (1, 2), (1, 2), 4200
# Of a collective: hosts repair for so long before they take the switches for dead, and more on a busy machine.
TIMEOUT_S = 20
INC = {"inc": {"memory_kb": 4096}}
# Until somebody ends it.
LONG = ("-b", "4096", "-e", "4096", "-n", "100000", "-w", "0", "-c", "1", "--timeout", str(TIMEOUT_S))


class Spine:
    """A process with one switch. inc: options of its stage `inc`"""

    def __init__(self, l, number, inc=None):
        self._lab, self.name = l, f"spine{number}"
        self.socket = os.path.join(l.directory, self.name + ".sock")
        self._config, self._log = (os.path.join(l.directory, f"{self.name}.{end}") for end in ("yaml", "log"))
        self.cables = [(f"{l.prefix}l{leaf}s{number}", f"{l.prefix}s{number}l{leaf}") for leaf in LEAVES]
        for ours, theirs in self.cables:
            lab.run("ip", "link", "add", ours, "mtu", str(MTU), "up", "type", "veth", "peer", "name", theirs, "mtu",
                    str(MTU))
            l.on_exit(lab.run, "ip", "link", "del", ours)
        self._switch = {
            "name": self.name,
            "ports": [{"name": f"l{leaf}", "type": "veth", "interface": theirs, "mtu_bytes": MTU}
                      for leaf, (_, theirs) in zip(LEAVES, self.cables)],
            "addresses": [{"port": f"l{leaf}", "address": f"10.1.{number}.{2 * leaf - 2}/31"} for leaf in LEAVES],
            "routes": [{"prefix": f"10.0.{host}.0/24", "via": [f"10.1.{number}.{1 if host < 3 else 3}"]}
                       for host in range(1, 5)]}
        self.offer(inc or {})
        l.evidence.add(lambda folder: shutil.copy(self._log, folder))
        self._process = None
        self.start()
        l.on_exit(self.kill)

    def offer(self, inc):
        """What its stage `inc` has, from the next start on."""
        inc = {"inc": {**INC["inc"], **inc}}
        pipeline = ["parse", "rdma_track", inc, "l3", {"lb": {"policy": "ecmp"}}]
        with open(self._config, "w", encoding="utf-8") as file:
            json.dump({"control": {"socket": self.socket}, "switches": [{**self._switch, "pipeline": pipeline}]}, file)

    def start(self):
        for _, theirs in self.cables:
            lab.run("ip", "link", "set", theirs, "up")
        self._process = start_logged([os.path.join(lab.BIN, "weft-switch"), "-c", self._config], self._log,
                                     "info: forwarding\n")
        assert self._process.poll() is None, lab.read(self._log)

    def kill(self):
        """As when its power fails: the leaves see that the cables are dead."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        for _, theirs in self.cables:
            lab.run("ip", "link", "set", theirs, "down")

    def show(self, what):
        return json.loads(lab.run(os.path.join(lab.BIN, "weftctl"), "--socket", self.socket, "--json", "inc", "show",
                                  what))


class Rack(inc_tree.Tree):
    """The leaves of conf/leaf-spine.yaml, with cables to spines of other processes. inc: by spine, options of `inc`"""

    def __init__(self, l, inc=None):
        self.lab = l
        self.hosts = [l.host(f"h{n}", mtu=MTU).address(f"10.0.{n}.2/24").route("default", f"10.0.{n}.1")
                      for n in range(1, inc_tree.RANKS + 1)]
        self.spines = {number: Spine(l, number, (inc or {}).get(number)) for number in SPINES}
        self.start()

    def start(self, faults=(), top=""):
        made = yaml.safe_load(lab.read(os.path.join(inc_tree.ROOT, "conf/leaf-spine.yaml")))["switches"][:2]
        for leaf, switch in zip(LEAVES, made):
            for port in switch["ports"]:
                number = int(port["name"][1])
                if port["type"] == "link":
                    interface = self.spines[number].cables[leaf - 1][0]
                    replacement = {"name": port["name"], "type": "veth", "interface": interface, "mtu_bytes": MTU}
                    port.clear()
                    port.update(replacement)
                else:
                    port["interface"] = self.hosts[number - 1].port_interface
            switch["pipeline"].insert(2, INC)
            switch.pop("faults", None)
        self.lab.start("".join(f"  - {json.dumps(switch)}\n" for switch in made), top)


class Manager(OneManager):
    """Of the rack."""

    def __init__(self, rack):
        self._rack = rack
        super().__init__(rack.lab)

    def start(self):
        l = self._rack.lab
        sockets = {**{f"leaf{n}": l.socket for n in LEAVES}, **{s.name: s.socket for s in self._rack.spines.values()}}
        config = {"control": {"socket": self.socket}, "store": os.path.join(l.directory, "inc.db"),
                  "lease_ms": LEASE_MS, "probe_ms": PROBE_MS,
                  "switches": [{"name": name, "control": socket, "memory_kb": 4096} for name, socket in
                               sockets.items()],
                  "hosts": [{"name": f"h{n}", "address": f"10.0.{n}.2", "switch": f"leaf{(n + 1) // 2}",
                             "switch_address": f"10.0.{n}.1"} for n in range(1, 5)],
                  "links": [{"a": f"leaf{leaf}", "a_address": f"10.1.{spine}.{2 * leaf - 1}", "b": f"spine{spine}",
                             "b_address": f"10.1.{spine}.{2 * leaf - 2}"} for leaf in LEAVES for spine in SPINES]}
        with open(self._config, "w", encoding="utf-8") as file:
            json.dump(config, file)
        super().start()


class LosesASwitch(unittest.TestCase):
    def spine_of_the_group(self):
        """The number of the spine over which the only running group leads; 0: there is none."""
        running = [g for g in self.manager.groups() if g["state"] == "running"]
        names = [s["name"] for g in running for s in g["switches"] if s["name"].startswith("spine")]
        return int(names[0][-1]) if len(names) == 1 else 0

    def collectives(self, number):
        return sum(row["collectives"] for row in self.rack.spines[number].show("groups"))

    def runs_over(self, number):
        lab.wait_for(f"a group over spine{number}", lambda: self.spine_of_the_group() == number, 60)
        before = self.collectives(number)
        lab.wait_for("collectives there", lambda: self.collectives(number) > before, 10)

    def test_groups_move_to_the_other_spine_and_come_back(self):
        with lab.Lab() as l:
            self.rack = Rack(l)
            self.manager = Manager(self.rack)
            daemons = Daemons(l, self.manager)
            ranks = inc_ranks.Ranks(self.rack, "allreduce", *LONG, each=daemons.options)
            self.addCleanup(ranks.kill)
            lab.wait_for("a group", self.spine_of_the_group)
            first = self.spine_of_the_group()
            other = 3 - first
            self.runs_over(first)
            took = {}
            for dies, takes_over in ((first, other), (other, first)):
                self.rack.spines[dies].kill()
                began = time.monotonic()
                self.runs_over(takes_over)
                took[dies] = time.monotonic() - began
                self.assertEqual([process.poll() for process in ranks.processes], [None] * inc_tree.RANKS)
                self.rack.spines[dies].start()
                lab.wait_for("the spine", lambda: all(
                    node["up"] for node in json.loads(self.manager.run("--json", "topology"))["nodes"] if node["tier"]))
            print("from a spine's death to the next tree: " + ", ".join(f"{s:.1f} s" for s in took.values()))
            ranks.kill()
            lab.wait_for("the end of the group", lambda: not self.manager.groups(), 2 * LEASE_MS / 1000 + 3)
            for number in SPINES:
                self.assertEqual(self.rack.spines[number].show("groups"), [])
            self.assertEqual([slot_bytes(self.rack, f"leaf{leaf}") for leaf in LEAVES], [0, 0])
            l.stop()

    def test_a_spine_that_dies_beside_the_manager_is_found_when_another_manager_looks(self):
        with lab.Lab() as l:
            self.rack = Rack(l)
            self.manager = Manager(self.rack)
            daemons = Daemons(l, self.manager)
            words = ("-b", "65536", "-e", "65536", "-n", "400", "-w", "0", "--json", "--timeout", str(TIMEOUT_S))
            ranks = inc_ranks.Ranks(self.rack, "allreduce", *words, each=daemons.options, port=7001)
            self.addCleanup(ranks.kill)
            lab.wait_for("a group", self.spine_of_the_group)
            number = self.spine_of_the_group()
            lab.wait_for("collectives there", lambda: self.collectives(number) > 5, 10)
            self.manager.kill()
            self.rack.spines[number].kill()
            time.sleep(1)
            self.manager.start()
            out, ends = ranks.results()
            self.assertEqual([status for status, _ in ends], [0] * inc_tree.RANKS, ends)
            report = json.loads(out)
            self.assertGreater(sum(n for reason, n in report["calls"].items() if reason != "none"), 0, report["calls"])
            for row in report["rows"]:
                self.assertEqual((row["out_of_place"]["wrong"], row["in_place"]["wrong"]), (0, 0))
            lab.wait_for("the end of the group", lambda: not self.manager.groups() or
                         all(g["state"] == "removing" for g in self.manager.groups()), 2 * LEASE_MS / 1000 + 3)
            self.assertEqual([slot_bytes(self.rack, f"leaf{leaf}") for leaf in LEAVES], [0, 0])
            l.stop()


if __name__ == "__main__":
    lab.main()
