#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""A weft-rnic sends to another data centre through a slow port near by: with pnp it hears of that port at once. With
HPCC, 20 ms away, the port's queue stays short; with DCQCN, 300 ms away, CNPs that others find right cut its rate."""
import json
import os
import re
import struct
import subprocess
import tempfile
import threading
import unittest

import lab
import roce_capture
from others import judged_with_cpu_to_spare

RNIC = os.path.join(lab.BIN, "weft-rnic")
MTU = 4200
SLOW_MBPS, LINE_GBPS = 100, 1
# What a window without bound sends in the 40 ms until the far receiver's first answer does not fill it.
QOS = """    qos:
      BUFFER_POOL: { size: 14000000 }
      BUFFER_PROFILE: { l: { static_th: 11000000, xoff: 2000000 } }
      BUFFER_PG: { all|3-4: { profile: l } }
      WRED_PROFILE: { w: { green_min_threshold: 12000000, green_max_threshold: 13000000, green_drop_probability: 1 } }
      QUEUE: { all|3: { wred_profile: w } }
"""
# Marks begin at 20 ms of the slow port's rate, and all packets are marked from 80 ms on.
MARKS = QOS.replace("12000000", "25000").replace("13000000", "100000").replace("all|3:", "up|3:")
DCQCN_LINE_MBPS, DCQCN_SLOW_MBPS, FAR_S = 50, 10, 0.3
# Times of a slow link: a packet takes 3 ms.
DCQCN = "t_alpha_us=40,t_d_us=160,t_i_us=36000,r_ai_mbps=1,r_hai_mbps=5,min_mbps=1"
CNP, SYSTEM_PYTHON = 0x81, "/usr/bin/python3"  # that python3-scapy belongs to
# What scapy reads in a capture, of each CNP: the fields that those of ConnectX RNICs have alike, and the ICRC, as it is
# and as it should be.
SCAPY = """
import json, sys
from scapy.all import IP, UDP, Ether, rdpcap
from scapy.contrib.roce import BTH, CNPPadding
rows = []
for frame in map(bytes, rdpcap(sys.argv[1])):
    packet = Ether(frame)
    if BTH not in packet or packet[BTH].opcode != 0x81: continue
    ip, bth = packet[IP], packet[BTH]
    rows.append({"ip": [ip.ihl, ip.tos, int(ip.flags), ip.frag, ip.len], "sport": packet[UDP].sport,
                 "udp": [packet[UDP].len, packet[UDP].chksum],
                 "bth": [bth.solicited, bth.migreq, bth.padcount, bth.version, bth.pkey, bth.fecn, bth.becn, bth.resv6,
                         bth.ackreq, bth.resv7, bth.psn],
                 "reserved": bytes(bth[CNPPadding]).hex() if CNPPadding in bth else None,
                 "icrc": [frame[-4:].hex(), bth.compute_icrc(None).hex()]})
print(json.dumps(rows))
"""
# From the tests of scapy (test/contrib/roce.uts): a ConnectX-4 Lx sent it.
CONNECTX_CNP = bytes.fromhex("e41d2dab2bc27cfe90643b32080045c2003c718c4000401191610a0011010a001201000012b700280000"
                             "8100ffff400001180000000000000000000000000000000000000000" "82fd002a")
HPCC = ("hpcc", "min_mbps=1,r_ai_mbps=1")


def fabric(near, far, pnp):
    """Host `near` on a ToR, whose port to the edge switch is the slow one, and `far` behind the other edge switch."""
    return f"""  - name: tor
    ports:
      - {{ name: h, type: veth, interface: {near.port_interface}, mtu_bytes: {MTU} }}
      - {{ name: up, type: link, peer: esw1/dc, rate_mbps: {SLOW_MBPS}, mtu_bytes: {MTU} }}
    addresses: [{{ port: h, address: 10.77.1.1/24 }}, {{ port: up, address: 10.9.1.1/31 }}]
    routes: [{{ prefix: 10.77.2.0/24, via: [10.9.1.0] }}]
{QOS}    pipeline: [parse, rdma_track, l3, telemetry: {{ link_mbps: 1000 }}]
  - name: esw1
    ports:
      - {{ name: dc, type: link, peer: tor/up, rate_mbps: 1000, mtu_bytes: {MTU} }}
      - {{ name: wan, type: link, peer: esw2/wan, rate_mbps: 1000, delay_ns: 20000000, mtu_bytes: {MTU} }}
    addresses: [{{ port: dc, address: 10.9.1.0/31 }}, {{ port: wan, address: 10.9.2.0/31 }}]
    routes: [{{ prefix: 10.77.1.0/24, via: [10.9.1.1] }}, {{ prefix: 10.77.2.0/24, via: [10.9.2.1] }}]
    pipeline: [parse, rdma_track, {pnp}l3, telemetry]
  - name: esw2
    ports:
      - {{ name: wan, type: link, peer: esw1/wan, rate_mbps: 1000, delay_ns: 20000000, mtu_bytes: {MTU} }}
      - {{ name: h, type: veth, interface: {far.port_interface}, mtu_bytes: {MTU}, rate_mbps: 1000 }}
    addresses: [{{ port: wan, address: 10.9.2.1/31 }}, {{ port: h, address: 10.77.2.1/24 }}]
    routes: [{{ prefix: 10.77.1.0/24, via: [10.9.2.0] }}]
    pipeline: [parse, rdma_track, l3, telemetry]
"""


