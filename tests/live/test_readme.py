#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""Each block of commands of README.md is run, here or by test_conf.py, or stands below with the reason why not."""
import os
import re
import struct
import subprocess
import sys
import unittest

import lab
import test_conf

ROOT = test_conf.ROOT

# Blocks by their first command. What test_conf.py runs, with the configuration that they name.
WITH_THEIR_CONFIGURATION = ("weft-switch -c conf/bump-in-the-wire.yaml --check", "weftctl show queues --watch",
                            "weftctl show routes --switch leaf1")

# What cannot be run here, or not within seconds.
EXCUSED_BLOCKS = {
    "tools/quickstart": "Installs packages and builds; tools/check --full runs quickstart.",
    "weftctl inc create group=JSON --switch leaf1": "JSON stands for a group; tests/live/test_inc.py makes them.",
    "mkdir /etc/frr/leaf1 && cp frr.conf daemons /etc/frr/leaf1/": "Needs FRR and lldpd.",
    "devlink dev param show pci/0000:3b:00.0": "Needs a ConnectX.",
    "tools/lab/weft-lab run conf/labs/spraying.yaml": "Minutes; tests/tools/lab/live_test.py runs labs.",
    "cmake --build build --target deb": "Needs apt and systemd; tests/ops/test_package.py looks into the packages.",
    "apt-get install ./build/weft-host_*.deb ./build/weft-openmpi_*.deb": "Needs a ConnectX, apt and systemd.",
    "mpirun --host 10.0.1.2,10.0.2.2,10.0.3.2,10.0.4.2 --mca coll_weft_device mlx5_0 --mca coll_weft_verbose 1 "
    "./program": "Needs four hosts with ConnectX; tests/guests/test_mpi.py has them with Soft-RoCE.",
    "tools/install-deps": "Installs packages and builds.",
}
EXCUSED_COMMANDS = {
    "weft-inc perf allreduce -b 4K -e 16M --rank 0 --ranks 4 --meet 10.0.1.2:7000":
        "One on each of four hosts; tests/live/test_incd.py runs them.",
    "weft-rnic serve --memif /run/weft/m0.sock --address 10.0.0.3/24":
        "Needs a memif; tests/live/test_rnic_memif.py has one.",
    "weft-sim run tools/sim/examples/fat_tree.yaml --threads 8": "Tens of seconds of a CPU.",
    "weft-sim sweep bench/papers/themis/fig5a.yaml --out fig5a": "The paper's scale: hours.",
}


class Run:
    """How the commands of a block are run: with which configuration, what before them, and what in place of some."""

    def __init__(self, conf=None, before=(), instead=None, after=()):
        self.conf, self.before, self.instead, self.after = conf, before, instead or {}, after


def for_a_while(command):
    """A program without an end: it runs, or cannot start on this machine; wrong arguments are status 2."""
    return f"rc=0; timeout 2 {command} || rc=$?; test $rc = 124 || test $rc = 3"


AGENT = "weft-qp-agent --host h1 --socket /run/weft/weft.sock"
RUN = {
    AGENT: Run(instead={AGENT: "if command -v weft-qp-agent; then " + for_a_while(AGENT) + "; fi"}),
    "weft-inc-manager -c conf/inc-manager/inc-tree.yaml &": Run(
        "inc-tree", before=["mount -t tmpfs tmpfs /var/lib"],
        instead={"weft-inc-manager -c conf/inc-manager/inc-tree.yaml &":
                 "weft-inc-manager -c conf/inc-manager/inc-tree.yaml 2>manager.log & "
                 "for i in $(seq 100); do grep -q listening manager.log && break; sleep 0.1; done"},
        after=["test -s fabric.svg", "kill %2"]),
    "apt-get install ./build/weft_*.deb": Run(instead={
        "apt-get install ./build/weft_*.deb": ":",
        "install -D -m 644 conf/inc-four-hosts.yaml /etc/weft/weft.yaml": "cp conf/inc-four-hosts.yaml weft.yaml",
        "install -D -m 644 conf/inc-manager/four-hosts.yaml /etc/weft/inc-manager.yaml":
            "cp conf/inc-manager/four-hosts.yaml inc-manager.yaml",
        "weft-switch -c /etc/weft/weft.yaml --check": "weft-switch -c weft.yaml --check",
        "weft-inc-manager -c /etc/weft/inc-manager.yaml --check": "weft-inc-manager -c inc-manager.yaml --check",
        "systemctl enable --now weft-switch weft-inc-manager": ":"}),
    "weft-incd &": Run(instead={"weft-incd &": "weft-incd 2>incd.log & sleep 0.5",
                                # Without an interface and a manager it names what is missing.
                                "weft-inc doctor": "weft-inc doctor || test $? = 1"}, after=["kill %1"]),
    "weft-flow run bench/papers/epic/flow/trace1.yaml --set policy=temporal --html trace1.html": Run(
        instead={"weft-flow run bench/papers/epic/flow/trace1.yaml --set policy=temporal --html trace1.html":
                 "weft-flow run bench/papers/epic/flow/trace1.yaml --set policy=temporal --html trace1.html "
                 "--set workload.jobs=10"}, after=["test -s trace1.html"]),
    "weft-switch -c conf/pcap-in-out.yaml --exit-on-eof --counters-out counters.json": Run(
        after=["test -s counters.json", "test -s out.pcap"]),
    "ip netns add leaf1": Run("kernel-leaf", instead={"ip netns add leaf1": ":",
                                                      "weft-switch -c conf/kernel-leaf.yaml &": ":"}),
    "ip netns exec h2 weft-rnic serve &": Run(
        "bump-in-the-wire",
        # The rules of that file lose and delay packets.
        before=["weftctl set impair loss off"],
        instead={"ip netns exec h2 weft-rnic serve &": "ip netns exec h2 weft-rnic serve & sleep 1",
                 "ip netns exec h1 weft-rnic write_bw 10.0.0.2 --loss-recovery nic_sr":
                 "ip netns exec h1 weft-rnic write_bw 10.0.0.2 --loss-recovery nic_sr -n 20"},
        after=["kill %2"]),
    "weft-sim run tools/sim/examples/ring.yaml --html ring.html": Run(after=["test -s ring.html"]),
}


