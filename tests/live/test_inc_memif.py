#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""Ranks of the host library on memif ports of a switch, which is DPDK's server of memif: by the switch, and by a ring.
They meet over another network."""
import json
import os
import unittest

import inc_ranks
import lab

RANKS, MTU = 3, 4200
SAME = ("--mtu", "4096", "--window", "8", "--message-packets", "4", "--daemon", "")
SIZES = ("-b", "1024", "-e", "1048576", "-f", "32", "-n", "5", "-w", "1", "--json")


class Memif(unittest.TestCase):
    def start(self, l):
        self.hosts = [l.host(f"h{n}").address(f"10.78.0.{n + 1}/24") for n in range(RANKS)]
        self.sockets = [os.path.join(l.directory, f"m{n}.sock") for n in range(RANKS)]
        self.tor = {"name": "tor", "pipeline": ["parse", "rdma_track", {"inc": {"memory_kb": 1024}}, "l2"],
                    "ports": [{"name": f"m{n}", "type": "memif", "role": "server", "socket": path, "mtu_bytes": MTU}
                              for n, path in enumerate(self.sockets)]}
        meet = {"name": "meet", "pipeline": ["parse", "l2"],
                "ports": [{"name": f"h{n}", "type": "veth", "interface": host.port_interface}
                          for n, host in enumerate(self.hosts)]}
        l.start("".join(f"  - {json.dumps(switch)}\n" for switch in (self.tor, meet)))

    def ranks(self, *words, port):
        started = inc_ranks.Ranks(self, "allreduce", *words, *SAME, port=port, ranks=RANKS, meet="10.78.0.1",
                                  each=lambda rank: ("--memif", self.sockets[rank], "--rnic", f"10.77.0.{rank + 1}/24"))
        self.addCleanup(started.kill)
        return started

    def report(self, ranks):
        out, ends = ranks.results()
        self.assertEqual([status for status, _ in ends], [0] * RANKS, ends)
        found = json.loads(out)
        for row in found["rows"]:
            self.assertEqual((row["out_of_place"]["wrong"], row["in_place"]["wrong"]), (0, 0))
        return found

    def test_the_switch_and_a_ring_give_right_results(self):
        with lab.Lab() as l:
            self.start(l)
            ranks = self.ranks(*SIZES, "--backend", "inc", "--by-hand", port=7000)
            hellos = ranks.hellos()
            self.assertEqual([hello["address"] for hello in hellos], [f"10.77.0.{n + 1}" for n in range(RANKS)])
            group = {"id": 7, "ranks": RANKS, "mtu": 4096, "message_packets": 4, "window": 8, "endpoints": [
                {"address": "10.77.0.100", "qp": 100 + n, "peer": hello["address"], "peer_qp": hello["qp"], "rank": n,
                 "first_rx": hello["first_psn"], "first_tx": hello["expects_psn"]} for n, hello in enumerate(hellos)]}
            weftctl = (os.path.join(lab.BIN, "weftctl"), "--socket", l.socket, "--json", "inc")
            lab.run(*weftctl, "create", "group=" + json.dumps(group), "--switch", "tor")
            ranks.tell([{"address": "10.77.0.100", "qp": 100 + n, "group": 7, "window": 8} for n in range(RANKS)])
            report = self.report(ranks)
            self.assertEqual((report["reason"], list(report["calls"])), ("none", ["none"]))
            row, = json.loads(lab.run(*weftctl, "show", "groups", "--switch", "tor"))
            self.assertGreaterEqual(row["collectives"], sum(report["calls"].values()))
            report = self.report(self.ranks(*SIZES, "--backend", "ring", port=7001))
            self.assertEqual(report["reason"], "hosts_asked")
            l.stop()

    def test_a_server_that_is_not_there_is_named(self):
        with lab.Lab() as l:
            self.start(l)
            self.sockets[0] = os.path.join(l.directory, "nobody.sock")
            _, ends = self.ranks(*SIZES, "--backend", "ring", "--timeout", "5", port=7002).results()
            self.assertEqual(ends[0][0], 1)
            self.assertIn("nobody.sock: no server of memif", ends[0][1])
            l.stop()


if __name__ == "__main__":
    lab.main()
