#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""The switch dies under traffic and comes back: hosts on a tap and on vhost-user go on, their connections survive."""
import time
import unittest

import judge
from judge import guest, live, rdma_tools

PIPELINE = "[parse, rdma_track, l2]"
MESSAGES, MESSAGE_BYTES, PATH_MTU = 1000, 16384, 4096
PACKETS = MESSAGES * MESSAGE_BYTES // PATH_MTU
FLOW_TIMEOUT_S = 30


class Restart(unittest.TestCase):
    def wait_for_packets(self, count):
        """Waits until the switch has tracked so many packets."""
        deadline = time.monotonic() + FLOW_TIMEOUT_S
        while (tracked := judge.stage_counters(self.lab, "rdma_track")["packets"]) < count:
            self.assertLess(time.monotonic(), deadline, f"{tracked} packets")
            time.sleep(0.05)

    def check_survival(self, *attachments):
        with live.Lab() as self.lab:
            guests = [guest.Guest(self.lab, name, attach, judge.l2_addresses(number), judge.MTU)
                      for number, name, attach in zip((1, 2), "ab", attachments)]
            a, b = guests
            configuration = judge.l2(guests, PIPELINE)
            self.lab.start(configuration)
            for each in guests:
                each.wait_up()
            before = judge.counters_of(guests)
            run = rdma_tools.PerftestRun("ib_send_bw", a, b, f"-n {MESSAGES} -t 16 -s {MESSAGE_BYTES} -m {PATH_MTU}")
            self.wait_for_packets(PACKETS // 10)
            self.lab.kill()
            self.assertTrue(run.client.running(), "the traffic ended before the switch was killed")
            self.lab.start(configuration)
            transfer = run.wait()
            # The new switch knows the queue pair from its traffic, in both directions.
            rows = judge.queue_pairs(self.lab)
            requests = rows[a.address(), b.address(), transfer.server[0].qpn]
            self.assertEqual(requests["last_psn"], (transfer.client[0].psn + PACKETS - 1) % (1 << 24))
            self.assertEqual(requests["peer_qp"], transfer.client[0].qpn)
            counters = judge.difference(before, judge.counters_of(guests))
            self.assertEqual(counters["b"]["rdma_recvs"], MESSAGES)
            self.assertEqual(counters["a"]["retry_exceeded_err"], 0)
            self.check_new_connections(a, b)
            self.lab.stop()

    def check_new_connections(self, a, b):
        for version in (4, 6):
            judge.ping(a, b, version)
            rdma_tools.perftest("ib_read_bw", b, a, "-n 16 -s 16384 -m 4096", version)
            rdma_tools.rping(a, b, version=version)

    def test_connections_between_a_tap_and_a_vhost_client_port_survive(self):
        self.check_survival("tap", "vhost")

    def test_connections_between_vhost_server_ports_survive(self):
        self.check_survival("vhost-server", "vhost-server")


if __name__ == "__main__":
    judge.main()
