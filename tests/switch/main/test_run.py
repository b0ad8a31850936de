#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""How weft-switch starts, refuses, stops and reports: exit codes, --check, signals, several at a time."""
import glob
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import time

import program
from program import MAC_A, MAC_B, frame, write_capture

GENERATOR = ("type: generator, source_mac: '02:00:00:00:00:0a', destination_mac: '02:00:00:00:00:0b', "
             "source: 10.0.0.1, destination: 10.0.0.2")
ENDLESS = [f"{{ name: in, {GENERATOR}, rate_pps: 20000 }}", "{ name: out, type: 'null' }"]


def run_directory(pid):
    return glob.glob(f"/run/dpdk/weft{pid}") + glob.glob(f"/run/user/*/dpdk/weft{pid}")


class Arguments(program.Case):
    def test_wrong_arguments_end_with_2_and_a_sentence(self):
        self.configure(ENDLESS)
        for arguments, pattern in (((), "-c FILE is needed"),
                                   (("--chek",), "--chek"),
                                   (("-c",), "-c|--config"),
                                   (("-c", "weft.yaml", "--duration-s", "-1"), "expected seconds from 0 on"),
                                   (("-c", "weft.yaml", "--duration-s", "soon"), "--duration-s"),
                                   (("-c", "weft.yaml", "--log-level", "loud"), "--log-level")):
            with self.subTest(arguments=arguments):
                self.assert_refused(self.run_switch(*arguments), 2, pattern)

    def test_what_only_prints_ends_with_0(self):
        self.assertIn("Exit codes:", self.run_switch("--help").out)
        self.assertRegex(self.run_switch("--version").out, r"^\d+\.\d+")
        schema = self.run_switch("--print-schema")
        self.assertEqual(schema.code, 0)
        with open(os.path.join(program.SOURCE, "conf/schema.json"), encoding="utf-8") as file:
            self.assertEqual(json.loads(schema.out), json.load(file))


class Check(program.Case):
    MISTAKES = """\
idle: adaptiv
switches:
  - name: tor
    ports:
      - { name: a, type: pcap, rx_fil: in.pcap }
      - { name: a, type: 'null', mtu_bytes: 20 }
    pipeline: [parse, l2, rdma_trak, lb]
"""
    # Where each mistake is, and a word of what is said about it.
    PLACES = ((1, 7, "adaptive"), (5, 32, "rx_file"), (6, 17, "'a'"), (6, 45, "20"), (7, 27, "rdma_track"))

    def test_every_mistake_is_reported_at_once_with_its_place(self):
        self.write(self.MISTAKES)
        for arguments in (("--check",), ()):
            result = self.run_switch("-c", "weft.yaml", *arguments)
            self.assertEqual(result.code, 2)
            for line, column, word in self.PLACES:
                self.assertRegex(result.out, rf"(?m)^weft\.yaml:{line}:{column}: .*{word}")
            self.assertNotIn("forwarding", result.out)

    def test_a_file_without_mistakes_is_fine_and_nothing_is_opened(self):
        self.configure(["{ name: in, type: pcap, rx_file: missing.pcap }",
                        "{ name: out, type: pcap, tx_file: o.pcap }"])
        result = self.run_switch("-c", "weft.yaml", "--check")
        self.assertEqual((result.code, result.out), (0, "weft.yaml: fine, 1 switch(es)\n"))
        self.assertFalse(os.path.exists(self.path("o.pcap")))

    def test_more_devices_than_dpdk_has_room_for_are_refused_before_anything_is_opened(self):
        self.configure([f"{{ name: h{i}, type: 'null' }}" for i in range(32)])
        self.assertEqual(self.run_switch("-c", "weft.yaml", "--check").code, 0)
        self.configure([f"{{ name: h{i}, type: 'null' }}" for i in range(33)])
        for arguments in (("--check",), ()):
            self.assert_refused(self.run_switch("-c", "weft.yaml", *arguments), 2,
                                r"weft\.yaml:39:\d+: port tor/h32 is one too many: .* at most 32 devices")

    def test_a_file_that_cannot_be_read_is_refused_by_its_name(self):
        self.assert_refused(self.run_switch("-c", "none.yaml"), 2, "none.yaml")
        os.mkdir(self.path("folder"))
        self.assert_refused(self.run_switch("-c", "folder", "--check"), 2, "folder")


