#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""Ranks that are `weft-inc perf`, the program over the host library, on the hosts of inc_tree.

As a program (root): Barrier and AllReduce of growing vectors, by switches and by hosts, with what they take."""
import json
import os
import subprocess

import inc_tree
import lab

INC = os.path.join(lab.BIN, "weft-inc")


class Ranks:
    """One `weft-inc perf` per host; rank 0 is where the others meet."""

    def __init__(self, tree, *words, port=7000, ranks=inc_tree.RANKS, each=lambda rank: (),
                 meet="10.0.1.2"):
        self.processes = []
        for rank in range(ranks):
            self.processes.append(subprocess.Popen(
                ["ip", "netns", "exec", tree.hosts[rank].namespace, "timeout", "150", INC, "perf", *words, "--rank",
                 str(rank), "--ranks", str(ranks), "--meet", f"{meet}:{port}", *each(rank)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))

    def hellos(self):
        return [json.loads(process.stdout.readline()) for process in self.processes]

    def tell(self, lines):
        for process, line in zip(self.processes, lines):
            process.stdin.write(json.dumps(line) + "\n")
            process.stdin.flush()

    def join(self, tree, group, window, **options):
        """Makes the group of ranks that were started with --by-hand, on all switches, and tells them of it."""
        hellos = self.hellos()
        for switch in tree.groups.switches:
            tree.create(switch, tree.groups.group(switch, hellos, inc_tree.QP, id=group, window=window, **options))
        self.tell([{"address": f"10.0.{rank + 1}.1", "qp": inc_tree.QP + rank, "group": group, "window": window}
                   for rank in range(inc_tree.RANKS)])

    def results(self, timeout=120):
        """What rank 0 printed, and by rank exit status and standard error."""
        ends = [process.communicate(timeout=timeout) for process in self.processes]
        return ends[0][0], [(process.returncode, end[1]) for process, end in zip(self.processes, ends)]

    def kill(self):
        # `timeout` passes this on to the program, which nobody would end if it were killed itself.
        for process in self.processes:
            if process.poll() is None:
                process.terminate()
        for process in self.processes:
            process.communicate()


def measure(collective, *words):
    """Microseconds by backend and size: mean, median, 99th percentile."""
    times = {}
    for number, backend in enumerate(("inc", "ring", "tree")):
        with lab.Lab() as l:
            tree = inc_tree.Tree(l)
            by_hand = ("--by-hand",) if backend == "inc" else ()
            ranks = Ranks(tree, collective, *words, "--json", "--backend", backend, "--mtu", "4096", "--window", "8",
                          *by_hand, each=lambda rank: ("--daemon", ""), port=7000 + number)
            if by_hand:
                ranks.join(tree, 7, 8, message_packets=4)
            out, ends = ranks.results()
            assert not any(status for status, _ in ends), ends
            for row in json.loads(out)["rows"]:
                one = row["out_of_place"]
                times.setdefault(row["bytes"], {})[backend] = (one["time_us"], one["p50_us"], one["p99_us"])
            l.stop()
    return times


def main():
    head = "".join(f"  {name + ' us':>9} {'p50':>9} {'p99':>9}" for name in ("inc", "ring", "tree"))
    print(f"{'':10} {'bytes':>9}{head}")
    for collective, words in (("barrier", ("-n", "500", "-w", "50")),
                              ("allreduce", ("-b", "8", "-e", "4K", "-f", "512", "-n", "300", "-w", "30")),
                              ("allreduce", ("-b", "64K", "-e", "1M", "-f", "16", "-n", "50")),
                              ("allreduce", ("-b", "16M", "-e", "16M", "-n", "5", "-w", "1"))):
        for size, by in measure(collective, *words).items():
            cells = ("".join(f" {value:9.1f}" for value in by[name]) for name in ("inc", "ring", "tree"))
            print(f"{collective:10} {size:9}" + "".join(" " + cell for cell in cells), flush=True)


if __name__ == "__main__":
    main()
