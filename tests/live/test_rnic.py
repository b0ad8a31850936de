#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""Two weft-rnic in network namespaces, with a switch between them that loses, doubles and reorders packets."""
import contextlib
import json
import os
import statistics
import subprocess
import threading
import time
import unittest

import lab
import roce_capture
from others import judged_with_cpu_to_spare

RNIC = os.path.join(lab.BIN, "weft-rnic")
MTU = 4200
A, B = "10.77.0.1", "10.77.0.2"
# A busy machine takes its time, and a switch with one CPU has short queues.
CALM = ("--rto-us", "1000000", "--window", "32")
RECOVERIES = ("gbn", "nic_sr", "irn")
# A queue that marks all packets behind 200 kB and has room for all of them.
MARKING = """    qos:
      WRED_PROFILE: { w: { green_min_threshold: 50000, green_max_threshold: 200000, green_drop_probability: 20 } }
      QUEUE: { all|3: { wred_profile: w } }
      BUFFER_POOL: { size: 14000000 }
      BUFFER_PROFILE: { l: { static_th: 11000000, xoff: 2000000 } }
      BUFFER_PG: { all|3-4: { profile: l } }
"""
# A lossless class that pauses its sender behind 200 kB and has room for 2 MB that come all the same.
LOSSLESS = """    qos:
      BUFFER_POOL: { size: 14000000 }
      BUFFER_PROFILE: { l: { static_th: 200000, xoff: 2000000 } }
      BUFFER_PG: { all|3-4: { profile: l } }
      WRED_PROFILE: { w: { green_min_threshold: 8000000, green_max_threshold: 9000000, green_drop_probability: 1 } }
      QUEUE: { all|3: { wred_profile: w } }
"""


