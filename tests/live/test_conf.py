#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""What a reader is told to type works: the commands at the top of the files in conf/ and those of README.md.

Each file is tried by a process of its own with network, mount and process namespaces of its own, so that the names of
hosts and sockets, which are those of the files, meet nobody else's: several are tried at a time."""
import concurrent.futures
import glob
import os
import re
import subprocess
import sys
import unittest

import lab

APART = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
# Switches that start at the same time would count on the same free ones.
NO_HUGEPAGES = "[ ! -d /sys/kernel/mm/hugepages ] || mount -t tmpfs tmpfs /sys/kernel/mm/hugepages"
# They wait most of the time: for pings, and for switches to start and stop.
AT_A_TIME = 3
ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "../.."))
# What is asked of the hosts that a file's commands have made, once its switch forwards.
TRIALS = {
    "bump-in-the-wire": ["ip netns exec h1 ping -c 3 -W 2 10.0.0.2"],
    "l2-tor": ["ip netns exec storage1 ping -c 2 -W 2 10.0.10.2", "ip netns exec storage1 ping -c 2 -W 2 10.0.10.9",
               "ip netns exec compute2 ping -c 2 -W 2 10.0.20.9"],
    "lossless-tor": ["ip netns exec h1 ping -c 2 -W 2 -M do -s 4172 10.0.0.4"],
    "hpcc-tor": ["ip netns exec h2 weft-rnic serve >serve.log 2>&1 & serve=$!", "sleep 1",
                 "ip netns exec h1 weft-rnic write_bw 10.0.0.2 --cc hpcc --rate-gbps 0.1 --cc-constant min_mbps=1 "
                 "-n 20 -s 16384",
                 "kill $serve",
                 "weftctl --json show counters | python3 -c 'import json, sys; assert [row for row in json.load("
                 "sys.stdin) if row[\"counter\"] == \"records\" and row[\"value\"] >= 320]'"],
    "inc-tree": ["ip netns exec h1 ping -c 3 -W 2 10.0.3.2", "weftctl inc show groups"],
    "l3-leaf": ["ip netns exec h1 ping -c 2 -W 2 10.0.2.2", "ip netns exec h1 ping -c 2 -W 2 10.1.2.0"],
    "kernel-leaf": ["ip -n leaf1 address add 10.0.2.1/24 dev h2",
                    "ip -n leaf1 route add 10.0.0.0/8 nexthop via 10.1.1.0 nexthop via 10.1.2.0", "sleep 0.5",
                    "ip netns exec h1 ping -c 2 -W 2 10.0.2.2"],
    "leaf-spine": ["ip netns exec h1 ping -c 2 -W 2 10.0.3.2"],
    "leaf-spine-conga": ["ip netns exec h1 ping -c 2 -W 2 10.0.3.2", "weftctl show conga --switch leaf1"],
    "leaf-spine-conweave": ["ip netns exec h1 ping -c 2 -W 2 10.0.3.2", "weftctl show conweave --switch leaf1"],
    "leaf-spine-gemma": ["ip netns exec h1 ping -c 2 -W 2 10.0.3.2", "weftctl show gemma --switch leaf1"],
    "leaf-spine-psn": ["ip netns exec h1 ping -c 2 -W 2 10.0.3.2"],
    "long-haul": ["ip netns exec h1 ping -c 2 -W 2 10.2.0.2", "weftctl show pnp", "weftctl show trp",
                  "weftctl set trp mode=pace", "weftctl set pnp cnp_interval_us=10"],
    "long-haul-2000km": ["ip netns exec h1 ping -c 3 -W 2 10.2.0.2 | grep -E 'rtt .* = 2[0-9]\\.'", "weftctl show trp"],
    "annulus-tor": ["ip netns exec h1 ping -c 2 -W 2 10.2.0.2", "weftctl show pnp",
                    "weftctl set pnp qcn_queue_kb=50"],
    "long-haul-bicc": ["ip netns exec h1 ping -c 2 -W 2 10.2.0.2", "weftctl show bicc",
                       "weftctl set bicc in_flight_kb=40"],
}


def conf(name):
    return os.path.join(ROOT, "conf", name + ".yaml")


def recipe(name):
    """The commands at the top of a file, as a reader would copy them."""
    lines = []
    for line in lab.read(conf(name)).splitlines():
        if not line.startswith("#"):
            break
        if re.match(r"#   [^ #]|#     ", line):
            lines.append(line[4:])
    drawing = re.compile(r" +((leaf|spine|h)\d|root$)")
    return [line for line in lines if not set(line) <= set("|\\/ -") and not drawing.match(line)]


