#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""Four Soft-RoCE guests are the hosts of conf/leaf-spine.yaml: transfers between the racks and inside of one run side
by side and lose nothing."""
import unittest

import judge
import leaf_spine
from leaf_spine import live

MESSAGES, MESSAGE_BYTES, MTU = 24, 65536, 1024
PACKETS = MESSAGES * MESSAGE_BYTES // MTU
PAIRS = (("h1", "h3"), ("h2", "h4"))


class FourGuests(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.lab = cls.enterClassContext(live.Lab())
        cls.guests = leaf_spine.boot(cls.lab, leaf_spine.HOSTS)
        cls.lab.start(leaf_spine.switches(cls.guests, leaf_spine.HASHING))
        leaf_spine.wait_up(cls.guests)

    @classmethod
    def tearDownClass(cls):
        cls.lab.stop()

    def resolve(self, pairs):
        """A router drops what comes in bursts while it still looks for a neighbour."""
        for client, server in pairs:
            judge.ping(self.guests[client], self.guests[server], 4)

    def check(self, pairs):
        self.resolve(pairs)
        found = leaf_spine.measure(self.lab, self.guests, pairs, options=f"-n {MESSAGES} -s {MESSAGE_BYTES} -m {MTU}")
        self.assertEqual(found.drops, {})
        for client, server in pairs:
            self.assertEqual(found.counters[client]["sent_pkts"], PACKETS, client)
            self.assertEqual(found.counters[server]["rcvd_pkts"], PACKETS, server)
        for name, counters in found.counters.items():
            self.assertEqual({key: counters[key] for key in judge.ERROR_COUNTERS if counters[key]}, {}, name)
        self.assertEqual([rate > 0 for rate in found.megabytes_per_second], [True] * len(pairs))

    def test_two_transfers_between_the_racks_at_the_same_time(self):
        self.check(PAIRS)

    def test_a_transfer_inside_of_a_rack(self):
        self.check((("h1", "h2"),))


if __name__ == "__main__":
    judge.main()
