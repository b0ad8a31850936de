#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""Two weft-rnic on memif ports of a switch, two RNICs each, with interfaces of the kernel beside them."""
import contextlib
import json
import os
import subprocess
import time
import unittest

import lab

RNIC = os.path.join(lab.BIN, "weft-rnic")
MTU = 4200
CLIENTS, SERVERS = ("10.77.0.1", "fd77::1"), ("10.77.0.2", "10.77.0.3", "fd77::2")
CALM = ("--rto-us", "1000000", "--window", "32")


def prefixes(addresses):
    return ",".join(a + ("/64" if ":" in a else "/24") for a in addresses)


class Memif(unittest.TestCase):
    @contextlib.contextmanager
    def fabric(self):
        with lab.Lab() as l:
            hosts = [l.host(name) for name in "ab"]
            self.sockets = [os.path.join(l.directory, name) for name in ("a.sock", "b.sock")]
            self.switch = "  - name: tor\n    ports:\n" + "".join(
                f"      - {{ name: {name}, type: memif, role: server, socket: {path}, mtu_bytes: {MTU} }}\n"
                for name, path in zip("ab", self.sockets)) + "    pipeline: [parse, rdma_track, l2]\n"
            l.start(self.switch)
            yield l, hosts

    @contextlib.contextmanager
    def server(self, host, *arguments):
        command = arguments or ("serve", "--address", prefixes(SERVERS))
        process = host.start("timeout", "60", RNIC, *command, "--memif", self.sockets[1])
        try:
            line = process.stdout.readline()
            self.assertRegex(line, "port|waiting", line)
            if "port" in line and not arguments:
                for _ in SERVERS[1:]:
                    self.assertIn("port", process.stdout.readline())
            yield process
        finally:
            process.terminate()
            process.communicate()

    def client(self, host, *arguments, address=CLIENTS[0], code=0):
        result = subprocess.run(["ip", "netns", "exec", host.namespace, "timeout", "40", RNIC, *arguments, "--memif",
                                 self.sockets[0], "--address", prefixes([address])], capture_output=True, text=True)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        return result

    def json(self, host, *arguments, **options):
        return json.loads(self.client(host, *arguments, "--json", **options).stdout)

    def test_every_rnic_of_a_process_does_every_opcode_over_ipv4_and_ipv6(self):
        with self.fabric() as (l, (a, b)), self.server(b):
            for server in SERVERS:
                address = CLIENTS[1] if ":" in server else CLIENTS[0]
                for recovery in ("gbn", "irn"):
                    result = self.json(a, "verify", server, "--loss-recovery", recovery, address=address)
                    self.assertGreater(result["messages"], 190)
                    self.assertEqual((result["qps"][0]["retransmitted"], result["qps"][0]["bad_responses"]), (0, 0))
            l.stop()

    def test_measurements_end_without_a_retransmission(self):
        with self.fabric() as (l, (a, b)), self.server(b):
            for test in ("write_bw", "send_bw", "read_bw"):
                result = self.json(a, test, SERVERS[0], "-n", "300", "-q", "2", *CALM)
                self.assertEqual(result["messages"], 600)
                for qp in result["qps"]:
                    self.assertEqual((qp["retransmitted"], qp["timeouts"], qp["spurious"]), (0, 0, 0), test)
                self.assertEqual((result["port"]["rx_missed"], result["port"]["tx_errors"]), (0, 0))
            self.assertEqual(self.json(a, "send_lat", SERVERS[0], "-n", "100")["iterations"], 100)
            l.stop()

    def test_the_kernel_answers_arp_and_ping_and_has_tcp_on_the_interface_beside_it(self):
        with self.fabric() as (l, (a, b)), self.server(b, "serve", "--address", "10.77.0.2/24", "-i", "beside0"):
            with contextlib.ExitStack() as stack:
                other = a.start("timeout", "60", RNIC, "serve", "--memif", self.sockets[0], "--address", "10.77.0.1/24")
                stack.callback(other.communicate)
                stack.callback(other.terminate)
                self.assertIn("rnic0", other.stdout.readline())
                self.assertEqual(a.ping("10.77.0.2", count=3), 3)
                self.assertEqual(b.ping("10.77.0.1", count=3, size=4000), 3)
                self.assertEqual(json.loads(b.ip("-j", "link", "show", "beside0"))[0]["mtu"], MTU)
                result = lab.iperf3(a, b, "10.77.0.2", seconds=1)
                self.assertGreater(result["end"]["sum_received"]["bytes"], 1_000_000)
            # Gone with the process.
            self.assertNotIn("rnic0", a.ip("link"))
            l.stop()

    def test_rping_over_memif(self):
        role = ("rping", "-s", "--address", "10.77.0.2/24", "-V", "--json")
        with self.fabric() as (l, (a, b)), self.server(b, *role) as s:
            self.assertEqual(self.json(a, "rping", "-c", "-a", "10.77.0.2", "-C", "5", "-V")["pings"], 5)
            self.assertEqual(json.loads(s.communicate(timeout=10)[0])["pings"], 5)
            l.stop()

    def test_a_server_comes_back_with_its_switch_and_an_idle_one_leaves_the_core_alone(self):
        with self.fabric() as (l, (a, b)), self.server(b) as server:
            self.json(a, "write_bw", SERVERS[0], "-n", "10", *CALM)
            l.kill()
            self.assertIn("nobody", self.client(a, "write_bw", SERVERS[0], "--timeout", "1", code=3).stderr)
            l.start(self.switch)
            lab.wait_for("the server is connected again",
                         lambda: all(row["link"] == "up" for row in l.show("ports") if row["port"] == "b"))
            self.assertEqual(self.json(a, "write_bw", SERVERS[0], "-n", "10", *CALM)["messages"], 10)
            process = int(lab.run("pgrep", "-P", str(server.pid), "-x", "weft-rnic").split()[0])
            before = lab.cpu_s(process)
            time.sleep(2)
            self.assertLess(lab.cpu_s(process) - before, 0.4)
            l.stop()

    def test_two_ends_in_one_namespace_are_told_why_they_do_not_meet(self):
        with self.fabric() as (l, (a, _)), self.server(a):
            for server, ours in ((SERVERS[0], CLIENTS[0]), (SERVERS[-1], CLIENTS[-1])):
                said = self.client(a, "write_bw", server, address=ours, code=3).stderr
                self.assertIn(f"{server} is an address of this network namespace", said)
            l.stop()

    def test_mistakes_are_said_in_one_sentence(self):
        with lab.Lab() as l:
            a = l.host("a")
            for arguments, text, code in (
                    (("serve", "--memif", "/tmp/x.sock"), "needs --address", 2),
                    (("serve", "--memif", "/tmp/x.sock", "--address", "10.0.0.1"), "length of its prefix", 2),
                    (("serve", "--memif", "/tmp/a,b", "--address", "10.0.0.1/24"), "without ','", 2),
                    (("serve", "--memif", "/tmp/x.sock", "--device", "net_null0"), "excludes", 2),
                    (("serve", "--device", "net_nosuch0", "--address", "10.0.0.1/24"), "cannot open the device", 1)):
                result = subprocess.run(["ip", "netns", "exec", a.namespace, RNIC, *arguments], capture_output=True,
                                        text=True, timeout=20)
                self.assertEqual(result.returncode, code, result.stderr)
                self.assertIn(text, result.stderr)


if __name__ == "__main__":
    lab.main()
