#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""conf/inc-tree.yaml with four ranks that are weft-rnic, and groups over its three switches.

As a program (root): AllReduce of growing vectors, with what it takes."""
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time

import yaml

import lab

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "../.."))
sys.path.append(ROOT)
from tools.lab import collective  # noqa: E402

RNIC = os.path.join(lab.BIN, "weft-rnic")
RANKS = 4
# Of the switches, where not said otherwise: a rank's is this and its number, those between switches follow.
QP = collective.FIRST_QP
FULL = os.environ.get("WEFT_EXHAUSTIVE") == "full"
# One percent of each, in every direction of every link.
FAULTS = [{"match": {"kind": "roce"}, "loss": 0.01, "duplicate": 0.01, "reorder": {"ratio": 0.01, "gap_us": 300},
           "corrupt": 0.01}]


def modes(timeout):
    """Options of groups by mode. timeout: of hops, which must find out about their losses before hosts do."""
    return {"i": {"mode": "i", "timeout": timeout}, "ii": {}, "iii": {"mode": "iii", "slots": 64, "timeout": timeout}}


@contextlib.contextmanager
def stopped(rank):
    """A rank that start_rank() started does not run."""
    with open(f"/proc/{rank.pid}/task/{rank.pid}/children", encoding="ascii") as file:
        pid = int(file.read())  # of weft-rnic under `timeout`
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def switches(l, faults=(), interfaces=None):
    """The file, with the names of this lab's interfaces.

    faults      rules of impair: for both directions of all cables between switches and to hosts in namespaces, each of
                which is a switch of its own then; and for what comes from other hosts
    interfaces  {host: interface} of hosts that are no namespaces"""
    text = lab.read(os.path.join(ROOT, "conf/inc-tree.yaml")).split("\nswitches:\n")[1]
    text = re.sub(r"veth-(h\d)", lambda m: (interfaces or {}).get(m[1], f"{l.prefix}{m[1]}"[:15]), text)
    if not faults:
        return text
    made = yaml.safe_load(text)
    cables = []
    for switch in made:
        lossy = []
        for port in switch["ports"]:
            if port["type"] == "link" or port["name"] in (interfaces or {}):
                lossy.append(port["name"])
                continue
            name = "cable-" + port["name"]
            cables.append({"name": name, "ports": [{**port, "name": "host"},
                                                   {"name": "leaf", "type": "link",
                                                    "peer": f"{switch['name']}/{port['name']}", "mtu_bytes": 4200}],
                           "pipeline": ["parse", {"impair": {"rules": list(faults)}}, "l2"]})
            port.update(type="link", peer=name + "/leaf")
            del port["interface"]
        rules = [{**rule, "match": {**rule["match"], "ports": lossy}} for rule in faults]
        switch["pipeline"].insert(1, {"impair": {"rules": rules}})
    return "".join(f"  - {json.dumps(switch)}\n" for switch in made + cables)


class Tree:
    """@param guests  {rank: interface of its port} of ranks that are no weft-rnic in a namespace of their own"""

    def __init__(self, l, faults=(), top="", guests=None):
        self.lab = l
        self.hosts = [None if guests and n - 1 in guests else
                      l.host(f"h{n}", mtu=4200).address(f"10.0.{n}.2/24").route("default", f"10.0.{n}.1")
                      for n in range(1, RANKS + 1)]
        self.interfaces = {f"h{rank + 1}": name for rank, name in (guests or {}).items()}
        self.groups = collective.Tree(yaml.safe_load(switches(l, (), self.interfaces)),
                                      [(f"leaf{1 + rank // 2}", f"h{rank + 1}") for rank in range(RANKS)])
        self.start(faults, top)

    def start(self, faults=(), top=""):
        """Starts the switches; again, when they have been stopped."""
        self.lab.start(switches(self.lab, faults, self.interfaces), top)

    def weftctl(self, *words):
        return lab.run(os.path.join(lab.BIN, "weftctl"), "--socket", self.lab.socket, "--json", *words)

    def try_weftctl(self, *words):
        """What weftctl says, whatever becomes of it."""
        return subprocess.run([os.path.join(lab.BIN, "weftctl"), "--socket", self.lab.socket, *words],
                              capture_output=True, text=True, timeout=30)

    def start_weftctl(self, *words):
        return subprocess.Popen([os.path.join(lab.BIN, "weftctl"), "--socket", self.lab.socket, *words],
                                stdout=subprocess.PIPE, text=True)

    def start_ranks(self, group, *arguments, each=lambda rank: ()):
        """Starts a rank on every host; returns the processes, which wait for their group."""
        return [self.start_rank(rank, group, *arguments, *each(rank)) for rank in range(RANKS)]

    def start_rank(self, rank, group, *arguments):
        command = ["ip", "netns", "exec", self.hosts[rank].namespace, "timeout", "150", RNIC, "inc",
                   f"10.0.{rank + 1}.1", "--rank", str(rank), "--ranks", str(RANKS), "--group", str(group), *arguments]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                text=True)

    def make_group(self, group, ranks, qp=QP, **options):
        """Reads what the ranks say of themselves, and makes the group of them on all switches."""
        hellos = [json.loads(rank.stdout.readline()) for rank in ranks]
        for switch in self.groups.switches:
            self.create(switch, self.groups.group(switch, hellos, qp, id=group, **options))
        return hellos

    def create(self, switch, group):
        self.weftctl("inc", "create", "group=" + json.dumps(group), "--switch", switch)

    def release(self, ranks, qp=QP, last_by_s=0):
        """Tells the ranks their ends of the group; they begin, the last one so much later."""
        for number, rank in enumerate(ranks):
            time.sleep(last_by_s if number == len(ranks) - 1 else 0)
            rank.stdin.write(json.dumps({"qp": qp + number}) + "\n")
            rank.stdin.flush()

    def results(self, ranks):
        """What every rank says at its end."""
        lines = [json.loads(rank.stdout.readline() or "{}") for rank in ranks]
        for rank in ranks:
            rank.stdin.close()
        for rank in ranks:
            rank.wait(timeout=30)
        return lines

    def remove(self, group):
        for switch in ("leaf1", "leaf2", "root"):
            self.weftctl("inc", "remove", str(group), "--switch", switch)

    def show(self, what, switch):
        return json.loads(self.weftctl("inc", "show", what, "--switch", switch))


def measure(**mode):
    """Prints the rate of AllReduce by size: bytes of a vector by the time that it takes."""
    print(f"{'bytes':>10} {'times':>6} {'ms each':>9} {'Mbit/s':>8} {'sent again':>10}")
    for group, (size, times) in enumerate(((4096, 200), (65536, 100), (1 << 20, 30), (16 << 20, 4)), 1):
        with lab.Lab() as l:
            tree = Tree(l)
            ranks = tree.start_ranks(group, "-s", str(size), "-n", str(times), "--primitive", "allreduce", "-m", "4096",
                                     "--group-window", "8", "--timeout", "60")
            tree.make_group(group, ranks, message_packets=4, window=8, **mode)
            tree.release(ranks)
            results = tree.results(ranks)
            seconds = max(r["seconds"] for r in results) / times
            again = sum(r["qp"]["retransmitted"] for r in results)
            print(f"{size:10} {times:6} {seconds * 1e3:9.3f} {size * 8 / seconds / 1e6:8.0f} {again:10}"
                  + "".join("  " + r["error"] for r in results), flush=True)
            l.stop()


if __name__ == "__main__":
    for name, options in (("ii", {}), ("iii", {"slots": 64}), ("iii", {"slots": 256})):
        print(f"mode {name} {options or ''}")
        measure(mode=name, **options)
