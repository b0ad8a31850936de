#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""Soft-RoCE guests over a switch that loses chosen packets, and one that makes some late: every NAK and every duplicate
is counted by the switch as the guests count it."""

import judge
from faults import QP_TIMEOUT, RELIABLE, Faults
from judge import rdma_tools


class Loss(Faults):
    def lose_one_at_a_time(self, opcodes, every):
        """Transfers one message of 16 packets at a time, and loses some of their packets of these opcodes: two losses
        under way at once would make one NAK. Returns what the sender gained, and how many packets were lost."""
        self.start(f"{{ name: loss_a, match: {{ ports: [a], opcode: {opcodes} }}, every: {every}, loss: 1.0 }}")
        for program in ("ib_send_bw", "ib_write_bw"):
            rdma_tools.perftest(program, self.a, self.b, "-n 40 -t 1 -s 16384 -m 1024")
        counters, rules, towards = self.results()
        self.check_accounting(counters, rules, towards)
        lost = rules["loss_a"]["lost"]
        self.assertGreater(lost, 5)
        self.assertEqual(sum(row["nak_psn_sequence"] for row in towards["a"]), lost)
        self.assertEqual(counters["b"]["out_of_seq_request"], lost)
        self.assertEqual(counters["a"]["retry_exceeded_err"], 0)
        self.lab.stop()
        return counters["a"], lost

    # rdma_rxe counts a NAK that it receives only when it acknowledges something as well, that is, when it asks for a
    # packet behind the first one that is not acknowledged. Everything before the message is acknowledged here, and
    # nothing inside of it before its end.

    def test_every_lost_packet_inside_a_message_makes_one_nak_that_acknowledges_what_came_before_it(self):
        sender, lost = self.lose_one_at_a_time("[RC_SEND_MIDDLE, RC_RDMA_WRITE_MIDDLE]", 97)
        self.assertEqual(sender["rcvd_seq_err"], lost)

    def test_every_lost_first_packet_makes_one_nak_that_acknowledges_nothing(self):
        sender, _ = self.lose_one_at_a_time("[RC_SEND_FIRST, RC_RDMA_WRITE_FIRST]", 5)
        self.assertEqual(sender["rcvd_seq_err"], 0)

    def check_late_packets(self, *rules):
        """Some packets of messages leave late, so that others overtake them, and a late one often passes before the NAK
        about it does: the switch counts as many duplicates as the receiver."""
        late = "[RC_SEND_FIRST, RC_SEND_MIDDLE, RC_RDMA_WRITE_FIRST, RC_RDMA_WRITE_MIDDLE]"
        self.start(f"{{ name: late_a, match: {{ ports: [a], opcode: {late} }}, "
                   "reorder: { ratio: 0.03, gap_us: 2000 } }", *rules)
        for program in ("ib_send_bw", "ib_write_bw"):
            rdma_tools.perftest(program, self.a, self.b, "-n 80 -t 8 -s 32768 -m 1024", qp_timeout=QP_TIMEOUT)
        counters, rules, towards = self.results()
        self.check_accounting(counters, rules, towards)
        self.assertGreater(rules["late_a"]["reordered"], 50)
        self.assertGreater(counters["b"]["duplicate_request"], 50)
        self.assertEqual(counters["a"]["retry_exceeded_err"], 0)
        self.lab.stop()

    def test_a_receiver_of_late_packets_counts_the_duplicates_that_the_switch_foresaw(self):
        self.check_late_packets()

    def test_and_so_it_does_when_others_are_lost_or_doubled(self):
        data = RELIABLE["data"]
        self.check_late_packets(f"{{ name: loss_a, match: {{ ports: [a], {data} }}, loss: 0.003 }}",
                                f"{{ name: copies_a, match: {{ ports: [a], {data} }}, duplicate: 0.003 }}")


if __name__ == "__main__":
    judge.main()
