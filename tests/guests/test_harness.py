#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""What guests offer to applications: several cards and CPUs, more packages and modules, daemons, and an account of what
went wrong."""
import contextlib
import io
import os
import pathlib
import tempfile
import unittest
from unittest import mock

import judge
from image_contents import HARNESS_MODULES, HARNESS_PACKAGES
from judge import Nic, channel, evidence, guest, live, rdma_tools
from linux_bridge import LinuxBridge

MESSAGES, MESSAGE_BYTES, MTU = 24, 65536, 1024
PACKETS = MESSAGES * MESSAGE_BYTES // MTU
# A frozen process cannot be ended until it is thawed: what a driver that waits for ever looks like.
FREEZER = "/run/freezer"
FREEZE_ITSELF = (f"mkdir -p {FREEZER} && mount -t cgroup -o freezer none {FREEZER} && mkdir {FREEZER}/f && "
                 f"echo $$ >{FREEZER}/f/tasks && echo FROZEN >{FREEZER}/f/freezer.state; sleep 1")


class Harness(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.lab = cls.enterClassContext(live.Lab())
        cls.plain = guest.Guest(cls.lab, "a", "tap", judge.l2_addresses(1), judge.MTU)
        cls.large = guest.Guest(cls.lab, "b", nics=[Nic("tap", judge.l2_addresses(2), judge.MTU),
                                                    Nic("tap", ["10.8.0.2/24"], 1500)],
                                cpus=2, memory_mb=640, extra_packages=HARNESS_PACKAGES, modules=HARNESS_MODULES)
        cls.guests = [cls.plain, cls.large]
        ports = "".join(f"      - {nic.port}\n" for each in cls.guests for nic in each.nics)
        cls.configuration = f"  - name: tor\n    ports:\n{ports}    pipeline: [parse, l2]\n"
        cls.lab.start(cls.configuration)
        for each in cls.guests:
            each.wait_up()

    def test_a_guest_has_what_was_asked_for(self):
        self.assertEqual(self.large.check("nproc").strip(), "2")
        self.assertEqual(self.plain.check("nproc").strip(), "1")
        kilobytes = int(self.large.check("grep MemTotal /proc/meminfo").split()[1])
        self.assertTrue(480_000 < kilobytes < 640_000, kilobytes)
        self.assertIn("nvme_rdma ", self.large.check("cat /proc/modules"))
        self.assertNotIn("nvme_rdma ", self.plain.check("cat /proc/modules"))
        self.assertIn("iperf 3", self.large.check("iperf3 --version"))

    def test_every_card_has_its_own_port_and_rdma_device(self):
        self.plain.check("ip address replace 10.8.0.1/24 dev eth0")
        for address, nic in ((self.large.address(), 0), (self.large.address(nic=1), 1)):
            before = self.large.hw_counters(nic)["rcvd_pkts"]
            server = self.large.start(f"ibv_rc_pingpong -d rxe{nic} -g {self.large.gid_index(address, nic)} -n 20", 60)
            rdma_tools.wait_for_tcp_listener(self.large, server, 18515)
            source = self.plain.gid_index("10.9.0.1" if nic == 0 else "10.8.0.1")
            self.plain.check(f"ibv_rc_pingpong -d rxe0 -g {source} -n 20 {address}")
            self.assertEqual(server.wait().code, 0)
            self.assertGreaterEqual(self.large.hw_counters(nic)["rcvd_pkts"] - before, 20, f"rxe{nic}")

    def test_a_daemon_outlives_the_command_that_started_it_and_can_be_stopped(self):
        daemon = self.large.daemon("echo ready; iperf3 -s -p 5301", "iperf3")
        # A daemon that goes into the background by itself.
        self.large.check("iperf3 -s -D -p 5302 -I /run/iperf3.pid")
        rdma_tools.wait_for_listener(self.large, None, "[ $(ss -ltnH | grep -c ':530[12] ') = 2 ]")
        for port in (5301, 5302):
            self.large.check(f"iperf3 -c 127.0.0.1 -p {port} -n 100K", timeout=90)
        self.assertIn("ready", daemon.log())
        self.assertIn("Accepted connection", daemon.log())
        self.assertTrue(daemon.running())
        daemon.stop()
        self.assertFalse(daemon.running())
        self.large.check("kill $(cat /run/iperf3.pid)")

    def test_a_command_in_state_d_does_not_look_like_a_dead_guest(self):
        with mock.patch.object(channel, "GRACE_S", 2):
            job = self.plain.start(FREEZE_ITSELF, timeout=2)
            with self.assertRaisesRegex(channel.CommandHangs, "the guest answers, but this does not end: mkdir"):
                job.wait()
        self.assertIn(" state D in ", self.plain.channel.ask(job.number))
        self.assertEqual(self.plain.check("echo fine"), "fine\n")
        self.plain.check(f"echo THAWED >{FREEZER}/f/freezer.state")
        self.assertEqual(job.wait().code, channel.TIMED_OUT)
        self.plain.check(f"rmdir {FREEZER}/f && umount {FREEZER}")

    def test_consoles_and_kernel_messages_are_kept_when_a_test_fails(self):
        self.plain.check("echo 'about to fail' >/dev/kmsg")
        with tempfile.TemporaryDirectory(prefix="weft-failures-") as folder:
            with mock.patch.dict(os.environ, WEFT_FAILURES=folder), contextlib.redirect_stderr(io.StringIO()) as said:
                evidence.runner(io.StringIO()).run(unittest.FunctionTestCase(lambda: self.fail("it does")))
            kept, = pathlib.Path(folder).iterdir()
            self.assertIn(f"kept in {kept}: a-console.log, a-dmesg.txt, b-console.log, b-dmesg.txt", said.getvalue())
            messages = (kept / "a-dmesg.txt").read_text(encoding="utf-8")
            for text in ("Linux version 6", "about to fail", "weft-agent"):
                self.assertIn(text, messages)
            self.assertIn("info: forwarding", (kept / "switch-1.log").read_text(encoding="utf-8"))

    def transfer(self):
        """What each guest gains by a transfer: what it sends as a client, and errors."""
        before = judge.counters_of(self.guests)
        rdma_tools.perftest("ib_write_bw", self.plain, self.large, f"-n {MESSAGES} -s {MESSAGE_BYTES} -m {MTU}")
        counters = judge.difference(before, judge.counters_of(self.guests))
        errors = {name: {key: gained[key] for key in judge.ERROR_COUNTERS if gained[key]}
                  for name, gained in counters.items()}
        return counters["a"]["sent_pkts"], counters["b"]["rcvd_pkts"], errors

    def test_over_a_linux_bridge_guests_see_what_they_see_over_the_switch(self):
        over_switch = self.transfer()
        self.lab.stop()
        bridge = LinuxBridge(self.lab, [nic.interface for each in self.guests for nic in each.nics])
        try:
            over_bridge = self.transfer()
        finally:
            bridge.remove()
            self.lab.start(self.configuration)
        self.assertEqual(over_bridge, (PACKETS, PACKETS, {"a": {}, "b": {}}))
        self.assertEqual(over_switch, over_bridge)


if __name__ == "__main__":
    judge.main()
