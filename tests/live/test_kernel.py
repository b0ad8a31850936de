#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""Linux is the control plane of the switch: it answers for it, and its routes, from `ip route` and FRR, are weft's."""
import json
import os
import re
import shutil
import signal
import subprocess
import time
import unittest

import lab
from lab import wait_for

ROUTES = 100_000
FRR = "/usr/lib/frr"
ADDRESSES = """    addresses:
      - { port: p0, address: 10.77.1.1/24 }
      - { port: p1, address: 10.77.2.1/24 }
"""
TOP = "eal: { memory_mb: 512 }\n"


class ControlPlane:
    """The namespace with the interfaces of one switch."""

    def __init__(self, l, name):
        self.name = f"{l.prefix}-{name}"
        lab.run("ip", "netns", "add", self.name)
        l.on_exit(lab.run, "ip", "netns", "del", self.name)
        self.ip("link", "set", "lo", "up")

    def ip(self, *arguments):
        return lab.run("ip", "-n", self.name, *arguments)

    def execute(self, *command, **options):
        return lab.run("ip", "netns", "exec", self.name, *command, **options)


def switch(name, ports, control_plane, extra=""):
    text = f"  - name: {name}\n    ports:\n"
    for port, device in ports.items():
        text += f"      - {{ name: {port}, {device} }}\n"
    return text + f"    kernel: {{ namespace: {control_plane.name} }}\n" + extra + "    pipeline: [parse, l3, lb]\n"


def veth(host):
    return f"type: veth, interface: {host.port_interface}"


def routes(l, name="tor"):
    return {row["prefix"]: row for row in l.show("routes", "--switch", name, "--max-rows", "300000")}


def route_batch(l, verb):
    """A file for `ip -batch` that adds or deletes ROUTES routes."""
    path = os.path.join(l.directory, verb)
    with open(path, "w") as file:
        file.writelines(f"route {verb} {100 + i // 65536}.{i // 256 % 256}.{i % 256}.0/24 via 10.77.2.2\n"
                        for i in range(ROUTES))
    return path


class Exchange:
    """UDP from one host to another at a steady rate; says how many datagrams were lost on the way. Those that came when
    the server's socket was full were not: the kernel counts them."""

    def __init__(self, client, server, address, seconds, mbit=20):
        self._host = server
        self._refused_before = self._refused()
        self._server = lab.iperf3_server(server, seconds + 20)
        self._client = client.start("timeout", str(seconds + 15), "iperf3", "-c", address, "-J", "-u", "-b", f"{mbit}M",
                                    "-l", "1000", "-t", str(seconds))

    def _refused(self):
        out = self._host.execute("nstat", "-asz", "UdpRcvbufErrors", "Udp6RcvbufErrors")
        return sum(int(line.split()[1]) for line in out.splitlines() if not line.startswith("#"))

    def lost(self):
        out, _ = self._client.communicate()
        self._server.communicate()
        result = json.loads(out)
        total = result["end"].get("sum", {"packets": 0})
        assert total["packets"] > 1000, result.get("error", total)
        return max(0, total["lost_packets"] - (self._refused() - self._refused_before))


