#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""The handshake monitor of pnp with the TCP of Linux: the cookie variant resets one connection of a pair of hosts, and
a flood of SYNs neither takes memory nor makes pairs."""
import json
import os
import unittest

import lab

PORT = 18515
SERVER = f"""
import socket
with socket.create_server(("::", {PORT}), family=socket.AF_INET6, dualstack_ipv6=True) as server:
    print("ready", flush=True)
    while True:
        connection, _ = server.accept()
        with connection:
            connection.sendall(b"hello")
"""
# What becomes of connections that are opened one after the other.
CLIENT = """
import json, socket, sys
address, count = sys.argv[1], int(sys.argv[2])
found = []
for _ in range(count):
    try:
        with socket.create_connection((address, PORT), timeout=5) as connection:
            found.append(connection.recv(5).decode())
    except ConnectionResetError:
        found.append("reset")
print(json.dumps(found))
""".replace("PORT", str(PORT))
FLOOD = os.path.join(os.path.dirname(os.path.abspath(__file__)), "syn_flood.py")
FLOOD_S = 2
MAX_PAIRS = 1024
GROWTH_KB = 512


class Handshake(unittest.TestCase):
    def start(self, l, monitor):
        """Hosts a and b behind a switch with such a monitor."""
        a, b = l.routed_hosts()
        l.start(f"""  - name: esw
    ports:
      - {{ name: a, type: veth, interface: {a.port_interface} }}
      - {{ name: b, type: veth, interface: {b.port_interface} }}
    addresses:
      - {{ port: a, address: 10.77.1.1/24 }}
      - {{ port: a, address: "fd77:1::1/64" }}
      - {{ port: b, address: 10.77.2.1/24 }}
      - {{ port: b, address: "fd77:2::1/64" }}
    pipeline: [parse, rdma_track, pnp: {{ handshake_monitor: {monitor}, max_pairs: {MAX_PAIRS} }}, l3]
""")
        return a, b

    def serve(self, l, host):
        server = host.start("python3", "-c", SERVER)
        l.on_exit(server.communicate)
        l.on_exit(server.kill)
        self.assertEqual(server.stdout.readline(), "ready\n")

    def connect(self, host, address, count):
        return json.loads(host.execute("python3", "-c", CLIENT, address, str(count)))

    def pairs(self, l):
        return l.show("pnp")[0]["pairs"]

    def counter(self, l, name):
        return next(row["value"] for row in l.show("counters") if (row["stage"], row["counter"]) == ("pnp", name))

    def memory_kb(self, l):
        status = lab.read(f"/proc/{l.switch.pid}/status")
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:"))

    def test_one_connection_of_a_pair_is_reset_with_cookies_and_none_without(self):
        for monitor, outcome in (("passive", ["hello"] * 3), ("cookie", ["reset", "hello", "hello"])):
            with self.subTest(monitor), lab.Lab() as l:
                a, b = self.start(l, monitor)
                self.serve(l, b)
                for address in ("10.77.2.2", "fd77:2::2"):
                    self.assertEqual(self.connect(a, address, 3), outcome, address)
                self.assertEqual(self.pairs(l), 2)
                l.stop()

    def test_a_flood_of_syns_takes_no_memory_and_makes_no_pair(self):
        for monitor in ("passive", "cookie"):
            with self.subTest(monitor), lab.Lab() as l:
                a, b = self.start(l, monitor)
                self.serve(l, b)
                self.assertEqual(a.ping("10.77.2.2", count=2), 2)
                router = json.loads(a.ip("-j", "neighbour", "show", "10.77.1.1"))[0]["lladdr"]
                flood = ("python3", FLOOD, a.mac(), router, "10.77.2.2", str(PORT))
                a.execute(*flood, "0.5")  # what is allocated once
                before = self.memory_kb(l)
                sent = int(a.execute(*flood, str(FLOOD_S)))
                self.assertLess(self.memory_kb(l) - before, GROWTH_KB, f"{sent} SYNs")
                self.assertGreater(sent, 10 * MAX_PAIRS)
                self.assertEqual(self.pairs(l), 0)
                self.assertGreater(self.counter(l, "cookies_sent" if monitor == "cookie" else "handshakes_evicted"),
                                   MAX_PAIRS)
                # Whose handshakes the flood has pushed out before are seen when they come again.
                self.assertEqual(self.connect(a, "10.77.2.2", 2)[1], "hello")
                self.assertEqual(self.pairs(l), 1)
                l.stop()

    def test_iperf3_is_seen_and_its_data_passes(self):
        with lab.Lab() as l:
            a, b = self.start(l, "passive")
            result = lab.iperf3(a, b, "10.77.2.2", seconds=1)
            self.assertGreater(result["end"]["sum_received"]["bytes"], 1_000_000)
            self.assertEqual(self.pairs(l), 1)
            self.assertGreaterEqual(self.counter(l, "handshakes"), 2, "control and data")
            l.stop()


if __name__ == "__main__":
    lab.main()
