# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""Guests with Soft-RoCE, Debian's Open MPI and weft's component under the switches of conf/inc-tree.yaml, with
weft-incd in each, and a manager on another host."""
import json
import os
import shlex
import struct
import subprocess
import sys
import time
import unittest

import yaml

import judge
import remote_shell
from image_contents import MPI_PACKAGES
from judge import MTU, guest, live
import inc_tree
from test_inc_manager import Manager

sys.path.insert(0, os.path.join(inc_tree.ROOT, "tests/ops"))
from certificates import Authority  # noqa: E402

LIBRARIES = os.path.join(live.BIN, "../lib")
COMPONENT = os.path.join(LIBRARIES, "openmpi/mca_coll_weft.so")
# The image is in memory twice while it is unpacked, and its file system takes half of what there is at most.
MEMORY_MB = 1024
HERE = os.path.dirname(os.path.abspath(__file__))
OPERATOR, OPERATOR_PORT = "10.0.9.2", 9797
SHELL_PORT = 2200
# An emulated CPU takes ten seconds for a daemon's first connection with certificates while a rank keeps it busy.
LEASE_MS = 60_000
RUN_S = 600
# A program that takes too long is left alone for so long: what it waits for is kept meanwhile.
LOOK_S = 300
# What `mpi_results few` asks for: of three types and two lengths, two operations of allreduce and reduce each, a bcast
# and a barrier.
FEW = 3 * 2 * (2 * 2 + 2)
# Open MPI over Soft-RoCE: UCX and openib of Debian find no way, and ofi would ask for more than rdma_rxe has.
OVER_ROCE = ("--mca", "pml", "cm", "--mca", "mtl", "ofi", "--mca", "mtl_ofi_provider_include", "verbs;ofi_rxm", "-x",
             "FI_UNIVERSE_SIZE=4")


class Tree(inc_tree.Tree):
    """The switches, and a host of the operator at the root, which has the manager."""

    def __init__(self, l, guests, faults):
        self.operator = l.host("op", mtu=MTU).address(f"{OPERATOR}/24").route("default", "10.0.9.1")
        super().__init__(l, faults, guests=guests)

    def start(self, faults=(), top=""):
        switches = yaml.safe_load(inc_tree.switches(self.lab, faults, self.interfaces))
        root = next(switch for switch in switches if switch["name"] == "root")
        root["ports"].append({"name": "op", "type": "veth", "interface": self.operator.port_interface,
                              "mtu_bytes": MTU})
        root["addresses"].append({"port": "op", "address": "10.0.9.1/24"})
        self.lab.start("".join(f"  - {json.dumps(switch)}\n" for switch in switches), top)


class Site:
    """Guests that are ready for mpirun. ranks: which of the four hosts they are; packages: that they have besides;
    faults: of all links, see inc_tree.switches()."""

    def __init__(self, l, ranks, packages=(), memory_mb=MEMORY_MB, faults=()):
        self.lab = l
        self.guests = {rank: guest.Guest(l, f"h{rank + 1}", "tap", [f"10.0.{rank + 1}.2/24"], MTU,
                                         memory_mb=memory_mb, extra_packages=(*MPI_PACKAGES, *packages))
                       for rank in ranks}
        self.tree = Tree(l, {rank: machine.interface for rank, machine in self.guests.items()}, faults)
        self._make_certificates()
        tcp = {"address": OPERATOR, "port": OPERATOR_PORT, "certificate": self._server[0], "key": self._server[1],
               "client_ca": self._authority.certificate}
        self.manager = Manager(l, LEASE_MS, tcp, self.tree.operator.namespace)
        l.evidence.add(self._keep_groups)
        self.first = self.guests[min(ranks)]
        for rank, machine in self.guests.items():
            self._prepare(rank, machine)

    def _make_certificates(self):
        self._authority = Authority(self.lab.directory, "operator")
        self._server = self._authority.sign("manager", f"IP:{OPERATOR}")
        self._client = self._authority.sign("host")

    def _prepare(self, rank, machine):
        machine.wait_up().configure([f"10.0.{rank + 1}.2/24"], [f"10.0.{rank + 1}.1"])
        # What Debian would make of alternatives: libfabric needs it.
        machine.check("ln -s /usr/lib/libpsm1/libpsm_infinipath.so.1.16 "
                      "/usr/lib/x86_64-linux-gnu/libpsm_infinipath.so.1")
        folder = machine.check("dirname /usr/lib/*/openmpi/lib/openmpi3/mca_coll_tuned.so").strip()
        for source, target in (
                (COMPONENT, folder + "/mca_coll_weft.so"), (os.path.join(live.BIN, "weft-incd"), "/usr/bin/weft-incd"),
                (os.path.join(LIBRARIES, "libweftinc.so.2"), "/usr/lib/x86_64-linux-gnu/libweftinc.so.2"),
                (self._client[0], "/etc/host.crt"), (self._client[1], "/etc/host.key"),
                (self._authority.certificate, "/etc/operator.crt")):
            machine.put(source, target)
        # An emulated clock is late on a busy machine, and certificates are valid from now on.
        machine.check(f"date -s @{int(time.time()) + 1} && mkdir -p /run/weft")
        daemon = machine.daemon(
            f"exec weft-incd --manager {OPERATOR}:{OPERATOR_PORT} --cert /etc/host.crt --key /etc/host.key "
            "--ca /etc/operator.crt", "incd")
        self.lab.evidence.add(lambda folder: self._keep_log(folder, machine, daemon))
        machine.daemon(remote_shell.server(SHELL_PORT), "shell")
        machine.check("cat >/tmp/agent && chmod 755 /tmp/agent", data=remote_shell.client(SHELL_PORT).encode())
        machine.check("for i in $(seq 100); do [ -S /run/weft/incd.sock ] && exit 0; sleep 0.1; done; "
                      "cat /run/incd.log; exit 1", timeout=30)

    def _keep_groups(self, folder):
        found = {"groups": self.manager.groups()}
        for switch in ("leaf1", "leaf2", "root"):
            found[switch] = {what: self.tree.show(what, switch) for what in ("groups", "endpoints", "slots")}
        with open(os.path.join(folder, "groups.json"), "w", encoding="utf-8") as file:
            json.dump(found, file, indent=1)

    @staticmethod
    def _keep_log(folder, machine, daemon):
        with open(os.path.join(folder, f"{machine.name}-incd.log"), "w", encoding="utf-8") as file:
            file.write(daemon.log())

    def compile(self, source):
        """A program, of this folder unless the path is absolute: at all guests under its name in /tmp, and here in the
        lab's folder; its name."""
        name = os.path.basename(source).removesuffix(".c")
        built = os.path.join(self.lab.directory, name)
        live.run("mpicc", "-O2", "-Wall", "-Wextra", "-Werror", "-o", built, os.path.join(HERE, source))
        for machine in self.guests.values():
            machine.put(built, "/tmp/" + name)
        return name

    def results_here(self, name, which):
        """By rank, the records of mpi_results on this machine, without weft: as many ranks, which share its memory.
        Open MPI's own loops for AVX saturate sums of 8 and 16 bits; its plain ones wrap, as the switches do."""
        path = os.path.join(self.lab.directory, "here")
        live.run("mpirun", "--allow-run-as-root", "--oversubscribe", "--mca", "btl", "self,vader",
                 "--mca", "btl_vader_single_copy_mechanism", "none", "--mca", "op", "^avx", "-np",
                 str(len(self.guests)), "sh", "-c",
                 f"exec {shlex.quote(os.path.join(self.lab.directory, name))} {path}.$OMPI_COMM_WORLD_RANK {which}",
                 timeout=120)
        found = []
        for rank in range(len(self.guests)):
            with open(f"{path}.{rank}", "rb") as file:
                found.append(records(file.read()))
        return found

    def mpirun(self, *words, settings=(), timeout=RUN_S):
        """Starts a program on every guest, which is to end within `timeout` seconds; its Job."""
        hosts = ",".join(f"10.0.{rank + 1}.2:1" for rank in sorted(self.guests))
        command = ["mpirun.openmpi", "--allow-run-as-root", "--mca", "plm_rsh_agent", "/tmp/agent", "--mca",
                   "oob_tcp_if_include", "eth0", *OVER_ROCE, "--mca", "coll_weft_device", "rxe0",
                   "--mca", "coll_weft_verbose", "1", *settings, "--host", hosts, "-np", str(len(self.guests)), *words]
        return self.first.start(shlex.join(command), timeout + LOOK_S)

    def results(self, path):
        """By rank, the records that mpi_results wrote."""
        return [records(machine.get(path)) for _, machine in sorted(self.guests.items())]


