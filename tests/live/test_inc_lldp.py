#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""The manager's topology from LLDP: namespaces stand for switches and a host, and their agents say what lldpd hears; or
switches hear by themselves."""
import json
import os
import shutil
import subprocess
import unittest

import lab

# The file knows who there is; which cable leads where it states for one link only, and wrongly.
CONFIG = """
control: {{ socket: {socket} }}
store: {directory}/inc.db
discovery: lldp
switches:
  - {{ name: leaf1, control: {directory}/no-switch, memory_kb: 64 }}
  - {{ name: root, control: {directory}/no-switch, memory_kb: 64 }}
hosts:
  - {{ name: h1, address: 10.0.1.2 }}
  - {{ name: h2, address: 10.0.2.2, switch: root, switch_address: 10.1.2.0 }}
"""

# The file's switches are in one process, and hear each other over its link.
OWN = """  - name: leaf1
    ports:
      - {{ name: h1, type: veth, interface: {h1}, mtu_bytes: 4200 }}
      - {{ name: up, type: link, peer: root/l1, rate_mbps: 10000 }}
    addresses: [ {{ port: h1, address: 10.0.1.1/24 }}, {{ port: up, address: 10.1.1.1/31 }} ]
    pipeline: [parse, lldp: {{ interval_s: 1 }}, l3, lb: {{ policy: ecmp }}]
  - name: root
    ports: [ {{ name: l1, type: link, peer: leaf1/up, rate_mbps: 10000 }} ]
    addresses: [ {{ port: l1, address: 10.1.1.0/31 }} ]
    pipeline: [parse, lldp: {{ interval_s: 1 }}, l3, lb: {{ policy: ecmp }}]
"""


def lldpd(l, host, name):
    """Starts it in a namespace; returns the path of its socket."""
    path = os.path.join(l.directory, f"{name}.lldp")
    process = lab.spawn(["ip", "netns", "exec", host.namespace, "lldpd", "-d", "-u", path, "-O", "/dev/null"],
                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def end():
        process.terminate()
        try:
            process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    l.on_exit(end)
    lab.wait_for("lldpd", lambda: os.path.exists(path))
    for words in (("system", "hostname", name), ("lldp", "tx-interval", "1")):
        host.execute("lldpcli", "-u", path, "configure", *words)
    return path


def cable(host, port, to):
    """The other end of a host's eth0 becomes a port of another one."""
    lab.run("ip", "link", "set", host.port_interface, "netns", to.namespace, "name", port, "up")


