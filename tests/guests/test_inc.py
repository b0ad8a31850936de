#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""Collectives under a tree of three switches (conf/inc-tree.yaml): two ranks are weft-rnic, two are Linux's Soft-RoCE
with a program that knows only verbs. Every element of every result is compared."""
import json
import os
import time
import unittest

import judge
from judge import guest, live
import inc_tree

TIMEOUT_S = 300
MODES = inc_tree.modes(14)
# Ranks that are guests: one behind each leaf.
GUESTS = (0, 2)
MTU, WINDOW, MESSAGE_PACKETS = 1024, 4, 4
ACK_TIMEOUT = 14  # 67 ms, and six times more: far less than what ranks are late
LATE_S = 60 if judge.FULL else 8


class GuestRank:
    """inc_rank in a guest, with what inc_tree uses of a process."""

    def __init__(self, machine, command):
        self.job = machine.start(command, TIMEOUT_S, end=False)
        self.stdin = self.stdout = self.stderr = self
        self.lines = 0

    def readline(self):
        def line():
            lines = self.job.stdout.decode(errors="replace").splitlines(keepends=True)
            return lines[self.lines] if len(lines) > self.lines and lines[self.lines].endswith("\n") else ""
        self.job.channel.wait(lambda: line() or not self.job.running(), TIMEOUT_S)
        found = line()
        self.lines += 1
        return found

    def read(self):
        return self.job.stderr.decode(errors="replace")

    def write(self, text):
        self.job.write(text.encode())

    def flush(self):
        pass

    def close(self):
        if self.job.running():
            self.job.write(b"", end=True)

    def wait(self, timeout=None):
        del timeout
        return self.job.wait().code

    @property
    def returncode(self):
        return self.job.code


class Inc(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.lab = cls.enterClassContext(live.Lab())
        cls.guests = {rank: guest.Guest(cls.lab, f"h{rank + 1}", "tap", [f"10.0.{rank + 1}.2/24"], judge.MTU)
                      for rank in GUESTS}
        cls.tree = inc_tree.Tree(cls.lab, guests={rank: machine.interface for rank, machine in cls.guests.items()})
        for rank, machine in cls.guests.items():
            machine.wait_up().configure([f"10.0.{rank + 1}.2/24"], [f"10.0.{rank + 1}.1"])
            machine.put(os.path.join(live.BIN, "inc_rank"), "/tmp/inc_rank")
        cls.lab.kill()

    def setUp(self):
        self.numbers = iter(range(1, 100))

    def tearDown(self):
        self.lab.kill()

    def start_rank(self, rank, group, size, times, primitive, verb):
        """@param verb  of data: "--write-imm"; none: SEND"""
        if rank not in GUESTS:
            return self.tree.start_rank(rank, group, "-s", str(size), "-n", str(times), "--primitive", primitive, "-m",
                                        str(MTU), "--group-window", str(WINDOW), "--message-packets",
                                        str(MESSAGE_PACKETS), "--timeout", "100", "--qp-timeout", str(ACK_TIMEOUT),
                                        "--retry-count", "6", *verb)
        address = f"10.0.{rank + 1}.2"
        words = ["rxe0", self.guests[rank].gid_index(address), f"10.0.{rank + 1}.1", rank, inc_tree.RANKS, group,
                 primitive, size, times, WINDOW, MESSAGE_PACKETS, MTU, ACK_TIMEOUT, *verb]
        return GuestRank(self.guests[rank], " ".join(map(str, ["/tmp/inc_rank", *words])))

    def begin(self, size, times, primitive, options, verb=()):
        """A group of all four on all switches; returns its number and the ranks, which wait for release()."""
        group = next(self.numbers)
        ranks = [self.start_rank(rank, group, size, times, primitive, verb) for rank in range(inc_tree.RANKS)]
        self.tree.make_group(group, ranks, qp=100 * group, window=WINDOW, message_packets=MESSAGE_PACKETS, **options)
        return group, ranks

    def end(self, group, ranks, collectives):
        results = self.tree.results(ranks)
        for number, (rank, result) in enumerate(zip(ranks, results)):
            self.assertEqual((result.get("error"), result.get("collectives"), rank.returncode), ("", collectives, 0),
                             f"rank {number}: {result} {rank.stderr.read()}")
        self.tree.remove(group)

    def collectives(self, size, times, options, primitive="all", verb=()):
        group, ranks = self.begin(size, times, primitive, options, verb)
        self.tree.release(ranks, qp=100 * group)
        self.end(group, ranks, times * {"all": 4, "reducescatter": inc_tree.RANKS,
                                        "allgather": inc_tree.RANKS}.get(primitive, 1))

    def test_every_primitive_with_ranks_that_know_only_verbs(self):
        self.tree.start()
        for mode, options in MODES.items():
            for size in (4, 1100, 1 << 20):
                with self.subTest(mode=mode, size=size):
                    self.collectives(size, 1, options)
        self.lab.stop()

    def test_reducescatter_and_allgather(self):
        self.tree.start()
        for mode, options in MODES.items():
            for primitive in ("reducescatter", "allgather"):
                with self.subTest(mode=mode, primitive=primitive):
                    self.collectives(1 << 16, 1, options, primitive)
        self.lab.stop()

    def test_every_primitive_by_rdma_write_with_immediate(self):
        """Each rank has its own address and rkey, which the switch writes into results."""
        self.tree.start()
        for mode in MODES:
            for size in (1100, 1 << 18):
                with self.subTest(mode=mode, size=size):
                    self.collectives(size, 1, MODES[mode], verb=("--write-imm",))
        self.lab.stop()

    def test_faults_on_every_link_are_repaired(self):
        self.tree.start(inc_tree.FAULTS)
        for mode, options in MODES.items():
            with self.subTest(mode=mode):
                self.collectives(65536, 2 if judge.FULL else 1, options)
        drops = [switch["drops"].get("inc_bad_icrc", 0) for switch in self.lab.stop()["switches"]]
        self.assertGreater(sum(drops), 0)

    def test_a_rank_that_is_late_is_waited_for(self):
        """In each mode at once: the ranks that wait send again after 67 ms, and may do so six times."""
        self.tree.start()
        groups = [self.begin(65536, 1, "all", options) for options in MODES.values()]
        for group, ranks in groups:
            self.tree.release(ranks[:3], qp=100 * group)
        time.sleep(LATE_S)
        for group, ranks in groups:
            row = json.loads(self.tree.weftctl("inc", "explain", str(group), "--switch", "leaf2"))[0]
            self.assertEqual(row["waits_for"], "rank 3 (10.0.4.2)")
            self.assertGreater(row["for_s"], LATE_S / 2)
            ranks[3].stdin.write(json.dumps({"qp": 100 * group + 3}) + "\n")
            ranks[3].stdin.flush()
        for group, ranks in groups:
            self.end(group, ranks, 4)
        for machine in self.guests.values():
            self.assertEqual(machine.hw_counters()["retry_exceeded_err"], 0)
        self.lab.stop()


if __name__ == "__main__":
    judge.main()