class Rnic(unittest.TestCase):
    @contextlib.contextmanager
    def fabric(self, rules="", addresses=(A, B), prefix=24, rate_mbps=None, qos=""):
        """Hosts a and b on a switch; `rate_mbps` is that of the port to b."""
        with lab.Lab() as l:
            hosts = [l.host(name, mtu=MTU).address(f"{address}/{prefix}") for name, address in zip("ab", addresses)]
            rates = ("", f", rate_mbps: {rate_mbps}" if rate_mbps else "")
            ports = "".join(f"      - {{ name: {name}, type: veth, interface: {host.port_interface}, "
                            f"mtu_bytes: {MTU}{rate} }}\n" for name, host, rate in zip("ab", hosts, rates))
            impair = f"impair: {{ rules: [ {rules} ] }}, " if rules else ""
            l.start(f"  - name: tor\n    ports:\n{ports}{qos}    pipeline: [parse, {impair}rdma_track, l2]\n")
            yield l, hosts

    @contextlib.contextmanager
    def server(self, host, *arguments):
        process = host.start("timeout", "60", RNIC, *(arguments or ("serve",)))
        try:
            self.assertIn("port", process.stdout.readline())  # it listens
            yield process
        finally:
            process.terminate()
            process.communicate()

    def client(self, host, *arguments, code=0):
        result = subprocess.run(["ip", "netns", "exec", host.namespace, "timeout", "40", RNIC, *arguments],
                                capture_output=True, text=True)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        return result

    def json(self, host, *arguments):
        return json.loads(self.client(host, *arguments, "--json").stdout)

    def test_measurements_end_without_a_retransmission_and_the_kernel_stays_silent(self):
        with self.fabric() as (l, (a, b)), self.server(b):
            for test in ("write_bw", "send_bw", "read_bw"):
                result = self.json(a, test, B, "-n", "200", "-s", "50000", "-q", "2", *CALM)
                self.assertEqual(result["messages"], 400)
                for qp in result["qps"]:
                    self.assertEqual((qp["retransmitted"], qp["timeouts"], qp["spurious"]), (0, 0, 0), test)
            for test in ("write_lat", "send_lat"):
                result = self.json(a, test, B, "-n", "100")
                self.assertEqual(result["iterations"], 100)
                self.assertLess(result["min_us"], result["p99_us"])
            # No ICMP: the port is taken.
            unreachable = [line for line in b.execute("nstat", "-asz").splitlines() if "IcmpOutDestUnreachs" in line]
            self.assertEqual(unreachable[0].split()[1], "0")
            self.assertEqual(a.ping(B, count=2), 2)
            self.assertEqual({row["pairing"] for row in l.show("qps")}, {"cm"})
            l.stop()

    def test_every_opcode_and_size_survives_faults_with_every_loss_recovery(self):
        for percent in (0, 0.1, 1):
            ratio = percent / 100
            faults = (f"loss: {ratio}", f"duplicate: {ratio}", f"reorder: {{ ratio: {ratio}, gap_us: 200 }}")
            rules = ", ".join(f"{{ match: {{ kind: roce }}, {fault} }}" for fault in faults) if percent else ""
            options = ("--rto-us", "20000") if percent else CALM
            with self.fabric(rules) as (l, (a, b)), self.server(b):
                for recovery in RECOVERIES:
                    for mtu in (256, 1024, 4096):
                        result = self.json(a, "verify", B, "--loss-recovery", recovery, "-m", str(mtu), *options)
                        self.assertGreater(result["messages"], 190, f"{percent} % {recovery} {mtu}")
                        qp = result["qps"][0]
                        self.assertEqual(qp["bad_responses"], 0)
                        if percent == 0:
                            self.assertEqual((qp["retransmitted"], qp["spurious"]), (0, 0))
                l.stop()

    def test_a_burst_of_losses_is_repaired_by_retransmission_of_what_was_lost_alone(self):
        rules = "{ match: { opcode: RC_RDMA_WRITE_MIDDLE, ports: [a] }, every: 100, loss: 1 }"
        with self.fabric(rules) as (l, (a, b)), self.server(b):
            sent = {}
            for recovery in RECOVERIES:
                options = ("-n", "100", "--loss-recovery", recovery, "--rto-us", "50000")
                qp = self.json(a, "write_bw", B, *options)["qps"][0]
                lost = sum(row["lost"] for row in l.show("impair"))
                sent[recovery] = qp["retransmitted"]
                self.assertGreater(qp["naks"], 5, recovery)
                # Only what is lost a second time has to wait for its time to be over.
                self.assertLess(qp["timeouts"], qp["naks"] / 4, recovery)
            self.assertGreater(lost, 15)
            self.assertGreater(sent["gbn"], 2 * max(sent["nic_sr"], sent["irn"]))
            l.stop()

    @contextlib.contextmanager
    def capture(self, l, host):
        """All RoCE frames that a host sends and receives; judged at the end. Gives a set that gets their opcodes."""
        path, opcodes = os.path.join(l.directory, "capture.pcap"), set()
        tcpdump = host.start("tcpdump", "-U", "-w", path, "-i", "eth0", "--immediate-mode", "-B", "65536",
                             "udp", "port", "4791")
        self.assertIn("listening", tcpdump.stdout.readline())
        yield opcodes
        time.sleep(0.3)
        tcpdump.terminate()
        tcpdump.communicate()
        count, wrong = roce_capture.check_icrcs(path)
        self.assertGreater(count, 1000)
        self.assertEqual(wrong, [])
        self.assertEqual(roce_capture.complaints(path), "")
        opcodes |= roce_capture.opcodes(path)

    def test_wireshark_and_an_independent_icrc_find_nothing_wrong(self):
        with self.fabric() as (l, (a, b)), self.server(b):
            with self.capture(l, a) as opcodes:
                self.json(a, "verify", B, "-m", "1024")
            # Every opcode of RC, and datagrams of CM.
            self.assertEqual(opcodes, {*range(0x00, 0x15), 0x16, 0x17, 0x64})
            l.stop()

    def test_nor_in_what_repairs_loss_and_notifies_of_congestion(self):
        faults = ", ".join(f"{{ match: {{ kind: roce }}, {fault} }}" for fault in
                           ("loss: 0.01", "duplicate: 0.01", "reorder: { ratio: 0.01, gap_us: 200 }"))
        with self.fabric(faults, rate_mbps=200, qos=MARKING) as (l, (a, b)), self.server(b):
            with self.capture(l, a) as opcodes:
                for recovery in RECOVERIES:
                    options = ("--loss-recovery", recovery, "--rto-us", "50000", "--tos", str(26 << 2))
                    self.json(a, "verify", B, "-m", "1024", *options)
                    options += ("-n", "60", "--cc", "dcqcn", "--rate-gbps", "1")
                    qp = self.json(a, "write_bw", B, *options)["qps"][0]
                    self.assertGreater(qp["naks"], 0, recovery)
                    self.assertGreater(qp["cnps"], 0, recovery)
            self.assertEqual(opcodes, {*range(0x00, 0x15), 0x16, 0x17, 0x64, 0x81})
            l.stop()

    def test_rping_runs_over_ipv6_too(self):
        for addresses, prefix in (((A, B), 24), (("fd77::1", "fd77::2"), 64)):
            with self.fabric(addresses=addresses, prefix=prefix) as (l, (a, b)):
                with self.server(b, "rping", "-s", "-a", addresses[1], "-V", "--json") as server:
                    result = self.json(a, "rping", "-c", "-a", addresses[1], "-C", "10", "-S", "9000", "-V")
                    self.assertEqual(result["pings"], 10)
                    self.assertEqual(json.loads(server.communicate(timeout=10)[0])["pings"], 10)
                l.stop()

    def test_dcqcn_takes_nacks_for_cnps_when_asked_to(self):
        rules = "{ match: { opcode: RC_RDMA_WRITE_MIDDLE, ports: [a] }, every: 50, loss: 1 }"
        with self.fabric(rules) as (l, (a, b)), self.server(b):
            options = ("-n", "200", "--loss-recovery", "nic_sr", "--cc", "dcqcn", "--rate-gbps", "2", "--rto-us",
                       "50000")
            with_cuts = self.json(a, "write_bw", B, *options, "--nack-is-cnp")
            without = self.json(a, "write_bw", B, *options)
            self.assertGreater(with_cuts["qps"][0]["rate_cuts"], 3)
            self.assertEqual(without["qps"][0]["rate_cuts"], 0)
            l.stop()

    def test_dcqcn_keeps_the_queue_of_a_port_that_marks_short_and_nothing_is_lost(self):
        judged_with_cpu_to_spare(self, self.dcqcn_keeps_the_queue_short)

    def dcqcn_keeps_the_queue_short(self):
        # A rate of 400 Mbit/s into a port of 200 Mbit/s, and 1024 packets of 4.2 kB allowed under way: nearly all of
        # them come to stand in its queue, unless the marks are heeded.
        with self.fabric(rate_mbps=200, qos=MARKING) as (l, (a, b)), self.server(b):
            options = ("--tos", str(26 << 2), "--rto-us", "4000000", "-s", "262144", "-D", "3", "--rate-gbps", "0.4",
                       "--window", "1024")

            before = self.queue(l)
            # The increases of this set are in proportion to the rate. Those of hpcc_mix are for 100 Gbit/s: marking
            # every packet here just balances them, and a queue that has grown once stays.
            dcqcn = ("--cc", "dcqcn", "--dcqcn", "conweave")
            result, heeded = self.with_queue_lengths(l, a, "write_bw", B, *options, *dcqcn)
            after = self.queue(l)
            qp, marked = result["qps"][0], after["ecn_marked"] - before["ecn_marked"]
            self.assertEqual((after["dropped"], qp["retransmitted"], qp["timeouts"], qp["naks"]), (0, 0, 0, 0))
            # What the queue marks the server sees, and what the server notifies of the client hears.
            self.assertGreater(marked, 20)
            self.assertEqual(qp["server_ce_marked"], marked)
            self.assertGreater(qp["cnps"], 10)
            self.assertLessEqual(qp["cnps"], marked)
            self.assertGreater(qp["rate_cuts"], 5)
            # Of 4190 bytes on the wire 4096 are payload. The rate is never below the set's least, 100 Mbit/s.
            self.assertLess(result["gbits_per_second"], 0.2)
            self.assertGreater(result["gbits_per_second"], 0.1 * 4096 / 4190 * 0.9)
            # The median: a busy machine that stops the server for 170 ms fills the queue, marks or not.
            _, unheeded = self.with_queue_lengths(l, a, "write_bw", B, *options)
            self.assertGreater(len(heeded), 10)
            self.assertGreater(statistics.median(unheeded), 3 * statistics.median(heeded))
            l.stop()

    def test_pfc_of_a_lossless_switch_is_heeded_and_nothing_is_lost(self):
        judged_with_cpu_to_spare(self, self.pfc_is_heeded)

    def pfc_is_heeded(self):
        # 2048 packets of 4.2 kB allowed under way are 8.6 MB, more than the switch has room for. The headroom takes
        # what comes at 400 Mbit/s within 40 ms; a sender with a third of a CPU still sends faster than the slow port.
        with self.fabric(rate_mbps=100, qos=LOSSLESS) as (l, (a, b)), self.server(b):
            result = self.json(a, "write_bw", B, "--tos", str(3 << 2), "--rto-us", "4000000", "-s", "262144", "-D", "2",
                               "--rate-gbps", "0.4", "--window", "2048")
            qp, queue = result["qps"][0], self.queue(l)
            sent = next(row for row in l.show("pfc") if row["port"] == "a" and row["priority"] == "3")
            seen = f"{result['port']}, {sent}, {queue}, {result['gbits_per_second']} Gbit/s"
            self.assertEqual((queue["dropped"], qp["retransmitted"], qp["timeouts"]), (0, 0, 0), seen)
            self.assertGreater(sent["tx_xoff"], 0, seen)
            self.assertGreater(result["port"]["rx_pfc"], 2, seen)
            # The paused sender still fills the port of 100 Mbit/s.
            self.assertGreater(result["gbits_per_second"], 0.1 * 4096 / 4190 * 0.8, seen)
            l.stop()

    def with_queue_lengths(self, l, host, *arguments):
        """What the client says, and how many bytes stood in the queue at times meanwhile."""
        lengths, ended = [], threading.Event()

        def look():
            while not ended.wait(0.05):
                lengths.append(self.queue(l)["bytes"])

        watcher = threading.Thread(target=look)
        watcher.start()
        try:
            result = self.json(host, *arguments)
        finally:
            ended.set()
            watcher.join()
        return result, [length for length in lengths if length > 0]

    @staticmethod
    def queue(l):
        return next(row for row in l.show("queues") if row["port"] == "b" and row["queue"] == 3)

    def test_mistakes_are_said_in_one_sentence(self):
        with self.fabric() as (l, (a, b)):
            silent = self.client(a, "write_bw", "10.77.0.9", "--timeout", "2", code=3)
            self.assertIn("does not answer ARP", silent.stderr)
            self.assertIn("loopback", self.client(a, "write_bw", B, "-i", "lo", code=2).stderr)
            self.assertIn("no route", self.client(a, "write_bw", "192.0.2.1", code=3).stderr)
            with self.server(b):
                refused = self.client(a, "write_bw", B, "-p", "1", code=3)
                self.assertIn("nobody listens", refused.stderr)
            self.assertIn("does not answer", self.client(a, "write_bw", B, "--timeout", "1", code=3).stderr)
            self.assertIn("--help", self.client(a, "write_bw", B, "--nonsense", code=2).stderr)
            with self.server(b):
                # A target that no round trip here meets: a message of 10 MB takes minutes then.
                slow = self.client(a, "write_bw", B, "-s", "10000000", "-n", "1", "--timeout", "1.5", "--cc", "swift",
                                   "--rate-gbps", "0.1", "--cc-constant", "base_target_us=0.1,fs_range_us=0.1", code=1)
                self.assertRegex(slow.stderr, r"has ended for 1.5 s; swift has cut the rate .*base_target_us")
            l.stop()


if __name__ == "__main__":
    lab.main()
