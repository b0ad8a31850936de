#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""Soft-RoCE guests talk through the switch: every RDMA program ends without an error or a retransmission, and the
switch's table of queue pairs says what the guests' own counters say."""
import os

import judge
from judge import rdma_tools

# Closed queue pairs stay in the table for as long as a test takes.
TRACK = "rdma_track: { closed_timeout_s: 600 }"
L2_PIPELINE = f"[parse, {TRACK}, l2]"
L3_PIPELINE = f"[parse, {TRACK}, l3, lb: {{ policy: ecmp }}]"
IP_VERSIONS = (4, 6)
MTUS = (1024, 4096)
ETHERNET_BYTES = 14
# How a program's packets split over the two directions: 16 KiB messages, 32 of them.
MESSAGES, MESSAGE_BYTES = 32, 16384


class Traffic(judge.TwoGuests):
    def start(self, configuration, top=""):
        self.lab.start(configuration, top)
        for each in self.guests:
            each.wait_up()

    def key(self, source, destination, qpn, version):
        return source.address(version), destination.address(version), qpn

    def check_transfer(self, program, options, version):
        """Runs a perftest program; its queue pair must be in the table with exactly the packets of the guests."""
        what = f"{program} {options} IPv{version}"
        before, octets = judge.counters_of(self.guests), judge.Ipv6Received(self.b)
        transfer = rdma_tools.perftest(program, self.a, self.b, options, version)
        counters = judge.difference(before, judge.counters_of(self.guests))
        rows = judge.queue_pairs(self.lab)
        client, server = transfer.client[0], transfer.server[0]
        requests = rows[self.key(self.a, self.b, server.qpn, version)]
        answers = rows[self.key(self.b, self.a, client.qpn, version)]
        self.assertEqual(requests["packets"], counters["a"]["sent_pkts"], what)
        self.assertEqual(requests["packets"], counters["b"]["rcvd_pkts"], what)
        self.assertEqual(answers["packets"], counters["b"]["sent_pkts"], what)
        self.assertEqual(answers["packets"], counters["a"]["rcvd_pkts"], what)
        if version == 6:
            least, most = octets.range()
            sent = requests["bytes"] - ETHERNET_BYTES * requests["packets"]
            self.assertTrue(least <= sent <= most, f"{what}: {least} to {most} received, {sent} sent")
        self.assertEqual((requests["peer_qp"], answers["peer_qp"]), (client.qpn, server.qpn), what)
        self.assertEqual((requests["pairing"], answers["pairing"]), ("traffic", "traffic"), what)
        return requests, answers, client

    def check_bandwidth_programs(self, version, mtu):
        options = f"-n {MESSAGES} -s {MESSAGE_BYTES} -m {mtu}"
        packets = MESSAGES * MESSAGE_BYTES // mtu
        for program in ("ib_send_bw", "ib_write_bw"):
            requests, answers, client = self.check_transfer(program, options, version)
            self.assertEqual(requests["packets"], packets)
            self.assertEqual(requests["messages"], MESSAGES)
            self.assertEqual(requests["last_psn"], (client.psn + packets - 1) % (1 << 24))
            self.assertEqual(requests["pmtu_bytes"], mtu)
        requests, answers, client = self.check_transfer("ib_read_bw", options, version)
        self.assertEqual((requests["packets"], answers["packets"]), (MESSAGES, packets))

    def check_connections(self, version):
        """Programs that connect by CM: the table knows it from there."""
        before = set(judge.queue_pairs(self.lab))
        rdma_tools.rping(self.a, self.b, version=version)
        rows = judge.queue_pairs(self.lab)
        connected = [row for key, row in rows.items() if key not in before]
        self.assertEqual(len(connected), 2)
        for row, other in (connected, connected[::-1]):
            self.assertEqual((row["pairing"], row["service"], row["transport"]), ("cm", "tcp:7174", "RC"))
            self.assertEqual((row["peer_qp"], row["source"]), (other["dest_qp"], other["destination"]))
            self.assertEqual(row["state"], "closed")
        rdma_tools.ucmatose(self.a, self.b, version=version)
        rdma_tools.udaddy(self.a, self.b, version=version)
        new = [row for key, row in judge.queue_pairs(self.lab).items() if key not in before]
        self.assertEqual(sum(row["transport"] == "RC" for row in new), 2 + 4)
        self.assertEqual({row["pairing"] for row in new if row["transport"] == "RC"}, {"cm"})
        self.assertGreaterEqual(sum(row["transport"] == "UD" for row in new), 2)

    def check_programs(self, version, mtus):
        judge.ping(self.a, self.b, version)
        for mtu in mtus:
            self.check_bandwidth_programs(version, mtu)
        for program in ("ib_send_lat", "ib_atomic_lat"):
            self.check_transfer(program, "-n 32", version)
        self.check_connections(version)

    def check_everything(self, versions, mtus):
        before = judge.counters_of(self.guests)
        for version in IP_VERSIONS if judge.FULL else versions:
            self.check_programs(version, MTUS if judge.FULL else mtus)
        rdma_tools.qperf(self.a, self.b)
        counters = judge.difference(before, judge.counters_of(self.guests))
        for name in ("a", "b"):
            errors = {key: counters[name][key] for key in judge.ERROR_COUNTERS if counters[name][key] != 0}
            self.assertEqual(errors, {}, name)
        # A router meets what hosts say among themselves; no other drop is expected.
        self.assertEqual([row for row in self.lab.show("drops") if row["severity"] != "info"], [])
        rows = judge.queue_pairs(self.lab).values()
        for column in ("out_of_order", "retransmitted", "duplicates", "nak_psn_sequence", "nak_remote_access", "cnps"):
            self.assertEqual(sum(row[column] for row in rows), 0, column)
        # Datagrams of CM go to QP1, which has no entry but is counted by kind.
        track = judge.stage_counters(self.lab, "rdma_track")
        management = sum(track[key] for key in track if key.startswith("cm_") and key != "cm_unmatched")
        self.assertEqual(track["packets"] + management, counters["a"]["sent_pkts"] + counters["b"]["sent_pkts"])
        self.assertEqual(track["packets"], sum(row["packets"] for row in rows))
        self.assertEqual((track["untracked"], track["cm_malformed"], track["cm_unmatched"]), (0, 0, 0))

    def test_a_bridge_carries_every_program(self):
        self.start(judge.l2(self.guests, L2_PIPELINE))
        self.check_everything((6,), (4096,))
        self.lab.stop()

    def test_a_router_carries_every_program(self):
        self.start(judge.l3(self.guests, L3_PIPELINE))
        for each in self.guests:
            judge.use_l3_addresses(each)
        self.check_everything((4,), (1024,))
        self.lab.stop()

    def test_two_workers_share_the_connections_of_two_hosts(self):
        cpus = sorted(os.sched_getaffinity(0))[:2]
        if len(cpus) < 2:
            self.skipTest("one CPU")
        self.start(judge.l2(self.guests, L2_PIPELINE), f"eal: {{ workers: {cpus} }}\nsteer: qp\n")
        for number, each in enumerate(self.guests, start=1):
            each.configure(judge.l2_addresses(number))
        before = judge.counters_of(self.guests)
        for version in IP_VERSIONS:
            judge.ping(self.a, self.b, version)
            rdma_tools.ucmatose(self.a, self.b, connections=6, messages=20, version=version)
            rdma_tools.rping(self.a, self.b, version=version)
            rdma_tools.perftest("ib_send_bw", self.a, self.b, "-n 32 -s 16384", version)
        counters = judge.difference(before, judge.counters_of(self.guests))
        track = judge.stage_counters(self.lab, "rdma_track")
        # Of seven connections over each IP version, every other one is not with the worker of the CM messages.
        self.assertEqual(track["pairs_cm"], 14)
        self.assertGreaterEqual(track["pairs_steered"], 6)
        self.assertEqual((track["out_of_order"], track["retransmitted"], track["untracked"]), (0, 0, 0))
        rows = judge.queue_pairs(self.lab)
        self.assertEqual(len(rows), len(self.lab.show("qps")), "a queue pair is with both workers")
        connected = [row for row in rows.values() if row["pairing"] == "cm"]
        self.assertEqual((len(connected), {row["state"] for row in connected}), (28, {"closed"}))
        management = sum(track[key] for key in track if key.startswith("cm_") and key != "cm_unmatched")
        for direction in ("sent_pkts", "rcvd_pkts"):
            self.assertEqual(track["packets"] + management, counters["a"][direction] + counters["b"][direction])
        self.lab.stop()


if __name__ == "__main__":
    judge.main()
