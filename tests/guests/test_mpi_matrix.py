#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""Four guests with Soft-RoCE under three switches: every primitive, type and operation of MPI, programs of mpi4py and
hpcc, and the same bits in twenty runs over links that reorder."""
import re
import sys

import judge
import mpi_guests

# What tools/check does not wait for.
PROGRAM_S = 1800
RUNS = 20
REORDER = [{"match": {"kind": "roce"}, "reorder": {"ratio": 0.01, "gap_us": 300}}]

# HPL's own file, with N 200 on 2 x 2 ranks, and no further sizes.
HPCC = """HPLinpack benchmark input file
Innovative Computing Laboratory, University of Tennessee
HPL.out      output file name (if any)
8            device out (6=stdout,7=stderr,file)
1            # of problems sizes (N)
200          Ns
1            # of NBs
40           NBs
0            PMAP process mapping (0=Row-,1=Column-major)
1            # of process grids (P x Q)
2            Ps
2            Qs
16.0         threshold
1            # of panel fact
2            PFACTs (0=left, 1=Crout, 2=Right)
1            # of recursive stopping criterium
4            NBMINs (>= 1)
1            # of panels in recursion
2            NDIVs
1            # of recursive panel fact.
1            RFACTs (0=left, 1=Crout, 2=Right)
1            # of broadcast
1            BCASTs (0=1rg,1=1rM,2=2rg,3=2rM,4=Lng,5=LnM)
1            # of lookahead depth
1            DEPTHs (>=0)
2            SWAP (0=bin-exch,1=long,2=mix)
64           swapping threshold
0            L1 in (0=transposed,1=no-transposed) form
0            U  in (0=transposed,1=no-transposed) form
1            Equilibration (0=no,1=yes)
8            memory alignment in double (> 0)
##### This line (no. 32) is ignored (it serves as a separator). ######
0            Number of additional problem sizes for PTRANS
1200         values of N
0            number of additional blocking sizes for PTRANS
40           values of NB
"""


def use(how):
    """Of coll_weft_use: 0 is off, 1 if possible, 2 required."""
    return ("--mca", "coll_weft_use", str(how))


class Matrix(mpi_guests.Compared):
    RANKS = (0, 1, 2, 3)
    PACKAGES = ("python3-mpi4py", "hpcc", "libblas3")
    MEMORY_MB = 1536

    def test_1_every_primitive_type_and_operation(self):
        # Of eight integers and two floats, with ten and four operations: allreduce and reduce_scatter_block at all
        # ranks, reduce at one, bcast and allgather at all. Switches do not have the three logical operations.
        lengths, ranks = 4, len(self.RANKS)
        records = sum(types * lengths * (operations * (2 * ranks + 1) + 2 * ranks) for types, operations in
                      ((8, 10), (2, 4)))
        self.assertEqual(self.compare_results("all", 8 * lengths * 7 * 3), records)

    def output(self, words, how, timeout=PROGRAM_S):
        code, out = self.site.mpirun(*words, settings=use(how), timeout=timeout).wait()
        self.assertEqual(code, 0, out)
        return out

    def test_2_mpi4py(self):
        for machine in self.site.guests.values():
            machine.put(mpi_guests.HERE + "/mpi_python.py", "/tmp/mpi_python.py")
        found = {}
        for how in (0, 1):
            out = self.output(("python3", "/tmp/mpi_python.py"), how)
            self.assertEqual("MPI_COMM_WORLD: by switches" in out, how == 1, out)
            found[how] = [line for line in out.splitlines() if line.startswith("result")]
            self.assertEqual(len(found[how]), len(self.RANKS), out)
        self.assertEqual(found[1], found[0])

    def test_3_hpcc_ends_as_it_does_without_switches(self):
        for machine in self.site.guests.values():
            machine.check("mkdir -p /tmp/hpcc && cat >/tmp/hpcc/hpccinf.txt", data=HPCC.encode())
        program = "cd /tmp/hpcc && LD_LIBRARY_PATH=/usr/lib/x86_64-linux-gnu/blas exec hpcc"
        found = {}
        for how in (0, 1):
            self.site.first.check("rm -f /tmp/hpcc/hpccoutf.txt")
            out = self.output(("sh", "-c", program), how)
            self.assertEqual("MPI_COMM_WORLD: by switches" in out, how == 1, out)
            text = self.site.first.get("/tmp/hpcc/hpccoutf.txt").decode()
            # HPL's residue, and whether all parts have ended well; everything else are times.
            found[how] = re.findall(r"PASSED|FAILED|^Success=\d+$", text, re.M)
            self.assertIn("Success=1", found[how], text)
            self.assertIn("PASSED", found[how])
        self.assertEqual(found[1], found[0])

    def test_4_the_same_bits_in_twenty_runs_over_links_that_reorder(self):
        self.lab.stop()
        self.site.tree.start(REORDER)
        first = None
        for run in range(RUNS):
            out = self.output(("/tmp/" + self.program, "/tmp/results", "few"), 2)
            self.assertIn("MPI_COMM_WORLD: by switches", out)
            found = self.site.results("/tmp/results")
            if first is None:
                first = found
                self.compare(found, self.site.results_here(self.program, "few"))
            self.assertEqual(found, first, f"run {run}")
        self.assertGreater(sum(row["reordered"] for row in self.lab.show("impair")), 100)
        self.lab.stop()


if __name__ == "__main__":
    if mpi_guests.missing():
        print("SKIP: " + mpi_guests.missing())
        sys.exit(77)
    judge.main()
