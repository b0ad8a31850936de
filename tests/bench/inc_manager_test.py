#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""inc-manager-bench on a small network: every group is made, renewed and given back."""
import re
import subprocess
import sys
import unittest


class Load(unittest.TestCase):
    def run_bench(self, *words):
        return subprocess.run([sys.argv[1], *words], capture_output=True, text=True, timeout=100, check=False)

    def test_all_groups_are_made_renewed_and_destroyed(self):
        done = self.run_bench("load", "--pods", "2", "--half", "2", "--hosts", "4", "--rate", "20", "--seconds", "1",
                              "--hold-s", "0.8", "--lease-ms", "1500", "--probe-ms", "100", "--threads", "4",
                              "--processes", "2")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        calls = {name: int(n) for name, n in re.findall(r"^ +(create|renew|destroy) +(\d+)", done.stdout, re.M)}
        self.assertEqual(calls, {"create": 20, "renew": 20, "destroy": 20}, done.stdout)

    def test_wrong_arguments_are_said(self):
        self.assertNotEqual(self.run_bench().returncode, 0)
        self.assertNotEqual(self.run_bench("load", "--rate", "0").returncode, 0)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
