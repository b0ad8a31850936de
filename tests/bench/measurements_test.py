# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""bench/results: the page says what the files say, and files that cannot be shown are refused by name."""

import copy
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from bench.report import measurements  # noqa: E402

GOOD = {
    "title": "Parsing",
    "how": "build/bin/micro_wire",
    "what": "ns per packet.",
    "measurements": [
        {
            "date": "2026-11-01",
            "commit": "0123456",
            "machine": "a CPU",
            "conditions": "quiet",
            "columns": ["case", "a|b"],
            "rows": [["IPv4", 4.4], ["IPv6", None]],
        }
    ],
    "notes": ["It was fast."],
}


class Measurements(unittest.TestCase):
    def load(self, experiment):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "wire.json").write_text(json.dumps(experiment), encoding="utf-8")
            return measurements.load(folder)

    def test_the_page_has_every_number_and_says_where_it_comes_from(self):
        text = measurements.page(self.load(GOOD))
        for part in ("## Parsing", "`build/bin/micro_wire`", "2026-11-01, 0123456, a CPU; quiet:", "| case | a\\|b |",
                     "| IPv4 | 4.4 |", "| IPv6 |  |", "- It was fast."):
            self.assertIn(part, text)

    def test_what_cannot_be_shown_is_named(self):
        short = copy.deepcopy(GOOD)
        short["measurements"][0]["rows"].append(["alone"])
        dateless = copy.deepcopy(GOOD)
        del dateless["measurements"][0]["date"]
        surplus = dict(GOOD, colour="red")
        for experiment, words in ((short, "a row of 1 cells"), (dateless, "date"), (surplus, "colour")):
            with self.assertRaisesRegex(ValueError, f"wire.json.*{words}"):
                self.load(experiment)

    def test_the_page_in_the_tree_is_made_from_the_files_in_the_tree(self):
        done = subprocess.run([ROOT / "bench/report/results", "--check"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()
