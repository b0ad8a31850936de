#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""Load balancers that restore the order, judged by go-back-N RNICs of somebody else: conf/labs/load-balancing.yaml with
two Soft-RoCE guests, shorter. rdma_rxe drops what comes out of order and asks for all of it again. Under ConWeave and
Gemma it has no reason to, although both of them change paths that are two milliseconds apart. A machine that is away
for longer than packets may wait for each other gives it one: the switch counts these, and flows go on as before. With
WEFT_EXHAUSTIVE=full all policies run, of which those that spray show that rdma_rxe would have noticed."""
import unittest

import judge
import lab_run

ORDERED = ("conweave", "gemma", "random + reorder")
SPRAYING = ("random", "drill")
FLOWLETS = ("letflow", "conga")
VARIANTS = ("ecmp", *SPRAYING, *FLOWLETS, *ORDERED) if judge.FULL else ("conweave", "gemma")
SECONDS = 5
LINK_GBPS = 0.008  # a guest without KVM sends twice as much
LEAST_GBPS = LINK_GBPS / 4
# What the switch counts when packets went on before those that they had overtaken.
GIVEN_UP = {"conweave": ("flushed", "given_up", "no_queue", "overflowed"), "reorder": ("expired", "overflowed")}


def shorter(lab):
    """The lab with guests: a flow from one rack to the other, which asks for more than a path carries, and whose queue
    pair the switches know from its first packet on."""
    lab["topology"].update(hosts_per_leaf=1, link_gbps=LINK_GBPS)
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

    def given_up(self, name):
        """Packets that the switches let go ahead of others, because these did not come in time."""
        return sum(row[counter] for stage, counters in GIVEN_UP.items()
                   for row in self.variants[name]["stages"][stage] for counter in counters)

    def test_with_order_restored_paths_are_used_and_the_receiver_asks_for_nothing(self):
        for name in set(ORDERED) & set(VARIANTS):
            self.assertGreater(self.summary(name)["paths_used"], 1, name)
            self.assertTrue(any(self.variants[name]["stages"][stage] for stage in GIVEN_UP), f"{name}: nothing waited")
            if self.given_up(name) == 0:
                self.assertEqual(self.summary(name)["nacks_sent"], 0, name)

    def test_a_flow_keeps_its_rate_though_order_is_lost_now_and_then(self):
        for name in set(ORDERED) & set(VARIANTS):
            told = f"{name}: {self.given_up(name)} packets went on ahead of others"
            self.assertGreater(self.summary(name)["gbps"], LEAST_GBPS, told)

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
