#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""conf/inc-tree.yaml with four ranks that are weft-rnic, and groups over its three switches.

As a program (root): AllReduce of growing vectors, with what it takes."""
import json
import os
import re
import subprocess

import lab

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "../.."))
RNIC = os.path.join(lab.BIN, "weft-rnic")
RANKS = 4
# Ends of the links between the switches: leaf, root.
LINKS = {"leaf1": ("10.1.1.1", "10.1.1.0"), "leaf2": ("10.1.1.3", "10.1.1.2")}
# Of the switches, where not said otherwise: a rank's is this and its number, those between switches follow.
QP = 100


def switches(l, faults=""):
    """The file, with the names of this lab's interfaces; `faults` are rules of impair in front of every inc."""
    text = lab.read(os.path.join(ROOT, "conf/inc-tree.yaml")).split("\nswitches:\n")[1]
    text = re.sub(r"veth-(h\d)", lambda m: f"{l.prefix}{m[1]}"[:15], text)
    if faults:
        text = text.replace("rdma_track, inc", f"impair: {{ rules: [ {faults} ] }}, rdma_track, inc")
    return text


class Tree:
    def __init__(self, l, faults="", top=""):
        self.lab = l
        self.hosts = [l.host(f"h{n}", mtu=4200).address(f"10.0.{n}.2/24").route("default", f"10.0.{n}.1")
                      for n in range(1, RANKS + 1)]
        l.start(switches(l, faults), top)

    def weftctl(self, *words):
        return lab.run(os.path.join(lab.BIN, "weftctl"), "--socket", self.lab.socket, "--json", *words)

    def try_weftctl(self, *words):
        """What weftctl says, whatever becomes of it."""
        return subprocess.run([os.path.join(lab.BIN, "weftctl"), "--socket", self.lab.socket, *words],
                              capture_output=True, text=True, timeout=30)

    def start_ranks(self, group, *arguments, each=lambda rank: ()):
        """Starts a rank on every host and makes their group; returns the processes, which are under way."""
        ranks = []
        for rank, host in enumerate(self.hosts):
            command = ["ip", "netns", "exec", host.namespace, "timeout", "150", RNIC, "inc", f"10.0.{rank + 1}.1",
                       "--rank", str(rank), "--ranks", str(RANKS), "--group", str(group), *arguments, *each(rank)]
            ranks.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                          stderr=subprocess.PIPE, text=True))
        return ranks

    def make_group(self, group, ranks, qp=QP, **options):
        """Reads what the ranks say of themselves, and makes the group of them on all switches."""
        up_qp, root_qp = qp + RANKS, qp + RANKS + 1
        hellos = [json.loads(rank.stdout.readline()) for rank in ranks]
        common = {"id": group, "ranks": RANKS, "mtu": hellos[0]["mtu"], **options}
        for leaf, first in (("leaf1", 0), ("leaf2", 2)):
            endpoints = [{"address": f"10.0.{h['rank'] + 1}.1", "qp": qp + h["rank"], "peer": h["address"],
                          "peer_qp": h["qp"], "rank": h["rank"], "first_rx": h["first_psn"],
                          "first_tx": h["expects_psn"], "loss_recovery": h["loss_recovery"]}
                         for h in hellos[first:first + 2]]
            ours, roots = LINKS[leaf]
            endpoints.append({"address": ours, "qp": up_qp, "peer": roots, "peer_qp": root_qp, "parent": True,
                              "first_rx": 0xfffff0, "first_tx": 77})
            self.create(leaf, {**common, "endpoints": endpoints})
        self.create("root", {**common, "endpoints": [
            {"address": roots, "qp": root_qp, "peer": ours, "peer_qp": up_qp, "ranks": members, "first_rx": 77,
             "first_tx": 0xfffff0}
            for (ours, roots), members in zip(LINKS.values(), ([0, 1], [2, 3]))]})
        return hellos

    def create(self, switch, group):
        self.weftctl("inc", "create", "group=" + json.dumps(group), "--switch", switch)

    def release(self, ranks, qp=QP):
        """Tells the ranks their ends of the group; they begin."""
        for number, rank in enumerate(ranks):
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