def records(data):
    """(primitive, type, operation, count) -> (result, bounds, result in pairs), as mpi_results.c describes them."""
    out, at = {}, 0
    while at < len(data):
        end = data.index(b"\n", at)
        *name, size, bounds, ordered = data[at:end].decode().split()
        parts, at = [], end + 1
        for length in (int(size), int(bounds), int(ordered)):
            parts.append(data[at:at + length])
            at += length
        out[tuple(name)] = tuple(parts)
    if at != len(data):
        raise AssertionError("the last record is cut short")
    return out


EPSILON = {"float": ("f", 2.0 ** -24), "double": ("d", 2.0 ** -53)}


def differ(name, one, other, ranks):
    """Why two results are not the same, or an empty string: to the bit, but for sums and products of floats, which may
    differ by n * epsilon * sum|x|."""
    (result, bounds, _), (expected, _, _) = one, other
    if result == expected:
        return ""
    if not bounds or len(result) != len(expected):
        return f"{' '.join(name)}: other bits"
    letter, epsilon = EPSILON[name[1]]
    size = struct.calcsize(letter)
    values = [struct.unpack(f"<{len(data) // size}{letter}", data) for data in (result, expected)]
    limits = struct.unpack(f"<{len(bounds) // 8}d", bounds)
    worst = max(abs(a - b) / (ranks * epsilon * limit) for a, b, limit in zip(*values, limits) if limit)
    return "" if worst <= 2 else f"{' '.join(name)}: {worst:.1f} times n*eps*sum|x|"


