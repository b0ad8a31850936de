#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""Interfaces of ports go down, go away, come back, and change under a running switch; at its end they are as before."""
import json
import os
import re
import subprocess
import time
import unittest

import lab
from lab import run, wait_for

PIPELINE = "    pipeline: [parse, rdma_track, l2]\n"
TYPE = 0x88B5  # for experiments: nobody answers it
# Prints the last byte of each frame of that type that eth0 receives.
LISTENER = f"""
import socket
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons({TYPE}))
s.bind(("eth0", {TYPE}))
print("listens", flush=True)
while True:
    try:
        print(s.recv(2000)[59], flush=True)
    except OSError:  # once, after the interface was down
        pass
"""


def ports(hosts, extra=""):
    line = "      - {{ name: p{}, type: veth, interface: {}{} }}\n"
    return "".join(line.format(i, host.port_interface, extra) for i, host in enumerate(hosts))


def send(host, to, number):
    """Sends one frame from a host's eth0."""
    addresses = bytes.fromhex((to.mac() + host.mac()).replace(":", ""))
    frame = addresses + TYPE.to_bytes(2, "big") + bytes(45) + bytes([number])
    code = ("import socket; s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW); s.bind(('eth0', 0)); "
            f"s.send(bytes.fromhex('{frame.hex()}'))")
    host.execute("python3", "-c", code)


class Listener:
    """What a host receives, one line for each frame."""

    def __init__(self, laboratory, host):
        self.path = os.path.join(laboratory.directory, host.namespace + ".frames")
        with open(self.path, "w") as out:
            self.process = subprocess.Popen(["ip", "netns", "exec", host.namespace, "python3", "-c", LISTENER],
                                            stdout=out)
        laboratory.on_exit(self.process.wait)
        laboratory.on_exit(self.process.kill)
        wait_for("the listener", lambda: "listens" in lab.read(self.path))

    def numbers(self):
        return [int(line) for line in lab.read(self.path).split()[1:]]


def quiet(host):
    """No frame but those that the test sends: the kernel speaks IPv6 by itself."""
    host.execute("sysctl", "-qw", "net.ipv6.conf.eth0.disable_ipv6=1")


def port(laboratory, name):
    return next(row for row in laboratory.show("ports") if row["port"] == name)


def add_again(host, mtu=1500):
    """The two interfaces of a host, as Host makes them."""
    run("ip", "link", "add", host.port_interface, "type", "veth", "peer", "name", "eth0", "netns", host.namespace)
    host.ip("link", "set", "eth0", "mtu", str(mtu), "up")