@unittest.skipUnless(shutil.which("lldpd"), "needs the package lldpd")
class Lldp(unittest.TestCase):
    def manager(self, l):
        self.socket = os.path.join(l.directory, "inc-manager.sock")
        path, log = os.path.join(l.directory, "manager.yaml"), os.path.join(l.directory, "manager.log")
        with open(path, "w", encoding="utf-8") as file:
            file.write(CONFIG.format(socket=self.socket, directory=l.directory))
        l.evidence.add(lambda folder: shutil.copy(log, folder))
        with open(log, "w", encoding="utf-8") as out:
            process = lab.spawn([os.path.join(lab.BIN, "weft-inc-manager"), "-c", path], stderr=out)
        l.on_exit(process.wait)
        l.on_exit(process.terminate)
        lab.wait_for("the manager", lambda: "listening" in lab.read(log) or process.poll() is not None)
        self.assertIsNone(process.poll(), lab.read(log))

    def command(self, *words):
        return [os.path.join(lab.BIN, "weft-inc"), "--socket", self.socket, *words]

    def links(self):
        topology = json.loads(lab.run(*self.command("--json", "topology")))
        return {(link["lower"], link["upper"]): link for link in topology["links"]}, topology

    def test_links_are_those_that_lldpd_hears_of(self):
        with lab.Lab() as l:
            os.chmod(l.directory, 0o755)  # lldpcli gives up its rights
            h1, leaf, root = l.host("h1"), l.host("leaf1"), l.host("root")
            cable(h1, "p0", leaf)
            cable(leaf, "p1", root)
            h1.address("10.0.1.2/24")
            leaf.address("10.1.1.1/31")
            leaf.ip("address", "add", "10.0.1.1/24", "dev", "p0")
            root.ip("address", "add", "10.1.1.0/31", "dev", "p1")
            sockets = {name: lldpd(l, host, name) for name, host in (("h1", h1), ("leaf1", leaf), ("root", root))}
            self.manager(l)

            def report():
                for name, host in (("leaf1", leaf), ("root", root)):
                    host.execute(*self.command("agent", "--switch", name, "--once", "--lldp-socket", sockets[name]))
                return self.links()[0]

            lab.wait_for("both links", lambda: {("h1", "leaf1"), ("leaf1", "root")} <= set(report()), timeout_s=40)
            links, topology = self.links()
            up = links["leaf1", "root"]
            self.assertEqual((up["lower_address"], up["upper_address"]), ("10.1.1.1", "10.1.1.0"))
            self.assertEqual((up["source"], up["up"]), ("lldp", True))
            self.assertEqual(links["h1", "leaf1"]["upper_address"], "10.0.1.1")
            self.assertEqual(links["h2", "root"]["source"], "configuration")
            self.assertIn("lldp", lab.run(*self.command("topology")))

            # The cable of the stated link has another host at its end.
            root.ip("address", "add", "10.1.2.0/16", "dev", "p1")
            root.ip("address", "del", "10.1.1.0/31", "dev", "p1")
            lab.wait_for("the contradiction",
                         lambda: report() and self.links()[1].get("contradictions"), timeout_s=20)
            self.assertIn("leaf1 (10.1.1.1) is connected with root (10.1.2.0); the file: h2",
                          self.links()[1]["contradictions"][0])

            leaf.ip("link", "set", "p0", "down")
            lab.wait_for("the link to be down", lambda: not report()["h1", "leaf1"].get("up"), timeout_s=20)

    def test_switches_without_lldpd_speak_and_hear_by_themselves(self):
        with lab.Lab() as l:
            os.chmod(l.directory, 0o755)
            h1 = l.host("h1", mtu=4200).address("10.0.1.2/24")
            l.start(OWN.format(h1=h1.port_interface))
            path = lldpd(l, h1, "h1")
            self.manager(l)

            def report():
                for name in ("leaf1", "root"):
                    lab.run(*self.command("agent", "--switch", name, "--once", "--control", l.socket))
                return self.links()[0]

            lab.wait_for("both links", lambda: {("h1", "leaf1"), ("leaf1", "root")} <= set(report()), timeout_s=40)
            links = self.links()[0]
            up = links["leaf1", "root"]
            self.assertEqual((up["lower_address"], up["upper_address"], up["source"], up["up"]),
                             ("10.1.1.1", "10.1.1.0", "lldp", True))
            self.assertEqual(links["h1", "leaf1"]["upper_address"], "10.0.1.1")
            # lldpd hears of the switch what it says of itself, and the switch of lldpd what that says.
            heard = json.loads(h1.execute("lldpcli", "-u", path, "-f", "json", "show", "neighbors"))
            (name, seen), = heard["lldp"]["interface"]["eth0"]["chassis"].items()
            own = {row["port"]: row for row in l.show("lldp_ports", "--switch", "leaf1")}
            self.assertEqual((name, "mac " + seen["id"]["value"]), ("leaf1", own["h1"]["chassis"]))
            self.assertEqual(heard["lldp"]["interface"]["eth0"]["port"]["id"],
                             {"type": "mac", "value": own["h1"]["mac"]})
            says = json.loads(h1.execute("lldpcli", "-u", path, "-f", "json", "show", "chassis"))
            chassis = says["local-chassis"]["chassis"]["h1"]["id"]
            row, = [row for row in l.show("lldp", "--switch", "leaf1") if row["port"] == "h1"]
            self.assertEqual((row["system"], row["chassis"]), ("h1", f"{chassis['type']} {chassis['value']}"))
            # A cable that is pulled has nobody at its end.
            h1.ip("link", "set", "eth0", "down")
            lab.wait_for("the loss of h1", lambda: not report()["h1", "leaf1"].get("up"), timeout_s=20)
            self.assertIs(self.links()[0]["leaf1", "root"]["up"], True)
            l.stop()


if __name__ == "__main__":
    lab.main()
