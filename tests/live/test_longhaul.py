#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""A weft-rnic with HPCC sends to another data centre, 20 ms away, through a slow port near by: with pnp it
hears of that port at once, and its queue stays short."""
import json
import os
import subprocess
import threading
import unittest

import lab
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

    def assert_shorter(self, longest, cc, seen):
        """Until the far receiver's first answer nothing else slows a sender down."""
        alone, _, unheeded = self.send("", *cc)
        self.assertEqual(alone["qps"][0]["cnps"], 0)
        self.assertGreater(unheeded, 2 * longest, f"{seen}; without pnp {unheeded} bytes")


if __name__ == "__main__":
    lab.main()
