#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""Soft-RoCE guests over a switch that loses and doubles packets: everything still ends, and what the switch counts is
what the guests have seen."""
import unittest

import judge
from judge import guest, live, rdma_tools

# Judged behind the faults: the tracker sees what reaches the hosts.
PIPELINE = """
      - parse
      - impair: {{ rules: [ {rules} ] }}
      - rdma_track: {{ closed_timeout_s: 600 }}
      - l2"""
# Rules that only count: NAKs as hosts send them.
COUNT_NAKS = [f"{{ name: naks_{name}, match: {{ ports: [{name}], aeth: nak }} }}" for name in ("a", "b")]
# A lost last packet costs a timeout, of half a second here; losses inside a message are repaired by NAK.
QP_TIMEOUT = 17


class Loss(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.lab = cls.enterClassContext(live.Lab())
        cls.guests = [guest.Guest(cls.lab, name, "tap", judge.l2_addresses(number), judge.MTU)
                      for number, name in ((1, "a"), (2, "b"))]
        cls.a, cls.b = cls.guests

    def tearDown(self):
        self.lab.kill()

    def start(self, *rules):
        self.lab.start(judge.l2(self.guests, PIPELINE.format(rules=", ".join([*COUNT_NAKS, *rules]))))
        for each in self.guests:
            each.wait_up()
        self.before = judge.counters_of(self.guests)

    def results(self):
        counters = judge.difference(self.before, judge.counters_of(self.guests))
        rules = {row["name"]: row for row in self.lab.show("impair")}
        rows = judge.queue_pairs(self.lab).values()
        towards = {each.name: [row for row in rows if row["destination"] == each.address(row_version(row))]
                   for each in self.guests}
        return counters, rules, towards

    def check_accounting(self, counters, rules, towards):
        """What one host sent, less losses and plus copies, is what the other received. Sequence errors that a host
        noticed are the NAKs it sent, and duplicates it noticed are those that the switch foresaw."""
        for sender, receiver in (("a", "b"), ("b", "a")):
            own = [row for name, row in rules.items() if name.endswith("_" + sender)]
            lost, copies = (sum(row[column] for row in own) for column in ("lost", "duplicated"))
            self.assertEqual(counters[sender]["sent_pkts"] - lost + copies, counters[receiver]["rcvd_pkts"], sender)
            self.assertEqual(rules["naks_" + sender]["matched"], counters[sender]["out_of_seq_request"])
            duplicates = sum(row["duplicates"] for row in towards[receiver])
            self.assertEqual(duplicates, counters[receiver]["duplicate_request"], receiver)
        stage = judge.stage_counters(self.lab, "impair")
        self.assertEqual(stage["lost"], sum(row["lost"] for row in rules.values()))
        self.assertEqual(stage["duplicated"], sum(row["duplicated"] for row in rules.values()))

    def test_every_lost_packet_inside_a_message_makes_one_nak(self):
        middle = "[RC_SEND_MIDDLE, RC_RDMA_WRITE_MIDDLE]"
        self.start(f"{{ name: loss_a, match: {{ ports: [a], opcode: {middle} }}, every: 97, loss: 1.0 }}")
        # One message of 16 packets at a time: two losses under way at once would make one NAK.
        for program in ("ib_send_bw", "ib_write_bw"):
            rdma_tools.perftest(program, self.a, self.b, "-n 40 -t 1 -s 16384 -m 1024")
        counters, rules, towards = self.results()
        self.check_accounting(counters, rules, towards)
        lost = rules["loss_a"]["lost"]
        self.assertGreater(lost, 5)
        naks = sum(row["nak_psn_sequence"] for row in towards["a"])
        self.assertEqual(naks, lost)
        self.assertEqual(counters["a"]["rcvd_seq_err"], naks)
        self.assertEqual(counters["b"]["out_of_seq_request"], naks)
        self.assertEqual(counters["a"]["retry_exceeded_err"], 0)
        self.lab.stop()

    def test_every_program_ends_with_random_loss_and_duplication(self):
        rules = [f"{{ name: {fault}_{name}, match: {{ ports: [{name}], kind: roce }}, {fault}: 0.001 }}"
                 for fault in ("loss", "duplicate") for name in ("a", "b")]
        # Chance alone could lose nothing in so few packets.
        rules.append("{ name: sure_a, match: { ports: [a], kind: roce }, every: 701, loss: 1.0 }")
        self.start(*rules)
        for version in (4, 6):
            for program in ("ib_send_bw", "ib_write_bw", "ib_read_bw"):
                rdma_tools.perftest(program, self.a, self.b, "-n 40 -s 16384 -m 1024", version, qp_timeout=QP_TIMEOUT)
            rdma_tools.perftest("ib_atomic_lat", self.a, self.b, "-n 32", version, qp_timeout=QP_TIMEOUT)
            rdma_tools.rping(self.a, self.b, version=version)
        counters, rules, towards = self.results()
        self.check_accounting(counters, rules, towards)
        self.assertGreater(rules["sure_a"]["lost"], 1)
        for name in ("a", "b"):
            delivered = sum(row["nak_psn_sequence"] for row in towards[name])
            # rxe counts a NAK only if it also acknowledges something.
            self.assertLessEqual(counters[name]["rcvd_seq_err"], delivered)
            self.assertEqual(counters[name]["retry_exceeded_err"], 0)
        self.lab.stop()


def row_version(row):
    return 6 if ":" in row["destination"] else 4


if __name__ == "__main__":
    judge.main()
