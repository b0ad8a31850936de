# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""bench/peers/inc.py: what its generator ports send are collectives, and weft-switch runs them without a drop."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

from bench.peers import cases, inc  # noqa: E402
from bench.peers.child import Settings  # noqa: E402

PROGRAM = pathlib.Path(sys.argv.pop(1)) / "weft-switch"
DATA = [case for case in cases.CASES if not inc.WeftInc("", "").refuses(case)]


def run(case, system=inc.WeftInc("weft-inc", "")):
    """The counters of a switch that ran for a moment, without hugepages and beside whatever else runs."""
    settings = Settings(0, 0, mbufs=2048, burst=32, warm_up_s=0, trial_s=0, switch_binary=PROGRAM)
    config = system.configuration(case, settings)
    config["eal"].update(hugepages="off")
    del config["eal"]["workers"]
    with tempfile.TemporaryDirectory() as directory:
        path, counters = pathlib.Path(directory, "weft.yaml"), pathlib.Path(directory, "counters.json")
        path.write_text(json.dumps(config), encoding="utf-8")
        done = subprocess.run([PROGRAM, "-c", path, "--duration-s=0.3", f"--counters-out={counters}"],
                              capture_output=True, text=True, timeout=60, env={"RUNTIME_DIRECTORY": directory})
        if done.returncode != 0:
            raise AssertionError(done.stderr)
        return json.loads(counters.read_text(encoding="utf-8"))["switches"][0]


class CollectivesTest(unittest.TestCase):
    def test_packets_have_the_size_of_a_path_mtu(self):
        self.assertEqual([(case.name, inc.path_mtu(case)) for case in DATA], [("data-1090", 1024), ("data-4170", 4096)])

    def test_every_packet_is_added_and_every_rank_gets_every_result(self):
        for case in DATA:
            with self.subTest(case.name):
                switch = run(case)
                received = sum(port["rx_packets"] for port in switch["ports"])
                sent = sum(port["tx_packets"] for port in switch["ports"])
                self.assertGreater(received, 1000)
                # What is not complete when it ends has no result yet.
                self.assertLessEqual(received - sent, 2 * inc.RANKS * inc.WINDOW)
                self.assertEqual({name: n for name, n in switch["drops"].items() if n and name != "shutdown"}, {})

    def test_the_bridge_beside_it_passes_every_packet_to_one_port(self):
        for case in DATA:
            with self.subTest(case.name):
                switch = run(case, inc.WeftIncBridged(inc.BRIDGED, ""))
                received = sum(port["rx_packets"] for port in switch["ports"])
                sent = sum(port["tx_packets"] for port in switch["ports"])
                self.assertGreater(received, 1000)
                self.assertLessEqual(sent, received)
                self.assertEqual({name: n for name, n in switch["drops"].items() if n and name != "shutdown"}, {})
                self.assertLessEqual(received - sent, switch["drops"].get("shutdown", 0))
                self.assertNotIn("inc", [stage["stage"] for stage in switch["stages"]])


if __name__ == "__main__":
    unittest.main()
