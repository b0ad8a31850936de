#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""Load balancers that restore the order, judged by go-back-N RNICs of somebody else: conf/labs/load-balancing.yaml with
two Soft-RoCE guests, shorter. rdma_rxe drops what comes out of order and asks for all of it again. Under ConWeave and
Gemma it has no reason to, although both of them change paths that are two milliseconds apart. With
WEFT_EXHAUSTIVE=full all policies run, of which those that spray show that rdma_rxe would have noticed."""
import unittest

import judge
import lab_run

ORDERED = ("conweave", "gemma", "random + reorder")
SPRAYING = ("random", "drill")
FLOWLETS = ("letflow", "conga")
VARIANTS = ("ecmp", *SPRAYING, *FLOWLETS, *ORDERED) if judge.FULL else ("conweave", "gemma")
SECONDS = 5


def shorter(lab):
    """The lab with guests: a flow from one rack to the other, which asks for more than a path carries, and whose queue
    pair the switches know from its first packet on."""
    lab["topology"].update(hosts_per_leaf=1, link_gbps=0.008)  # a guest without KVM sends twice as much
    lab["nic"] = {"kind": "soft_roce", "mtu": 1024, "window": 48, "cm": True}
    lab["workload"] = {"kind": "flows", "duration_s": SECONDS, "message_bytes": 16384, "limit_s": 60,
                       "flows": [{"from": "h1", "to": "h2"}]}
    lab["timing"] = {"probes": 20}
    lab["variants"] = [variant for variant in lab["variants"] if variant["name"] in VARIANTS]


class LoadBalancing(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.variants = lab_run.variants("load-balancing.yaml", shorter, 120 + 60 * len(VARIANTS))

    def summary(self, name):
        return self.variants[name]["summary"]

    def test_all_variants_ran_and_the_switches_lost_nothing(self):
        self.assertEqual(set(self.variants), set(VARIANTS))
        for name in VARIANTS:
            self.assertEqual(self.summary(name)["drops"], 0, name)
            # Under spraying hardly anything gets through.
            self.assertGreater(self.summary(name)["packets"], 10 if name in SPRAYING else 500, name)

    def test_with_order_restored_paths_are_used_and_the_receiver_asks_for_nothing(self):
        for name in set(ORDERED) & set(VARIANTS):
            self.assertGreater(self.summary(name)["paths_used"], 1, name)
            self.assertEqual(self.summary(name)["nacks_sent"], 0, name)

    @unittest.skipUnless(judge.FULL, "of tools/check --full")
    def test_without_it_the_receiver_asks_again_and_again(self):
        for name in SPRAYING:
            self.assertEqual(self.summary(name)["paths_used"], 4, name)
            self.assertGreater(self.summary(name)["nacks_sent"], 0, name)
            self.assertGreater(self.summary(name)["retransmitted"], 0, name)
            self.assertLess(self.summary(name)["gbps"], self.summary("ecmp")["gbps"] / 4, name)

    @unittest.skipUnless(judge.FULL, "of tools/check --full")
    def test_hashing_keeps_a_path_and_the_order(self):
        ecmp = self.summary("ecmp")
        self.assertEqual((ecmp["paths_used"], ecmp["nacks_sent"]), (1, 0))


if __name__ == "__main__":
    judge.main()