class Kernel(unittest.TestCase):
    def test_linux_answers_for_the_switch_and_its_routes_are_used(self):
        with lab.Lab() as l:
            a, b = l.routed_hosts()
            c = ControlPlane(l, "c")
            # The address of p0 is the configuration's, that of p1 an operator's.
            addresses = "    addresses:\n      - { port: p0, address: 10.77.1.1/24 }\n"
            l.start(switch("tor", {"p0": veth(a), "p1": veth(b)}, c, addresses))
            for port, address in (("p0", "fd77:1::1/64"), ("p1", "10.77.2.1/24"), ("p1", "fd77:2::1/64")):
                c.ip("address", "add", address, "dev", port, *(["nodad"] if ":" in address else []))
            wait_for("connected routes", lambda: {"10.77.2.0/24", "fd77:2::/64", "fd77:1::1/128"} <= set(routes(l)))

            self.assertEqual(a.ping("10.77.1.1"), 5)
            self.assertEqual(a.ping("fd77:1::1"), 5)
            self.assertEqual(c.ip("-j", "neigh", "show", "10.77.1.2").count(a.mac()), 1)
            self.assertEqual(a.ping("10.77.2.2"), 5)
            self.assertEqual(a.ping("fd77:2::2"), 5)
            # Nobody but the kernel has asked or answered.
            counters = {row["counter"]: row["value"] for row in l.show("counters") if row["stage"] == "l3"}
            for name in ("arp_requests_sent", "arp_requests_answered", "nd_solicitations_sent", "echo_answered"):
                self.assertEqual(counters[name], 0, name)
            states = {row["address"]: row["state"] for row in l.show("neighbours")}
            self.assertEqual(states["10.77.2.2"], "reachable")

            c.ip("route", "add", "10.99.0.0/16", "nexthop", "via", "10.77.1.2", "nexthop", "via", "10.77.2.2")
            c.ip("route", "add", "blackhole", "10.98.0.0/16")
            wait_for("the group", lambda: "10.99.0.0/16" in routes(l) and "10.98.0.0/16" in routes(l))
            self.assertEqual(routes(l)["10.99.0.0/16"]["next_hops"], ["10.77.1.2 dev p0", "10.77.2.2 dev p1"])
            self.assertTrue(routes(l)["10.98.0.0/16"]["blackhole"])
            text = lab.run(os.path.join(lab.BIN, "weftctl"), "--socket", l.socket, "show", "routes")
            self.assertRegex(text, r"10\.99\.0\.0/16 .*10\.77\.1\.2 dev p0, 10\.77\.2\.2 dev p1")

            # Gone in silence: the kernel tells of no route that an interface takes with it.
            c.ip("link", "set", "p1", "down")
            wait_for("routes of p1 gone", lambda: "10.77.2.0/24" not in routes(l))
            c.ip("link", "set", "p1", "up")
            wait_for("route of p1 back", lambda: "10.77.2.0/24" in routes(l))
            # The link of the port is the carrier of the interface.
            b.ip("link", "set", "eth0", "down")
            wait_for("no carrier", lambda: "NO-CARRIER" in c.ip("link", "show", "p1"))
            wait_for("one path", lambda: routes(l)["10.99.0.0/16"]["next_hops"] == ["10.77.1.2 dev p0"])
            b.ip("link", "set", "eth0", "up")
            wait_for("carrier", lambda: "NO-CARRIER" not in c.ip("link", "show", "p1"))
            wait_for("two paths", lambda: len(routes(l)["10.99.0.0/16"]["next_hops"]) == 2)
            l.stop()

    def test_an_interface_that_is_taken_down_shuts_its_port_and_gives_it_its_mtu(self):
        with lab.Lab() as l:
            a, b = l.routed_hosts()
            c = ControlPlane(l, "c")
            l.start(switch("tor", {"p0": veth(a), "p1": veth(b)}, c, ADDRESSES))
            wait_for("an answer", lambda: a.ping("10.77.2.2", count=1) == 1)
            row = lambda name: next(row for row in l.show("ports") if row["port"] == name)
            drops = lambda: {row["reason"]: row["packets"] for row in l.show("drops")}

            c.ip("link", "set", "p0", "down")
            wait_for("p0 shut", lambda: row("p0")["link"] == "down")
            self.assertEqual((row("p0")["admin"], row("p1")["admin"]), ("down", "up"))
            self.assertIn("NO-CARRIER", a.ip("link", "show", "eth0"))
            # The router itself still asks who is behind p1; p0 neither receives nor sends.
            passed = lambda: (row("p0")["rx_packets"], row("p0")["tx_packets"])
            before = passed()
            self.assertEqual(a.ping("10.77.2.2", count=2), 0)
            self.assertEqual(passed(), before)
            # A command does not open what the kernel has shut.
            weftctl = (os.path.join(lab.BIN, "weftctl"), "--socket", l.socket, "set", "port", "p0", "link=up")
            refused = subprocess.run(weftctl, capture_output=True, text=True, timeout=30)
            self.assertNotEqual(refused.returncode, 0)
            self.assertIn("its interface in the kernel is down", refused.stderr)

            c.ip("link", "set", "p0", "up")
            wait_for("p0 open", lambda: row("p0")["link"] == "up" and row("p0")["admin"] == "up")
            wait_for("an answer", lambda: a.ping("10.77.2.2", count=1) == 1)

            # The MTU is the port's, and the router says so to whoever sends more.
            c.ip("link", "set", "p1", "mtu", "1400")
            wait_for("the MTU", lambda: row("p1")["mtu"] == 1400)
            large = ("ping", "-c", "1", "-W", "2", "-M", "do", "-s", "1400", "10.77.2.2")
            wait_for("a word of the router", lambda: re.search("mtu ?= ?1400", a.execute(*large, check=False)))
            self.assertGreater(drops()["egress_mtu"], 0)
            # And the other way round: the interface has the MTU of the device.
            lab.run("ip", "link", "set", b.port_interface, "mtu", "1300")
            wait_for("the MTU", lambda: " mtu 1300 " in c.ip("link", "show", "p1"))
            l.stop()

    def test_a_flood_to_the_kernel_is_limited_and_counted_by_port(self):
        with lab.Lab() as l:
            a, b = l.routed_hosts()
            c = ControlPlane(l, "c")
            text = switch("tor", {"p0": veth(a), "p1": veth(b)}, c, ADDRESSES)
            l.start(text.replace("kernel: {", "kernel: { packets_per_s: 100,"))
            wait_for("routes", lambda: "10.77.1.1/32" in routes(l))
            a.execute("ping", "-q", "-f", "-c", "2000", "-w", "3", "10.77.1.1", check=False)
            self.assertEqual(b.ping("10.77.2.1"), 5)
            drops = {row["reason"]: row["packets"] for row in l.show("drops")}
            rows = {row["port"]: row for row in l.show("kernel")}
            self.assertGreater(drops["kernel_rate"], 100)
            self.assertEqual(rows["p0"]["over_rate"], drops["kernel_rate"])
            self.assertEqual(rows["p1"]["over_rate"], 0)
            l.stop()

    def test_a_hundred_thousand_routes_come_and_go_under_traffic(self):
        with lab.Lab() as l:
            a, b = l.routed_hosts()
            c = ControlPlane(l, "c")
            l.start(switch("tor", {"p0": veth(a), "p1": veth(b)}, c, ADDRESSES), top=TOP)
            wait_for("routes", lambda: "10.77.2.1/32" in routes(l))
            self.assertEqual(a.ping("10.77.2.2"), 5)
            add, remove = route_batch(l, "add"), route_batch(l, "del")
            traffic = Exchange(a, b, "10.77.2.2", seconds=8)
            began = time.monotonic()
            c.ip("-batch", add)
            added = time.monotonic()
            wait_for("all routes", lambda: len(routes(l)) > ROUTES, timeout_s=15)
            print(f"{ROUTES} routes: ip {added - began:.2f} s, in weft {time.monotonic() - added:.2f} s later")
            b.ip("address", "add", "101.1.2.1/32", "dev", "lo")
            self.assertEqual(a.ping("101.1.2.1"), 5)
            c.ip("-batch", remove)
            wait_for("no routes", lambda: len(routes(l)) < 50, timeout_s=15)
            self.assertEqual(traffic.lost(), 0)
            l.stop()

    def test_what_netlink_lost_is_read_again(self):
        with lab.Lab() as l:
            a, b = l.routed_hosts()
            c = ControlPlane(l, "c")
            l.start(switch("tor", {"p0": veth(a), "p1": veth(b)}, c, ADDRESSES), top=TOP)
            wait_for("routes", lambda: "10.77.2.1/32" in routes(l))
            add = route_batch(l, "add")
            # It does not read meanwhile, and the kernel has more to say than the socket holds.
            l.switch.send_signal(signal.SIGSTOP)
            try:
                c.ip("-batch", add)
            finally:
                l.switch.send_signal(signal.SIGCONT)
            sockets = [line.split() for line in c.execute("cat", "/proc/net/netlink").splitlines()[1:]]
            self.assertGreater(sum(int(fields[8]) for fields in sockets), 0, "nothing was lost")
            wait_for("all routes", lambda: len(routes(l)) > ROUTES, timeout_s=20)
            self.assertEqual(a.ping("10.77.2.2"), 5)
            l.stop()

    def test_reloads_under_traffic_keep_what_the_kernel_knows_and_lose_no_packet(self):
        with lab.Lab() as l:
            a, b = l.routed_hosts()
            d = l.host("d").address("10.77.3.2/24").route("default", "10.77.3.1")
            c = ControlPlane(l, "c")
            ports = {"p0": veth(a), "p1": veth(b)}
            first = switch("tor", ports, c, ADDRESSES)
            l.start(first)
            # The operator's.
            b.ip("address", "add", "10.99.1.1/32", "dev", "lo")
            c.ip("route", "add", "10.99.0.0/16", "via", "10.77.2.2")
            c.ip("address", "add", "fd77:1::1/64", "dev", "p0", "nodad")
            wait_for("the route", lambda: {"10.99.0.0/16", "fd77:1::1/128"} <= set(routes(l)))
            self.assertEqual(a.ping("10.99.1.1"), 5)
            interface = lambda name: json.loads(c.ip("-j", "-d", "address", "show", "dev", name))[0]
            changes = lambda: c.execute("cat", "/sys/class/net/p0/carrier_changes")
            kernel = lambda: {row["port"]: row for row in l.show("kernel")}
            before = (interface("p0")["ifindex"], interface("p1")["ifindex"], changes())
            counted = kernel()["p0"]["to_kernel"]

            traffic = Exchange(a, b, "10.77.2.2", seconds=6)
            more = switch("tor", {"p2": veth(d), "p0": veth(a), "p1": veth(b)}, c,
                          ADDRESSES + "      - { port: p0, address: 10.77.9.1/24 }\n"
                          "      - { port: p2, address: 10.77.3.1/24 }\n").replace(
                              "kernel: {", "kernel: { packets_per_s: 5000,").replace(
                                  "l3,", "l3: { neighbour_reachable_s: 20 },")
            for _ in range(5):
                l.reload(more)
                wait_for("the new port", lambda: "10.77.3.1/32" in routes(l))
                self.assertIn("10.99.0.0/16", routes(l))
                wait_for("the new address", lambda: "10.77.9.1/32" in routes(l))
                l.reload(first)
                self.assertIn("10.99.0.0/16", routes(l))
                wait_for("the address gone", lambda: "10.77.9.1/32" not in routes(l))
                self.assertNotIn("10.77.3.1/32", routes(l))
            self.assertEqual(traffic.lost(), 0)
            # A larger packet of b would not fit through the veth any more.
            l.reload(more.replace(veth(b), veth(b) + ", mtu_bytes: 1400"))
            self.assertEqual((interface("p0")["ifindex"], interface("p1")["ifindex"], changes()), before)
            self.assertEqual(interface("p1")["mtu"], 1400)
            self.assertEqual({x["local"] for x in interface("p0")["addr_info"] if x["scope"] == "global"},
                             {"10.77.1.1", "10.77.9.1", "fd77:1::1"})
            self.assertGreaterEqual(kernel()["p0"]["to_kernel"], counted)
            wait_for("the new port", lambda: d.ping("10.77.3.1", count=1) == 1)
            wait_for("the way back", lambda: d.ping("10.99.1.1", count=1) == 1)
            self.assertEqual(d.ping("10.99.1.1"), 5)
            self.assertEqual(a.ping("fd77:1::1"), 5)
            l.stop()

    def test_a_reload_can_take_the_kernel_away_and_bring_it_back(self):
        with lab.Lab() as l:
            a, b = l.routed_hosts()
            c = ControlPlane(l, "c")
            with_kernel = switch("tor", {"p0": veth(a), "p1": veth(b)}, c, ADDRESSES)
            without = re.sub("    kernel: .*\n", "", with_kernel)
            l.start(with_kernel)
            wait_for("routes", lambda: "10.77.2.1/32" in routes(l))
            for text, interfaces in ((without, {"lo"}), (with_kernel, {"lo", "p0", "p1"})):
                l.reload(text)
                self.assertEqual({row["ifname"] for row in json.loads(c.ip("-j", "link", "show"))}, interfaces)
                wait_for("answers", lambda: a.ping("10.77.1.1", count=1) == 1)
                self.assertEqual(a.ping("10.77.2.2"), 5)
            l.stop()


