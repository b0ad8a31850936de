# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""OVS-DPDK as a system under test: ovsdb-server and ovs-vswitchd run by hand with a database and sockets of their own.

ovs-vswitchd gets a network namespace of its own too, because a userspace bridge makes tap devices, and those must not
appear among the devices of a machine that runs OVS for real.
"""

import json
import os
import re
import shutil
import socket
import subprocess
import time

from bench.peers import child
from bench.peers.child import Child, Counters, PeerError, Refused, Running

# Debian keeps the build with DPDK beside the plain one; /usr/sbin/ovs-vswitchd is whichever the administrator chose.
DPDK_BINARY = "/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk"
SCHEMA = "/usr/share/openvswitch/vswitch.ovsschema"
BRIDGE = "weft-bench"
MAX_FRAME_BYTES = 1514  # net_pcap refuses a larger MTU than 1500, and OVS sizes its buffers by it


def vswitchd_path():
    """An ovs-vswitchd that links DPDK, None when there is none."""
    if os.access(DPDK_BINARY, os.X_OK):
        return DPDK_BINARY
    plain = shutil.which("ovs-vswitchd")
    if plain:
        version = subprocess.run([plain, "--version"], capture_output=True, text=True, check=False).stdout
        if "DPDK" in version:
            return plain
    return None


def unixctl(path, method, *params):
    """One call over a control socket of an OVS daemon (JSON-RPC, as ovs-appctl does)."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as control:
        control.settimeout(10)
        control.connect(path)
        control.sendall(json.dumps({"id": 0, "method": method, "params": list(params)}).encode())
        text = b""
        while True:
            part = control.recv(65536)
            if not part:
                raise PeerError(f"ovs-vswitchd closed its control socket during {method}")
            text += part
            try:
                reply = json.loads(text)
            except ValueError:
                continue
            if reply["error"] is not None:
                raise PeerError(f"{method}: {reply['error']}")
            return reply["result"]


def parse_port_counters(text):
    """(rx packets, tx packets, tx bytes) over the dpdk ports of `dpctl/show -s`."""
    totals = [0, 0, 0]
    for block in re.split(r"\n  port \d+: ", text)[1:]:
        if "(dpdk:" in block.partition("\n")[0]:
            for index, pattern in enumerate((r"RX packets:(\d+)", r"TX packets:(\d+)", r"TX bytes:(\d+)")):
                totals[index] += int(re.search(pattern, block).group(1))
    return tuple(totals)


def parse_pmd_stats(text):
    """The first worker's lookup counters and cycles of `dpif-netdev/pmd-stats-show`."""
    wanted = ("packets received", "simple match hits", "emc hits", "megaflow hits", "avg cycles per packet")
    found = {}
    for line in text.partition("main thread:")[0].splitlines():
        key, _, value = line.strip().partition(": ")
        if key in wanted:
            found[key.replace(" ", "_")] = float(value.split()[0])
    return found


# What OVS does with AVX-512 when it is told to: subtable lookups, the loop over a burst, and the parser.
AVX512 = (
    ("dpif-netdev/subtable-lookup-prio-set", "avx512_gather", "5"),
    ("dpif-netdev/dpif-impl-set", "dpif_avx512"),
    ("dpif-netdev/miniflow-parser-set", "study"),
)


def use_avx512(call):
    """Has a running OVS use AVX-512 everywhere. call: as unixctl, without the path. Raises Refused where it says no:
    the CPU has none, or the binary was built without."""
    for method, *params in AVX512:
        try:
            said = call(method, *params)
        except PeerError as error:
            raise Refused(f"this OVS has no AVX-512: {error}".strip()) from None
        # It answers some of what it cannot do with a text that is no error.
        if re.search(r"fail|unknown|error|not available|not supported", said, re.IGNORECASE):
            raise Refused(f"this OVS has no AVX-512: {method}: {said.strip()}")


