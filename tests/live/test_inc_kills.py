#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""Rounds that kill ranks, daemons, the manager and the switches at random moments: whoever is left ends within its
timeouts, no switch keeps memory, and the next job runs on switches.

Twenty rounds with leases of 300 ms, and two with groups in etcd, whose leader is killed in each, too.
WEFT_EXHAUSTIVE=full has 200, every twentieth with leases of 5 s, and 50. $WEFT_SEED repeats a run; the plan of a round
that fails is printed."""
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import unittest

import inc_ranks
import inc_tree
import lab
from test_inc_etcd import LEASE_S, Cluster
from test_inc_manager import NOWHERE, Manager, on_switches
from test_incd import LONG, QUICK, Daemons, slot_bytes

ROUNDS, ETCD_ROUNDS = (200, 50) if inc_tree.FULL else (20, 2)
SHORT_MS, LONG_MS = 300, 5000
# What `weft-inc perf` gives a collective, and how long it waits for others before it destroys its group (weft_inc.h).
TIMEOUT_S, DESTROY_S = 2, 2
SLACK_S = 4  # two cores may have other things to do
ELECTION_S = 2 + LEASE_S + 1  # of etcd, then of the manager that leads


class Site:
    """Everything that can be killed, by name."""

    def __init__(self, l, lease_ms, cluster):
        self.lab, self.lease_s = l, lease_ms / 1000
        self.cluster = cluster
        self.slack_s = SLACK_S + (ELECTION_S if cluster else 0)
        self.tree = inc_tree.Tree(l)
        self.manager = Manager(l, lease_ms, etcd=cluster and {"endpoints": cluster.endpoints, "lease_s": LEASE_S})
        self.daemons = Daemons(l, self.manager)
        self.job = None
        self.jobs = 0

    def start_job(self, *words):
        self.jobs += 1
        self.job = inc_ranks.Ranks(self.tree, "allreduce", *words, each=self.daemons.options, port=7100 + self.jobs)

    def kill(self, what, number):
        if what == "rank":
            # All that runs in its namespace, and what is about to enter it.
            self.job.processes[number].kill()
            for pid in lab.run("ip", "netns", "pids", self.tree.hosts[number].namespace).split():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
        elif what == "daemon":
            self.daemons.end(number, signal.SIGKILL)
        elif what == "manager":
            self.manager.kill()
        elif what == "etcd":
            self.cluster.kill(self.cluster.leader() or self.cluster.running()[0])
        else:
            self.lab.kill()

    def start(self, what, number):
        if what == "daemon":
            self.daemons.start(number)
        elif what == "manager":
            self.manager.start()
        elif what == "etcd":
            self.cluster.start_all()
        else:
            self.tree.start()

    def run(self, plan):
        """Does what is due, in order."""
        begun = time.monotonic()
        for at, does, what, number in plan:
            time.sleep(max(0, begun + at - time.monotonic()))
            getattr(self, does)(what, number)

    def ready(self):
        if self.manager.ended() is not None:
            self.manager.start()  # as its service manager does: it has lost the lead
        try:
            topology = json.loads(self.manager.run("--json", "topology"))
        except AssertionError:
            return False  # it waits for the lead, or has just lost it
        return all(node["up"] for node in topology["nodes"] if node["tier"])

    def groups(self):
        """None: the manager has just lost the lead, and ends."""
        try:
            return self.manager.groups()
        except AssertionError:
            if not self.cluster:
                raise
            return None


def plan_of(rng, cluster):
    """When what is killed and started again, in seconds. One rank dies at least, so that the job has to end; with a
    cluster, its leader does, too."""
    everything = [(what, n) for what in ("rank", "daemon") for n in range(inc_tree.RANKS)]
    everything += [("manager", 0), ("switch", 0)]
    victims = rng.sample(everything, rng.randint(1, 4))
    if cluster:
        victims.append(("etcd", 0))
    if not any(what == "rank" for what, _ in victims):
        victims.append(("rank", rng.randrange(inc_tree.RANKS)))
    plan = []
    for what, number in victims:
        at = rng.uniform(0, 1)
        plan.append((at, "kill", what, number))
        if what != "rank":
            plan.append((at + rng.uniform(0, 0.5), "start", what, number))
    return sorted(plan)


class Kills(unittest.TestCase):
    def everybody_ends(self, site):
        patience = TIMEOUT_S + DESTROY_S + site.slack_s
        try:
            site.job.results(timeout=patience)
        except subprocess.TimeoutExpired:
            left = [rank for rank, process in enumerate(site.job.processes) if process.poll() is None]
            self.fail(f"ranks {left} still run after {patience} s")
        finally:
            site.job.kill()

    def nothing_is_left(self, site):
        lab.wait_for("all switches", site.ready, site.slack_s)
        lab.wait_for("the end of all groups", lambda: site.ready() and site.groups() == [],
                     2 * site.lease_s + site.slack_s)
        self.assertEqual(on_switches(site.tree), NOWHERE)
        self.assertEqual([slot_bytes(site.tree, switch) for switch in NOWHERE], [0, 0, 0])

    def the_next_job_runs(self, site):
        """On switches. A manager that has not heard of etcd for a lease refuses what comes before another one leads, so
        with etcd a job may run without switches until then."""
        leads_by = time.monotonic() + (ELECTION_S if site.cluster else 0)
        while (report := self.job_report(site))["reason"] == "no_manager" and time.monotonic() < leads_by:
            self.nothing_is_left(site)
        self.assertEqual((report["reason"], list(report["calls"])), ("none", ["none"]), report["detail"])

    def job_report(self, site):
        """Of a job that ends well and finds every sum right."""
        site.start_job(*QUICK)
        try:
            out, ends = site.job.results(timeout=30)
        finally:
            site.job.kill()
        self.assertEqual([status for status, _ in ends], [0] * inc_tree.RANKS, ends)
        report = json.loads(out)
        self.assertTrue(all(row["in_place"]["wrong"] == 0 for row in report["rows"]), report["rows"])
        return report

    def rounds(self, rng, lease_ms, count, with_etcd=False):
        with lab.Lab() as l:
            site = Site(l, lease_ms, Cluster(l) if with_etcd else None)
            for number in range(count):
                plan = plan_of(rng, with_etcd)
                words = ", ".join(f"{at:.2f} {does} {what} {n}" for at, does, what, n in plan)
                with self.subTest(round=number, lease_ms=lease_ms, plan=words):
                    site.start_job(*LONG, "--timeout", str(TIMEOUT_S))
                    site.run(plan)
                    self.everybody_ends(site)
                    self.nothing_is_left(site)
                    self.the_next_job_runs(site)
                    self.nothing_is_left(site)
            l.stop()

    @staticmethod
    def random():
        seed = int(os.environ.get("WEFT_SEED") or random.randrange(1 << 32))
        print(f"WEFT_SEED={seed}", file=sys.stderr, flush=True)
        return random.Random(seed)

    @unittest.skipUnless(shutil.which("etcd"), "etcd is not installed (Debian: etcd-server)")
    def test_etcd_rounds(self):
        """The same with groups in etcd."""
        self.rounds(self.random(), SHORT_MS, ETCD_ROUNDS, with_etcd=True)

    def test_rounds(self):
        """Whatever dies, nothing is left and the next job runs."""
        rng = self.random()
        slow = ROUNDS // 20 if inc_tree.FULL else 0
        self.rounds(rng, SHORT_MS, ROUNDS - slow)
        if slow > 0:
            self.rounds(rng, LONG_MS, slow)


if __name__ == "__main__":
    lab.main()