def blocks():
    """The commands of each block of README.md, without what is said beside them and what they print."""
    text = lab.read(os.path.join(ROOT, "README.md"))
    # A drawing has no commands; other fenced blocks are as indented ones.
    text = re.sub(r"^```mermaid\n.*?^```$", "", text, flags=re.S | re.M)
    text = re.sub(r"^```(?:sh|bash|console)?\n(.*?)^```$", lambda m: re.sub("^(?=.)", "    ", m[1], flags=re.M), text,
                  flags=re.S | re.M)
    if "```" in text:
        raise AssertionError("README.md has a fenced block of an unknown kind")
    found = []
    for block in re.findall(r"(?:^    .*\n(?:\n(?=    ))*)+", text, re.M):
        lines = [line[4:] for line in block.splitlines() if line.strip()]
        commands = [re.sub(r"\s+#.*", "", line) for line in lines if not line.startswith(("#", " "))]
        if commands:  # none: what a program prints
            found.append(commands)
    return found


def write_capture(path):
    """Two frames of an ethertype that nobody reads."""
    with open(path, "wb") as file:
        file.write(struct.pack("<IHHiIII", 0xa1b23c4d, 2, 4, 0, 0, 65535, 1))
        for last in (1, 2):
            frame = bytes.fromhex("02000000000b") + bytes([2, 0, 0, 0, 0, last]) + b"\x88\xb5" + bytes(46)
            file.write(struct.pack("<IIII", last, 0, len(frame), len(frame)) + frame)


class Readme(unittest.TestCase):
    def test_every_block_is_run_or_excused(self):
        found = blocks()
        firsts = [commands[0] for commands in found]
        known = [*WITH_THEIR_CONFIGURATION, *RUN, *EXCUSED_BLOCKS]
        self.assertEqual(sorted(firsts), sorted(known), "a block stands once, and all of them in one of three tables")
        commands = {command for block in found for command in block}
        self.assertEqual(set(EXCUSED_COMMANDS) - commands, set(), "excused, and not there")
        for run in RUN.values():
            self.assertEqual(set(run.instead) - commands, set(), "replaced, and not there")
        conf = [test_conf.readme_commands(name)[0] for name in ("bump-in-the-wire", "lossless-tor", "leaf-spine")]
        self.assertEqual(conf, list(WITH_THEIR_CONFIGURATION))

    def script(self, commands):
        how = RUN[commands[0]]
        wanted = [how.instead.get(command, command) for command in commands if command not in EXCUSED_COMMANDS]
        return [*how.before, *wanted, *how.after]

    def assert_works(self, first, commands):
        with lab.Lab() as l:
            write_capture(os.path.join(l.directory, "in.pcap"))
            for folder in ("tools", "bench"):
                os.symlink(os.path.join(ROOT, folder), os.path.join(l.directory, folder))
            if RUN[first].conf:
                result = test_conf.try_out(RUN[first].conf, self.script(commands), l)
            else:
                result = test_conf.run_apart(["set -eu", "mount -t tmpfs tmpfs /run", f"cd {l.directory}",
                                              f"ln -sfn {ROOT}/conf conf", f"export PATH={lab.BIN}:$PATH",
                                              "ip link set lo up", *self.script(commands)])
            logs = [lab.read(os.path.join(l.directory, name)) for name in sorted(os.listdir(l.directory))
                    if name.endswith(".log")]
            self.assertEqual(result.returncode, 0, "\n".join([result.stdout, result.stderr, *logs]))

    def test_the_commands_work(self):
        cases = {commands[0]: commands for commands in blocks() if commands[0] in RUN}
        test_conf.side_by_side(self, self.assert_works, cases)


if __name__ == "__main__":
    if os.geteuid() == 0 and subprocess.run([*test_conf.APART, "true"], check=False).returncode != 0:
        print("SKIP: this machine lets nobody add namespaces")
        sys.exit(77)
    lab.main()
