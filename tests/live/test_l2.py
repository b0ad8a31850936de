#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""Unmodified Linux hosts talk through the L2 pipeline: IPv4, IPv6, TCP, UDP, VLANs, jumbo frames."""
import os
import sys
import time
import unittest

import lab

PIPELINE = "    pipeline: [parse, rdma_track, l2]\n"


def ports(hosts, extra=""):
    line = "      - {{ name: p{}, type: veth, interface: {}{} }}\n"
    return "".join(line.format(i, host.port_interface, extra) for i, host in enumerate(hosts))


class L2(unittest.TestCase):
    def test_two_hosts_ping_and_stream_over_ipv4_and_ipv6(self):
        with lab.Lab() as l:
            a = l.host("a").address("10.77.0.1/24", "fd77::1/64")
            b = l.host("b").address("10.77.0.2/24", "fd77::2/64")
            l.start("  - name: tor\n    ports:\n" + ports([a, b]) + PIPELINE)
            self.assertEqual(a.ping("10.77.0.2"), 5)
            self.assertEqual(b.ping("fd77::1"), 5)
            self.assertEqual(a.ping("10.77.0.2", size=1472, extra=("-M", "do")), 5)
            for address in ("10.77.0.2", "fd77::2"):
                tcp = lab.iperf3(a, b, address)
                self.assertGreater(tcp["end"]["sum_received"]["bytes"], 1_000_000)
                udp = lab.iperf3(a, b, address, "-u", "-b", "20M", "-l", "1200")
                self.assertGreater(udp["end"]["sum"]["bytes"], 1_000_000)
            macs = {row["mac"]: row["port"] for row in l.show("fdb")}
            self.assertEqual(macs[a.mac()], "p0")
            self.assertEqual(macs[b.mac()], "p1")
            counters = l.stop()
            ports_by_name = {p["port"]: p for p in counters["switches"][0]["ports"]}
            self.assertEqual(ports_by_name["p0"]["rx_errors"], 0)
            self.assertEqual(ports_by_name["p0"]["mtu"], 1500)

    def test_an_idle_switch_leaves_its_cpu_to_others(self):
        with lab.Lab() as l:
            a = l.host("a").address("10.77.0.1/24")
            b = l.host("b").address("10.77.0.2/24")
            l.start("  - name: tor\n    ports:\n" + ports([a, b]) + PIPELINE)
            self.assertEqual(a.ping("10.77.0.2"), 5)
            l.show("workers")
            before, started = lab.cpu_s(l.switch.pid), time.monotonic()
            time.sleep(3)
            share = (lab.cpu_s(l.switch.pid) - before) / (time.monotonic() - started)
            print(f"an idle switch with two ports: {share:.1%} of a CPU")
            self.assertLess(share, 0.3)
            l.stop()

    def test_a_port_that_opens_hears_nothing_of_other_interfaces(self):
        # A packet socket hears every interface until it is bound. Six ports make six chances.
        stranger = "02:00:00:00:00:77"
        flood = ("import socket, time\ns = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)\ns.bind(('eth0', 0))\n"
                 f"frame = b'\\xff' * 6 + bytes.fromhex('{stranger.replace(':', '')}') + b'\\x88\\xb5' + bytes(50)\n"
                 "print('sends', flush=True)\nend = time.monotonic() + 20\n"
                 "while time.monotonic() < end: s.send(frame)\n")
        with lab.Lab() as l:
            hosts, other = [l.host(f"q{i}") for i in range(6)], l.host("c")
            lab.run("ip", "link", "set", other.port_interface, "up")
            sender = other.start("nice", "-n", "-15", sys.executable, "-c", flood)
            l.on_exit(sender.communicate)
            l.on_exit(sender.kill)
            self.assertIn("sends", sender.stdout.readline())
            l.start("  - name: tor\n    ports:\n" + ports(hosts) + PIPELINE)
            self.assertNotIn(stranger, {row["mac"] for row in l.show("fdb")})
            l.stop()

    def test_jumbo_frames_of_a_roce_mtu_pass_whole(self):
        with lab.Lab() as l:
            a = l.host("a", mtu=4200).address("10.77.0.1/24")
            b = l.host("b", mtu=4200).address("10.77.0.2/24")
            l.start("  - name: tor\n    ports:\n" + ports([a, b], ", mtu_bytes: 4200") + PIPELINE)
            self.assertEqual(a.ping("10.77.0.2", size=4172, extra=("-M", "do")), 5)
            l.stop()

    def test_a_link_goes_down_and_comes_back_as_scheduled_and_on_command(self):
        with lab.Lab() as l:
            a = l.host("a").address("10.77.0.1/24")
            b = l.host("b").address("10.77.0.2/24")
            l.start(f"""  - name: tor
    ports:
      - {{ name: p0, type: veth, interface: {a.port_interface} }}
      - {{ name: p1, type: veth, interface: {b.port_interface} }}
    faults:
      - {{ at_s: 3, port: p1, link: down }}
      - {{ at_s: 5, port: p1, link: up }}
    pipeline: [parse, l2]
""")
            carrier = lambda: "NO-CARRIER" not in b.ip("link", "show", "eth0")
            self.assertEqual(a.ping("10.77.0.2"), 5)
            lab.wait_for("the link down", lambda: not carrier())
            self.assertEqual({row["port"]: row["link"] for row in l.show("ports")}, {"p0": "up", "p1": "down"})
            self.assertEqual(a.ping("10.77.0.2", count=1), 0)
            lab.wait_for("the link up", carrier)
            lab.wait_for("packets", lambda: a.ping("10.77.0.2", count=1) == 1)
            weftctl = (os.path.join(lab.BIN, "weftctl"), "--socket", l.socket)
            set_port = lambda *words: lab.run(*weftctl, "set", "port", *words)
            set_port("p1", "link=down")
            self.assertFalse(carrier())
            set_port("p1", "link=up")
            lab.wait_for("packets", lambda: a.ping("10.77.0.2", count=1) == 1)
            self.assertEqual(a.ping("10.77.0.2"), 5)
            l.stop()

    def test_vlans_keep_hosts_apart_and_a_trunk_carries_both(self):
        # Two switches with a trunk between them; hosts of VLAN 10 and of VLAN 20 on each.
        with lab.Lab() as l:
            hosts = {}
            text = ""
            for switch, peer in (("left", "right"), ("right", "left")):
                text += f"  - name: {switch}\n    ports:\n"
                for vid in (10, 20):
                    number = vid + (1 if switch == "left" else 2)
                    host = l.host(f"{switch[0]}{vid}").address(f"10.77.0.{number}/24", f"fd77::{number}/64")
                    hosts[switch, vid] = host
                    text += (f"      - {{ name: h{vid}, type: veth, interface: {host.port_interface}, "
                             f"access_vlan: {vid} }}\n")
                text += f"      - {{ name: t, type: link, peer: {peer}/t, trunk: {{ vlans: [10, 20] }} }}\n" + PIPELINE
            l.start(text)
            for vid in (10, 20):
                self.assertEqual(hosts["left", vid].ping(f"10.77.0.{vid + 2}"), 5)
                self.assertEqual(hosts["right", vid].ping(f"fd77::{vid + 1}"), 5)
            self.assertEqual(hosts["left", 10].ping("10.77.0.22", count=2), 0)
            self.assertEqual(hosts["left", 10].ping("10.77.0.21", count=2), 0)
            tcp = lab.iperf3(hosts["left", 10], hosts["right", 10], "10.77.0.12")
            self.assertGreater(tcp["end"]["sum_received"]["bytes"], 1_000_000)
            seen = {(row["vlan"], row["mac"]) for row in l.show("fdb", "--switch", "left") if row["port"] == "t"}
            self.assertEqual(seen, {(vid, hosts["right", vid].mac()) for vid in (10, 20)})
            l.stop()


if __name__ == "__main__":
    lab.main()