class RunningOvs(Running):
    """devices: the DPDK device of each port, from 0. With fed they bring packets by themselves, and the start waits for
    the first that is forwarded."""

    def __init__(self, flows, devices, directory, settings, fed=True, avx512=False):
        super().__init__()
        self._directory = directory
        self._flows = flows
        self._fed = fed
        self._avx512 = avx512
        self._env = {name: directory for name in ("OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR", "RUNTIME_DIRECTORY")}
        self._control = f"{directory}/vswitchd.ctl"
        try:
            self._start_database()
            self._configure(devices, settings)
            self._start_switch()
        except BaseException:
            self.stop()
            raise

    def _run(self, *command):
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **self._env}, timeout=60)
        if done.returncode:
            raise PeerError(f"{' '.join(command)}: {done.stderr.strip()}")
        return done.stdout

    def _start_database(self):
        database, remote = f"{self._directory}/conf.db", f"{self._directory}/db.sock"
        self._run("ovsdb-tool", "create", database, SCHEMA)
        server = Child(
            ["ovsdb-server", database, f"--remote=punix:{remote}", f"--unixctl={self._directory}/ovsdb.ctl"],
            f"{self._directory}/ovsdb.log",
            self._env,
        )
        self.children.append(server)
        server.until(lambda: os.path.exists(remote), "database socket")

    def _configure(self, devices, settings):
        call = ["ovs-vsctl", f"--db=unix:{self._directory}/db.sock", "--no-wait"]
        self._run(*call, "init")
        other_config = {
            "dpdk-init": "true",
            "dpdk-lcore-mask": hex(1 << settings.main_cpu),
            "pmd-cpu-mask": hex(1 << settings.worker_cpu),
            "dpdk-socket-mem": "1024",
            "dpdk-extra": "--no-pci --file-prefix=weft-bench-ovs",
        }
        self._run(*call, "set", "Open_vSwitch", ".", *(f"other_config:{k}={v}" for k, v in other_config.items()))
        self._run(
            *call, "add-br", BRIDGE, "--", "set", "bridge", BRIDGE, "datapath_type=netdev", "fail-mode=secure"
        )
        for port, device in enumerate(devices):
            interface = ["type=dpdk", f"ofport_request={port + 1}", f"options:dpdk-devargs={device}"]
            self._run(*call, "add-port", BRIDGE, f"p{port}", "--", "set", "Interface", f"p{port}", *interface)

    def _start_switch(self):
        self.worker_child = Child(
            ["unshare", "--net", vswitchd_path(), f"unix:{self._directory}/db.sock", f"--unixctl={self._control}"],
            f"{self._directory}/vswitchd.log",
            self._env,
        )
        self.children.append(self.worker_child)
        management = f"{self._directory}/{BRIDGE}.mgmt"
        self.worker_child.until(lambda: os.path.exists(management), "bridge")
        self.worker_child.until(lambda: "(p1)" in self._run("ovs-ofctl", "show", management), "second port")
        with open(f"{self._directory}/flows", "w", encoding="ascii") as file:
            file.write("".join(f"{flow}\n" for flow in self._flows))
        self._run("ovs-ofctl", "add-flows", management, f"{self._directory}/flows")
        if self._avx512:
            use_avx512(lambda method, *params: unixctl(self._control, method, *params))
        if not self._fed:
            return
        self.worker_child.until(lambda: self.counters().tx_packets > 0, "forwarded packet")
        unixctl(self._control, "dpif-netdev/pmd-stats-clear")

    def counters(self):
        started = time.monotonic()
        text = unixctl(self._control, "dpctl/show", "-s")
        rx_packets, tx_packets, tx_bytes = parse_port_counters(text)
        return Counters((started + time.monotonic()) / 2, rx_packets, tx_packets, tx_bytes)

    def details(self):
        return parse_pmd_stats(unixctl(self._control, "dpif-netdev/pmd-stats-show"))


class Ovs:
    """OVS-DPDK with a fixed list of OpenFlow flows."""

    addressed_to = "host"
    comparable = True

    def __init__(self, name, title, flows, avx512=False):
        self.name = name
        self.title = title
        self._flows = flows
        self._avx512 = avx512

    def missing(self, settings):
        """What has to be installed, "" when nothing."""
        tools = all(map(shutil.which, ("ovsdb-server", "ovsdb-tool", "ovs-vsctl", "ovs-ofctl")))
        if tools and vswitchd_path() and os.path.exists(SCHEMA):
            return ""
        return "apt-get install openvswitch-switch-dpdk   # ovs-vswitchd-dpdk, ovsdb-server, ovs-ofctl"

    def refuses(self, case):
        """Why this system cannot run a case, "" when it can."""
        if case.largest_frame_bytes > MAX_FRAME_BYTES:
            return "OVS cannot raise the MTU of a net_pcap port above 1500"
        return ""

    def start(self, case, pcaps, directory, settings):
        return RunningOvs(self._flows, child.replays(pcaps), directory, settings, avx512=self._avx512)