class Ports(unittest.TestCase):
    def two_hosts(self, laboratory, mtu=1500):
        a = laboratory.host("a", mtu).address("10.77.0.1/24")
        b = laboratory.host("b", mtu).address("10.77.0.2/24")
        return a, b

    def answers(self, host):
        """It has another MAC address, which a learns from its question."""
        wait_for("an answer", lambda: host.ping("10.77.0.1", count=1, size=1000) == 1)

    def test_the_first_frame_after_the_link_was_down_arrives_at_once(self):
        with lab.Lab() as l:
            a, b = self.two_hosts(l)
            for host in (a, b):
                quiet(host)
            l.start("  - name: tor\n    ports:\n" + ports([a, b]) + PIPELINE)
            listener = Listener(l, b)
            send(a, b, 1)
            wait_for("the first frame", lambda: listener.numbers() == [1])
            weftctl = (os.path.join(lab.BIN, "weftctl"), "--socket", l.socket)
            flaps = [lambda up: run("ip", "link", "set", b.port_interface, "up" if up else "down"),
                     lambda up: run(*weftctl, "set", "port", "p1", "link=" + ("up" if up else "down")),
                     lambda up: b.ip("link", "set", "eth0", "up" if up else "down")]
            for number, flap in enumerate(flaps, 2):
                flap(False)
                wait_for("down", lambda: port(l, "p1")["link"] == "down")
                flap(True)
                wait_for("up", lambda: port(l, "p1")["link"] == "up")
                send(a, b, number)
                wait_for(f"frame {number}", lambda: listener.numbers()[-1] == number, timeout_s=2)
            self.assertEqual(listener.numbers(), [1, 2, 3, 4])
            self.assertEqual(port(l, "p1")["tx_errors"], 0)
            l.stop()

    def test_a_port_goes_on_with_an_interface_that_was_deleted_and_made_again(self):
        with lab.Lab() as l:
            a, b = self.two_hosts(l, mtu=4200)
            l.start("  - name: tor\n    ports:\n" + ports([a, b], ", mtu_bytes: 4200") + PIPELINE)
            self.assertEqual(a.ping("10.77.0.2"), 5)
            sent = 5
            for _ in range(3):
                run("ip", "link", "del", b.port_interface)
                wait_for("down", lambda: port(l, "p1")["link"] == "down")
                self.assertIn("is gone; the port has no link now", lab.read(l.log_path))
                add_again(b, mtu=4200)
                b.address("10.77.0.2/24")
                wait_for("up", lambda: port(l, "p1")["link"] == "up")
                self.answers(b)
                self.assertEqual(a.ping("10.77.0.2", size=4000, extra=("-M", "do")), 5)
                sent += 6
                self.assertGreaterEqual(port(l, "p1")["tx_packets"], sent, "counts go on")
            self.assertIn("is back, and the port's again", lab.read(l.log_path))
            l.stop()

    def test_a_port_goes_on_when_the_namespace_of_its_host_was_made_again(self):
        with lab.Lab() as l:
            a, b = self.two_hosts(l)
            l.start("  - name: tor\n    ports:\n" + ports([a, b]) + PIPELINE)
            self.assertEqual(a.ping("10.77.0.2"), 5)
            run("ip", "netns", "del", b.namespace)
            wait_for("down", lambda: port(l, "p1")["link"] == "down")
            run("ip", "netns", "add", b.namespace)
            add_again(b)
            b.address("10.77.0.2/24")
            self.answers(b)
            self.assertEqual(a.ping("10.77.0.2"), 5)
            l.stop()

    def test_a_port_goes_on_with_an_interface_that_left_the_namespace_and_came_back(self):
        with lab.Lab() as l:
            a, b = self.two_hosts(l)
            l.start("  - name: tor\n    ports:\n" + ports([a, b]) + PIPELINE)
            self.assertEqual(a.ping("10.77.0.2"), 5)
            name = b.port_interface
            for _ in range(2):
                run("ip", "link", "set", name, "netns", a.namespace)
                wait_for("down", lambda: port(l, "p1")["link"] == "down")
                run("ip", "-n", a.namespace, "link", "set", name, "netns", str(os.getpid()))
                wait_for("an answer", lambda: a.ping("10.77.0.2", count=1) == 1)
                self.assertEqual(a.ping("10.77.0.2"), 5)
                self.assertEqual(port(l, "p1")["link"], "up")
            l.stop()

    def test_traffic_goes_on_elsewhere_while_an_interface_goes_and_comes(self):
        with lab.Lab() as l:
            a, b = self.two_hosts(l)
            c = l.host("c").address("10.77.0.3/24")
            l.start("  - name: tor\n    ports:\n" + ports([a, b, c]) + PIPELINE, top="eal: { workers: [0, 1] }\n")
            self.assertEqual(a.ping("10.77.0.3"), 5)
            beside = a.start("ping", "-q", "-n", "-c", "600", "-i", "0.01", "-W", "2", "10.77.0.3")
            rounds = 0
            while beside.poll() is None and rounds < 8:
                run("ip", "link", "del", b.port_interface)
                wait_for("down", lambda: port(l, "p1")["link"] == "down")
                add_again(b)
                wait_for("up", lambda: port(l, "p1")["link"] == "up")
                rounds += 1
            self.assertGreaterEqual(rounds, 3)
            self.assertIn(" 600 received", beside.communicate()[0])
            l.stop()

    def test_what_is_wrong_with_an_interface_that_came_back_is_said_once_until_it_is_right(self):
        with lab.Lab() as l:
            a, b = self.two_hosts(l)
            l.start("  - name: tor\n    ports:\n" + ports([a, b]) + PIPELINE)
            run("ip", "link", "del", b.port_interface)
            wait_for("down", lambda: port(l, "p1")["link"] == "down")
            run("ip", "link", "add", b.port_interface, "mtu", "9000", "type", "veth", "peer", "name", "eth0", "mtu",
                "9000", "netns", b.namespace)
            wait_for("the reason", lambda: "has an MTU of 9000" in lab.read(l.log_path))
            time.sleep(1)
            self.assertEqual(lab.read(l.log_path).count("has an MTU of 9000"), 1)
            self.assertEqual(port(l, "p1")["link"], "down")
            run("ip", "link", "set", b.port_interface, "mtu", "1500")
            b.ip("link", "set", "eth0", "mtu", "1500", "up")
            b.address("10.77.0.2/24")
            self.answers(b)
            l.stop()

    def test_an_interface_that_is_renamed_is_no_link_until_it_has_its_name_again(self):
        with lab.Lab() as l:
            a, b = self.two_hosts(l)
            l.start("  - name: tor\n    ports:\n" + ports([a, b]) + PIPELINE)
            name, other = b.port_interface, l.prefix + "x"
            def rename(old, new):
                for words in ((old, "down"), (old, "name", new), (new, "up")):
                    run("ip", "link", "set", *words)

            rename(name, other)
            wait_for("down", lambda: port(l, "p1")["link"] == "down")
            wait_for("the reason", lambda: f"is called {other} now" in lab.read(l.log_path) or
                     f"{name} is gone" in lab.read(l.log_path))
            rename(other, name)
            wait_for("an answer", lambda: a.ping("10.77.0.2", count=1) == 1)
            self.assertEqual(a.ping("10.77.0.2"), 5)
            self.assertEqual(port(l, "p1")["link"], "up")
            l.stop()

    def test_a_port_follows_the_mtu_of_its_interface_and_drops_by_name_what_is_larger(self):
        with lab.Lab() as l:
            a, b = self.two_hosts(l, mtu=4200)
            l.start("  - name: tor\n    ports:\n" + ports([a, b], ", mtu_bytes: 4200") + PIPELINE)
            large = lambda: a.ping("10.77.0.2", count=2, size=3000, extra=("-M", "do"))
            self.assertEqual(large(), 2)
            self.assertNotIn("path MTU", lab.read(l.log_path))
            run("ip", "link", "set", b.port_interface, "mtu", "1500")
            wait_for("the MTU", lambda: port(l, "p1")["mtu"] == 1500)
            self.assertIn("went from 4200 to 1500", lab.read(l.log_path))
            self.assertEqual(large(), 0)
            drops = {row["reason"]: row["packets"] for row in l.show("drops")}
            self.assertEqual(drops["egress_mtu"], 2)
            # The other direction the kernel drops in front of weft; it says so.
            wait_for("the kernel's drops", lambda: b.ping("10.77.0.1", count=2, size=3000) == 0 and
                     port(l, "p1")["kernel_rx_dropped"] >= 2)
            run("ip", "link", "set", b.port_interface, "mtu", "4200")
            wait_for("the MTU", lambda: port(l, "p1")["mtu"] == 4200)
            self.assertEqual(large(), 2)
            l.stop()

    def test_the_first_frame_after_it_says_that_it_forwards_arrives(self):
        with lab.Lab() as l:
            a, b = self.two_hosts(l)
            l.start("  - name: tor\n    ports:\n" + ports([a, b]) + PIPELINE)
            # A lost ARP request is sent again after a second.
            out = a.execute("ping", "-n", "-c", "1", "-W", "3", "10.77.0.2")
            self.assertLess(float(re.search(r"time=([0-9.]+)", out).group(1)), 700)
            l.stop()

    def test_ports_too_small_for_roce_are_named_at_the_start(self):
        with lab.Lab() as l:
            a, b = self.two_hosts(l)
            l.start("  - name: tor\n    ports:\n" + ports([a, b]) + PIPELINE)
            self.assertRegex(lab.read(l.log_path), r"warning: tor: .* p0 \(1500\), p1 \(1500\); set mtu_bytes: 4200")
            l.stop()

    def test_interfaces_are_at_the_end_as_they_were_before(self):
        def settings(name, namespace=None):
            where = ("-n", namespace) if namespace else ()
            link, = json.loads(run("ip", "-d", "-j", *where, "link", "show", name))
            features = run(*(("ip", "netns", "exec", namespace) if namespace else ()), "ethtool", "-k", name)
            offloads = [line for line in features.splitlines() if line.startswith(
                ("rx-checksumming", "tx-checksumming", "tcp-segmentation", "generic-segmentation", "generic-receive"))]
            return {"up": "UP" in link["flags"], "mtu": link["mtu"], "promiscuity": link["promiscuity"],
                    "offloads": offloads}

        with lab.Lab() as l:
            a, b = self.two_hosts(l)
            run("ip", "link", "set", b.port_interface, "up")
            all_of = lambda: [settings(a.port_interface), settings(b.port_interface), settings("eth0", a.namespace)]
            disable = "/proc/sys/net/ipv6/conf/" + b.port_interface + "/disable_ipv6"
            before, ipv6 = all_of(), lab.read(disable) if os.path.exists(disable) else None
            l.start("  - name: tor\n    ports:\n" + ports([a, b], ", mtu_bytes: 4200") + PIPELINE)
            during = settings(a.port_interface)
            self.assertEqual((during["up"], during["mtu"], during["promiscuity"]), (True, 4200, 1))
            l.stop()
            self.assertEqual(all_of(), before)
            self.assertEqual(lab.read(disable) if os.path.exists(disable) else None, ipv6)


if __name__ == "__main__":
    lab.main()
