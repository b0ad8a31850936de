#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""Two weft-rnic spray over a leaf-spine fabric while an operator takes a path out of the set and puts it back."""
import json
import os
import subprocess
import unittest

import lab

RNIC = os.path.join(lab.BIN, "weft-rnic")
MTU = 4200
SPINES = (1, 2, 3)
LEAF = """    pipeline:
      - parse
      - rdma_track
      - nack_filter: { uplinks: [s1, s2, s3], guard_us: 50000 }
      - l3
      - lb: { policy: psn }
"""


def fabric(hosts, skew_ns):
    """Leaf 1 and 2 with a host each, 10.77.<leaf>.2, and three spines, each further away than the one before."""
    text = ""
    for leaf in (1, 2):
        text += f"  - name: leaf{leaf}\n    ports:\n"
        text += f"      - {{ name: h, type: veth, interface: {hosts[leaf].port_interface}, mtu_bytes: {MTU} }}\n"
        for spine in SPINES:
            text += (f"      - {{ name: s{spine}, type: link, peer: spine{spine}/l{leaf}, rate_mbps: 10000, "
                     f"delay_ns: {10000 + skew_ns * (spine - 1)} }}\n")
        text += f"    addresses:\n      - {{ port: h, address: 10.77.{leaf}.1/24 }}\n"
        for spine in SPINES:
            text += f"      - {{ port: s{spine}, address: 10.0.{leaf}{spine}.1/30 }}\n"
        hops = ", ".join(f"10.0.{leaf}{spine}.2" for spine in SPINES)
        text += f"    routes:\n      - {{ prefix: 10.77.{3 - leaf}.0/24, via: [{hops}] }}\n" + LEAF
    for spine in SPINES:
        text += f"  - name: spine{spine}\n    ports:\n"
        for leaf in (1, 2):
            text += f"      - {{ name: l{leaf}, type: link, peer: leaf{leaf}/s{spine}, rate_mbps: 10000 }}\n"
        text += "    addresses:\n"
        for leaf in (1, 2):
            text += f"      - {{ port: l{leaf}, address: 10.0.{leaf}{spine}.2/30 }}\n"
        text += "    routes:\n"
        for leaf in (1, 2):
            text += f"      - {{ prefix: 10.77.{leaf}.0/24, via: [10.0.{leaf}{spine}.1] }}\n"
        text += "    pipeline: [parse, l3]\n"
    return text


