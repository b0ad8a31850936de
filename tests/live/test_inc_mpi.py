#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""An MPI program that knows nothing of weft, with Debian's Open MPI, on the hosts of Tree-3-2: with the component, and
without it."""
import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import unittest

import inc_tree
import lab
from test_incd import Daemons
from test_inc_manager import NOWHERE, Manager, on_switches

COMPONENT = os.path.join(lab.BIN, "../lib/openmpi/mca_coll_weft.so")


HERE = os.path.dirname(os.path.realpath(__file__))
PROGRAM, THREADS = os.path.join(HERE, "mpi_program.c"), os.path.join(HERE, "mpi_threads.c")
# Ranks that look for what comes keep a daemon on few CPUs from renewing a short lease in time.
LEASE_MS = 5000
RUN_S = 150
OPEN_MPI = ("mpirun\n", "orterun\n", "orted\n")
# A user's operation and MAXLOC; with pairs twice more.
FELL_BACK = r"MPI_COMM_WORLD: \d+ of [1-9]\d+ collectives without switches: no_operation=4"


class Mpi:
    """mpirun on the first host, with `ip netns exec` in the place of ssh. Each host has a name of its own, so that Open
    MPI takes them for several machines. words: of the program; by default those that run() is given."""

    def __init__(self, tree, daemons, source=PROGRAM, words=None):
        self.tree, self.directory, self.words = tree, tree.lab.directory, words
        self.program = os.path.join(self.directory, "mpi_program")
        lab.run("mpicc", "-O1", "-Wall", "-Werror", "-pthread", "-o", self.program, source)
        self.agent = os.path.join(self.directory, "agent")
        cases = "".join(f"  10.0.{n}.2) space={host.namespace}; name=h{n} ;;\n" for n, host in enumerate(tree.hosts, 1))
        with open(self.agent, "w", encoding="utf-8") as file:
            file.write(f'#!/bin/sh\ncase "$1" in\n{cases}esac\nshift\n'
                       'exec ip netns exec $space unshare --uts sh -c "hostname $name; $*"\n')
        os.chmod(self.agent, 0o755)
        # A rank finds the daemon of its host by its name.
        self.wrapper = os.path.join(self.directory, "rank")
        sockets = "".join(f"  h{n}) WEFT_INC_SOCKET={socket} ;;\n" for n, socket in enumerate(daemons.sockets, 1))
        with open(self.wrapper, "w", encoding="utf-8") as file:
            file.write(f'#!/bin/sh\ncase "$(hostname)" in\n{sockets}esac\nexport WEFT_INC_SOCKET\nexec "$@"\n')
        os.chmod(self.wrapper, 0o755)

    def run(self, *settings, each=1, sizes=4, timeout=RUN_S):
        """Exit status and all output. each: ranks on a host, which speak with each other through shared memory. Where
        the program takes too long, it is ended on all hosts: mpirun alone would leave the other ones' ranks behind."""
        system = lab.run("ompi_info", "--path", "pkglibdir", "--parsable").strip().split(":")[-1]
        command = ["mpirun", "--allow-run-as-root", "--mca", "plm_rsh_agent", self.agent, "--mca", "pml", "ob1",
                   "--mca", "btl", "tcp,self,vader", "--mca", "btl_vader_single_copy_mechanism", "none", "--mca",
                   "btl_tcp_if_include", "eth0", "--mca", "oob_tcp_if_include", "eth0", "--oversubscribe",
                   "--mca", "mca_base_component_path", f"{os.path.dirname(os.path.realpath(COMPONENT))}:{system}",
                   "--mca", "coll_weft_verbose", "1", *settings, "--host",
                   ",".join(f"10.0.{n}.2:1" for n in range(1, inc_tree.RANKS + 1)), "-np", str(each * inc_tree.RANKS),
                   self.wrapper, self.program, *(self.words or [str(sizes)])]
        done = lab.spawn(["ip", "netns", "exec", self.tree.hosts[0].namespace, "unshare", "--uts", "sh", "-c",
                          "hostname h1; exec " + shlex.join(command)], stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, text=True)
        try:
            out, _ = done.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            for pid in self.left():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            out, _ = done.communicate()
            raise AssertionError(f"the program has not ended within {timeout} s:\n{out}") from None
        return done.returncode, out

    def left(self):
        """Processes of Open MPI and of the program, on all hosts: not their daemons, which others started."""
        found = []
        for host in self.tree.hosts:
            for pid in map(int, lab.run("ip", "netns", "pids", host.namespace).split()):
                with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                    if self.directory in lab.read(f"/proc/{pid}/cmdline") or lab.read(f"/proc/{pid}/comm") in OPEN_MPI:
                        found.append(pid)
        return found


