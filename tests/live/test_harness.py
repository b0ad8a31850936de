#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""What the harness itself promises: logs of all switches are kept when a test fails, and a Linux bridge can take the
switch's place."""
import contextlib
import io
import os
import pathlib
import tempfile
import unittest
from unittest import mock

import evidence
import lab as live
from linux_bridge import LinuxBridge

CONFIGURATION = """  - name: tor
    ports:
      - {{ name: a, type: veth, interface: {a} }}
      - {{ name: b, type: veth, interface: {b} }}
    pipeline: [parse, l2]
"""


class Harness(unittest.TestCase):
    def setUp(self):
        folder = self.enterContext(tempfile.TemporaryDirectory(prefix="weft-failures-"))
        self.failures = pathlib.Path(folder)
        self.enterContext(mock.patch.dict(os.environ, WEFT_FAILURES=folder))
        self.errors = self.enterContext(contextlib.redirect_stderr(io.StringIO()))

    def hosts(self, lab):
        a, b = (lab.host(name).address(f"10.77.0.{number}/24") for number, name in ((1, "a"), (2, "b")))
        return a, b, CONFIGURATION.format(a=a.port_interface, b=b.port_interface)

    def run_test(self, test):
        """Runs a function as a test of its own, as main() runs tests; returns the result."""
        return evidence.runner(io.StringIO()).run(unittest.FunctionTestCase(test))

    def kept(self):
        """{name: content} of the only folder that was kept."""
        folders = list(self.failures.iterdir())
        self.assertEqual(len(folders), 1, folders)
        self.assertIn(f"kept in {folders[0]}: ", self.errors.getvalue())
        return {path.name: path.read_text(encoding="utf-8") for path in folders[0].iterdir()}

    def test_logs_of_every_switch_are_kept_over_a_restart(self):
        with self.assertRaisesRegex(RuntimeError, "a test fails"), live.Lab() as lab:
            _, _, configuration = self.hosts(lab)
            for _ in range(2):
                lab.start(configuration)
                lab.kill()
            lab.start(configuration.replace("l2", "rdma_track, l2"))
            raise RuntimeError("a test fails")
        kept = self.kept()
        self.assertEqual(sorted(kept), ["switch-1.log", "switch-2.log", "switch-3.log", "weft.yaml"])
        for name in ("switch-1.log", "switch-2.log", "switch-3.log"):
            self.assertIn("info: forwarding\n", kept[name])
        self.assertIn("rdma_track", kept["weft.yaml"])

    def test_a_failure_in_a_test_whose_lab_lives_longer_keeps_them_too(self):
        with live.Lab() as lab:
            lab.start(self.hosts(lab)[2])
            result = self.run_test(lambda: self.assertEqual(1, 2))
            self.assertEqual(len(result.failures), 1)
            self.assertIn("info: forwarding\n", self.kept()["switch-1.log"])

    def test_nothing_is_kept_when_tests_pass_or_are_skipped(self):
        with live.Lab() as lab:
            lab.start(self.hosts(lab)[2])
            self.assertTrue(self.run_test(lambda: None).wasSuccessful())
        with contextlib.suppress(unittest.SkipTest), live.Lab() as lab:
            lab.start(self.hosts(lab)[2])
            self.skipTest("not here")
        self.assertEqual(list(self.failures.iterdir()), [])

    def test_a_linux_bridge_takes_the_switchs_place(self):
        with live.Lab() as lab:
            a, _, configuration = self.hosts(lab)
            lab.start(configuration)
            self.assertEqual(a.ping("10.77.0.2"), 5)
            lab.stop()
            bridge = LinuxBridge(lab, [host.port_interface for host in lab.hosts])
            self.assertEqual(a.ping("10.77.0.2"), 5)
            bridge.remove()
            self.assertEqual(a.ping("10.77.0.2", count=1), 0, "nothing joins the hosts")


if __name__ == "__main__":
    live.main()
