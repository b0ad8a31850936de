#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""Captures through weft-switch: what comes out is what went in, and every packet is accounted for."""
import json
import os
import random
import shutil
import time

import program
from program import MAC_A, MAC_B, MAC_C, capture_times, frame, roce_send, read_capture, write_capture

HUGEPAGES = "/sys/kernel/mm/hugepages/hugepages-2048kB"
ADDRESSES = (bytes([10, 0, 0, 1]), bytes([10, 0, 0, 2]))


def number(name):
    with open(f"{HUGEPAGES}/{name}", encoding="ascii") as file:
        return int(file.read())


class Captures(program.Case):
    def test_the_example_runs_as_its_comment_says(self):
        frames = [roce_send(MAC_A, MAC_B, ADDRESSES, 17, psn) for psn in range(100)]
        write_capture(self.path("in.pcap"), frames)
        shutil.copy(os.path.join(program.SOURCE, "conf/pcap-in-out.yaml"), self.path("weft.yaml"))
        counters = self.run_to_the_end()
        self.assertEqual(read_capture(self.path("out.pcap")), frames)
        tracked = counters["switches"][0]["counters"]["rdma_track"]
        self.assertEqual((tracked["packets"], tracked["messages"], tracked["out_of_order"]), (100, 100, 0))
        self.assertEqual(counters["switches"][0]["counters"]["parse"]["icrc_bad"], 100)

    def test_a_replay_keeps_the_gaps_of_the_capture(self):
        frames = [roce_send(MAC_A, MAC_B, ADDRESSES, 17, psn) for psn in range(6)]
        write_capture(self.path("in.pcap"), frames, times_ns=[0, 0, 200_000_000, 200_000_500, 300_000_000, 700_000_000])
        shutil.copy(os.path.join(program.SOURCE, "conf/pcap-replay.yaml"), self.path("weft.yaml"))
        self.run_to_the_end()
        self.assertEqual(read_capture(self.path("out.pcap")), frames)
        times = capture_times(self.path("out.pcap"))
        # A packet is never early. The switch may look late, at any of them.
        slack_ns = 50_000_000
        for i, gap_ns in ((2, 200_000_000), (4, 300_000_000), (5, 700_000_000)):
            self.assertGreater(times[i] - times[0], gap_ns - slack_ns)

    def test_frames_of_all_lengths_come_out_as_they_went_in(self):
        lengths = [60 + i for i in range(1455)] + [4018, 8192, 8193, 9018]
        frames = [frame(MAC_A, MAC_B, i, length) for i, length in enumerate(lengths)]
        write_capture(self.path("in.pcap"), frames)
        self.configure(["{ name: in, type: pcap, rx_file: in.pcap, mtu_bytes: 9000 }",
                        "{ name: out, type: pcap, tx_file: out.pcap, mtu_bytes: 9000 }"])
        counters = self.run_to_the_end()
        self.assertEqual(read_capture(self.path("out.pcap")), frames)
        size = sum(lengths)
        for name, direction in (("in", "rx"), ("out", "tx")):
            row = program.port_row(counters, name)
            self.assertEqual((row[f"{direction}_packets"], row[f"{direction}_bytes"]), (len(frames), size))
        self.assertEqual(counters["switches"][0]["drops"], {})

    def test_frames_beyond_the_mtu_are_dropped_by_name(self):
        frames = [frame(MAC_A, MAC_B, i, 1518 if i % 3 else 1519) for i in range(300)]
        write_capture(self.path("in.pcap"), frames)
        self.configure(["{ name: in, type: pcap, rx_file: in.pcap, mtu_bytes: 1500 }",
                        "{ name: out, type: pcap, tx_file: out.pcap, mtu_bytes: 1500 }"])
        counters = self.run_to_the_end()
        self.assertEqual(counters["switches"][0]["drops"], {"egress_mtu": 100})
        self.assertEqual(read_capture(self.path("out.pcap")), [f for f in frames if len(f) == 1518])

    def test_copies_to_several_ports_are_counted_as_replicated(self):
        frames = [frame(MAC_A, b"\xff" * 6, i, 100) for i in range(500)]
        write_capture(self.path("in.pcap"), frames)
        self.configure(["{ name: in, type: pcap, rx_file: in.pcap }"] +
                       [f"{{ name: out{i}, type: pcap, tx_file: out{i}.pcap }}" for i in range(3)])
        totals = self.run_to_the_end()["switches"][0]["totals"]
        self.assertEqual((totals["rx"], totals["replicated"], totals["tx"]), (500, 1000, 1500))
        for i in range(3):
            self.assertEqual(read_capture(self.path(f"out{i}.pcap")), frames)

    def test_packets_of_all_directions_go_to_the_ports_of_their_hosts(self):
        ports = []
        for name, mac in (("a", MAC_A), ("b", MAC_B), ("c", MAC_C)):
            ports.append(f"{{ name: {name}, type: pcap, rx_file: {name}.pcap, tx_file: {name}-out.pcap }}")
            peers = [peer for peer in (MAC_A, MAC_B, MAC_C) if peer != mac]
            write_capture(self.path(f"{name}.pcap"), [frame(mac, peers[i % 2], i, 80) for i in range(400)])
        statics = "    static_macs:\n" + "".join(
            f"      - {{ mac: '{mac.hex(':')}', port: {name} }}\n"
            for name, mac in (("a", MAC_A), ("b", MAC_B), ("c", MAC_C)))
        self.configure(ports, extra=statics)
        totals = self.run_to_the_end()["switches"][0]["totals"]
        self.assertEqual((totals["rx"], totals["tx"], totals["replicated"]), (1200, 1200, 0))
        for name, mac in (("a", MAC_A), ("b", MAC_B), ("c", MAC_C)):
            out = read_capture(self.path(f"{name}-out.pcap"))
            self.assertEqual(len(out), 400)
            self.assertEqual({data[:6] for data in out}, {mac})

    def test_what_impair_takes_is_missing_and_what_it_holds_comes_out_before_the_end(self):
        frames = [frame(MAC_A, MAC_B, i, 100) for i in range(2000)]
        write_capture(self.path("in.pcap"), frames)
        rules = "[{ every: 10, loss: 1 }, { every: 7, duplicate: 1 }, { delay_us: 200000 }]"
        self.configure(["{ name: in, type: pcap, rx_file: in.pcap }", "{ name: out, type: pcap, tx_file: out.pcap }"],
                       f"[parse, impair: {{ rules: {rules} }}, l2]")
        switch = self.run_to_the_end()["switches"][0]
        self.assertEqual(switch["drops"], {"impair_loss": 200})
        copies = switch["totals"]["generated"] + switch["totals"]["replicated"]
        self.assertEqual(copies, 1800 // 7)
        out = read_capture(self.path("out.pcap"))
        self.assertEqual(len(out), 1800 + copies)
        self.assertEqual([f for i, f in enumerate(out) if i == 0 or f != out[i - 1]],
                         [f for i, f in enumerate(frames) if i % 10 != 9])

    def test_a_chain_of_switches_in_one_process_accounts_for_each(self):
        frames = [frame(MAC_A, MAC_B, i, 200) for i in range(3000)]
        write_capture(self.path("in.pcap"), frames)
        text = program.TOP + "switches:\n"
        for i in range(4):
            left = "type: pcap, rx_file: in.pcap" if i == 0 else f"type: link, peer: s{i - 1}/r"
            right = "type: pcap, tx_file: out.pcap" if i == 3 else f"type: link, peer: s{i + 1}/l"
            text += (f"  - name: s{i}\n    ports: [{{ name: l, {left} }}, {{ name: r, {right} }}]\n"
                     "    pipeline: [parse, l2]\n")
        self.write(text)
        counters = self.run_to_the_end()
        self.assertEqual([s["totals"]["tx"] for s in counters["switches"]], [3000] * 4)
        self.assertEqual(read_capture(self.path("out.pcap")), frames)

    def test_captures_without_packets_end_at_once(self):
        write_capture(self.path("in.pcap"), [])
        self.configure(["{ name: in, type: pcap, rx_file: in.pcap }", "{ name: out, type: pcap, tx_file: out.pcap }"])
        self.assertEqual(self.run_to_the_end()["switches"][0]["totals"]["rx"], 0)
        self.assertEqual(read_capture(self.path("out.pcap")), [])


class TwoWorkers(program.Case):
    """Pairs of hosts on two workers, ports on both: nothing is lost, no flow is reordered."""

    def setUp(self):
        super().setUp()
        if len(program.cpus()) < 2:
            self.skipTest("one CPU")

    def run_flows(self, hugepages):
        """40 flows, each in one direction, through ports of both workers."""
        seed = random.randrange(1 << 32)
        print(f"seed {seed}")
        rng = random.Random(seed)
        psn = [0] * 40
        frames = []
        for _ in range(8000):
            flow = rng.randrange(40)
            addresses = (bytes([10, 0, 0, 1]), bytes([10, 0, 1, flow]))
            frames.append(roce_send(MAC_A, MAC_B, addresses, 100 + flow, psn[flow]))
            psn[flow] += 1
        write_capture(self.path("in.pcap"), frames)
        workers = program.cpus()[:2]
        self.configure(["{ name: in, type: pcap, rx_file: in.pcap, queue_packets: 16384 }",
                        "{ name: out, type: pcap, tx_file: out.pcap, queue_packets: 16384 }"],
                       "[parse, rdma_track, l2]",
                       f"eal: {{ hugepages: '{hugepages}', mbufs: 16384, workers: {workers} }}\n"
                       "idle: adaptive\ncontrol: { socket: '' }\n")
        counters = self.run_to_the_end()
        out = read_capture(self.path("out.pcap"))
        switch = counters["switches"][0]
        self.assertEqual(switch["drops"], {})
        self.assertEqual(len(out), 8000)
        last = {}
        for data in out:
            flow, = data[33:34]
            number = int.from_bytes(data[50:54], "big")
            self.assertGreater(number, last.get(flow, -1))
            last[flow] = number
        self.assertEqual(len(last), 40)
        self.assertEqual([row["busy_loops"] > 0 for row in counters["workers"]], [True, True])
        return counters

    def test_two_workers_without_hugepages_lose_nothing_and_keep_the_order_of_flows(self):
        self.assertFalse(self.run_flows("off")["hugepages"])

    def test_two_workers_with_hugepages_lose_nothing_and_keep_the_order_of_flows(self):
        pages = 140
        if os.geteuid() != 0 or not os.path.isdir(HUGEPAGES):
            self.skipTest("2 MiB hugepages need root and a kernel that has them")
        before = number("nr_hugepages")
        missing = pages - number("free_hugepages")
        if missing > 0:
            self.set_pages(before + missing)
            self.addCleanup(self.set_pages, before)
        if number("free_hugepages") < pages:
            self.skipTest(f"the kernel does not find {pages} hugepages")
        self.assertTrue(self.run_flows("on")["hugepages"])

    def test_the_example_of_two_workers_spreads_its_queue_pairs_and_keeps_their_order(self):
        with open(os.path.join(program.SOURCE, "conf/two-workers.yaml"), encoding="utf-8") as file:
            text = file.read().replace("workers: [0, 1]", f"workers: {program.cpus()[:2]}")
        self.write("control: { socket: weft.sock }\n" + text)
        process = program.spawn(self.directory, "-c", "weft.yaml", "--counters-out", "counters.json")
        self.addCleanup(process.kill)
        program.wait_for_forwarding(process)
        time.sleep(0.5)
        rows = program.show(self.path("weft.sock"), "qps")
        result = program.stop(process)
        self.assertEqual(result.code, 0, result.out)
        # One worker for both directions of each, two of the four for each worker.
        self.assertEqual(sorted((row["dest_qp"], row["worker"]) for row in rows),
                         sorted([(16 + i, i % 2) for i in range(4)] * 2))
        self.assertTrue(all(row["packets"] > 0 for row in rows))
        switch = self.counters(result)["switches"][0]
        self.assertEqual(switch["drops"], {})
        track = switch["counters"]["rdma_track"]
        self.assertGreater(track["packets"], 0)
        self.assertEqual((track["qps_active"], track["qps_learned_config"]), (8, 8))
        wrong = ("qps_learned_traffic", "untracked", "retransmitted", "steer_full")
        self.assertEqual([track[name] for name in wrong], [0] * len(wrong))
        self.assertEqual(track["out_of_order"], 0)

    @staticmethod
    def set_pages(count):
        with open(f"{HUGEPAGES}/nr_hugepages", "w", encoding="ascii") as file:
            file.write(str(count))


class Layout(program.Case):
    def test_the_counters_have_the_layout_that_is_documented(self):
        with open(os.path.join(program.SOURCE, "switch/observe/README.md"), encoding="utf-8") as file:
            example = json.loads(file.read().split("```json\n")[1].split("```")[0])
        write_capture(self.path("in.pcap"), [frame(MAC_A, MAC_B, 0, 2000)])
        self.configure(["{ name: in, type: pcap, rx_file: in.pcap, mtu_bytes: 1500 }",
                        "{ name: out, type: pcap, tx_file: out.pcap, mtu_bytes: 1500 }"])
        self.assert_like(example, self.run_to_the_end(), "counters")

    def assert_like(self, example, found, where):
        """The same keys in the same order and the same kinds of values; maps by name may hold other names."""
        self.assertIs(type(found), type(example), where)
        if isinstance(example, list):
            for each in found:
                self.assert_like(example[0], each, where + "[]")
        elif isinstance(example, dict) and not where.endswith((".drops", ".counters")):
            self.assertEqual(list(found), list(example), where)
            for key, value in example.items():
                self.assert_like(value, found[key], f"{where}.{key}")


if __name__ == "__main__":
    program.main()