@unittest.skipUnless(os.path.exists(f"{FRR}/bgpd") and shutil.which("lldpd"), "needs the packages frr and lldpd")
class Daemons(unittest.TestCase):
    """FRR and lldpd, each with files of its own, in the namespaces of switches."""

    def start(self, l, namespace, command, **options):
        process = lab.spawn(["ip", "netns", "exec", namespace, *command], stdout=subprocess.DEVNULL,
                            stderr=subprocess.DEVNULL, **options)

        def end():
            process.terminate()
            try:
                process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        l.on_exit(end)
        return process

    def frr(self, l, control_plane, text):
        """zebra and bgpd; returns a function that runs a command of vtysh in bgpd."""
        directory = os.path.join(l.directory, f"frr-{control_plane.name}")
        os.mkdir(directory, 0o755)
        os.chmod(l.directory, 0o755)
        shutil.chown(directory, "frr", "frr")
        path = os.path.join(directory, "frr.conf")
        with open(path, "w") as file:
            file.write(text)
        for daemon in ("zebra", "bgpd"):
            self.start(l, control_plane.name, [
                f"{FRR}/{daemon}", "-f", path, "-i", f"{directory}/{daemon}.pid", "-z", f"{directory}/zserv.api",
                "--vty_socket", directory, "-A", "127.0.0.1", "-P", "0"])
            wait_for(daemon, lambda d=daemon: os.path.exists(f"{directory}/{d}.vty"))
        return lambda command: control_plane.execute("vtysh", "--vty_socket", directory, "-c", command, check=False)

    def test_bgp_between_two_leaves_moves_traffic_when_a_path_is_withdrawn(self):
        with lab.Lab() as l:
            a, b = l.routed_hosts()
            planes = {leaf: ControlPlane(l, f"leaf{leaf}") for leaf in (1, 2)}
            text, vtysh = "", {}
            for leaf, host in ((1, a), (2, b)):
                other = 3 - leaf
                ports = {"h": veth(host)}
                extra = f"    addresses:\n      - {{ port: h, address: 10.77.{leaf}.1/24 }}\n"
                extra += f"      - {{ port: h, address: 'fd77:{leaf}::1/64' }}\n"
                for up in (1, 2):
                    ports[f"u{up}"] = f"type: link, peer: leaf{other}/u{up}, mtu_bytes: 1500"
                    extra += f"      - {{ port: u{up}, address: 10.0.{up}.{leaf}/24 }}\n"
                    extra += f"      - {{ port: u{up}, address: 'fd00:{up}::{leaf}/64' }}\n"
                text += switch(f"leaf{leaf}", ports, planes[leaf], extra)
            l.start(text)
            for leaf in (1, 2):
                other = 3 - leaf
                conf = f"hostname leaf{leaf}\nrouter bgp 6500{leaf}\n bgp router-id 10.77.{leaf}.1\n"
                conf += " no bgp ebgp-requires-policy\n timers bgp 1 3\n bgp bestpath as-path multipath-relax\n"
                for up in (1, 2):
                    conf += f" neighbor 10.0.{up}.{other} remote-as 6500{other}\n"
                    conf += f" neighbor 10.0.{up}.{other} timers connect 1\n"
                    conf += f" neighbor fd00:{up}::{other} remote-as 6500{other}\n"
                    conf += f" neighbor fd00:{up}::{other} timers connect 1\n"
                conf += f" address-family ipv4 unicast\n  network 10.77.{leaf}.0/24\n  maximum-paths 4\n"
                # IPv6 has sessions of its own: over one of IPv4, its next hops would be addresses of IPv4.
                six = [f"fd00:{up}::{other}" for up in (1, 2)]
                conf += "".join(f"  no neighbor {address} activate\n" for address in six)
                conf += f" exit-address-family\n address-family ipv6 unicast\n  network fd77:{leaf}::/64\n"
                conf += "".join(f"  neighbor {address} activate\n" for address in six) + "  maximum-paths 4\n"
                vtysh[leaf] = self.frr(l, planes[leaf], conf)

            def hops(leaf, prefix="10.77.{}.0/24"):
                row = routes(l, f"leaf{leaf}").get(prefix.format(3 - leaf), {"next_hops": []})
                return row["next_hops"]
            v6 = "fd77:{}::/64"
            wait_for("two paths each way", lambda: len(hops(1)) == 2 and len(hops(2)) == 2, timeout_s=40)
            wait_for("two paths each way, IPv6", lambda: len(hops(1, v6)) == 2 and len(hops(2, v6)) == 2, timeout_s=40)
            for prefix in ("10.77.{}.0/24", v6):
                self.assertEqual({hop.split()[2] for hop in hops(1, prefix)}, {"u1", "u2"})
            self.assertEqual(a.ping("10.77.2.2"), 5)
            self.assertEqual(a.ping("fd77:2::2"), 5)

            traffic = Exchange(a, b, "10.77.2.2", seconds=4, mbit=5)
            time.sleep(1)
            withdraw = "configure terminal\nrouter bgp 65001\n"
            vtysh[1](withdraw + "neighbor 10.0.1.2 shutdown\nneighbor fd00:1::2 shutdown")
            wait_for("one path each way", lambda: [len(hops(1)), len(hops(2))] == [1, 1])
            self.assertEqual(hops(1)[0].split()[2], "u2")
            wait_for("one IPv6 path each way", lambda: [len(hops(1, v6)), len(hops(2, v6))] == [1, 1])
            self.assertEqual(hops(1, v6)[0].split()[2], "u2")
            self.assertEqual(a.ping("fd77:2::2"), 5)
            self.assertEqual(traffic.lost(), 0)
            before = {row["port"]: row["tx_packets"] for row in l.show("ports", "--switch", "leaf1")}
            self.assertEqual(a.ping("10.77.2.2", count=100), 100)
            after = {row["port"]: row["tx_packets"] for row in l.show("ports", "--switch", "leaf1")}
            self.assertGreaterEqual(after["u2"] - before["u2"], 100)
            # What is left is the daemons' own: they try to reconnect each second.
            self.assertLess(after["u1"] - before["u1"], 60)
            vtysh[1]("configure terminal\nrouter bgp 65001\nno neighbor 10.0.1.2 shutdown")
            wait_for("two paths again", lambda: len(hops(1)) == 2, timeout_s=30)
            l.stop()

    def lldpd(self, l, namespace, name):
        """Starts it under a system name; returns a function that says what it sees: {interface: (system, port)}."""
        os.chmod(l.directory, 0o755)  # lldpcli gives up its rights
        socket = os.path.join(l.directory, f"{name}.lldp")
        self.start(l, namespace, ["lldpd", "-d", "-u", socket, "-S", name, "-O", "/dev/null"])
        wait_for("lldpd", lambda: os.path.exists(socket))
        command = ["ip", "netns", "exec", namespace, "lldpcli", "-u", socket]
        lab.run(*command, "configure", "lldp", "tx-interval", "1", check=False)

        def neighbours():
            out = lab.run(*command, "-f", "json0", "show", "neighbors", check=False)
            found = {}
            for interface in json.loads(out or "{}").get("lldp", [{}])[0].get("interface", []):
                chassis, port = interface["chassis"][0], interface["port"][0]
                found.setdefault(interface["name"], set()).add(
                    (chassis["descr"][0]["value"], port.get("descr", [{}])[0].get("value")))
            return found
        return neighbours

    def test_lldpd_sees_the_neighbour_on_each_link_of_a_router(self):
        with lab.Lab() as l:
            planes = {name: ControlPlane(l, name) for name in ("left", "right")}
            l.start(switch("left", {"u1": "type: link, peer: right/v1"}, planes["left"]) +
                    switch("right", {"v1": "type: link, peer: left/u1"}, planes["right"]))
            seen = {name: self.lldpd(l, plane.name, name) for name, plane in planes.items()}
            wait_for("the neighbours", lambda: seen["left"]() and seen["right"](), timeout_s=40)
            self.assertEqual(seen["left"](), {"u1": {("right", "v1")}})
            self.assertEqual(seen["right"](), {"v1": {("left", "u1")}})
            l.stop()

    def test_lldpd_sees_the_neighbour_on_each_link_of_a_bridge_and_nothing_else_goes_to_the_kernel(self):
        with lab.Lab() as l:
            a = l.host("a").address("10.77.0.1/24")
            b = l.host("b").address("10.77.0.2/24")
            planes = {name: ControlPlane(l, name) for name in ("left", "right")}
            text = switch("left", {"h": veth(a), "u1": "type: link, peer: right/v1"}, planes["left"])
            text += switch("right", {"h": veth(b), "v1": "type: link, peer: left/u1"}, planes["right"])
            l.start(text.replace("l3, lb", "l2"))
            self.assertEqual(a.ping("10.77.0.2"), 5)
            seen = {name: self.lldpd(l, plane.name, name) for name, plane in planes.items()}
            seen["a"] = self.lldpd(l, a.namespace, "a")
            seen["b"] = self.lldpd(l, b.namespace, "b")
            wait_for("the neighbours", lambda: len(seen["left"]()) == 2 and len(seen["right"]()) == 2 and seen["a"]()
                     and seen["b"](), timeout_s=40)
            # The hosts see their switch and not each other: the frames end at the next port, as IEEE 802.1Q has it.
            self.assertEqual(seen["left"](), {"h": {("a", "eth0")}, "u1": {("right", "v1")}})
            self.assertEqual(seen["right"](), {"h": {("b", "eth0")}, "v1": {("left", "u1")}})
            self.assertEqual(seen["a"](), {"eth0": {("left", "h")}})

            # Other packets stay on their side.
            planes["left"].ip("address", "add", "10.77.0.9/24", "dev", "h")
            refused = lambda: {row["port"]: row["refused"] for row in l.show("kernel", "--switch", "left")}["h"]
            before = refused()
            out = planes["left"].execute("ping", "-n", "-c", "1", "-W", "1", "10.77.0.1", check=False)
            self.assertIn("100% packet loss", out)
            self.assertGreater(refused(), before)
            to_kernel = {row["port"]: row["to_kernel"] for row in l.show("kernel", "--switch", "left")}["h"]
            self.assertEqual(a.ping("10.77.0.2", count=50), 50)
            rows = {row["port"]: row["to_kernel"] for row in l.show("kernel", "--switch", "left")}
            self.assertLess(rows["h"] - to_kernel, 20)
            l.stop()


if __name__ == "__main__":
    lab.main()
