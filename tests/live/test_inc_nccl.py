#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""The plugin for NCCL on the hosts of Tree-3-2, driven as NCCL's proxy does: collectives by switches, or messages from
host to host where there are no switches."""
import os
import subprocess
import unittest

import inc_tree
import lab
from test_incd import Daemons
from test_inc_manager import NOWHERE, Manager, on_switches

LIBRARIES = os.path.join(lab.BIN, "../lib")


class Nccl(unittest.TestCase):
    def run_ranks(self, l, newest, switches):
        """A job of four ranks, of an NCCL that knows tables up to a version; what rank 0 says."""
        folder = os.path.join(l.directory, f"meet-{newest}-{switches}")
        os.mkdir(folder)
        ranks = []
        for rank, host in enumerate(self.tree.hosts):
            environment = {**os.environ, "NCCL_NET_PLUGIN": "weftinc", "LD_LIBRARY_PATH": LIBRARIES,
                           "WEFT_INC_SOCKET": self.daemons.sockets[rank]}
            ranks.append(subprocess.Popen(
                ["ip", "netns", "exec", host.namespace, "timeout", "60", self.program, folder, str(rank),
                 str(inc_tree.RANKS), str(newest)], env=environment, stdout=subprocess.PIPE,
                stderr=subprocess.PIPE, text=True))
        ends = [(*rank.communicate(timeout=90), rank.returncode) for rank in ranks]
        said = "".join(f"{out}{error}" for out, error, _ in ends)
        self.assertEqual([code for _, _, code in ends], [0] * len(ends), said)
        version = min(newest, 10)
        how = "switches" if switches else "messages"
        self.assertEqual([out for out, _, _ in ends],
                         [f"net v{version}, collectives v{version} by {how}\n"] * inc_tree.RANKS)
        lab.wait_for("the end of the group", lambda: not switches or not self.manager.groups(), 5)
        self.assertEqual(on_switches(self.tree), NOWHERE)
        return ends[0][1]

    def test_nccl_has_the_switches_or_goes_on_without(self):
        with lab.Lab() as l:
            self.tree = inc_tree.Tree(l)
            self.manager = Manager(l)
            self.daemons = Daemons(l, self.manager)
            self.program = os.path.join(l.directory, "nccl_proxy")
            lab.run("cc", "-O1", "-Wall", "-Wextra", "-Werror", f"-I{inc_tree.ROOT}", "-o", self.program,
                    os.path.join(os.path.dirname(os.path.realpath(__file__)), "nccl_proxy.c"), "-ldl")
            for newest in (7, 8, 9, 12):
                self.assertRegex(self.run_ranks(l, newest, True), "group [0-9]+: collectives of 4 ranks by switches")
            self.manager.kill()
            self.assertIn("no collectives by switches: no_manager", self.run_ranks(l, 10, False))
            l.stop()


if __name__ == "__main__":
    lab.main()