class Paths(unittest.TestCase):
    def start_lab(self, skew_ns=0):
        self.lab = self.enterContext(lab.Lab())
        hosts = {}
        for leaf in (1, 2):
            hosts[leaf] = self.lab.host(str(leaf), mtu=MTU).address(f"10.77.{leaf}.2/24")
            hosts[leaf].route("default", f"10.77.{leaf}.1")
        self.client, self.server = hosts[1], hosts[2]
        self.text = fabric(hosts, skew_ns)
        self.lab.start(self.text)

    def set(self, *words):
        return lab.run(os.path.join(lab.BIN, "weftctl"), "--socket", self.lab.socket, "set", *words)

    def set_at_both(self, *words):
        for leaf in ("leaf1", "leaf2"):
            self.set(*words, "--switch", leaf)

    def sent(self):
        """Packets that leaf1 has sent, by uplink."""
        rows = self.lab.show("ports", "--switch", "leaf1")
        return {row["port"]: row["tx_packets"] for row in rows if row["port"] != "h"}

    def moved(self, packets=300):
        """Packets by uplink until so many have left, of those that were not on their way yet."""
        self.pass_by(30)
        return self.pass_by(packets)

    def pass_by(self, packets):
        before = self.sent()
        now = {}

        def enough():
            now.update({port: count - before[port] for port, count in self.sent().items()})
            return sum(now.values()) >= packets

        lab.wait_for("packets", enough)
        return now

    def queue_pair(self):
        """The row of nack_filter at leaf2 for the queue pair with the most packets."""
        rows = self.lab.show("nack_filter_qps", "--switch", "leaf2")
        return max(rows, key=lambda row: sum(map(int, row["packets_by_path"].split())))

    def start(self, *arguments):
        server = self.server.start("timeout", "90", RNIC, "serve")
        self.addCleanup(server.communicate)
        self.addCleanup(server.terminate)
        self.assertIn("port", server.stdout.readline())
        client = subprocess.Popen(
            ["ip", "netns", "exec", self.client.namespace, "timeout", "80", RNIC, "write_bw", "10.77.2.2", "--json",
             "--rto-us", "2000000", *arguments], stdout=subprocess.PIPE, text=True)
        self.addCleanup(client.communicate)
        self.addCleanup(client.terminate)
        lab.wait_for("the spray", lambda: min(self.sent().values()) > 100)
        return client

    def nacks(self):
        """Counters of nack_filter at leaf2."""
        rows = self.lab.show("counters", "--switch", "leaf2")
        return {row["counter"]: row["value"] for row in rows if row["stage"] == "nack_filter"}

    def assert_judged(self):
        """NACKs of late packets are blocked from now on, and none passes."""
        before = self.nacks()
        lab.wait_for("NACKs", lambda: self.nacks()["nacks_blocked"] > before["nacks_blocked"] + 50)
        after = self.nacks()
        for counter in ("nacks_valid", "nacks_unknown", "nacks_path_down", "compensated_path_down"):
            self.assertEqual(after[counter], before[counter], counter)

    def finish(self, client):
        """What the client says of its queue pair. The switches have dropped nothing of it."""
        out, _ = client.communicate(timeout=80)
        self.assertEqual(client.returncode, 0)
        # The kernels of the hosts send multicast, to which no route leads.
        drops = {row["reason"] for row in self.lab.show("drops")}
        self.assertLessEqual(drops, {"ip_destination", "nack_blocked"})
        self.lab.stop()
        return json.loads(out)["qps"][0]

    def test_a_path_leaves_the_set_at_both_leaves_and_comes_back_without_a_retransmission(self):
        self.start_lab()
        # One packet under way: none overtakes another, and every NACK would be about a loss.
        client = self.start("-D", "12", "--window", "1")
        even = self.moved()
        self.assertLess(max(even.values()) - min(even.values()), 100, even)
        self.set_at_both("paths", "exclude", "s2")
        self.assertEqual([row["path"] for row in self.lab.show("lb", "--switch", "leaf1")], ["up", "excluded", "up"])
        left = self.moved()
        self.assertEqual(left["s2"], 0)
        self.assertLess(abs(left["s1"] - left["s3"]), 100, left)
        lab.wait_for("two paths", lambda: self.queue_pair()["paths"] == 2)
        # Of the two, none stands for s2, through which packets of the queue pair would come in at leaf2.
        came = {row["port"]: row["rx_packets"] for row in self.lab.show("ports", "--switch", "leaf2")}
        self.moved()
        again = {row["port"]: row["rx_packets"] for row in self.lab.show("ports", "--switch", "leaf2")}
        self.assertEqual(again["s2"], came["s2"])
        histogram = [int(count) for count in self.queue_pair()["packets_by_path"].split()]
        self.assertEqual(len(histogram), 2)
        self.assertGreater(min(histogram), 0)
        # A reload of something else leaves it excluded.
        self.lab.reload(self.text.replace("guard_us: 50000", "guard_us: 60000"))
        self.assertEqual(self.moved()["s2"], 0)
        self.set_at_both("paths", "include", "s2")
        self.assertGreater(min(self.moved().values()), 50)
        lab.wait_for("three paths", lambda: self.queue_pair()["paths"] == 3)
        qp = self.finish(client)
        self.assertEqual((qp["retransmitted"], qp["timeouts"], qp["naks"], qp["spurious"]), (0, 0, 0, 0))

    def test_nacks_about_packets_that_are_late_are_blocked_again_when_the_new_paths_are_learned(self):
        self.start_lab(skew_ns=500_000)
        client = self.start("-D", "14", "--loss-recovery", "nic_sr", "--rate-gbps", "0.1")
        self.assert_judged()
        self.set_at_both("paths", "exclude", "s2")
        lab.wait_for("two paths", lambda: self.queue_pair()["paths"] == 2)
        self.moved(1000)
        self.assert_judged()
        self.set_at_both("paths", "include", "s2")
        lab.wait_for("three paths", lambda: self.queue_pair()["paths"] == 3)
        self.moved(1000)
        self.assert_judged()
        self.assertEqual(self.finish(client)["timeouts"], 0)

    def test_a_name_that_several_switches_know_needs_the_switch(self):
        self.start_lab()
        command = [os.path.join(lab.BIN, "weftctl"), "--socket", self.lab.socket, "set", "paths", "exclude", "s1"]
        result = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual(result.returncode, 1, result.stdout)
        self.assertIn("several switches have a port 's1'; say which one: SWITCH/s1", result.stderr)
        self.lab.stop()


if __name__ == "__main__":
    lab.main()
