# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""conf/labs/long-haul.yaml on this machine. Usage: long_haul_test.py [full]: every variant as the file has it, or plain
DCQCN and pnp + trp for a few seconds."""
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import unittest

import yaml

import support

FULL = sys.argv[1:] == ["full"]
NEAR_SOURCE_BETWEEN = 1  # its place among the flows
LINE_GBPS = 0.02
SHORT = ("dcqcn", "pnp + trp")


def short(text, name):
    """The lab with another name, and unless FULL shorter and with fewer variants."""
    lab = yaml.safe_load(re.sub(r"\boff\b", '"off"', text))  # YAML's own word for false
    lab["name"] = name
    if not FULL:
        lab["workload"]["duration_s"] = 4
        lab["timing"]["probes"] = 10
        lab["variants"] = [variant for variant in lab["variants"] if variant["name"] in SHORT]
    return yaml.safe_dump(lab, sort_keys=False)


class LongHaul(unittest.TestCase):
    def test_marks_near_the_source_become_cnps_and_flows_from_afar_are_throttled(self):
        name = f"t{os.getpid() % 1000000}l"
        with tempfile.TemporaryDirectory(prefix="weft-lab-test-") as folder:
            text = (support.ROOT / "conf/labs/long-haul.yaml").read_text(encoding="utf-8")
            path = support.written(short(text, name), folder)
            self.addCleanup(subprocess.run, [support.WEFT_LAB, "--programs", support.BIN, "down", name],
                            capture_output=True, check=False)
            done = subprocess.run([support.WEFT_LAB, "--programs", support.BIN, "run", path, "--html", "out.html",
                                   "--json", "out.json"], capture_output=True, text=True, timeout=600, check=False,
                                  cwd=folder)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            print(done.stdout)
            with open(os.path.join(folder, "out.json"), encoding="utf-8") as file:
                self.judge({variant["name"]: variant for variant in json.load(file)["variants"]})
            with open(os.path.join(folder, "out.html"), encoding="utf-8") as file:
                page = file.read()
            for figure in ("Throughput, pnp + trp", "Sending rates, pnp + trp", "Sending rates, dcqcn"):
                self.assertIn(f'aria-label="{figure}"', page)

    def judge(self, variants):
        plain, both = variants["dcqcn"], variants["pnp + trp"]
        for variant in variants.values():
            self.assertEqual((variant["summary"]["drops"], variant["summary"]["retransmitted"]), (0, 0),
                             variant["name"])
        self.assertEqual((plain["stages"]["pnp"], plain["stages"]["trp"]), ([], []))
        sums = {key: sum(row[key] for row in both["stages"]["pnp"]) for key in ("cnps_sent", "marks_cleared",
                                                                                "unknown_qp")}
        self.assertGreater(sums["cnps_sent"], 5)
        self.assertGreaterEqual(sums["marks_cleared"], sums["cnps_sent"])
        self.assertEqual(sums["unknown_qp"], 0, "CM has told of every queue pair before its first packet")
        self.assertGreater(sum(row["throttled"] for row in both["stages"]["trp"]), 0)
        # The far receiver has nothing to say of what was marked near the source (bursts of a busy machine may be marked
        # behind pnp, too), and its sender hears of congestion all the same. What flows get by it is in the report:
        # rates on this machine are nothing that a test may rely on.
        self.assertGreater(self.qp(plain, NEAR_SOURCE_BETWEEN)["server_ce_marked"], 20)
        self.assertLess(self.qp(both, NEAR_SOURCE_BETWEEN)["server_ce_marked"], 0.05 * sums["marks_cleared"])
        self.assertGreater(self.qp(both, NEAR_SOURCE_BETWEEN)["cnps"], 5)
        self.assert_falls_and_rises(both["flows"][NEAR_SOURCE_BETWEEN]["rates"])

    def assert_falls_and_rises(self, rates):
        """By CNPs, which the counters tell to be pnp's: a sender that gets none stays at its line's rate. Whatever a
        busy machine does to times, CNPs halve what DCQCN sends at, and recovery doubles it again."""
        lowest, rise = LINE_GBPS, 1.0
        for _, rate in rates:
            lowest = min(lowest, rate)
            rise = max(rise, rate / lowest)
        self.assertLess(lowest, 0.8 * LINE_GBPS, rates)
        self.assertGreater(rise, 1.2, rates)

    @staticmethod
    def qp(variant, flow):
        return variant["flows"][flow]["qps"][0]


if __name__ == "__main__":
    if os.geteuid() != 0:
        print("SKIP: network namespaces need root")
        sys.exit(77)
    # CTest and people end a test with SIGTERM: unwind as for Ctrl-C, so that cleanups run.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    unittest.main(argv=sys.argv[:1], verbosity=2)
