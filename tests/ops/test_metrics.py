#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""What Prometheus and DPDK's telemetry see of a running weft-switch, and what the dashboards ask for."""
import glob
import json
import os
import re
import socket
import sys
import threading
import time
import unittest
import urllib.error
import urllib.request

sys.path.insert(0, os.path.dirname(__file__))
from process import Process, SWITCHES, read

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "../.."))
METRICS = "metrics: { port: 0 }"
SAMPLE = re.compile(r'^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)$')
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')


def parse(text):
    """The exposition format, strictly: {name: (type, help, [(labels, value)])}."""
    families = {}
    name = None
    for line in text.splitlines():
        if line.startswith("# HELP "):
            name, help_text = line[7:].split(" ", 1)
            assert name not in families, f"{name} comes in two parts"
            families[name] = ["untyped", help_text, []]
        elif line.startswith("# TYPE "):
            typed, kind = line[7:].split(" ")
            assert typed == name
            families[name][0] = kind
        elif line:
            sample, labels, value = SAMPLE.match(line).groups()
            assert sample == name or sample.startswith(name + "_"), line
            part = {} if sample == name else {"__name__": sample}  # of a histogram
            families[name][2].append((dict(LABEL.findall(labels or "")) | part, float(value)))
    return families


def ours(families):
    return {name: family for name, family in families.items() if name.startswith("weft_")}


def value(families, name, **labels):
    found = [v for l, v in families[name][2] if all(l.get(k) == w for k, w in labels.items())]
    assert len(found) == 1, f"{name}{labels}: {len(found)} samples"
    return found[0]


class Telemetry:
    """A client of DPDK's telemetry socket, as dpdk-telemetry.py is one."""

    def __init__(self, pid):
        base = os.environ.get("RUNTIME_DIRECTORY") or ("/var/run" if os.geteuid() == 0
                                                       else os.environ.get("XDG_RUNTIME_DIR", "/tmp"))
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(10)
        self.socket.connect(os.path.join(base, "dpdk", f"weft{pid}", "dpdk_telemetry.v2"))
        self.socket.recv(1024)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def ask(self, command):
        self.socket.send(command.encode())
        return json.loads(self.socket.recv(16384))[command.split(",")[0]]


