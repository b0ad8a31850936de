# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""Ranks that are `weft-inc perf`, the program over the host library, on the hosts of inc_tree."""
import json
import os
import subprocess

import inc_tree
import lab

INC = os.path.join(lab.BIN, "weft-inc")


class Ranks:
    """One `weft-inc perf` per host; rank 0 is where the others meet."""

    def __init__(self, tree, *words, port=7000, ranks=inc_tree.RANKS, each=lambda rank: ()):
        self.processes = []
        for rank in range(ranks):
            self.processes.append(subprocess.Popen(
                ["ip", "netns", "exec", tree.hosts[rank].namespace, "timeout", "150", INC, "perf", *words, "--rank",
                 str(rank), "--ranks", str(ranks), "--meet", f"10.0.1.2:{port}", *each(rank)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))

    def hellos(self):
        return [json.loads(process.stdout.readline()) for process in self.processes]

    def tell(self, lines):
        for process, line in zip(self.processes, lines):
            process.stdin.write(json.dumps(line) + "\n")
            process.stdin.flush()

    def results(self, timeout=120):
        """What rank 0 printed, and by rank exit status and standard error."""
        ends = [process.communicate(timeout=timeout) for process in self.processes]
        return ends[0][0], [(process.returncode, end[1]) for process, end in zip(self.processes, ends)]

    def kill(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.communicate()
