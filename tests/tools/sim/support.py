# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""What the tests of the program weft-sim share: experiments as files, and the program run on them."""
import os
import pathlib
import resource
import signal
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
WEFT_SIM = os.path.join(os.environ.get("WEFT_BIN") or str(ROOT / "build/bin"), "weft-sim")

# Four hosts of two racks: a few milliseconds of the machine's time.
SMALL = """\
topology: { kind: leaf_spine, leaves: 2, spines: 2, hosts_per_leaf: 2, link_gbps: 100, delay_ns: 1000 }
switch: { lb: random }
workload: { kind: ring, bytes: 100000, groups: 2 }
"""
# Longer than any test waits.
LONG = {"workload.bytes": 2_000_000_000}

WRONG_USAGE, CANNOT_RUN, INCOMPLETE = 2, 3, 5


def settings(values):
    """Arguments for key: value."""
    return [argument for key, value in values.items() for argument in ("--set", f"{key}={value}")]


def small_files_only(limit):
    """For a child: a file that grows beyond the limit cannot be written, as on a disk that is full."""
    def prepare():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    return prepare


class SimTest(unittest.TestCase):
    """A folder of its own for each test."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.file = self.written(SMALL)

    def written(self, text, name="small.yaml"):
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        return path

    def sim(self, *arguments, **more):
        """Runs weft-sim to its end, in the test's folder."""
        return subprocess.run([WEFT_SIM, *map(str, arguments)], capture_output=True, text=True, timeout=300,
                              cwd=self.folder, check=False, **more)

    def run_small(self, *arguments, **more):
        return self.sim("run", self.file, "--quiet", *arguments, **more)

    def started(self, *arguments):
        """Starts weft-sim; it is gone after the test, whatever happens."""
        process = subprocess.Popen([WEFT_SIM, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True, cwd=self.folder)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def names(self):
        """All that lies in the test's folder."""
        return {entry.name for entry in self.folder.iterdir()}
