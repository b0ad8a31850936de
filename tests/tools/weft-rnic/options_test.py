# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""tools/weft-rnic/options.cc: command lines that are refused, with the reason; nothing is tried on the network."""
import os
import subprocess
import unittest

RNIC = os.path.join(os.environ["WEFT_BIN"], "weft-rnic")


class Options(unittest.TestCase):
    def refused(self, *arguments):
        """What weft-rnic says."""
        done = subprocess.run([RNIC, "write_bw", "192.0.2.1", *arguments], capture_output=True, text=True, timeout=20,
                              check=False)
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        self.assertTrue(done.stderr.startswith("weft-rnic: "), done.stderr)
        return done.stderr.removeprefix("weft-rnic: ").removesuffix("; weft-rnic --help explains\n")

    def controlled(self, kind, *arguments):
        return self.refused("--cc", kind, "--rate-gbps", "10", *arguments)

    def test_congestion_control_starts_from_a_rate(self):
        for kind in ("dcqcn", "timely", "swift", "hpcc"):
            self.assertEqual(self.refused("--cc", kind), f"--cc {kind} needs --rate-gbps, the rate to start from")

    def test_constants_belong_to_the_kind(self):
        self.assertEqual(self.controlled("timely", "--cc-constant", "t_i_us=5"),
                         "--cc-constant t_i_us: a constant of dcqcn, not of timely")
        self.assertEqual(self.refused("--cc-constant", "beta=0.5"),
                         "--cc-constant beta: a constant of timely, swift, not of none")
        self.assertEqual(self.controlled("swift", "--cc-constant", "beta=0.5,t_lo=5"),
                         "--cc-constant t_lo: no kind of congestion control has such a constant")
        self.assertEqual(self.controlled("swift", "--dcqcn", "longhaul"),
                         "--dcqcn: a parameter set of --cc dcqcn, not of swift")

    def test_hpcc_is_for_ipv4(self):
        done = subprocess.run([RNIC, "write_bw", "2001:db8::1", "--cc", "hpcc", "--rate-gbps", "10"],
                              capture_output=True, text=True, timeout=20, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--cc hpcc is for IPv4: its telemetry is an IPv4 option", done.stderr)

    def test_constants_have_values_that_can_be(self):
        self.assertEqual(self.controlled("timely", "--cc-constant", "beta=2"),
                         "--cc-constant beta: expected a number from 0.001 to 1, found 2")
        for text in ("beta", "beta=", "beta=x", "beta=1x"):
            self.assertEqual(self.controlled("timely", "--cc-constant", text),
                             f"--cc-constant takes NAME=NUMBER, not '{text}'")
        self.assertEqual(self.controlled("timely", "--cc-constant", "t_low_us=60,t_high_us=50"),
                         "--cc-constant t_high_us: expected at least t_low_us (60), found 50")
        self.assertEqual(self.refused("--cc", "timely", "--rate-gbps", "0.1"),
                         "--cc-constant min_mbps: expected less than the line's 100 Mbit/s, found 100: the rate could "
                         "not fall")


if __name__ == "__main__":
    unittest.main()
