# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""The hosts of emulation.py that are guests: Soft-RoCE, libweftinc over libibverbs, groups by weft-incd and the
manager, and Debian's Open MPI over Soft-RoCE."""
import contextlib
import json
import os
import pathlib
import re
import shlex
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[2] / "tests/guests"))

import mpi_guests  # noqa: E402
from judge import live  # noqa: E402

MODES = {"i": "1", "ii": "2", "iii": "3"}
RUN_S = 600
LARGEST_OF_RXM = 8 << 20


class Guests:
    """Four guests, which boot once."""

    FILE, LARGEST = "emulation_guests.md", "16M"
    HEAD = """# EPIC, appendix J, by weft-switch and guests with Soft-RoCE

Written by `emulation.py --guests`. QEMU emulates the guests' CPUs on those of this machine, and they are the limit:
compare rows with each other, not with the paper's.
"""
    PARTS = ((1 << 18, 30, 5), (1 << 22, 5, 1), (1 << 30, 2, 1))

    def __init__(self):
        with contextlib.ExitStack() as stack:
            self.lab = stack.enter_context(live.Lab())
            self.site = mpi_guests.Site(self.lab, (0, 1, 2, 3), memory_mb=1280)
            for machine in self.site.guests.values():
                machine.put(os.path.join(live.BIN, "weft-inc"), "/usr/bin/weft-inc")
            self.site.compile(str(HERE / "mpi_times.c"))
            self.stack = stack.pop_all()
        self.port = 7000

    def __enter__(self):
        return self

    def __exit__(self, *error):
        # What the guests and switches say is kept if there is an error.
        return self.stack.__exit__(*error)

    def perf(self, solution, words):
        """What `weft-inc perf --json` says."""
        how = ("--backend", "ring") if solution == "ring" else ("--backend", "inc", "--mode", MODES[solution])
        self.port += 1
        jobs = [machine.start(shlex.join(("weft-inc", "perf", *words, *how, "--device", "rxe0", "--rank", str(rank),
                                          "--ranks", str(len(self.site.guests)), "--meet", f"10.0.1.2:{self.port}")),
                              RUN_S) for rank, machine in sorted(self.site.guests.items())]
        ends = [job.wait() for job in jobs]
        if any(end.code for end in ends):
            raise RuntimeError(f"{' '.join(words)}, {solution}: " + "\n".join(end.out for end in ends))
        return json.loads(jobs[0].stdout)

    def mpi(self, words):
        """What mpi_times prints."""
        code, out = self.site.mpirun("/tmp/mpi_times", *words, settings=("--mca", "coll", "^weft")).wait()
        # Debian's ofi_rxm takes 8 MiB over verbs: larger vectors end what Open MPI sends in one piece.
        if code and int(words[-1]) <= LARGEST_OF_RXM:
            raise RuntimeError(f"{' '.join(words)}, Open MPI: {out}")
        return "\n".join(re.findall(r"(?m)^\d+ [\d.]+$", out))
