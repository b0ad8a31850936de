#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""SIGHUP and `weftctl reload` from outside: what they say, and with which exit code. What a reload may do is tested by
reload_test.cc."""
import json
import os
import signal
import subprocess

import program
from test_run import ENDLESS


class Reload(program.Case):
    def start(self, *arguments):
        top = program.TOP.replace('socket: ""', f"socket: {self.path('s')}")
        self.top = top
        self.configure(ENDLESS, top=top)
        self.log = open(self.path("log"), "w+", encoding="utf-8")
        self.addCleanup(self.log.close)
        self.process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "--", os.path.join(program.BIN, "weft-switch"), "-c", "weft.yaml",
             "--counters-out", "counters.json", *arguments],
            cwd=self.directory, stdout=self.log, stderr=subprocess.STDOUT, text=True)
        self.addCleanup(self.process.wait)
        self.addCleanup(self.process.kill)
        self.wait_for(program.FORWARDING)

    def said(self):
        with open(self.path("log"), encoding="utf-8") as file:
            return program.without_colours(file.read())

    def wait_for(self, text, times=1):
        program.wait_until(lambda: self.said().count(text) >= times or self.process.poll() is not None, text)
        self.assertGreaterEqual(self.said().count(text), times, self.said())

    def weftctl(self, *arguments):
        return subprocess.run([os.path.join(program.BIN, "weftctl"), "--socket", self.path("s"), *arguments],
                              cwd=self.directory, capture_output=True, text=True, timeout=program.TIMEOUT_S,
                              check=False)

    def received(self):
        rows = json.loads(self.weftctl("show", "ports", "--json").stdout)
        return next(row["rx_packets"] for row in rows if row["port"] == "in")

    def assert_forwarding(self):
        before = self.received()
        program.wait_until(lambda: self.received() > before, "packets")

    def test_sighup_with_a_broken_file_says_why_and_forwarding_goes_on(self):
        self.start()
        self.configure(ENDLESS, "[parse, l4]", top=self.top)
        self.process.send_signal(signal.SIGHUP)
        self.wait_for("error: reload refused: " + self.path("weft.yaml") + ":9:23: ")
        self.assertIn("unknown stage 'l4'", self.said())
        self.assert_forwarding()
        self.configure(ENDLESS, "[parse, rdma_track, l2]", top=self.top)
        self.process.send_signal(signal.SIGHUP)
        self.wait_for("info: reloaded " + self.path("weft.yaml") + ": 1 change(s)")
        self.assert_forwarding()
        self.assertIn("10.0.0.1", self.weftctl("show", "qps").stdout)
        self.process.send_signal(signal.SIGTERM)
        self.assertEqual(self.process.wait(program.TIMEOUT_S), 0, self.said())
        self.counters()

    def test_weftctl_reload_brings_every_mistake_and_ends_with_1(self):
        self.start()
        self.configure(ENDLESS + ["{ name: in, type: 'null' }"], "[parse, l4]", top=self.top)
        result = self.weftctl("reload")
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertRegex(result.stderr, r"weft\.yaml:9:17: name: port 'in' is declared twice")
        self.assertRegex(result.stderr, r"weft\.yaml:10:23: .*'l4'")
        self.assertRegex(result.stderr, r"weftctl: refused, nothing has changed\n$")
        self.assertEqual(result.stdout, "")
        self.assert_forwarding()

    def test_diff_shows_a_file_beside_the_running_one(self):
        self.start()
        self.configure(ENDLESS[:1] + ["{ name: out, type: 'null', rate_mbps: 10 }"], top=self.top)
        os.rename(self.path("weft.yaml"), self.path("other.yaml"))
        self.configure(ENDLESS, top=self.top)
        result = self.weftctl("diff", "other.yaml")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertRegex(result.stdout, r"tor +changed +port out +rate_mbps +0 +10\n")
        self.assertEqual(self.weftctl("reload").stdout, "nothing changes\n")
        config = json.loads(self.weftctl("show", "config", "--json").stdout)
        self.assertIn({"switch": "tor", "key": "ports[out].rate_mbps", "value": 0}, config)

    def test_the_log_level_of_the_command_line_outlives_reloads(self):
        self.start("--log-level", "info")
        self.configure(ENDLESS, top=self.top + "log: { level: error }\n")
        self.assertEqual(self.weftctl("reload").returncode, 0)
        self.assertIn("info: reloaded", self.said())
        self.configure(ENDLESS, "[parse, rdma_track, l2]", top=self.top + "log: { level: error }\n")
        self.assertEqual(self.weftctl("reload").returncode, 0)
        self.assertEqual(self.said().count("info: reloaded"), 2)


if __name__ == "__main__":
    program.main()
