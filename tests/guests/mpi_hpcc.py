# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""The HPC Challenge of Debian's package hpcc on guests: its configuration, and what of its report does not depend on
how fast the guests are."""
import os
import re
import struct

PACKAGES = ("hpcc",)
FOLDER = "/tmp/hpcc"
# A matrix of 200 x 200 on a grid of 2 x 2 ranks. The program wants 32 lines, of which the last separates, and then
# what it transposes besides.
SIZE = 200
CONFIGURATION = f"""HPLinpack benchmark input file
of the HPC Challenge
HPL.out      output file name
8            device out: the file
1            # of problems sizes (N)
{SIZE}          Ns
1            # of NBs
40           NBs
0            PMAP process mapping: by rows
1            # of process grids (P x Q)
2            Ps
2            Qs
16.0         threshold
1            # of panel fact
2            PFACTs: right
1            # of recursive stopping criterium
4            NBMINs
1            # of panels in recursion
2            NDIVs
1            # of recursive panel fact.
1            RFACTs: Crout
1            # of broadcast
1            BCASTs: 1rM
1            # of lookahead depth
1            DEPTHs
2            SWAP: mix
64           swapping threshold
0            L1 in transposed form
0            U in transposed form
1            Equilibration
8            memory alignment in double
----- separates -----
0            # of additional problem sizes for PTRANS
0            values of N
0            # of additional blocking sizes for PTRANS
0            values of NB
"""
# Its rings and ping-pongs have messages of 2 MB, a constant in three places of the program, of which emulated guests
# would exchange a thousand.
LONG, SHORT, PLACES = 2_000_000, 20_000, 3
# Of its summary, what is measured.
MEASURED = re.compile(r"time|flops|GUPs|GB|usec|Latency|Bandwidth|Wtick|TimeBound|ExeUpdates|OMP|"
                      r"STREAM_(Copy|Scale|Add|Triad)", re.I)


def shortened(program):
    """The program with short messages in the place of long ones."""
    long, short = struct.pack("<I", LONG), struct.pack("<I", SHORT)
    if program.count(long) != PLACES:
        raise AssertionError(f"this hpcc has a length of {LONG} bytes in {program.count(long)} places, not {PLACES}")
    return program.replace(long, short)


def prepare(machine, library_folder="/usr/lib/x86_64-linux-gnu"):
    """A guest has all that a rank needs in FOLDER."""
    # What Debian would make of alternatives.
    machine.check(f"mkdir -p {FOLDER} && ln -sf blas/libblas.so.3 {library_folder}/libblas.so.3")
    for name, data in (("hpcc", shortened(machine.get("/usr/bin/hpcc"))), ("hpccinf.txt", CONFIGURATION.encode())):
        machine.check(f"cat >{FOLDER}/{name} && chmod 755 {FOLDER}/{name}", data=data)


def command():
    """For mpirun, behind the number of ranks."""
    return ["--wdir", FOLDER, os.path.join(FOLDER, "hpcc")]


def report(machine):
    """What the program, which must have ended, says in the file of its first rank; the next run writes a new one."""
    text = machine.get(FOLDER + "/hpccoutf.txt").decode()
    machine.check(f"rm {FOLDER}/hpccoutf.txt")
    return text


def results(text):
    """Of a report, what is the same in every run: the summary without what is measured, and each verdict on a result,
    in order."""
    summary = text.partition("Begin of Summary section.")[2].partition("End of Summary section.")[0]
    found = dict(line.split("=", 1) for line in summary.splitlines() if "=" in line)
    verdicts = re.findall(r"\b(PASSED|FAILED|passed|failed|Validated|FAILURE)\b", text)
    return {name: value for name, value in found.items() if not MEASURED.search(name)}, verdicts