class OpenMpi(unittest.TestCase):
    def test_a_program_has_the_switches_without_knowing(self):
        with lab.Lab() as l:
            tree = inc_tree.Tree(l)
            manager = Manager(l, lease_ms=LEASE_MS)
            daemons = Daemons(l, manager)
            mpi = Mpi(tree, daemons)
            status, out = mpi.run()
            self.assertEqual(status, 0, out)
            self.assertIn("all right", out)
            self.assertIn("MPI_COMM_WORLD: by switches", out)
            self.assertIn("coll:weft: left: by switches", out)
            self.assertRegex(out, r"group \d+ ran [1-9]\d+ collectives")
            self.assertRegex(out, FELL_BACK + "\n")
            lab.wait_for("the end of all groups", lambda: not manager.groups(), 5)
            self.assertEqual(on_switches(tree), NOWHERE)
            # Two ranks on each host, side by side and in turn: those of a host first, and then their leaders.
            for order in ("slot", "node"):
                status, out = mpi.run("--map-by", order, each=2, sizes=3)
                self.assertEqual(status, 0, out)
                self.assertIn("all right", out)
                for name in ("MPI_COMM_WORLD", "left"):
                    self.assertIn(f"coll:weft: {name}: by switches, after the ranks of each host", out)
                self.assertRegex(out, r"group \d+ ran [1-9]\d+ collectives")
                # Blocks of ranks that do not follow each other on their hosts are not side by side.
                self.assertRegex(out, FELL_BACK + ("\n" if order == "slot" else r" uneven_hosts=[1-9]\d*\n"))
            lab.wait_for("the end of all groups", lambda: not manager.groups(), 5)
            self.assertEqual(on_switches(tree), NOWHERE)
            # Without a manager it runs as before, and says why; so it does without the component.
            manager.kill()
            status, out = mpi.run()
            self.assertEqual(status, 0, out)
            self.assertIn("all right", out)
            self.assertIn("MPI_COMM_WORLD: as before, because of no_manager", out)
            self.assertRegex(out, r"MPI_COMM_WORLD: (\d+) of \1 collectives without switches: "
                                  r"no_manager=[1-9]\d+ no_operation=4\n")
            status, out = mpi.run("--mca", "coll_weft_use", "0")
            self.assertEqual(status, 0, out)
            self.assertIn("all right", out)
            self.assertNotIn("coll:weft", out)
            status, out = mpi.run("--mca", "coll_weft_use", "2")
            self.assertNotEqual(status, 0, out)
            self.assertIn("gets no switches", out)
            l.stop()

    def test_a_program_that_hangs_is_ended_on_all_hosts(self):
        with lab.Lab() as l:
            tree = inc_tree.Tree(l)
            mpi = Mpi(tree, Daemons(l, Manager(l)), words=["hang"])
            before = mpi.left()
            with self.assertRaisesRegex(AssertionError, "has not ended within 8 s:\n(?s:.*)waits"):
                mpi.run(timeout=8)
            self.assertEqual(mpi.left(), before)
            l.stop()

    def test_threads_with_a_communicator_each_run_collectives_at_the_same_time(self):
        with lab.Lab() as l:
            tree = inc_tree.Tree(l)
            manager = Manager(l, lease_ms=LEASE_MS)
            mpi = Mpi(tree, Daemons(l, manager), THREADS)
            status, out = mpi.run()
            self.assertEqual(status, 0, out)
            self.assertIn("all right", out)
            # Sixteen duplicates on four ranks, all by switches: ten turns of three collectives each.
            ran = [int(count) for count in re.findall(r"group \d+ ran (\d+) collectives", out)]
            self.assertEqual(len([count for count in ran if count >= 30]), 16 * inc_tree.RANKS, out)
            self.assertNotIn("without switches", out)
            lab.wait_for("the end of all groups", lambda: not manager.groups(), 5)
            self.assertEqual(on_switches(tree), NOWHERE)
            l.stop()


if __name__ == "__main__":
    if not os.path.exists(COMPONENT) or shutil.which("mpirun") is None:
        print("SKIP: Open MPI is not installed, or was not when weft was built")
        sys.exit(77)
    lab.main()