class CannotStart(program.Case):
    def test_unreadable_captures_are_refused_with_the_port_and_its_line(self):
        write_capture(self.path("whole.pcap"), [frame(MAC_A, MAC_B, i, 100) for i in range(3)])
        with open(self.path("whole.pcap"), "rb") as file:
            whole = file.read()
        contents = {"text.pcap": b"this is no capture\n", "empty.pcap": b"", "head.pcap": whole[:10]}
        for name, data in contents.items():
            with open(self.path(name), "wb") as file:
                file.write(data)
        write_capture(self.path("wlan.pcap"), [b"x" * 60], link_type=105)
        for name in (*contents, "wlan.pcap", "missing.pcap"):
            with self.subTest(name=name):
                self.configure(["{ name: out, type: pcap, tx_file: out.pcap }",
                                f"{{ name: in, type: pcap, rx_file: {name} }}"])
                self.assert_refused(self.run_switch("-c", "weft.yaml", "--exit-on-eof"), 3,
                                    rf"weft\.yaml:8:\d+: port tor/in: .*{name}")

    def test_a_capture_that_ends_in_the_middle_of_a_packet_is_taken_as_far_as_it_is_whole(self):
        write_capture(self.path("in.pcap"), [frame(MAC_A, MAC_B, i, 100) for i in range(3)])
        os.truncate(self.path("in.pcap"), os.path.getsize(self.path("in.pcap")) - 1)
        self.configure(["{ name: in, type: pcap, rx_file: in.pcap }", "{ name: out, type: pcap, tx_file: out.pcap }"])
        result = self.run_switch("-c", "weft.yaml", "--exit-on-eof")
        self.assertEqual(result.code, 0, result.out)
        self.assertIn("in.pcap: the file ends in the middle of a packet; the 2 before it are taken", result.out)
        self.assertEqual(len(program.read_capture(self.path("out.pcap"))), 2)

    def test_packets_that_were_cut_when_they_were_captured_are_told_of(self):
        whole = frame(MAC_A, MAC_B, 1, 100)
        with open(self.path("in.pcap"), "wb") as file:
            file.write(struct.pack("<IHHiIII", 0xa1b2c3d4, 2, 4, 0, 0, 60, 1))
            file.write(struct.pack("<IIII", 0, 0, 60, len(whole)) + whole[:60])
        self.configure(["{ name: in, type: pcap, rx_file: in.pcap }", "{ name: out, type: pcap, tx_file: out.pcap }"])
        result = self.run_switch("-c", "weft.yaml", "--exit-on-eof")
        self.assertEqual(result.code, 0, result.out)
        self.assertIn("1 of 1 packets were cut when they were captured (snaplen)", result.out)

    def test_a_full_disk_under_a_ports_capture_is_an_error_and_its_packets_are_drops(self):
        count = 3000
        write_capture(self.path("in.pcap"), [frame(MAC_A, MAC_B, i, 1000) for i in range(count)])
        ports = ["{ name: in, type: pcap, rx_file: in.pcap }", "{ name: out, type: pcap, tx_file: disk/out.pcap }"]
        if os.geteuid() != 0:
            self.skipTest("mounting a file system needs root")
        os.mkdir(self.path("disk"))
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=128k", "weft-test", self.path("disk")], check=True)
        self.addCleanup(subprocess.run, ["umount", "-l", self.path("disk")], check=False)
        self.configure(ports)
        result = self.run_switch("-c", "weft.yaml", "--exit-on-eof", "--counters-out", "counters.json")
        self.assert_refused(result, 3, "error.*: tor/out: cannot write disk/out.pcap: No space left on device")
        counters = self.counters(result)
        out = program.port_row(counters, "out")
        kept = program.read_capture(self.path("disk/out.pcap"))
        self.assertEqual(kept, [frame(MAC_A, MAC_B, i, 1000) for i in range(len(kept))])
        self.assertGreater(len(kept), 10)
        # Each packet is in the file, or taken and lost, or a drop with a name.
        self.assertEqual(out["tx_packets"], len(kept) + out["tx_errors"])
        self.assertEqual(counters["switches"][0]["drops"]["tx_failed"], count - out["tx_packets"])

        self.configure([ports[0], "{ name: out, type: pcap, tx_file: /dev/full }"])
        self.assert_refused(self.run_switch("-c", "weft.yaml", "--exit-on-eof"), 3, "cannot write /dev/full")

    def test_what_the_machine_lacks_is_named(self):
        lacking = {"{ name: p, type: veth, interface: weft-nowhere }": "weft-nowhere",
                   "{ name: p, type: pcap, tx_file: no/such/folder/out.pcap }": "no/such/folder",
                   "{ name: p, type: pci, device: '0000:ff:1f.7' }": "0000:ff:1f.7"}
        for port, word in lacking.items():
            with self.subTest(port=port):
                self.configure([port, "{ name: out, type: 'null' }"])
                self.assert_refused(self.run_switch("-c", "weft.yaml"), 3, word)

    def test_all_interfaces_that_are_missing_are_named_at_once(self):
        self.configure(["{ name: p, type: veth, interface: weft-no1 }", "{ name: q, type: veth, interface: weft-no2 }"])
        self.assert_refused(self.run_switch("-c", "weft.yaml"), 3,
                            r"weft\.yaml:7:\d+: port tor/p: no network interface 'weft-no1' in this network namespace, "
                            r"nor 'weft-no2' \(port tor/q\)\n")

    def test_hugepages_and_cpus_that_are_not_there_are_named(self):
        for eal, word in (("{ hugepages: 'on', memory_mb: 1000000 }", "1000000 MiB"),
                          ("{ hugepages: 'off', memory_mb: 1048576 }",
                           r"1048576 MiB of memory are needed \(eal.memory_mb\), and \d+ MiB are available"),
                          ("{ hugepages: 'off', extra_args: ['--foo'] }",
                           "error.*: DPDK did not start: .*; eal.extra_args: --foo"),
                          ("{ hugepages: 'off', workers: [1023] }", "1023")):
            self.configure(ENDLESS, top=f"eal: {eal}\ncontrol: {{ socket: '' }}\n")
            self.assert_refused(self.run_switch("-c", "weft.yaml"), 3, word)

    def test_counters_that_cannot_be_written_are_refused_before_anything_runs(self):
        self.configure(ENDLESS)
        result = self.run_switch("-c", "weft.yaml", "--counters-out", "no/such/folder/counters.json")
        self.assert_refused(result, 3, "cannot write no/such/folder/counters.json: No such file")
        self.assertNotIn("forwarding", result.out)

    def test_a_full_disk_for_the_counters_is_refused_before_anything_runs(self):
        self.configure(ENDLESS)
        result = self.run_switch("-c", "weft.yaml", "--counters-out", "/dev/full")
        self.assert_refused(result, 3, "cannot write /dev/full: No space left on device")
        self.assertNotIn("forwarding", result.out)

    def test_a_disk_that_fills_up_during_the_run_keeps_the_counters_of_an_earlier_one(self):
        if os.geteuid() != 0:
            self.skipTest("mounting a file system needs root")
        self.configure(ENDLESS)
        os.mkdir(self.path("disk"))
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32k", "weft-test", self.path("disk")], check=True)
        self.addCleanup(subprocess.run, ["umount", "-l", self.path("disk")], check=False)
        arguments = ("-c", "weft.yaml", "--duration-s", "0.1", "--counters-out", "disk/counters.json")
        first = self.run_switch(*arguments)
        self.assertEqual(first.code, 0, first.out)
        with open(self.path("disk/counters.json"), "rb") as file:
            before = file.read()
        process = program.spawn(self.directory, "-c", "weft.yaml", "--counters-out", "disk/counters.json")
        program.wait_for_forwarding(process)
        with open(self.path("disk/filler"), "wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(512))
            except OSError:
                pass
        second = program.stop(process)
        self.assert_refused(second, 3, "cannot write disk/counters.json: No space left")
        self.assertRegex(second.out, r"switch tor: rx \d+ ")
        with open(self.path("disk/counters.json"), "rb") as file:
            self.assertEqual(file.read(), before)
        self.assertEqual(sorted(os.listdir(self.path("disk"))), ["counters.json", "filler"])


class Starting(program.Case):
    def test_next_hops_are_known_before_the_first_packet_needs_them(self):
        text = "control: { socket: weft.sock }\neal: { hugepages: off, mbufs: 4096 }\nidle: sleep\nswitches:\n"
        for name, own, other, subnet in (("a", 0, 1, 2), ("b", 1, 0, 1)):
            text += (f"  - name: {name}\n    ports:\n      - {{ name: t, type: link, peer: {'ab'[other]}/t }}\n"
                     "      - { name: h, type: 'null' }\n    addresses:\n"
                     f"      - {{ port: t, address: 10.1.0.{own}/31 }}\n"
                     f"      - {{ port: h, address: 10.0.{3 - subnet}.1/24 }}\n"
                     f"    routes:\n      - {{ prefix: 10.0.{subnet}.0/24, via: [10.1.0.{other}] }}\n"
                     "    pipeline: [parse, l3]\n")
        self.write(text)
        process = program.spawn(self.directory, "-c", "weft.yaml")
        program.wait_for_forwarding(process)
        states = lambda: [row["state"] for row in program.show(self.path("weft.sock"), "neighbours")]
        program.wait_until(lambda: states() == ["reachable", "reachable"], "both ends of the link know each other", 5)
        self.assertEqual(program.stop(process).code, 0)


class Stopping(program.Case):
    def test_sigterm_and_sigint_drain_what_is_held_and_report(self):
        # 50 ms of packets are on their way when the signal comes: they are sent, not dropped.
        ports = [f"{{ name: in, {GENERATOR}, rate_pps: 20000 }}", "{ name: out, type: 'null', delay_ns: 50000000 }"]
        for number in (signal.SIGTERM, signal.SIGINT):
            self.configure(ports, "[parse, impair: { rules: [ { delay_us: 30000 } ] }, rdma_track, l2]")
            process = program.spawn(self.directory, "-c", "weft.yaml", "--counters-out", "counters.json")
            program.wait_for_forwarding(process)
            time.sleep(0.3)  # some packets, whatever the machine does
            result = program.stop(process, number)
            self.assertEqual(result.code, 0, result.out)
            totals = self.counters(result)["switches"][0]["totals"]
            self.assertGreater(totals["rx"], 0)
            self.assertEqual((totals["tx"], totals["held"], totals["dropped"]), (totals["rx"], 0, 0))
            self.assertEqual(run_directory(process.pid), [])

    def test_what_a_slow_link_cannot_send_in_time_is_dropped_as_shutdown(self):
        ports = [f"{{ name: in, {GENERATOR}, limit_packets: 1000 }}",
                 "{ name: out, type: 'null', rate_mbps: 1, queue_packets: 2000 }"]
        self.configure(ports)
        result = self.run_switch("-c", "weft.yaml", "--duration-s", "0.5", "--counters-out", "counters.json")
        self.assertEqual(result.code, 0, result.out)
        switch = self.counters(result)["switches"][0]
        self.assertEqual(list(switch["drops"]), ["shutdown"])
        self.assertEqual(switch["totals"]["held"], 0)

    def test_sums_that_do_not_balance_are_reported_and_end_with_4(self):
        default = os.path.join(program.BIN, "../tests/libweft_test_extra_packet.so")
        library = os.path.realpath(os.environ.get("WEFT_EXTRA_PACKET") or default)
        # So slow that bursts are small, and have room for one more.
        self.configure([port.replace("20000", "2000") for port in ENDLESS])
        arguments = ("-c", "weft.yaml", "--duration-s", "0.5", "--counters-out", "counters.json")
        result = program.finish(program.spawn(self.directory, *arguments, env={**os.environ, "LD_PRELOAD": library}))
        self.assert_refused(result, 4, r"switch tor: rx \d+ .* held 0  <- DOES NOT BALANCE\n")
        with open(self.path("counters.json"), encoding="utf-8") as file:
            totals = json.load(file)["switches"][0]["totals"]
        self.assertFalse(totals["balanced"])
        self.assertEqual(totals["tx"], totals["rx"] + 1)

    def test_duration_s_is_how_long_it_forwards(self):
        self.configure(ENDLESS)
        result = self.run_switch("-c", "weft.yaml", "--duration-s", "0.7", "--counters-out", "counters.json")
        self.assertEqual(result.code, 0, result.out)
        counters = self.counters(result)
        self.assertGreaterEqual(counters["elapsed_s"], 0.7)
        self.assertLess(counters["elapsed_s"], 5)

    def test_exit_on_eof_says_which_input_has_no_end(self):
        self.configure(ENDLESS)
        result = self.run_switch("-c", "weft.yaml", "--duration-s", "0.1", "--exit-on-eof")
        self.assertEqual(result.code, 0, result.out)
        self.assertEqual(re.findall(r"warning: (\S+): the input has no end", program.without_colours(result.out)),
                         ["tor/in"])

    def test_the_log_level_of_the_command_line_counts(self):
        self.configure(ENDLESS, top=program.TOP + "log: { level: debug }\n")
        result = self.run_switch("-c", "weft.yaml", "--duration-s", "0.1", "--log-level", "error")
        self.assertEqual((result.code, result.out), (0, ""))


class SideBySide(program.Case):
    def start(self, name):
        top = program.TOP.replace('socket: ""', f"socket: {self.path(name)}.sock")
        ports = "".join(f"      - {port}\n" for port in ENDLESS)
        self.write(f"{top}switches:\n  - name: {name}\n    ports:\n{ports}    pipeline: [parse, l2]\n", f"{name}.yaml")
        process = program.spawn(self.directory, "-c", f"{name}.yaml", "--counters-out", f"{name}.json")
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def ask(self, name):
        return [row["switch"] for row in program.show(f"{self.path(name)}.sock", "totals")]

    def test_several_run_and_are_asked_and_stopped_each_by_itself(self):
        processes = {name: self.start(name) for name in ("one", "two", "three")}
        for process in processes.values():
            program.wait_for_forwarding(process)
        for name in processes:
            self.assertEqual(self.ask(name), [name])
        first = program.stop(processes.pop("one"))
        self.assertEqual(first.code, 0, first.out)
        for name in processes:
            self.assertEqual(self.ask(name), [name])
        for name, process in processes.items():
            result = program.stop(process)
            self.assertEqual(result.code, 0, result.out)
            self.assertFalse(os.path.exists(f"{self.path(name)}.sock"))

    def test_the_second_with_the_same_socket_is_refused_and_the_first_goes_on(self):
        first = self.start("one")
        program.wait_for_forwarding(first)
        second = program.finish(program.spawn(self.directory, "-c", "one.yaml"))
        self.assert_refused(second, 3, "one.sock")
        self.assertEqual(self.ask("one"), ["one"])
        self.assertEqual(program.stop(first).code, 0)

    def test_after_sigkill_the_next_one_starts_on_the_same_socket(self):
        first = self.start("one")
        program.wait_for_forwarding(first)
        first.kill()
        first.wait()
        for leftover in run_directory(first.pid):
            shutil.rmtree(leftover)
        second = self.start("one")
        program.wait_for_forwarding(second)
        self.assertEqual(self.ask("one"), ["one"])
        self.assertEqual(program.stop(second).code, 0)


if __name__ == "__main__":
    program.main()
