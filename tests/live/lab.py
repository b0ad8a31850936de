# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""A weft-switch among hosts that are network namespaces on this machine.

Everything that a Lab starts, it ends: processes by pid, namespaces by name. Names carry the pid of the test, so that
several tests run side by side.
"""
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import evidence

BIN = os.environ.get("WEFT_BIN") or os.path.realpath(os.path.join(os.path.dirname(__file__), "../../build/bin"))
START_TIMEOUT_S = 30
STOP_TIMEOUT_S = 15


def read(path):
    with open(path) as file:
        return file.read()


def run(*command, check=True, timeout=60, **options):
    """Runs a command to its end and returns what it printed."""
    result = subprocess.run(command, capture_output=True, text=True, timeout=timeout, **options)
    if check and result.returncode != 0:
        raise AssertionError(f"{' '.join(command)}: exit {result.returncode}\n{result.stdout}{result.stderr}")
    return result.stdout


def cpu_s(process):
    """The CPU time that a process has used, in seconds."""
    fields = read(f"/proc/{process}/stat").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def wait_for(what, condition, timeout_s=20):
    """Asks until the condition holds."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout_s} s: {what}")
        time.sleep(0.1)


def spawn(command, **options):
    """Starts a process that ends with this one, however this one ends."""
    return subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "--", *command], **options)


class Host:
    """A network namespace with one interface, eth0, whose other end is a port of the switch."""

    def __init__(self, lab, name, mtu):
        self.namespace = f"{lab.prefix}-{name}"
        self.port_interface = f"{lab.prefix}{name}"[:15]
        run("ip", "netns", "add", self.namespace)
        run("ip", "link", "add", self.port_interface, "type", "veth", "peer", "name", "eth0", "netns", self.namespace)
        run("ip", "link", "set", self.port_interface, "mtu", str(mtu))
        for command in (f"link set eth0 mtu {mtu} up", "link set lo up"):
            self.ip(*command.split())

    def ip(self, *arguments):
        return run("ip", "-n", self.namespace, *arguments)

    def address(self, *addresses):
        """Gives eth0 addresses, IPv6 without duplicate detection."""
        for address in addresses:
            extra = ["nodad"] if ":" in address else []
            self.ip("address", "add", address, "dev", "eth0", *extra)
        return self

    def route(self, prefix, via):
        self.ip("route", "add", prefix, "via", via)
        return self

    def mac(self):
        return json.loads(self.ip("-j", "link", "show", "eth0"))[0]["address"]

    def execute(self, *command, **options):
        return run("ip", "netns", "exec", self.namespace, *command, **options)

    def start(self, *command, **options):
        return subprocess.Popen(["ip", "netns", "exec", self.namespace, *command], stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True, **options)

    def ping(self, address, count=5, size=56, extra=()):
        """Pings and returns the number of answers."""
        out = self.execute("ping", "-n", "-c", str(count), "-i", "0.05", "-W", "2", "-s", str(size), *extra, address,
                           check=False)
        return int(re.search(r"(\d+) received", out).group(1))


