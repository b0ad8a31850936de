# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""The devices that bench/ndr measures: programs with two memif ports, whose other ends are those of ndr-traffic."""

import json
import os
import shutil

from bench.peers import machine, ovs, testpmd
from bench.peers.child import Child, Running

OVERHEAD_BYTES = 24  # of a frame on a wire, as weft-switch counts it for rate_mbps: preamble, FCS, gap


def sockets(directory):
    return [f"{directory}/{number}.sock" for number in (0, 1)]


def _memifs(directory, role):
    return [f"net_memif{n},role={role},id=0,socket={path},socket-abstract=no,rsize=10,bsize=8192"
            for n, path in enumerate(sockets(directory))]


class RunningWeft(Running):
    def __init__(self, config, directory, settings):
        super().__init__()
        path = f"{directory}/weft.yaml"
        with open(path, "w", encoding="utf-8") as file:
            json.dump(config, file, indent=1)
        self.worker_child = Child([settings.switch_binary, "-c", path], f"{directory}/weft.log",
                                  env={"RUNTIME_DIRECTORY": directory})
        self.children.append(self.worker_child)
        try:
            self.worker_child.until(lambda: all(map(os.path.exists, sockets(directory))), "its sockets")
        except BaseException:
            self.stop()
            raise


class Weft:
    """weft-switch as a bridge; with limit_pps, one whose ports send no faster: what is found there is known before.
    idle: what its worker does without packets (poll: it is always busy)."""

    tx_queues = 1

    def __init__(self, name, title, stages, limit_pps=0, idle="poll"):
        self.name, self.title = name, title
        self._idle = idle
        self._stages = stages
        self.limit_pps = limit_pps

    def missing(self, settings):
        built = os.access(settings.switch_binary, os.X_OK)
        return "" if built else f"ninja -C build weft-switch   # {settings.switch_binary}"

    def configuration(self, directory, settings, frame_bytes):
        """As a dictionary; written as JSON it is also YAML."""
        ports = [{"name": f"p{n}", "type": "memif", "role": "server", "socket": path, "mtu_bytes": 4200}
                 for n, path in enumerate(sockets(directory))]
        if self.limit_pps:
            # A short queue: what comes too fast is lost at once, and not only after the length of a trial.
            rate = self.limit_pps * (frame_bytes + OVERHEAD_BYTES) * 8 / 1e6
            for port in ports:
                port |= {"rate_mbps": round(rate), "queue_packets": 64}
        return {
            "eal": {
                "workers": [settings.worker_cpu],
                "hugepages": "on" if settings.hugepages else "off",
                "mbufs": settings.mbufs,
                "mbuf_data_room_bytes": _mbuf_bytes(frame_bytes),
                "burst": settings.burst,
            },
            "idle": self._idle,
            "control": {"socket": f"{directory}/weft.sock"},
            "log": {"level": "warning"},
            "switches": [{"name": "tor", "ports": ports, "pipeline": self._stages}],
        }

    def start(self, directory, settings, frame_bytes):
        return RunningWeft(self.configuration(directory, settings, frame_bytes), directory, settings)

    def known_pps(self, frame_bytes):
        """The throughput that a limited one has: its rate is a whole number of Mbit/s."""
        bits = (frame_bytes + OVERHEAD_BYTES) * 8
        return round(self.limit_pps * bits / 1e6) * 1e6 / bits


class Testpmd:
    name, title = "testpmd-io", "testpmd io"
    tx_queues = 1

    def missing(self, settings):
        return "" if shutil.which(testpmd.BINARY) else "apt-get install dpdk dpdk-dev   # dpdk-testpmd"

    def start(self, directory, settings, frame_bytes):
        memifs = _memifs(directory, "server")
        return testpmd.RunningTestpmd("io", memifs, _mbuf_bytes(frame_bytes), directory, settings, fed=False)


class Ovs:
    name, title = "ovs", "OVS NORMAL"
    tx_queues = 2  # one for each of its threads: the worker's is the second

    def missing(self, settings):
        return ovs.Ovs(self.name, self.title, []).missing(settings)

    def start(self, directory, settings, frame_bytes):
        del frame_bytes
        return ovs.RunningOvs(["actions=NORMAL"], _memifs(directory, "server"), directory, settings, fed=False)


def _mbuf_bytes(frame_bytes):
    return 2176 if frame_bytes <= 2048 else 8320


DEVICES = (
    Weft("weft-l2", "weft L2", ["parse", "rdma_track", "l2"]),
    Weft("weft-l2-adaptive", "weft L2, adaptive idle", ["parse", "rdma_track", "l2"], idle="adaptive"),
    Weft("weft-bare", "weft parse, l2", ["parse", "l2"]),
    Weft("weft-limited", "weft L2 at a known rate", ["parse", "l2"], limit_pps=100_000),
    Testpmd(),
    Ovs(),
)


class Traffic:
    """ndr-traffic, with a device's other ends."""

    def __init__(self, device, directory, settings, frame_bytes, qps, both):
        command = ["taskset", "-c", str(settings.main_cpu), settings.traffic_binary, "--frame-bytes", str(frame_bytes),
                   "--qps", str(qps), "--rx-queues", str(device.tx_queues)]
        command += ["--port", *_memifs(directory, "client")]
        if both:
            command.append("--both")
        if settings.hugepages:
            command.append("--hugepages")
        self.child = Child(command, f"{directory}/traffic.log", env={"RUNTIME_DIRECTORY": directory}, pipe=True)
        if not self._line().get("ready"):
            raise machine.MachineError(f"ndr-traffic did not start\n{self.child.log_tail()}")
        machine.prefer_workers({self.child.pid}, settings.main_cpu, settings.warm_up_s)

    def _line(self):
        line = self.child.stdout.readline()
        if not line:
            raise machine.MachineError(f"ndr-traffic ended\n{self.child.log_tail()}")
        return json.loads(line)

    def trial(self, rate_pps, seconds):
        """What ndr-traffic says of a trial; 0 pps: as fast as it can."""
        self.child.stdin.write(json.dumps({"rate_pps": rate_pps, "seconds": seconds}).encode() + b"\n")
        self.child.stdin.flush()
        return self._line()

    def stop(self):
        self.child.stop()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
