#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""Soft-RoCE keeps no early packets. Behind paths of unequal delay, a switch that sprays and filters NACKs finds that
out by itself: its NACKs pass, its packets take one path, and a transfer is about as fast as with ECMP."""
import unittest

import judge
import leaf_spine
from leaf_spine import live

PAIRS = (("h1", "h3"),)
# Half a millisecond longer than the other path: what is sprayed is overtaken for certain.
LINKS = {"spine2": {"delay_ns": 500_000}}
INFERRED = {"accept": "inferred"}  # perftest names its queue pairs over TCP
SECONDS = 12
# Where a NACK is missing the sender waits 0.3 s, so that the filter has signs soon. perftest's own timeouts, of which
# the harness makes four seconds because guests are slow, would take most of the test.
OPTIONS = f"-D {SECONDS} -f 0 -s 16384 -m 1024 --qp-timeout=16"


class GoBackN(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.lab = cls.enterClassContext(live.Lab())
        cls.guests = leaf_spine.boot(cls.lab)
        cls.ecmp = cls.transfer(leaf_spine.HASHING, first=True)
        cls.blind = cls.transfer(leaf_spine.SPRAYING, detect_gbn=False)
        cls.sighted = cls.transfer(leaf_spine.SPRAYING)
        for name in ("ecmp", "blind", "sighted"):
            found = getattr(cls, name)
            print(name, found.megabytes_per_second, {k: v for k, v in found.filter.items() if v}, flush=True)

    @classmethod
    def transfer(cls, file, first=False, **filter_options):
        stages = {"lb": INFERRED, "nack_filter": {**INFERRED, **filter_options}} if file == leaf_spine.SPRAYING else {}
        cls.lab.start(leaf_spine.switches(cls.guests, file, LINKS, stages))
        if first:
            leaf_spine.wait_up(cls.guests)
        judge.ping(cls.guests["h1"], cls.guests["h3"], 4)
        found = leaf_spine.measure(cls.lab, cls.guests, PAIRS, options=OPTIONS)
        cls.lab.stop()
        return found

    def test_its_transfer_is_about_as_fast_as_with_ecmp(self):
        rate, = self.sighted.megabytes_per_second
        self.assertGreater(rate, self.ecmp.megabytes_per_second[0] / 3)
        self.assertGreater(rate, 10 * self.blind.megabytes_per_second[0])

    def test_it_is_found_and_its_nacks_pass(self):
        self.assertGreaterEqual(self.sighted.filter["receivers_in_order"], 1)
        self.assertEqual(self.blind.filter["receivers_in_order"], 0)
        self.assertGreater(self.blind.filter["nacks_blocked"], 0)
        self.assertLess(self.sighted.filter["nacks_blocked"], self.blind.filter["nacks_blocked"])

    def test_nothing_is_lost(self):
        for found in (self.ecmp, self.blind, self.sighted):
            self.assertEqual(found.drops, {})


if __name__ == "__main__":
    judge.main()
