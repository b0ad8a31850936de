# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""What the tests of this folder share: configurations, traffic, and the comparison of the switch's queue pairs with
what the guests' own counters say."""
import os
import sys
import unittest

import channel
import guest
import rdma_tools
from guest import live
from nic import Nic
import evidence

MTU = 4200
# tools/check --full: every combination, where a choice of them is enough otherwise.
FULL = os.environ.get("WEFT_EXHAUSTIVE") == "full"
# Counters of rdma_rxe that stay at zero between hosts that lose nothing. RNR NAKs are the hosts' own business.
ERROR_COUNTERS = ("completer_retry_err", "duplicate_request", "out_of_seq_request", "rcvd_seq_err",
                  "retry_exceeded_err", "retry_rnr_exceeded_err", "send_err")


def l2(guests, pipeline):
    ports = "".join(f"      - {each.port}\n" for each in guests)
    return f"  - name: tor\n    ports:\n{ports}    pipeline: {pipeline}\n"


def l3(guests, pipeline):
    """A router with a subnet on each port; call use_l3_addresses() for the guests' part."""
    addresses = "".join(f"      - {{ port: {each.name}, address: '{gateway}/{bits}' }}\n"
                        for each in guests for gateway, bits in zip(gateways(each), (24, 64)))
    ports = "".join(f"      - {each.port}\n" for each in guests)
    return f"  - name: leaf\n    ports:\n{ports}    addresses:\n{addresses}    pipeline: {pipeline}\n"


def l2_addresses(number):
    return [f"10.9.0.{number}/24", f"fd09::{number}/64"]


def gateways(each):
    return [f"10.9.{each.number}.1", f"fd09:{each.number}::1"]


def use_l3_addresses(each):
    each.configure([f"10.9.{each.number}.2/24", f"fd09:{each.number}::2/64"], gateways(each))


def ping(client, server, version):
    """Small packets, and the largest that the MTU allows."""
    headers = 28 if version == 4 else 48
    for size in (56, client.mtu - headers):
        client.check(f"ping -n -c 3 -i 0.1 -W 3 -M do -s {size} {server.address(version)}")


def counters_of(guests):
    return {each.name: each.hw_counters() for each in guests}


def difference(before, after):
    return {name: {key: after[name][key] - before[name][key] for key in after[name]} for name in after}


def queue_pairs(lab):
    """Rows of `show qps` by (source, destination, destination QPN)."""
    return {(row["source"], row["destination"], row["dest_qp"]): row for row in lab.show("qps")}


def stage_counters(lab, stage):
    """Counters of a stage of the only switch."""
    return {row["counter"]: row["value"] for row in lab.show("counters") if row["stage"] == stage}


class TwoGuests(unittest.TestCase):
    """Tests of a switch between guests a and b, which run as long as the class does."""
    attach = "tap"

    @classmethod
    def setUpClass(cls):
        cls.lab = cls.enterClassContext(live.Lab())
        cls.guests = [guest.Guest(cls.lab, name, cls.attach, l2_addresses(number), MTU)
                      for number, name in ((1, "a"), (2, "b"))]
        cls.a, cls.b = cls.guests

    def tearDown(self):
        self.lab.kill()


class Ipv6Received:
    """Octets of IPv6 packets that a guest receives from now on. (What rxe sends, the kernel does not count.)"""

    def __init__(self, each):
        self.guest = each
        self.before = self._read()

    def _read(self):
        lines = self.guest.check("cat /proc/net/snmp6").splitlines()
        values = {name: int(value) for name, value in map(str.split, lines)}
        return (values["Ip6InOctets"], values["Icmp6InNeighborSolicits"], values["Icmp6InNeighborAdvertisements"])

    def range(self):
        """Least and most octets without neighbour discovery, whose answers have 64 or 72 octets."""
        octets, solicitations, advertisements = (after - before for after, before in zip(self._read(), self.before))
        return octets - 72 * (solicitations + advertisements), octets - 72 * solicitations - 64 * advertisements


def main():
    """unittest.main() that CTest reads as skipped where guests cannot run."""
    reason = guest.missing_requirements()
    if reason:
        print("SKIP: " + reason)
        sys.exit(77)
    live.main()


__all__ = ["Nic", "channel", "evidence", "guest", "live", "rdma_tools"]  # for the tests, which import them from here
