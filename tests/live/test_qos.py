#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""Hosts send through a congested port: CE marks and PFC are seen on their wires, and PFC that they send is heeded."""
import json
import os
import subprocess
import sys
import time
import unittest

import lab

HOST = os.path.join(os.path.dirname(os.path.realpath(__file__)), "qos_host.py")
ECT0, CE = 2, 3


def tos(dscp, ecn):
    return str(dscp << 2 | ecn)


class Watch:
    """Counts what a host receives until the result is asked for."""

    def __init__(self, host):
        self.process = host.start(sys.executable, HOST, "watch", stdin=subprocess.PIPE)
        self.process.stdout.readline()

    def result(self):
        out, _ = self.process.communicate(timeout=30)
        return json.loads(out.splitlines()[-1])


def switch(hosts, rates, qos):
    text = "  - name: tor\n    ports:\n"
    for number, (host, rate) in enumerate(zip(hosts, rates)):
        text += f"      - {{ name: p{number}, type: veth, interface: {host.port_interface}, rate_mbps: {rate} }}\n"
    return text + f"    qos:{qos}\n    pipeline: [parse, rdma_track, l2]\n"


class Qos(unittest.TestCase):
    def start(self, l, rates, qos):
        hosts = [l.host(name).address(f"10.77.0.{number}/24") for number, name in enumerate("abc", 1)]
        l.start(switch(hosts, rates, qos))
        for host in hosts[:-1]:
            self.assertEqual(host.ping("10.77.0.3", count=2), 2)
        return hosts

    def wait_until_sent(self, l, packets):
        """All packets of the senders have left through p2. If some have not, says where they are."""
        def sent():
            return sum(row["tx_packets"] for row in l.show("queues") if row["port"] == "p2" and row["queue"] in (3, 4))
        try:
            lab.wait_for("all packets sent by p2", lambda: sent() >= packets)
        except AssertionError:
            self.fail(f"p2 sent {sent()} of {packets}\n" + json.dumps([l.show("ports"), l.show("drops")], indent=1))

    def test_a_congested_port_marks_and_pauses_and_loses_nothing(self):
        with lab.Lab() as l:
            # Two hosts send 24 Mbit/s each to a third one, whose port runs at 20 Mbit/s. They are no RNICs and do not
            # pause, so all that they send fits into the headroom: nothing is lost when the switch gets little CPU time.
            a, b, c = self.start(l, [1000, 1000, 20], """
      BUFFER_POOL: { size: 28000000 }
      BUFFER_PROFILE: { l: { static_th: 200000, xoff: 4000000 } }
      BUFFER_PG: { all|3-4: { profile: l } }""")
            receiver, sender = Watch(c), Watch(a)
            flows = [host.start(sys.executable, HOST, "send", "10.77.0.3", tos(26, ECT0), "3000", "3000")
                     for host in (a, b)]
            for flow in flows:
                flow.communicate(timeout=30)
            self.wait_until_sent(l, 6000)
            seen, paused = receiver.result(), sender.result()
            self.assertEqual((sum(seen["tos"].values()), seen["dropped"]), (6000, 0))
            self.assertGreater(seen["tos"].get(tos(26, CE), 0), 1000)
            self.assertEqual(set(seen["tos"]), {tos(26, ECT0), tos(26, CE)})
            self.assertEqual(seen["checksums_wrong"], 0)
            self.assertGreater(paused["xoff"].get("3", 0), 0)
            self.assertGreater(paused["xon"].get("3", 0), 0)
            self.assertEqual(set(paused["xoff"]), {"3"})
            queue = next(row for row in l.show("queues") if row["port"] == "p2" and row["queue"] == 3)
            self.assertEqual(queue["ecn_marked"], seen["tos"][tos(26, CE)])
            self.assertEqual((queue["dropped"], queue["tx_packets"]), (0, 6000))
            pfc = next(row for row in l.show("pfc") if row["port"] == "p0" and row["priority"] == "3")
            self.assertEqual(pfc["tx_xoff"], pfc["tx_xon"])
            self.assertGreater(pfc["tx_xoff"], 0)
            shared = next(row for row in l.show("buffers") if row["group"] == "shared")
            self.assertGreater(shared["peak_bytes"], 100_000)
            wred = next(row for row in l.show("wred") if row["port"] == "p2" and row["queue"] == 3)
            self.assertEqual(wred["ecn_marked"], queue["ecn_marked"])
            l.stop()

    def test_without_congestion_nothing_is_marked_or_paused(self):
        with lab.Lab() as l:
            a, _, c = self.start(l, [1000, 1000, 100_000], " {}")
            receiver, sender = Watch(c), Watch(a)
            a.execute(sys.executable, HOST, "send", "10.77.0.3", tos(26, ECT0), "1000", "1500")
            self.wait_until_sent(l, 1000)
            seen, paused = receiver.result(), sender.result()
            self.assertEqual(seen["tos"], {tos(26, ECT0): 1000})
            self.assertEqual((paused["xoff"], paused["xon"]), ({}, {}))
            l.stop()

    def test_headroom_says_what_it_is_made_of(self):
        with lab.Lab() as l:
            self.start(l, [1000, 1000, 100], """
      BUFFER_PROFILE: { far: { static_th: 200000, xoff: 4000000 } }
      BUFFER_PG: { p2|3: { profile: far } }""")
            rows = {(row["port"], row["group"]): row for row in l.show("headroom")}
            self.assertEqual(set(rows), {(port, group) for port in ("p0", "p1", "p2") for group in (3, 4)})
            for row in rows.values():
                parts = sum(row[part] for part in ("on_the_link", "frames", "bursts", "rest"))
                self.assertEqual(parts, row["headroom_size"])
            made = rows["p2", 4]
            self.assertEqual(made["speed_mbps"], 100)
            self.assertEqual(made["on_the_link"], int(2 * made["speed_mbps"] * made["delay_us"] / 8))
            self.assertGreaterEqual(made["rest"], 0)
            self.assertEqual(rows["p2", 3]["headroom_size"], 4_000_000)
            l.stop()

    def test_pfc_that_a_host_sends_holds_its_class_back_and_no_other(self):
        with lab.Lab() as l:
            # 65535 quanta are 336 ms at 100 Mbit/s.
            a, b, c = self.start(l, [1000, 1000, 100], " { PFC_WD: { all: { action: off } } }")
            receiver = Watch(c)
            flows = [host.start(sys.executable, HOST, "send", "10.77.0.3", tos(dscp, ECT0), "2000", "1000")
                     for host, dscp in ((a, 26), (b, 34))]
            time.sleep(0.7)
            c.execute(sys.executable, HOST, "pfc", str(1 << 3), "65535", "1")
            for flow in flows:
                flow.communicate(timeout=30)
            self.wait_until_sent(l, 4000)
            seen = receiver.result()
            self.assertEqual((sum(seen["tos"].values()), seen["dropped"]), (4000, 0))

            def longest_gap(dscp):
                times = seen["times"][str(dscp)]
                return max(after - before for before, after in zip(times, times[1:]))

            self.assertGreater(longest_gap(26), 0.3)
            self.assertLess(longest_gap(34), 0.2)
            pfc = next(row for row in l.show("pfc") if row["port"] == "p2" and row["priority"] == "3")
            self.assertEqual((pfc["rx_xoff"], pfc["storms"]), (1, 0))
            self.assertGreater(pfc["rx_paused_us"], 300_000)
            l.stop()


if __name__ == "__main__":
    lab.main()
