#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""MPI programs of guests with Soft-RoCE, whose collectives three switches run: the results are those of the same
programs without weft, and the switches did the work."""
import contextlib
import io
import os
import pathlib
import tempfile
import unittest
from unittest import mock

import mpi_guests
from judge import evidence


class Mpi(mpi_guests.Compared):
    RANKS = (0, 2)

    def test_a_command_that_is_slow_runs_to_its_end_on_another_guest(self):
        out = self.site.first.check("/tmp/agent 10.0.3.2 'sleep 2; echo 5; sleep 2; cat /proc/sys/kernel/hostname'")
        self.assertEqual(out, "5\nh3\n")

    def test_a_program_that_hangs_is_kept_as_it_hangs(self):
        hangs = unittest.FunctionTestCase(lambda: self.output("sleep", "1000", timeout=5))
        with tempfile.TemporaryDirectory(prefix="weft-failures-") as folder:
            with mock.patch.dict(os.environ, WEFT_FAILURES=folder), contextlib.redirect_stderr(io.StringIO()):
                found = evidence.runner(io.StringIO()).run(hangs)
            kept, = pathlib.Path(folder).iterdir()
            self.assertIn("the program has not ended within 5 s", found.failures[0][1])
            says = (kept / "h1-dmesg.txt").read_text(encoding="utf-8")
            for text in (r"mpirun\.openmpi --allow-run-as-root", r"(?m)^/proc/\d+/task/\d+ \S+", "/run/weft/incd.sock"):
                self.assertRegex(says, text)
            self.assertIn('"groups"', (kept / "groups.json").read_text(encoding="utf-8"))

    def test_switches_give_the_results_of_open_mpi(self):
        self.assertGreater(self.compare_results("few", mpi_guests.FEW), mpi_guests.FEW)
        self.lab.stop()


if __name__ == "__main__":
    mpi_guests.main()
