#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""Two weft-inc-managers with their groups in etcd, of which three members run in namespaces: whichever manager or
member is gone, groups go on and the next ones are made."""
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import unittest
import urllib.error
import urllib.request

import inc_tree
import lab
sys.path.append(os.path.join(inc_tree.ROOT, "tests/ops"))
import certificates  # noqa: E402
from test_inc_manager import EVERYWHERE, NOWHERE, Groups, Manager, on_switches

LEASE_S = 3  # etcd takes up to 2 s to elect a leader, during which no lease is prolonged
LONG_MS = 20_000  # leases of groups, longer than any election here
MEMBERS = (1, 2, 3)


class Cluster:
    """Members of etcd, each in a namespace on a bridge of this machine."""

    def __init__(self, l):
        self._lab = l
        self._bridge = f"{l.prefix}e"[:15]
        self._processes = {}
        lab.run("ip", "link", "add", self._bridge, "type", "bridge")
        l.on_exit(lab.run, "ip", "link", "del", self._bridge)
        lab.run("ip", "address", "add", "10.78.0.254/24", "dev", self._bridge)
        lab.run("ip", "link", "set", self._bridge, "up")
        for number in MEMBERS:
            host = l.host(f"e{number}").address(f"10.78.0.{number}/24")
            lab.run("ip", "link", "set", host.port_interface, "master", self._bridge, "up")
        for number in MEMBERS:
            self.start(number)
        l.on_exit(self.end)
        lab.wait_for("etcd's leader", self.leader)

    endpoints = [f"10.78.0.{number}:2379" for number in MEMBERS]

    def start(self, number):
        peers = ",".join(f"m{n}=http://10.78.0.{n}:2380" for n in MEMBERS)
        client, peer = f"http://10.78.0.{number}:2379", f"http://10.78.0.{number}:2380"
        path = os.path.join(self._lab.directory, f"etcd{number}.log")
        self._lab.evidence.add(lambda folder: shutil.copy(path, folder))
        with open(path, "a", encoding="utf-8") as log:
            self._processes[number] = lab.spawn(
                ["ip", "netns", "exec", f"{self._lab.prefix}-e{number}", "etcd", "--name", f"m{number}",
                 "--data-dir", os.path.join(self._lab.directory, f"etcd{number}"), "--unsafe-no-fsync",
                 "--listen-client-urls", client, "--advertise-client-urls", client,
                 "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", peers,
                 "--initial-cluster-token", self._lab.prefix], stdout=log, stderr=subprocess.STDOUT)

    def running(self):
        return sorted(self._processes)

    def start_all(self):
        for number in MEMBERS:
            if number not in self._processes:
                self.start(number)

    def kill(self, number):
        process = self._processes.pop(number)
        process.kill()
        process.wait()

    def end(self):
        for number in list(self._processes):
            self.kill(number)

    def leader(self):
        """The number of the member that leads, or 0."""
        for number in self._processes:
            try:
                with urllib.request.urlopen(f"http://10.78.0.{number}:2379/v3/maintenance/status", b"{}", 1) as answer:
                    status = json.load(answer)
                if status["header"]["member_id"] == status.get("leader"):
                    return number
            except (urllib.error.URLError, OSError, ValueError):
                pass
        return 0


@unittest.skipUnless(shutil.which("etcd"), "etcd is not installed (Debian: etcd-server)")
class IncEtcd(Groups):
    PORTS = (9797, 9798)

    def manager(self, l, cluster, number, **options):
        """Number 0 or 1. Clients know the addresses of both, whichever leads."""
        if not hasattr(l, "authority"):
            l.authority = certificates.Authority(l.directory, "authority")
            l.authority.sign("manager", "IP:10.78.0.254")
            l.authority.sign("client")
        path, ca = l.authority.path, l.authority.certificate
        tcp = {"address": "10.78.0.254", "port": self.PORTS[number], "certificate": path("manager.crt"),
               "key": path("manager.key"), "client_ca": ca}
        reach = ("--address", ",".join(f"10.78.0.254:{port}" for port in self.PORTS),
                 "--cert", path("client.crt"), "--key", path("client.key"), "--ca", ca)
        return Manager(l, LONG_MS, etcd={"endpoints": cluster.endpoints, "lease_s": LEASE_S}, tcp=tcp, reach=reach,
                       name=f"manager{number}", **options)

    def managers(self, l, cluster):
        """The one that leads, and the one that waits."""
        return self.manager(l, cluster, 0), self.manager(l, cluster, 1, waits=True)

    @staticmethod
    def leads(manager):
        lab.wait_for("the other manager to lead", lambda: "listening" in lab.read(manager.log), 4 * LEASE_S + 5)

    def job(self, tree, manager, group):
        ranks, holder, told = self.make(tree, manager, "-s", "65536", "-n", "2", group=group)
        self.release(ranks, told)
        self.expect_results(tree, ranks)
        holder.stdin.close()
        self.assertEqual(holder.wait(timeout=10), 0)

    def test_the_other_manager_goes_on_with_the_groups_of_one_that_is_gone(self):
        with lab.Lab() as l:
            cluster, tree = Cluster(l), inc_tree.Tree(l)
            first, second = self.managers(l, cluster)
            ranks, holder, told = self.make(tree, first, "-s", "262144", "-n", "3")
            self.assertEqual(on_switches(tree), EVERYWHERE)
            first.kill()
            self.leads(second)
            self.assertEqual([(g["group"], g["state"]) for g in second.groups()], [(7, "running")])
            self.release(ranks, told)
            self.expect_results(tree, ranks)
            holder.stdin.close()
            self.assertEqual(holder.wait(timeout=10), 0)
            self.assertEqual(on_switches(tree), NOWHERE)
            self.job(tree, second, 8)
            # One that is told to end hands over at once.
            third = self.manager(l, cluster, 0, waits=True)
            before = lab.read(third.log).count("listening")
            self.assertEqual(second.kill(signal.SIGTERM), 0)
            lab.wait_for("the third manager to lead", lambda: lab.read(third.log).count("listening") > before, LEASE_S)
            l.stop()

    def test_a_manager_that_was_away_for_too_long_ends_and_changes_nothing(self):
        with lab.Lab() as l:
            cluster, tree = Cluster(l), inc_tree.Tree(l)
            first, second = self.managers(l, cluster)
            self.make(tree, first)
            first.send(signal.SIGSTOP)
            self.leads(second)
            self.make(tree, second, group=8)
            first.send(signal.SIGCONT)
            lab.wait_for("the end of the first manager", lambda: first.ended() is not None)
            self.assertEqual(first.ended(), 3, lab.read(first.log))
            self.assertIn("the lead is lost", lab.read(first.log))
            time.sleep(0.5)
            self.assertEqual({g["group"] for g in second.groups()}, {7, 8})
            self.assertEqual(on_switches(tree), {switch: [7, 8] for switch in NOWHERE})
            l.stop()

    def test_one_member_may_be_gone_and_without_two_nobody_leads_and_groups_stay(self):
        with lab.Lab() as l:
            cluster, tree = Cluster(l), inc_tree.Tree(l)
            first, _ = self.managers(l, cluster)
            lost = cluster.leader()
            cluster.kill(lost)
            lab.wait_for("another leader of etcd", cluster.leader)
            self.job(tree, first, 7)
            cluster.start(lost)
            self.job(tree, first, 8)
            self.make(tree, first, group=9)
            for number in [n for n in MEMBERS if n != lost]:
                cluster.kill(number)
            # Its lease ends with etcd's majority: it does not lead any more, and the group goes on without it.
            lab.wait_for("the end of the manager", lambda: first.ended() is not None)
            self.assertEqual(on_switches(tree), {switch: [9] for switch in NOWHERE})
            l.stop()


if __name__ == "__main__":
    lab.main()