class Compared(unittest.TestCase):
    """Tests of RANKS, guests with PACKAGES as well, over links with FAULTS, whose programs give what they give without
    weft."""

    RANKS = ()
    FAULTS = ()
    PACKAGES = ()
    MEMORY_MB = MEMORY_MB

    @classmethod
    def setUpClass(cls):
        cls.lab = cls.enterClassContext(live.Lab())
        cls.site = Site(cls.lab, cls.RANKS, cls.PACKAGES, cls.MEMORY_MB, cls.FAULTS)
        cls.program = cls.site.compile("mpi_results.c")

    def output(self, *words, use=2, timeout=RUN_S):
        """What a program on every guest prints, which must end well. use: coll_weft_use, 0 is off, 1 if possible, 2
        required."""
        job = self.site.mpirun(*words, settings=("--mca", "coll_weft_use", str(use)), timeout=timeout)
        return self.end(job, timeout)

    def end(self, job, timeout):
        """What a program prints, which must end well. One that hangs goes on until all that it waits for is kept."""
        self.addCleanup(job.kill)
        self.assertTrue(job.ended(timeout), f"the program has not ended within {timeout} s:\n{job.out}")
        code, out = job.wait()
        self.assertEqual(code, 0, out)
        return out

    def compare(self, with_switches, without):
        """Records of all ranks; returns how many."""
        count = 0
        for rank, (ours, theirs) in enumerate(zip(with_switches, without)):
            self.assertEqual(list(ours), list(theirs))
            found = [differ(name, ours[name], theirs[name], len(without)) for name in ours]
            self.assertEqual([why for why in found if why], [], f"rank {rank}")
            for name, (result, _, in_pairs) in ours.items():
                # Reproducible: the order of endpoints at each switch. With a root the sum is made at the root's leaf,
                # to which that of the other leaf comes as from one more endpoint.
                if in_pairs and (name[0] == "allreduce" or len(without) == 2):
                    self.assertEqual(result, in_pairs, f"rank {rank}: {name}")
            count += len(ours)
        return count

    def proof(self, collectives):
        """Of the only group: all switches of its tree have run so many collectives at least."""
        listed = self.site.manager.groups()
        self.assertEqual([group["state"] for group in listed], ["running"])
        shown = json.loads(self.site.manager.run("--json", "group", "show", str(listed[0]["group"])))
        self.assertEqual(shown["hosts"], [f"h{rank + 1}" for rank in self.RANKS])
        self.assertEqual([switch["name"] for switch in shown["switches"] if switch["collectives"] >= collectives],
                         ["leaf1", "leaf2", "root"], shown)

    def compare_results(self, which, collectives):
        """mpi_results `which`, as many collectives at least, all of them by switches. Returns how many records."""
        self.site.first.check("rm -f /tmp/go")
        job = self.site.mpirun("/tmp/" + self.program, "/tmp/results", which, "/tmp/go",
                               settings=("--mca", "coll_weft_use", "2"))
        job.wait_for("done", RUN_S)
        self.proof(collectives)
        self.site.first.check("touch /tmp/go")
        self.assertIn("MPI_COMM_WORLD: by switches", self.end(job, RUN_S))
        compared = self.compare(self.site.results("/tmp/results"), self.site.results_here(self.program, which))
        live.wait_for("the end of the group", lambda: not self.site.manager.groups(), 5)
        for switch in ("leaf1", "leaf2", "root"):
            self.assertEqual(self.site.tree.show("groups", switch), [])
        return compared


def main():
    """judge.main() that CTest reads as skipped where no MPI program can be made."""
    if missing():
        print("SKIP: " + missing())
        sys.exit(77)
    judge.main()


def missing():
    """Why this cannot run here, or an empty string."""
    if not os.path.exists(COMPONENT):
        return "libopenmpi-dev was not installed when weft was built"
    return "" if subprocess.run(["which", "mpicc"], capture_output=True, check=False).returncode == 0 else "no mpicc"
