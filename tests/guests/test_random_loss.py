#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""Soft-RoCE guests over a switch that loses and doubles packets by chance: every program still ends, and what the
switch counts is what the guests have seen."""

import judge
from faults import L2, L3, QP_TIMEOUT, RELIABLE, Faults
from judge import rdma_tools


class RandomLoss(Faults):
    def check_qperf(self):
        """Ends in the middle of READs: the last responses find no queue pair any more, which rxe does not count."""
        rdma_tools.qperf(self.a, self.b)
        counters, rules, _ = self.results()
        sent = sum(counters[name]["sent_pkts"] for name in ("a", "b"))
        lost, copies = (sum(row[column] for row in rules.values()) for column in ("lost", "duplicated"))
        self.assertEqual(sent - lost + copies, self.tracked())

    def run_every_program(self):
        """The programs of the tests without loss; each IP version and path MTU has its turn."""
        for version, mtu in ((4, 1024), (6, 4096)):
            for program in ("ib_send_bw", "ib_write_bw", "ib_read_bw"):
                rdma_tools.perftest(program, self.a, self.b, f"-n 40 -s 16384 -m {mtu}", version,
                                    qp_timeout=QP_TIMEOUT)
            for program in ("ib_send_lat", "ib_atomic_lat"):
                rdma_tools.perftest(program, self.a, self.b, "-n 32", version, qp_timeout=QP_TIMEOUT)
            rdma_tools.rping(self.a, self.b, version=version)
            rdma_tools.ucmatose(self.a, self.b, version=version)
            rdma_tools.udaddy(self.a, self.b, version=version)

    def check_random_faults(self, forward):
        rules = [f"{{ name: {fault}_{kind}_{name}, match: {{ ports: [{name}], {match} }}, {fault}: 0.001 }}"
                 for fault in ("loss", "duplicate") for name in ("a", "b") for kind, match in RELIABLE.items()]
        # Chance alone could lose nothing in so few packets. These are three in the 640 of the first ib_send_bw alone.
        rules.append(f"{{ name: sure_a, match: {{ ports: [a], {RELIABLE['data']} }}, every: 211, loss: 1.0 }}")
        self.start(*rules, forward=forward)
        self.run_every_program()
        counters, rules, towards = self.results()
        self.check_accounting(counters, rules, towards)
        self.assertGreater(rules["sure_a"]["lost"], 3)
        for name, other in (("a", "b"), ("b", "a")):
            delivered = sum(row["nak_psn_sequence"] for row in towards[name])
            self.assertEqual(delivered, rules["naks_" + other]["matched"] - rules["loss_nak_" + other]["lost"] +
                             rules["duplicate_nak_" + other]["duplicated"])
            # How many of them acknowledge something is not known here; no other is counted.
            self.assertLessEqual(counters[name]["rcvd_seq_err"], delivered)
            self.assertEqual(counters[name]["retry_exceeded_err"], 0)
        # Messages have 16 packets, so that of the sure losses at most one in three is the first of a message.
        self.assertGreater(counters["a"]["rcvd_seq_err"], 0)
        self.check_qperf()
        self.lab.stop()

    def test_every_program_ends_with_random_loss_and_duplication_on_a_bridge(self):
        self.check_random_faults(L2)

    def test_every_program_ends_with_random_loss_and_duplication_on_a_router(self):
        self.check_random_faults(L3)


if __name__ == "__main__":
    judge.main()
