#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""Soft-RoCE guests send ECN-capable packets (perftest's --tclass) through a congested port: tcpdump in the receiving
guest sees as many CE marks as the switch counts, at the same packets' class, and nothing is lost.

rdma_rxe answers no mark with a CNP and drops those that pnp sends to it. virtio ignores PFC: the buffer has room for
what a guest has on its way."""

import judge
from judge import live, rdma_tools

ECT0, CE = 2, 3
LOSSLESS_DSCP, QUEUE = 26, 3
MESSAGES, MESSAGE_BYTES, MTU = 24, 65536, 1024
PACKETS = MESSAGES * MESSAGE_BYTES // MTU
RATE_MBPS = 8  # well below what a guest sends
QOS = """    qos:
      WRED_PROFILE: { roce: { green_min_threshold: 20000, green_max_threshold: 120000, green_drop_probability: 50 } }
      QUEUE: { all|3-4: { wred_profile: roce } }
"""


class Capture:
    """tcpdump of RoCE in a guest."""

    def __init__(self, each):
        self.guest = each
        self.job = each.start("tcpdump -U -i eth0 -n -s 64 -B 16384 --immediate-mode -w /tmp/roce.pcap "
                              "udp port 4791 > /tmp/tcpdump.log 2>&1; cat /tmp/tcpdump.log", 120)
        live.wait_for("tcpdump listens", lambda: each.run("grep -q listening /tmp/tcpdump.log", 10).code == 0)

    def stop(self):
        self.guest.run("sleep 1; kill -INT $(pidof tcpdump)", 20)
        out = self.job.wait().out
        if "0 packets dropped by kernel" not in out:
            raise AssertionError("tcpdump did not see every packet: " + out)

    def count(self, condition, source="10.9.0.1"):
        """Packets from an address, guest a's, that fulfil the condition: their TOS byte, for example."""
        found = f"tcpdump -n -r /tmp/roce.pcap 'src host {source} and {condition}' 2>/dev/null | wc -l"
        return int(self.guest.check(found))


class Congestion(judge.TwoGuests):
    def start(self, rate_mbps):
        ports = [self.a.port, self.b.port.replace("}", f", rate_mbps: {rate_mbps} }}")]
        self.lab.start("  - name: tor\n    ports:\n" + "".join(f"      - {port}\n" for port in ports) + QOS +
                       "    pipeline: [parse, rdma_track, l2]\n")
        for each in self.guests:
            each.wait_up()

    def transfer(self, ecn):
        """WRITEs from a to b while b captures. Returns the capture and the row of the queue to b."""
        capture = Capture(self.b)
        rdma_tools.perftest("ib_write_bw", self.a, self.b,
                            f"-n {MESSAGES} -s {MESSAGE_BYTES} -m {MTU} --tclass={LOSSLESS_DSCP << 2 | ecn}")
        capture.stop()
        queue = next(row for row in self.lab.show("queues") if row["port"] == self.b.name and row["queue"] == QUEUE)
        return capture, queue

    def test_tcpdump_sees_the_marks_that_the_switch_counts(self):
        self.start(RATE_MBPS)
        before = judge.counters_of(self.guests)
        capture, queue = self.transfer(ECT0)
        marked, unmarked = (capture.count(f"ip[1] == {LOSSLESS_DSCP << 2 | ecn}") for ecn in (CE, ECT0))
        self.assertEqual(marked + unmarked, PACKETS, "DSCP is what it was")
        self.assertEqual(capture.count("ip"), PACKETS)
        self.assertGreater(marked, PACKETS // 50)
        self.assertGreater(unmarked, PACKETS // 50)
        self.assertEqual((queue["ecn_marked"], queue["ecn_ce"], queue["dropped"]), (marked, 0, 0))
        self.assertEqual(queue["tx_packets"], PACKETS)
        self.assertGreater(queue["peak_bytes"], 20_000)
        counters = judge.difference(before, judge.counters_of(self.guests))
        errors = {key: counters["b"][key] for key in judge.ERROR_COUNTERS if counters["b"][key] != 0}
        self.assertEqual(errors, {}, "marked packets are as good as any to rdma_rxe")
        self.assertEqual(sum(row["cnps"] for row in self.lab.show("qps")), 0)
        self.lab.stop()

    def test_packets_that_are_not_ecn_capable_are_not_marked_however_congested_the_port_is(self):
        self.start(RATE_MBPS)
        capture, queue = self.transfer(0)
        self.assertEqual(capture.count(f"ip[1] == {LOSSLESS_DSCP << 2}"), PACKETS)
        self.assertEqual((queue["ecn_marked"], queue["dropped"]), (0, 0))
        self.assertGreater(queue["peak_bytes"], 20_000)
        self.lab.stop()


class NearSource(judge.TwoGuests):
    def test_a_guest_that_gets_cnps_of_pnp_sends_on_without_an_error(self):
        remote = judge.gateways(self.b)[0].rsplit(".", 1)[0] + ".0/24"
        text = judge.l3(self.guests, f"[parse, rdma_track, pnp: {{ remote: [{remote}], accept: inferred }}, l3]")
        port = self.b.port
        self.lab.start(text.replace(port, port.replace("}", f", rate_mbps: {RATE_MBPS} }}"))
                       .replace("    pipeline:", QOS + "    pipeline:"))
        for each in self.guests:
            each.wait_up()
            judge.use_l3_addresses(each)
        before = judge.counters_of(self.guests)
        capture = Capture(self.a)
        rdma_tools.perftest("ib_write_bw", self.a, self.b,
                            f"-n {MESSAGES} -s {MESSAGE_BYTES} -m {MTU} --tclass={LOSSLESS_DSCP << 2 | ECT0}")
        capture.stop()
        cnps = capture.count("udp[8] == 0x81", self.b.address(4))
        pnp = judge.stage_counters(self.lab, "pnp")
        seen = f"{cnps} CNPs came, {pnp}"
        self.assertGreater(cnps, 0, seen)
        self.assertEqual(cnps, pnp["cnps_sent"], seen)
        self.assertGreaterEqual(pnp["marks_cleared"], cnps, seen)
        counters = judge.difference(before, judge.counters_of(self.guests))
        errors = {(each.name, key): counters[each.name][key] for each in self.guests for key in judge.ERROR_COUNTERS
                  if counters[each.name][key] != 0}
        self.assertEqual(errors, {}, seen)
        queue = next(row for row in self.lab.show("queues") if row["port"] == self.b.name and row["queue"] == QUEUE)
        self.assertEqual((queue["tx_packets"], queue["dropped"]), (PACKETS, 0), "each packet once")
        self.lab.stop()


if __name__ == "__main__":
    judge.main()
