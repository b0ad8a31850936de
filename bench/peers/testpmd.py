# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""dpdk-testpmd as a system under test: two pcap ports, one forwarding core, counters from its telemetry socket."""

import json
import os
import shutil
import socket
import time

from bench.peers import child
from bench.peers.child import Child, Counters, Running

BINARY = "dpdk-testpmd"


class Telemetry:
    """Client of a DPDK telemetry socket (version 2, one JSON object per command)."""

    def __init__(self, path):
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.settimeout(5)
        self._socket.connect(path)
        self._reply_bytes = json.loads(self._socket.recv(4096))["max_output_len"]

    def ask(self, command):
        self._socket.send(command.encode())
        (reply,) = json.loads(self._socket.recv(self._reply_bytes)).values()
        return reply

    def close(self):
        self._socket.close()


class RunningTestpmd(Running):
    """devices: the DPDK device of each port. With fed they bring packets by themselves, and the start waits for the
    first that is forwarded."""

    def __init__(self, mode, devices, mbuf_bytes, directory, settings, fed=True):
        super().__init__()
        self._telemetry = None
        command = [
            BINARY,
            "--in-memory",
            "--no-pci",
            "--file-prefix=weft-bench",
            f"--lcores={settings.main_cpu},{settings.worker_cpu}",
            f"--main-lcore={settings.main_cpu}",
        ]
        command += [f"--vdev={device}" for device in devices]
        command += [
            "--",
            "--nb-cores=1",
            f"--forward-mode={mode}",
            f"--mbuf-size={mbuf_bytes}",
            f"--total-num-mbufs={settings.mbufs}",
            f"--burst={settings.burst}",
        ]
        if not fed:
            command.append("--disable-link-check")
        self.worker_child = Child(command, f"{directory}/testpmd.log", env={"RUNTIME_DIRECTORY": directory})
        self.children.append(self.worker_child)
        try:
            self._telemetry = self.worker_child.until(lambda: self._connect(directory), "telemetry socket")
            if fed:
                self.worker_child.until(lambda: self.counters().tx_packets > 0, "forwarded packet")
        except BaseException:
            self.stop()
            raise

    @staticmethod
    def _connect(directory):
        for folder, _, files in os.walk(directory):
            if "dpdk_telemetry.v2" in files:
                try:
                    return Telemetry(f"{folder}/dpdk_telemetry.v2")
                except ConnectionRefusedError:
                    return None
        return None

    def counters(self):
        started = time.monotonic()
        ports = [self._telemetry.ask(f"/ethdev/stats,{port}") for port in (0, 1)]
        return Counters(
            time_s=(started + time.monotonic()) / 2,
            rx_packets=sum(port["ipackets"] for port in ports),
            tx_packets=sum(port["opackets"] for port in ports),
            tx_bytes=sum(port["obytes"] for port in ports),
        )

    def stop(self):
        if self._telemetry:
            self._telemetry.close()
        super().stop()


class Testpmd:
    """testpmd in one forwarding mode (io: packets untouched; macswap: Ethernet addresses exchanged)."""

    addressed_to = "host"
    comparable = True

    def __init__(self, name, title, mode):
        self.name = name
        self.title = title
        self._mode = mode

    def missing(self, settings):
        """What has to be installed, "" when nothing."""
        return "" if shutil.which(BINARY) else "apt-get install dpdk dpdk-dev   # dpdk-testpmd"

    def refuses(self, case):
        """Why this system cannot run a case, "" when it can."""
        return ""

    def start(self, case, pcaps, directory, settings):
        return RunningTestpmd(self._mode, child.replays(pcaps), case.mbuf_bytes, directory, settings)