def trial(name):
    """TRIALS, or what the file itself says to do once its switch forwards."""
    return TRIALS.get(name) or re.findall(r"^#   #   (.+)$", lab.read(conf(name)), re.M)


def readme_commands(name):
    """The commands of README.md that follow a mention of a configuration, up to the next paragraph of text."""
    text = lab.read(os.path.join(ROOT, "README.md")).split("\n## Use\n")[1].split("\n## ")[0]
    block = re.search(r"(?:of|With)\s+`conf/" + name + r"\.yaml`(?:, as root)?:\n\n((?:    .*\n)+)", text)
    return [re.sub(r"\s+#.*", "", line.strip()) for line in block[1].splitlines()]


def run_apart(script):
    """Runs lines of shell in network, mount and process namespaces that end with them."""
    return subprocess.run([*APART, "bash", "-c", "\n".join([NO_HUGEPAGES, *script])], capture_output=True, text=True,
                          timeout=150)


def try_out(name, commands, laboratory):
    """Runs a file's recipe, its switch and commands. The output, and the exit status of the first that failed."""
    script = ["set -eu", "mount -t tmpfs tmpfs /run", "mkdir /run/netns", f"cd {laboratory.directory}",
              f"ln -sfn {ROOT}/conf conf", f"export PATH={lab.BIN}:$PATH",
              "ip link set lo up", *recipe(name)]
    script += [f"weft-switch -c conf/{name}.yaml > switch.log 2>&1 & switch=$!",
               "for i in $(seq 300); do grep -q 'forwarding$' switch.log && break; sleep 0.1; done",
               *commands, "kill $switch", "wait $switch"]
    return run_apart(script)


def has_vlan_interfaces():
    return run_apart(["ip link add veth0 type veth peer name veth1",
                      "ip link add link veth0 name veth0.10 type vlan id 10"]).returncode == 0


def side_by_side(test, check, cases):
    """Calls check(name, what) for each of {name: what}, some at a time; each is a subtest."""
    pool = concurrent.futures.ThreadPoolExecutor(AT_A_TIME)
    try:
        outcomes = {name: pool.submit(check, name, what) for name, what in cases.items()}
        for name, outcome in outcomes.items():
            with test.subTest(name=name):
                outcome.result()
    finally:
        pool.shutdown(cancel_futures=True)


class Conf(unittest.TestCase):
    def assert_works(self, name, commands):
        if any("type vlan" in line for line in recipe(name)) and not has_vlan_interfaces():
            self.skipTest("this kernel has no interfaces of type vlan")
        with lab.Lab() as l:
            result = try_out(name, commands, l)
            log = os.path.join(l.directory, "switch.log")
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr +
                             (lab.read(log) if os.path.exists(log) else ""))

    def test_the_hosts_at_the_top_of_each_file_reach_each_other(self):
        files = [os.path.basename(path)[:-5] for path in glob.glob(conf("*"))]
        self.assertEqual({name for name in files if "type: veth" in lab.read(conf(name))}, set(TRIALS))
        with_hosts = sorted(name for name in files if any("ip netns add" in line for line in recipe(name)))
        self.assertLess(set(TRIALS), set(with_hosts))
        trials = {name: trial(name) for name in with_hosts}
        self.assertEqual([name for name, commands in trials.items() if not commands], [])
        side_by_side(self, self.assert_works, trials)

    def test_the_readmes_commands_work_with_the_configuration_that_they_name(self):
        trials = {}
        for name in ("bump-in-the-wire", "lossless-tor", "leaf-spine"):
            commands = trials[name] = []
            for command in readme_commands(name):
                if command.startswith("weft-switch") and command.endswith("&"):
                    continue
                if "--watch" in command:
                    command = f"timeout 2 {command} || test $? = 124"
                if command.startswith("weftctl trace"):
                    commands.append("ip netns exec h1 ping -q -c 20 -i 0.2 10.0.0.2 >/dev/null & sleep 0.3")
                    command = "timeout 20 " + command
                commands.append(command)
            self.assertGreaterEqual(len(commands), 2)
        side_by_side(self, self.assert_works, trials)


if __name__ == "__main__":
    if os.geteuid() == 0 and subprocess.run([*APART, "true"], check=False).returncode != 0:
        print("SKIP: this machine lets nobody add namespaces")
        sys.exit(77)
    lab.main()