class Metrics(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.process = Process()
        cls.addClassCleanup(cls.process.__exit__, None, None, None)
        cls.process.start(cls.process.write(METRICS))
        cls.process.wait_for(lambda: cls.process.show("totals", "--switch", "tor1")[0]["tx"] > 1000, "traffic")
        cls.text = cls.process.scrape()
        cls.families = parse(cls.text)

    def test_names_keep_the_conventions(self):
        for name, (kind, help_text, samples) in ours(self.families).items():
            self.assertRegex(name, r"^weft_[a-z0-9_]+$")
            self.assertTrue(help_text.endswith("."), f"{name}: {help_text}")
            self.assertIn(kind, ("counter", "gauge", "histogram"), name)
            self.assertEqual(kind == "counter", name.endswith("_total"), f"{name} is a {kind}")
            self.assertEqual(kind == "histogram", name.endswith("_seconds") and name != "weft_uptime_seconds", name)
            self.assertTrue(samples, name)

    def test_every_metric_of_a_switch_says_which_switch(self):
        process_wide = ("weft_build_info", "weft_uptime_seconds", "weft_tsc_hertz", "weft_packet_buffers",
                        "weft_packet_buffers_free")
        for name, (_, _, samples) in ours(self.families).items():
            if name in process_wide or name.startswith("weft_worker_"):
                continue
            for labels, _ in samples:
                self.assertIn(labels.get("switch"), ("tor1", "tor2"), name)

    def test_no_two_samples_are_the_same_series(self):
        for name, (_, _, samples) in ours(self.families).items():
            series = [tuple(sorted(labels.items())) for labels, _ in samples]
            self.assertEqual(len(series), len(set(series)), name)

    def test_every_drop_reason_and_stage_counter_is_exported(self):
        lists = [ROOT + "/switch/pipeline/drop_reason.def", ROOT + "/collectives/stage/drop_reason.def",
                 *glob.glob(ROOT + "/switch/stages/*/drop_reason.def")]
        self.assertGreater(len(lists), 5)
        reasons = [name for path in lists for name in re.findall(r"^WEFT_DROP\((\w+),", read(path), re.M)]
        exported = {labels["reason"] for labels, _ in self.families["weft_drops_total"][2]}
        self.assertEqual(exported, set(reasons))
        for row in self.process.show("counters"):
            name = f"weft_{row['stage']}_{row['counter']}"
            name += "" if row["kind"] == "gauge" else "_total"
            kind, help_text, _ = self.families[name]
            self.assertEqual((kind, help_text), (row["kind"], row["meaning"]), name)

    def test_how_long_packets_stay_is_a_histogram_and_a_table(self):
        (row,) = (r for r in self.process.show("latency", "--switch", "tor1") if r["port"] == "out")
        quantiles = [row[column] for column in ("p50_us", "p99_us", "p999_us", "max_us")]
        self.assertEqual(quantiles, sorted(quantiles))
        self.assertGreater(row["mean_us"], 0)
        self.assertLess(row["mean_us"], row["max_us"])
        samples = [(labels, value) for labels, value in self.families["weft_port_residence_seconds"][2]
                   if labels["switch"] == "tor1" and labels["port"] == "out"]
        counts = [value for labels, value in samples if "le" in labels]
        self.assertEqual(counts, sorted(counts))
        self.assertGreater(counts[-1], 0)
        self.assertGreaterEqual(row["samples"], counts[-1])

    def test_values_are_those_that_weftctl_shows(self):
        """Between two looks of weftctl, what lies between the two numbers."""
        def look():
            ports = {(r["switch"], r["port"]): r for r in self.process.show("ports")}
            track = {r["counter"]: r["value"] for r in self.process.show("counters", "--switch", "tor1")
                     if r["stage"] == "rdma_track"}
            drops = {r["reason"]: r["packets"] for r in self.process.show("drops", "--switch", "tor1")}
            stages = {(r["stage"], r["half"]): r for r in self.process.show("stages", "--switch", "tor1")}
            return [ports["tor1", "in"]["rx_packets"], ports["tor1", "out"]["tx_packets"],
                    ports["tor1", "out"]["tx_bytes"], track["packets"], track["qps_active"], drops["impair_loss"],
                    stages["rdma_track", "ingress"]["packets"]]
        before = look()
        families = parse(self.process.scrape())
        after = look()
        tor1 = {"switch": "tor1"}
        seen = [value(families, "weft_port_rx_packets_total", port="in", **tor1),
                value(families, "weft_port_tx_packets_total", port="out", **tor1),
                value(families, "weft_port_tx_bytes_total", port="out", **tor1),
                value(families, "weft_rdma_track_packets_total", **tor1),
                value(families, "weft_rdma_track_qps_active", **tor1),
                value(families, "weft_drops_total", reason="impair_loss", **tor1),
                value(families, "weft_stage_packets_total", stage="rdma_track", half="ingress", **tor1)]
        for low, number, high in zip(before, seen, after):
            self.assertLessEqual(low, number)
            self.assertLessEqual(number, high)
        self.assertGreater(before[0], 0)
        self.assertGreater(before[5], 0)

    def test_what_is_held_is_what_came_and_did_not_leave(self):
        held = value(self.families, "weft_switch_held_packets", switch="tor1")
        self.assertGreaterEqual(held, 0)
        self.assertLess(held, 2048)

    def test_workers_and_build(self):
        version = re.search(r"project\(weft VERSION (\S+)", read(ROOT + "/CMakeLists.txt")).group(1)
        self.assertEqual(value(self.families, "weft_build_info", version=version), 1)
        busy = value(self.families, "weft_worker_busy_seconds_total", worker="0")
        total = value(self.families, "weft_worker_seconds_total", worker="0")
        self.assertGreater(busy, 0)
        self.assertLessEqual(busy, total)

    def test_dashboards_ask_only_for_what_is_exported(self):
        files = glob.glob(ROOT + "/conf/grafana/*.json")
        self.assertTrue(files)
        queried = set()
        for path in files:
            dashboard = json.loads(read(path))
            expressions = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", [])]
            self.assertTrue(expressions)
            for expression in expressions:
                names = set(re.findall(r"\bweft_\w+", expression))
                self.assertTrue(names, expression)
                queried |= names
                for name in names:
                    self.assertIn(name, self.families, f"{os.path.basename(path)}: {expression}")
                for name, selector in re.findall(r"\b(weft_\w+)\{([^}]*)\}", expression):
                    known = {label for labels, _ in self.families[name][2] for label in labels}
                    asked = set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", selector))
                    self.assertLessEqual(asked, known, expression)
                for labels in re.findall(r"\bby \(([^)]*)\)", expression):
                    known = {label for name in names for l, _ in self.families[name][2] for label in l}
                    self.assertLessEqual({label.strip() for label in labels.split(",")}, known, expression)
            for panel in dashboard["panels"]:
                self.assertTrue(panel.get("title"))
        self.assertGreater(len(queried), 15)

    def test_telemetry_gives_the_same_counters(self):
        telemetry = self.enterContext(Telemetry(self.process.switch.pid))
        self.assertEqual(telemetry.ask("/weft/switches"), ["tor1", "tor2"])
        self.assertEqual(telemetry.ask("/weft/ports,tor1"), ["in", "out"])
        before = self.process.show("ports", "--switch", "tor1")[0]["rx_packets"]
        port = telemetry.ask("/weft/port,tor1/in")
        after = self.process.show("ports", "--switch", "tor1")[0]["rx_packets"]
        self.assertLessEqual(before, port["rx_packets"])
        self.assertLessEqual(port["rx_packets"], after)
        self.assertGreater(telemetry.ask("/weft/drops,tor1")["impair_loss"], 0)
        self.assertGreater(telemetry.ask("/weft/stages,tor1")["rdma_track_ingress"]["packets"], 0)
        self.assertGreater(telemetry.ask("/weft/counters,tor1/rdma_track")["packets"], 0)
        self.assertGreater(telemetry.ask("/weft/totals,tor1")["rx"], 0)
        self.assertGreater(telemetry.ask("/weft/workers")["0"]["loops"], 0)

    def test_telemetry_refuses_what_does_not_exist(self):
        telemetry = self.enterContext(Telemetry(self.process.switch.pid))
        for command in ("/weft/ports,tor9", "/weft/port,tor1/none", "/weft/port,tor1", "/weft/counters,tor1/none",
                        "/weft/port," + "x" * 500, "/weft/drops,"):
            self.assertIsNone(telemetry.ask(command), command)

    def test_clients_that_never_finish_their_request_keep_nobody_out(self):
        host, port = re.match(r"http://(.*):(\d+)/", self.process.metrics_url()).groups()
        stuck = [socket.create_connection((host, int(port)), timeout=10) for _ in range(12)]
        for s in stuck:
            s.send(b"GET /metr")
        started = time.monotonic()
        with urllib.request.urlopen(self.process.metrics_url(), timeout=40) as reply:
            self.assertIn(b"weft_build_info", reply.read())
        # A request that is not finished lives for two seconds: nobody has waited for one.
        self.assertLess(time.monotonic() - started, 1.5)
        for s in stuck:
            s.close()

    def test_many_scrapes_at_once_all_answer(self):
        failures = []

        def scrape():
            try:
                for _ in range(5):
                    parse(self.process.scrape())
            except Exception as error:  # noqa: BLE001: reported by the test
                failures.append(error)
        threads = [threading.Thread(target=scrape) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])

    def test_other_paths_are_not_there(self):
        with self.assertRaises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(self.process.metrics_url().replace("/metrics", "/../../etc/passwd"), timeout=10)
        self.assertIn(caught.exception.code, (400, 403, 404))


class Address(unittest.TestCase):
    def test_without_the_section_nobody_listens(self):
        with Process() as process:
            process.start(process.write(switches=SWITCHES.split("  - name: tor2")[0]))
            self.assertNotIn("metrics on", read(process.log_path))
            self.assertEqual(process.stop(), 0)

    def test_an_address_in_use_is_an_error_that_names_it(self):
        with Process() as process, socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            path = process.write(f"metrics: {{ port: {port} }}")
            with self.assertRaises(AssertionError):
                process.start(path)
            self.assertEqual(process.switch.returncode, 3)
            self.assertIn(f"127.0.0.1:{port}", read(process.log_path))


if __name__ == "__main__":
    unittest.main(verbosity=2)
