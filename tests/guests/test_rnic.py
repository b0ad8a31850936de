#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""weft-rnic in a network namespace and Linux Soft-RoCE in a guest talk through the switch, which also loses, doubles
and reorders packets: every ping ends with the data that was sent."""
import json
import os
import unittest

import judge
from judge import guest, live, rdma_tools

RNIC = os.path.join(live.BIN, "weft-rnic")
GUEST_IP, HOST_IP = "10.9.0.1", "10.9.0.2"
PORT = 7174
TIMEOUT_S = 100
# Percent of RoCE packets that meet each of the faults.
FAULTS = (0, 0.1, 1) if judge.FULL else (0, 1)
# MTUs of an interface by the path MTU that rdma_rxe takes from them.
INTERFACE_MTU = {256: 576, 512: 1000, 1024: 1500, 2048: 3000, 4096: judge.MTU}
PATH_MTUS = INTERFACE_MTU if judge.FULL else (256, 4096)


class Rnic(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.lab = cls.enterClassContext(live.Lab())
        cls.guest = guest.Guest(cls.lab, "linux", "tap", [f"{GUEST_IP}/24"], judge.MTU)
        cls.host = cls.lab.host("weft", mtu=judge.MTU).address(f"{HOST_IP}/24")

    def tearDown(self):
        self.lab.kill()

    def start(self, percent):
        ratio = percent / 100
        faults = (f"loss: {ratio}", f"duplicate: {ratio}", f"reorder: {{ ratio: {ratio}, gap_us: 300 }}")
        rules = ", ".join(f"{{ match: {{ kind: roce }}, {fault} }}" for fault in faults)
        impair = f"impair: {{ rules: [ {rules} ] }}, " if percent else ""
        self.lab.start(f"  - name: tor\n    ports:\n      - {self.guest.port}\n"
                       f"      - {{ name: weft, type: veth, interface: {self.host.port_interface}, "
                       f"mtu_bytes: {judge.MTU} }}\n"
                       f"    pipeline: [parse, {impair}rdma_track, l2]\n")
        self.guest.wait_up()
        self.assertGreater(self.host.ping(GUEST_IP, count=3), 0)

    def rnic(self, *arguments):
        return self.host.start("timeout", str(TIMEOUT_S), RNIC, *arguments)

    def finish(self, process):
        """Waits for a weft-rnic that prints JSON; returns it."""
        out = process.communicate(timeout=TIMEOUT_S + 10)[0]
        self.assertEqual(process.returncode, 0, out)
        return json.loads(out[out.index("{"):])

    def linux_is_client(self, count, size):
        process = self.rnic("rping", "-s", "-V", "--json", "--timeout", "60", "--rto-us", "200000")
        process.stdout.readline()  # it listens
        result = self.guest.run(f"rping -c -a {HOST_IP} -v -V -C {count} -S {size}", TIMEOUT_S)
        self.assertEqual(result.code, 0, result.out)
        self.assertEqual(result.out.count("ping data: rdma-ping-"), count, result.out[-500:])
        answer = self.finish(process)
        self.assertEqual(answer["pings"], count)
        return answer["qps"][0]

    def linux_is_server(self, count, size):
        job = self.guest.start(f"rping -s -a {GUEST_IP} -v -V -C {count} -S {size}", TIMEOUT_S)
        rdma_tools.wait_for_cm_listener(self.guest, job)
        answer = self.finish(self.rnic("rping", "-c", "-a", GUEST_IP, "-V", "-C", str(count), "-S", str(size), "--json",
                                       "--timeout", "60", "--rto-us", "200000"))
        self.assertEqual(answer["pings"], count)
        result = job.wait()
        self.assertEqual(result.out.count("server ping data: rdma-ping-"), count, result.out[-500:])
        return answer["qps"][0]

    def check_counters(self, percent, counters):
        self.assertEqual(counters["bad_responses"], 0)
        if percent == 0:
            self.assertEqual((counters["retransmitted"], counters["duplicates"], counters["naks"]), (0, 0, 0))

    def verbs_peer(self):
        """The program verbs_peer.c in the guest."""
        path = os.path.join(self.lab.directory, "verbs_peer")
        source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "verbs_peer.c")
        live.run("cc", "-O2", "-Wall", "-Wextra", "-Werror", "-o", path, source, "-lrdmacm", "-libverbs")
        self.guest.wait_up()
        self.guest.put(path, "/tmp/verbs_peer")

    def weft_asks_linux(self, percent, mtu):
        # Where nothing is lost, a guest that gets no CPU for a while is no reason to send again.
        rto_us = 200_000 if percent else 2_000_000
        self.guest.check(f"ip link set eth0 mtu {judge.MTU}")
        job = self.guest.start(f"/tmp/verbs_peer {GUEST_IP}", TIMEOUT_S)
        rdma_tools.wait_for_cm_listener(self.guest, job)
        # A short window: the queues on the way are short.
        answer = self.finish(self.rnic("verify", GUEST_IP, "-m", str(mtu), "--json", "--timeout", "60",
                                       "--rto-us", str(rto_us), "--window", "32"))
        self.assertGreater(answer["messages"], 270)
        self.assertEqual(answer["qps"][0]["path_mtu"], mtu)
        self.check_counters(percent, answer["qps"][0])
        # One for each size, and the last one.
        self.assertIn("windows closed", job.wait().out)

    def linux_asks_weft(self, percent, mtu):
        # rdma_rxe takes its path MTU from the interface.
        self.guest.check(f"ip link set eth0 mtu {INTERFACE_MTU[mtu]}")
        process = self.rnic("serve", "--connections", "1", "--json")
        self.assertIn("port", process.stdout.readline())
        # Code of the acknowledgement timeout, 4 us * 2^N; librdmacm's own is above a second.
        timeout = 15 if percent else 0
        result = self.guest.run(f"/tmp/verbs_peer {GUEST_IP} {HOST_IP} {mtu} {timeout}", TIMEOUT_S)
        self.assertEqual(result.code, 0, result.out)
        self.assertIn(f"path MTU {mtu}", result.out)
        self.assertGreater(int(result.out.split("verified ")[1].split()[0]), 270)
        answer = self.finish(process)
        self.assertEqual(answer["path_mtu"], mtu)
        self.check_counters(percent, answer)

    def test_every_opcode_and_size_in_both_directions(self):
        self.verbs_peer()
        for percent in FAULTS:
            self.start(percent)
            for mtu in PATH_MTUS:
                for ask in (self.weft_asks_linux, self.linux_asks_weft):
                    with self.subTest(percent=percent, mtu=mtu, ask=ask.__name__):
                        ask(percent, mtu)
            self.lab.stop()

    def test_rping_in_both_roles(self):
        for percent in FAULTS:
            with self.subTest(percent=percent):
                self.start(percent)
                # One packet, several, and the most that rping takes.
                for count, size in ((20, 100), (10, 9000), (5, 65000)):
                    for run in (self.linux_is_client, self.linux_is_server):
                        self.check_counters(percent, run(count, size))
                self.lab.stop()


if __name__ == "__main__":
    judge.main()
