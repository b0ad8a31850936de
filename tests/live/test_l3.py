#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""Unmodified Linux hosts talk through routers: one leaf, and a leaf-spine fabric in one process."""
import unittest

import lab

LINK = "rate_mbps: 10000, delay_ns: 1000"
PIPELINE = "    pipeline: [parse, rdma_track, l3, lb: {policy: ecmp}]\n"


def leaf_spine(hosts):
    """Two leaves with two hosts each, two spines; the hosts' subnets are 10.77.<leaf><host>.0/24 and fd77:<..>::/64."""
    text = ""
    for leaf in (1, 2):
        other = 3 - leaf
        text += f"  - name: leaf{leaf}\n    ports:\n"
        for host in (1, 2):
            text += f"      - {{ name: h{host}, type: veth, interface: {hosts[leaf, host].port_interface} }}\n"
        for spine in (1, 2):
            text += f"      - {{ name: s{spine}, type: link, peer: spine{spine}/l{leaf}, {LINK} }}\n"
        text += "    addresses:\n"
        for host in (1, 2):
            text += f"      - {{ port: h{host}, address: 10.77.{leaf}{host}.1/24 }}\n"
            text += f"      - {{ port: h{host}, address: 'fd77:{leaf}{host}::1/64' }}\n"
        for spine in (1, 2):
            text += f"      - {{ port: s{spine}, address: 10.0.{leaf}{spine}.1/30 }}\n"
            text += f"      - {{ port: s{spine}, address: 'fd00:{leaf}{spine}::1/64' }}\n"
        text += "    routes:\n"
        for host in (1, 2):
            text += f"      - {{ prefix: 10.77.{other}{host}.0/24, via: [10.0.{leaf}1.2, 10.0.{leaf}2.2] }}\n"
            text += f"      - {{ prefix: 'fd77:{other}{host}::/64', via: ['fd00:{leaf}1::2', 'fd00:{leaf}2::2'] }}\n"
        text += PIPELINE
    for spine in (1, 2):
        text += f"  - name: spine{spine}\n    ports:\n"
        for leaf in (1, 2):
            text += f"      - {{ name: l{leaf}, type: link, peer: leaf{leaf}/s{spine}, {LINK} }}\n"
        text += "    addresses:\n"
        for leaf in (1, 2):
            text += f"      - {{ port: l{leaf}, address: 10.0.{leaf}{spine}.2/30 }}\n"
            text += f"      - {{ port: l{leaf}, address: 'fd00:{leaf}{spine}::2/64' }}\n"
        text += "    routes:\n"
        for leaf in (1, 2):
            for host in (1, 2):
                text += f"      - {{ prefix: 10.77.{leaf}{host}.0/24, via: [10.0.{leaf}{spine}.1] }}\n"
                text += f"      - {{ prefix: 'fd77:{leaf}{host}::/64', via: ['fd00:{leaf}{spine}::1'] }}\n"
        text += "    pipeline: [parse, l3, lb]\n"
    return text


def make_hosts(l):
    hosts = {}
    for leaf in (1, 2):
        for host in (1, 2):
            h = l.host(f"{leaf}{host}").address(f"10.77.{leaf}{host}.2/24", f"fd77:{leaf}{host}::2/64")
            h.route("default", f"10.77.{leaf}{host}.1").route("default", f"fd77:{leaf}{host}::1")
            hosts[leaf, host] = h
    return hosts


class L3(unittest.TestCase):
    def test_one_router_between_two_subnets(self):
        with lab.Lab() as l:
            a, b = l.routed_hosts()
            l.start(f"""  - name: leaf
    ports:
      - {{ name: a, type: veth, interface: {a.port_interface} }}
      - {{ name: b, type: veth, interface: {b.port_interface} }}
    addresses:
      - {{ port: a, address: 10.77.1.1/24 }}
      - {{ port: a, address: "fd77:1::1/64" }}
      - {{ port: b, address: 10.77.2.1/24 }}
      - {{ port: b, address: "fd77:2::1/64" }}
    pipeline: [parse, l3, lb]
""")
            for address in ("10.77.1.1", "10.77.2.2", "fd77:1::1", "fd77:2::2"):
                self.assertEqual(a.ping(address), 5, address)
            self.assertIn("ttl=63", a.execute("ping", "-n", "-c", "1", "10.77.2.2"))
            expired = a.execute("ping", "-n", "-c", "1", "-t", "1", "10.77.2.2", check=False)
            self.assertIn("Time to live exceeded", expired)
            self.assertIn("Unreachable", a.execute("ping", "-n", "-c", "1", "-W", "2", "192.0.2.1", check=False))
            tcp = lab.iperf3(a, b, "10.77.2.2")
            self.assertGreater(tcp["end"]["sum_received"]["bytes"], 1_000_000)
            neighbours = {row["address"]: row["mac"] for row in l.show("neighbours")}
            self.assertEqual(neighbours["10.77.1.2"], a.mac())
            drops = {row["reason"] for row in l.show("drops")}
            self.assertIn("ttl_exceeded", drops)
            self.assertIn("no_route", drops)
            l.stop()

    def test_leaf_spine_in_one_process_with_all_pairs(self):
        with lab.Lab() as l:
            hosts = make_hosts(l)
            l.start(leaf_spine(hosts))
            for source in hosts.values():
                for (leaf, host) in hosts:
                    self.assertEqual(source.ping(f"10.77.{leaf}{host}.2", count=2), 2)
                    self.assertEqual(source.ping(f"fd77:{leaf}{host}::2", count=2), 2)
            tcp = lab.iperf3(hosts[1, 1], hosts[2, 2], "10.77.22.2", "-P", "8")
            self.assertGreater(tcp["end"]["sum_received"]["bytes"], 1_000_000)
            uplinks = {row["port"]: row["tx_packets"] for row in l.show("ports", "--switch", "leaf1")}
            self.assertGreater(uplinks["s1"], 0)
            self.assertGreater(uplinks["s2"], 0)
            l.stop()

    def test_leaf_spine_on_two_workers(self):
        with lab.Lab() as l:
            hosts = make_hosts(l)
            l.start(leaf_spine(hosts), top="eal: { workers: [0, 1] }")
            for source in hosts.values():
                for (leaf, host) in hosts:
                    self.assertEqual(source.ping(f"10.77.{leaf}{host}.2", count=2), 2)
            tcp = lab.iperf3(hosts[1, 1], hosts[2, 2], "10.77.22.2", "-P", "8")
            self.assertGreater(tcp["end"]["sum_received"]["bytes"], 1_000_000)
            l.stop()


if __name__ == "__main__":
    lab.main()