class Lab:
    """Hosts, a configuration, and the running switch. Use as a context manager."""

    def __init__(self):
        self._cleanup = contextlib.ExitStack()
        self.prefix = f"w{os.getpid() % 100000}"
        self.directory = tempfile.mkdtemp(prefix="weft-lab-")
        self.socket = os.path.join(self.directory, "weft.sock")
        self.counters_path = os.path.join(self.directory, "counters.json")
        self.config_path = os.path.join(self.directory, "weft.yaml")
        self.control = ""  # behind the socket, what else the configuration has of the control service
        self.hosts = []
        self.switch = None
        self.logs = []  # of all switches that were started, the newest last
        self.evidence = evidence.Collection()
        self.evidence.add(self._write_logs)

    def __enter__(self):
        return self

    def __exit__(self, exception_type, exception, traceback):
        if exception is not None and not isinstance(exception, unittest.SkipTest):
            evidence.save(self.evidence)
            if self.logs:
                sys.stderr.write(read(self.log_path))
        self.evidence.close()
        self.kill()
        try:
            self._cleanup.close()
        finally:
            for host in self.hosts:
                run("ip", "netns", "del", host.namespace, check=False)
                run("ip", "link", "del", host.port_interface, check=False)
            shutil.rmtree(self.directory, ignore_errors=True)

    @property
    def log_path(self):
        """The log of the newest switch."""
        return self.logs[-1]

    def _write_logs(self, folder):
        for path in filter(os.path.exists, (*self.logs, self.config_path)):
            shutil.copy(path, folder)

    def on_exit(self, function, *arguments):
        """Calls a function when the lab ends, in whatever way; the last registered is called first."""
        self._cleanup.callback(function, *arguments)

    def host(self, name, mtu=1500):
        host = Host(self, name, mtu)
        self.hosts.append(host)
        return host

    def routed_hosts(self):
        """Two hosts in subnets of their own, a in 10.77.1.0/24 and fd77:1::/64, b in 10.77.2.0/24 and fd77:2::/64; the
        router of each is the first address."""
        hosts = []
        for number, name in ((1, "a"), (2, "b")):
            host = self.host(name).address(f"10.77.{number}.2/24", f"fd77:{number}::2/64")
            hosts.append(host.route("default", f"10.77.{number}.1").route("default", f"fd77:{number}::1"))
        return hosts

    def start(self, switches, top="", arguments=()):
        """Starts weft-switch with the `switches:` part of a configuration; returns when it forwards."""
        self._write(switches, top)
        self.logs.append(os.path.join(self.directory, f"switch-{len(self.logs) + 1}.log"))
        with open(self.log_path, "w") as log:
            self.switch = spawn(
                [os.path.join(BIN, "weft-switch"), "-c", self.config_path, "--counters-out", self.counters_path,
                 *arguments],
                stdout=log, stderr=subprocess.STDOUT)
        deadline = time.monotonic() + START_TIMEOUT_S
        while "info: forwarding\n" not in read(self.log_path):
            if self.switch.poll() is not None or time.monotonic() > deadline:
                raise AssertionError("weft-switch did not start:\n" + read(self.log_path))
            time.sleep(0.05)

    def _write(self, switches, top):
        with open(self.config_path, "w") as file:
            file.write(f"control: {{ socket: {self.socket}{self.control} }}\n{top}\nswitches:\n{switches}")

    def reload(self, switches, top=""):
        """Gives the running switch another configuration, which it must take."""
        self._write(switches, top)
        run(os.path.join(BIN, "weftctl"), "--socket", self.socket, "reload")

    def show(self, table, *arguments):
        out = run(os.path.join(BIN, "weftctl"), "--socket", self.socket, "--json", "show", table, *arguments)
        return json.loads(out)

    def kill(self):
        """Ends the switch, if it runs, as a crash would; start() starts another one."""
        if self.switch is not None and self.switch.poll() is None:
            self.switch.kill()
            self.switch.wait()

    def stop(self):
        """Stops the switch as an operator would; returns its final counters, which must balance."""
        self.switch.send_signal(signal.SIGTERM)
        code = self.switch.wait(timeout=STOP_TIMEOUT_S)
        if code != 0:
            raise AssertionError(f"weft-switch ended with {code}:\n" + read(self.log_path))
        counters = json.loads(read(self.counters_path))
        for switch in counters["switches"]:
            if not switch["totals"]["balanced"]:
                raise AssertionError(f"packets unaccounted for: {switch['totals']}")
        return counters


def iperf3_server(host, seconds=30):
    """Starts an iperf3 server for one client; returns its process once it listens."""
    process = host.start("timeout", str(seconds), "iperf3", "-s", "-1", "-J")
    wait_for("iperf3 listens", lambda: host.execute("ss", "-Htln", "sport = :5201") or process.poll() is not None)
    return process


def iperf3(client, server, address, *arguments, seconds=2):
    """Runs iperf3 from one host to another; returns its JSON result."""
    listener = iperf3_server(server)
    try:
        out = client.execute("timeout", "25", "iperf3", "-c", address, "-J", "-t", str(seconds), *arguments,
                             check=False)
        result = json.loads(out)
        if "error" in result:
            raise AssertionError("iperf3: " + result["error"])
        return result
    finally:
        if listener.poll() is None:
            listener.terminate()
        listener.communicate()


def main():
    """unittest.main() for tests that need root: CTest reads exit code 77 and the line as "skipped, because"."""
    if os.geteuid() != 0:
        print("SKIP: network namespaces need root")
        sys.exit(77)
    # CTest and people end a test with SIGTERM: unwind as for Ctrl-C, so that labs end what they started.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    unittest.main(testRunner=evidence.runner())
