#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""Switches that do not take every group: two spines, of which one offers fewer modes, or takes fewer children. The
manager finds another tree, or says why there is none."""
import json
import subprocess

import lab
from test_inc_manager import Groups
from test_inc_rack import Manager, Rack

HOSTS = ("h1", "h2", "h3", "h4")


class Abilities(Groups):
    def explained(self, *words):
        done = subprocess.run(self.manager.command("explain", *HOSTS, *words), capture_output=True, text=True,
                              timeout=30, check=False)
        return done.returncode, done.stdout + done.stderr

    def wait_for_explanation(self, status, text, *words):
        lab.wait_for(text, lambda: self.explained(*words)[0] == status and text in self.explained(*words)[1], 20)
        return self.explained(*words)[1]

    def start_again(self, number, **inc):
        spine = self.rack.spines[number]
        spine.kill()
        lab.wait_for("silence", lambda: not self.is_up(spine.name), 20)
        spine.offer(inc)
        spine.start()
        lab.wait_for("the spine", lambda: self.is_up(spine.name), 20)

    def is_up(self, name):
        return next(node["up"] for node in json.loads(self.manager.run("--json", "topology"))["nodes"]
                    if node["name"] == name)

    def test_groups_go_where_switches_take_them_or_hear_why_not(self):
        with lab.Lab() as l:
            self.rack = Rack(l, {1: {"modes": ["ii"]}})
            self.manager = Manager(self.rack)
            self.wait_for_explanation(0, "under spine2", "--mode", "iii")
            abilities, = self.rack.spines[1].show("abilities")
            self.assertEqual(abilities["modes"], ["ii"])
            # The group that is made is where the dry run said, and works.
            ranks, holder, told = self.make(self.rack, self.manager, "-s", "65536", "-n", "3", mode=("--mode", "iii"))
            names = {s["name"] for s in self.manager.groups()[0]["switches"] if s["root"]}
            self.assertEqual(names, {"spine2"})
            self.release(ranks, told)
            self.expect_results(self.rack, ranks)
            self.assertEqual([row["mode"] for row in self.rack.spines[2].show("groups")], ["iii"])
            self.assertEqual(self.rack.spines[1].show("groups"), [])
            holder.stdin.close()
            self.assertEqual(holder.wait(timeout=10), 0)
            # What a switch does not offer it refuses, whoever asks.
            spec = {"id": 70_000, "ranks": 2, "mode": "i", "endpoints": [
                {"address": f"10.1.1.{2 * n}", "qp": 5, "peer": f"10.1.1.{2 * n + 1}", "peer_qp": 5, "rank": n,
                 "first_rx": 0, "first_tx": 0} for n in (0, 1)]}
            done = subprocess.run([lab.BIN + "/weftctl", "--socket", self.rack.spines[1].socket, "inc", "create",
                                   "group=" + json.dumps(spec), "--switch", "spine1"], capture_output=True, text=True,
                                  timeout=30, check=False)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("mode i is not offered here; `modes` are ii", done.stderr)
            # Both spines without it: no tree, with the reason.
            self.start_again(2, modes=["ii"])
            says = self.wait_for_explanation(1, "that can do what it needs do not connect its hosts", "--mode", "iii")
            self.assertRegex(says, "spine[12] does not have the mode")
            self.assertEqual(self.explained("--mode", "ii")[0], 0)
            # One that takes a single child cannot join two leaves.
            self.start_again(2, fan_in=1)
            self.wait_for_explanation(0, "under spine1", "--mode", "ii")
            self.start_again(1, fan_in=1)
            says = self.wait_for_explanation(1, "a switch has more children than it takes", "--mode", "ii")
            self.assertRegex(says, "spine[12] would have 2 children, and takes 1")
            l.stop()


if __name__ == "__main__":
    lab.main()