def marking_fabric(near, far, pnp):
    """As fabric(), without telemetry, and so far away that nothing from there comes in the first 0.6 s."""
    text = fabric(near, far, pnp).replace(QOS, MARKS).replace(", telemetry: { link_mbps: 1000 }", "")
    return text.replace(", telemetry]", "]").replace("delay_ns: 20000000", f"delay_ns: {int(FAR_S * 1e9)}").replace(
        f"rate_mbps: {SLOW_MBPS},", f"rate_mbps: {DCQCN_SLOW_MBPS},")


def read_by_scapy(path):
    done = subprocess.run([SYSTEM_PYTHON, "-c", SCAPY, path], capture_output=True, text=True, timeout=120, check=False)
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    return json.loads(done.stdout)


class LongHaul(unittest.TestCase):
    def send(self, option, cc, constants):
        """What the sender says, the counters of pnp, and the most bytes that stood in the slow port's queue."""
        with lab.Lab() as l:
            near, far = (l.host(name, mtu=MTU).address(f"10.77.{number}.2/24").route("default", f"10.77.{number}.1")
                         for number, name in ((1, "n"), (2, "f")))
            pnp = f"pnp: {{ remote: [10.77.2.0/24], {option}: true }}, " if option else ""
            l.start(fabric(near, far, pnp), top="eal: { mbufs: 32768 }")
            server = far.start("timeout", "60", RNIC, "serve")
            lengths, ended = [0], threading.Event()

            def look():
                while not ended.wait(0.02):
                    lengths.append(next(row["bytes"] for row in l.show("queues", "--switch", "tor")
                                        if row["port"] == "up" and row["queue"] == 3))

            watcher = threading.Thread(target=look)
            try:
                self.assertIn("port", server.stdout.readline())
                watcher.start()
                done = subprocess.run(
                    ["ip", "netns", "exec", near.namespace, "timeout", "40", RNIC, "write_bw", "10.77.2.2", "--json",
                     "--tos", str(3 << 2), "--rto-us", "4000000", "--window", "1024", "-s", "65536", "-D", "1",
                     "--rate-gbps", str(LINE_GBPS), "--cc", cc, "--cc-constant", constants],
                    capture_output=True, text=True)
            finally:
                ended.set()
                server.terminate()
                server.communicate()
                if watcher.is_alive():
                    watcher.join()
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            result = json.loads(done.stdout)
            self.assertEqual((result["qps"][0]["retransmitted"], result["qps"][0]["timeouts"]), (0, 0))
            counters = {row["counter"]: row["value"] for row in l.show("counters", "--switch", "esw1")
                        if row["stage"] == "pnp"}
            l.stop()
            return result, counters, max(lengths)

    def test_hpcc_hears_of_ports_near_by_and_their_queues_stay_short(self):
        judged_with_cpu_to_spare(self, self.hpcc_hears)

    def hpcc_hears(self):
        # T of the near ports: a switch that shares two CPUs with all others takes milliseconds.
        result, counters, longest = self.send("telemetry", HPCC[0], HPCC[1] + ",near_rtt_us=2000")
        seen = f"{result}, {counters}, {longest} bytes"
        self.assertGreater(counters["mirrors_sent"], 50, seen)
        self.assertEqual(result["qps"][0]["cnps"], counters["mirrors_sent"], seen)
        self.assertGreaterEqual(counters["records_taken"], counters["mirrors_sent"], seen)
        self.assertEqual((counters["unknown_qp"], counters["cnps_sent"]), (0, 0), seen)
        self.assert_shorter(longest, HPCC, seen)

    def cut_by_marks(self, pnp):
        """A transfer, of which the slow port becomes fast half-way. Returns what its rate was, (seconds, Mbit/s), when
        that was, what the sender says, the counters of pnp, and a capture of what came to it."""
        with lab.Lab() as l:
            near, far = (l.host(name, mtu=MTU).address(f"10.77.{number}.2/24").route("default", f"10.77.{number}.1")
                         for number, name in ((1, "n"), (2, "f")))
            l.start(marking_fabric(near, far, "pnp: { remote: [10.77.2.0/24] }, " if pnp else ""),
                    top="eal: { mbufs: 32768 }")
            # Files of tcpdump and of this class live longer than the lab.
            path = os.path.join(self.enterContext(tempfile.TemporaryDirectory()), "cnps.pcap")
            capture = near.start("tcpdump", "-i", "eth0", "-n", "-U", "--immediate-mode", "-w", path,
                                 "udp port 4791 and src host 10.77.2.2")
            self.assertIn("listening", capture.stdout.readline())
            server = far.start("timeout", "60", RNIC, "serve")
            try:
                self.assertIn("port", server.stdout.readline())
                client = subprocess.Popen(
                    ["ip", "netns", "exec", near.namespace, "timeout", "40", RNIC, "write_bw", "10.77.2.2", "--json",
                     "--tos", str(3 << 2), "--rto-us", "4000000", "--window", "4096", "-s", "16384", "-t", "512",
                     "-D", "4", "--rate-gbps", str(DCQCN_LINE_MBPS / 1000), "--cc", "dcqcn",
                     "--dcqcn", "longhaul", "--cc-constant", DCQCN, "--watch", "0.1"],
                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                lab.run("sleep", "2")
                lab.run(os.path.join(lab.BIN, "weftctl"), "--socket", l.socket, "set", "port", "--switch", "tor", "up",
                        "rate_mbps=1000")
                out, said = client.communicate(timeout=40)
            finally:
                server.terminate()
                server.communicate()
                capture.terminate()
                capture.communicate()
            self.assertEqual(client.returncode, 0, out + said)
            counters = {row["counter"]: row["value"] for row in l.show("counters", "--switch", "esw1")
                        if row["stage"] == "pnp"}
            l.stop()
            rates = [(float(seconds), 1000 * float(gbps))
                     for seconds, gbps in re.findall(r"([\d.]+) s .* rate ([\d.]+)$", said, re.MULTILINE)]
            return rates, json.loads(out)["qps"][0], counters, path

    def test_cnps_for_marks_near_by_are_those_of_a_connectx_and_cut_the_rate_at_once(self):
        rates, sender, counters, path = self.cut_by_marks(True)
        seen = f"{rates}, {sender}, {counters}"
        cnps = read_by_scapy(path)
        self.assertGreater(len(cnps), 5, seen)
        # The far receiver sees no marks: these CNPs are pnp's.
        self.assertEqual((sender["cnps"], counters["cnps_sent"], counters["unknown_qp"]), (len(cnps), len(cnps), 0),
                         seen)
        self.assertEqual(roce_capture.complaints(path), "")
        self.assertIn(CNP, roce_capture.opcodes(path))
        self.assertEqual(roce_capture.check_icrcs(path)[1], [])
        recorded = self.recorded()
        for cnp in cnps:
            self.assertEqual(cnp["icrc"][0], cnp["icrc"][1])
            for field in ("ip", "sport", "udp", "bth", "reserved"):
                self.assertEqual(cnp[field], recorded[field], field)
        self.assertLess(self.early(rates), 0.9 * DCQCN_LINE_MBPS, seen)
        # Nothing marks any more: what the rate was cut to, it leaves again.
        self.assertGreater(rates[-1][1], 1.2 * min(rate for _, rate in rates), seen)

    def test_without_pnp_the_rate_stays_until_the_far_receiver_is_heard(self):
        rates, sender, _, _ = self.cut_by_marks(False)
        self.assertGreater(sender["cnps"], 0)
        self.assertEqual(self.early(rates), DCQCN_LINE_MBPS, rates)

    @staticmethod
    def early(rates):
        """The least of the time in which nothing can have come from the far end."""
        return min(rate for seconds, rate in rates if seconds < 2 * FAR_S)

    @staticmethod
    def recorded():
        with tempfile.NamedTemporaryFile(suffix=".pcap") as file:
            file.write(struct.pack("<IHHiIII", 0xa1b2c3d4, 2, 4, 0, 0, 65535, 1))
            file.write(struct.pack("<IIII", 0, 0, len(CONNECTX_CNP), len(CONNECTX_CNP)) + CONNECTX_CNP)
            file.flush()
            return read_by_scapy(file.name)[0]

    def assert_shorter(self, longest, cc, seen):
        """Until the far receiver's first answer nothing else slows a sender down."""
        alone, _, unheeded = self.send("", *cc)
        self.assertEqual(alone["qps"][0]["cnps"], 0)
        self.assertGreater(unheeded, 2 * longest, f"{seen}; without pnp {unheeded} bytes")


if __name__ == "__main__":
    lab.main()
