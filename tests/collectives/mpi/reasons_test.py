#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""What the component for Open MPI says of collectives that ran without switches."""
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

COMPONENTS = os.path.realpath(os.path.join(os.environ.get("WEFT_BIN", "build/bin"), "../lib/openmpi"))
SOURCE = os.path.join(os.path.dirname(os.path.realpath(__file__)), "reasons_program.c")
LINE = re.compile(r"coll:weft: (.*): (\d+) of (\d+) collectives without switches: (.*)")


class Reasons(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory(prefix="weft-mpi-")
        cls.addClassCleanup(cls.directory.cleanup)
        cls.program = os.path.join(cls.directory.name, "program")
        subprocess.run(["mpicc", "-O1", "-Wall", "-Werror", "-o", cls.program, SOURCE], check=True)
        # In the place of ssh: the last number of an address names the host, by which Open MPI tells hosts apart.
        cls.agent = os.path.join(cls.directory.name, "agent")
        with open(cls.agent, "w", encoding="utf-8") as file:
            file.write('#!/bin/sh\nname=h${1##*.}\nshift\nexec unshare --uts sh -c "hostname $name; $*"\n')
        os.chmod(cls.agent, 0o755)

    def run_program(self, *settings, hosts=2, each=1, words=()):
        """The lines of LINE. There is no RNIC, and no daemon."""
        system = subprocess.run(["ompi_info", "--path", "pkglibdir", "--parsable"], capture_output=True, text=True,
                                check=True).stdout.strip().split(":")[-1]
        command = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--mca", "plm_rsh_agent", self.agent,
                   "--mca", "pml", "ob1", "--mca", "btl", "tcp,self,vader", "--mca", "btl_tcp_if_include", "lo",
                   "--mca", "btl_vader_single_copy_mechanism", "none", "--mca", "oob_tcp_if_include", "lo",
                   "--mca", "mca_base_component_path", f"{COMPONENTS}:{system}",
                   "--mca", "coll_weft_interface", "none0", "--mca", "coll_weft_socket", "/nowhere", *settings,
                   "--host", ",".join(f"127.0.0.{n}:{each}" for n in range(1, hosts + 1)), "-np", str(hosts * each),
                   self.program, *words]
        done = subprocess.run(["unshare", "--uts", "sh", "-c", "hostname h1; exec " + shlex.join(command)],
                              capture_output=True, text=True, timeout=60, check=False)
        self.out = done.stdout + done.stderr
        self.assertEqual(done.returncode, 0, self.out)
        return LINE.findall(self.out)

    def test_one_line_of_a_communicator_counts_each_reason(self):
        self.assertEqual(self.run_program(), [("MPI_COMM_WORLD", "9", "9", "no_operation=3 no_rnic=6")])

    def test_the_reason_of_the_leaders_of_hosts_is_that_of_all(self):
        self.assertEqual(self.run_program(each=2), [("MPI_COMM_WORLD", "9", "9", "no_operation=3 no_rnic=6")])

    def test_each_call_says_its_reason_if_that_is_wanted(self):
        self.run_program("--mca", "coll_weft_verbose", "2")
        for reason, calls in (("no_operation", 3), ("no_rnic", 6)):
            said = f"coll:weft: MPI_COMM_WORLD: a collective without switches: {reason}\n"
            self.assertEqual(self.out.count(said), 2 * calls, self.out)

    def test_more_than_2_gib_are_moved_as_before(self):
        (name, without, of, reasons), = self.run_program(words=["large"])
        self.assertEqual((name, without, reasons), ("MPI_COMM_WORLD", of, "too_large=1 no_operation=3 no_rnic=6"))

    def test_nothing_is_said_of_one_host_or_where_it_is_not_wanted(self):
        self.assertEqual(self.run_program(hosts=1, each=2), [])
        self.assertEqual(self.run_program("--mca", "coll_weft_report", "0"), [])
        self.assertEqual(self.run_program("--mca", "coll_weft_use", "0"), [])

    def test_many_communicators_share_the_last_line(self):
        lines = self.run_program(words=["20"])
        self.assertEqual(len(lines), 18, lines)
        (name, without, of, reasons), = [line for line in lines if "more communicators" in line[0]]
        self.assertEqual((name, without, reasons), ("4 more communicators", of, f"no_rnic={of}"))
        world, = [reasons for name, *_, reasons in lines if name == "MPI_COMM_WORLD"]
        self.assertRegex(world, r"^no_operation=3 no_rnic=\d+$")


if __name__ == "__main__":
    if not os.path.exists(os.path.join(COMPONENTS, "mca_coll_weft.so")) or shutil.which("mpirun") is None:
        print("SKIP: Open MPI is not installed, or was not when weft was built")
        sys.exit(77)
    if os.geteuid() != 0 or subprocess.run(["unshare", "--uts", "true"], check=False).returncode != 0:
        print("SKIP: needs root, and leave to make namespaces")
        sys.exit(77)
    unittest.main()
