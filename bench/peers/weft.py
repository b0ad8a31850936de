# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""weft-switch as a system under test.

The switch is run as `weft-switch -c FILE --duration-s N --counters-out FILE` on pcap ports that replay for ever, and
writes its counters when N seconds of forwarding have passed.
"""

import json
import os
import time

from bench.peers import frames, machine
from bench.peers.child import Child, Measurement, PeerError, Running

ROUTER_MAC = frames.mac("02:00:00:00:00:fe")
NEXT_HOPS_PER_PORT = 4
TRACKED_QPS = 8192


def _port(number, pcap):
    # Both ports of the router have one address, as the ports of a switch usually do.
    return {
        "name": f"p{number}",
        "type": "pcap",
        "rx_file": pcap,
        "infinite": True,
        "mac": ROUTER_MAC.hex(":"),
    }


def _next_hop(port, member):
    return f"192.0.2.{128 * port + 2 + member}"


def _routing():
    """All hosts lie behind one route with eight next hops, four on each port, whose MAC addresses are configured."""
    members = [(port, member) for port in (0, 1) for member in range(NEXT_HOPS_PER_PORT)]
    return {
        "addresses": [{"port": f"p{port}", "address": f"192.0.2.{128 * port + 1}/25"} for port in (0, 1)],
        "neighbours": [
            {"port": f"p{port}", "address": _next_hop(port, member), "mac": f"02:00:00:00:{port:02x}:{member + 1:02x}"}
            for port, member in members
        ],
        "routes": [{"prefix": "198.18.0.0/15", "via": [_next_hop(port, member) for port, member in members]}],
    }


def configuration(stages, icrc_check, case, pcaps, settings):
    """The switch's configuration as a dictionary; written as JSON it is also YAML."""
    options = {"rdma_track": {"max_qps": TRACKED_QPS}, "lb": {"policy": "ecmp"}}
    pipeline = [{"parse": {"icrc_check": icrc_check}}]
    pipeline += [{stage: options[stage]} if stage in options else stage for stage in stages]
    switch = {"name": "tor", "ports": [_port(number, pcap) for number, pcap in enumerate(pcaps)]}
    if "l3" in stages:
        switch |= _routing()
    switch["pipeline"] = pipeline
    return {
        "eal": {
            "workers": [settings.worker_cpu],
            "hugepages": "on",
            "mbufs": settings.mbufs,
            "mbuf_data_room_bytes": case.mbuf_bytes,
            "burst": settings.burst,
        },
        "idle": "poll",
        "control": {"socket": ""},
        "log": {"level": "warning"},
        "switches": [switch],
    }


def read_counters(path):
    """The switch's last words: {"elapsed_s", "switches": [{"ports", "stages", "drops"}]}."""
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def stage_cycles(switch):
    """{stage: cycles per packet that the switch received}, in the order of the pipeline."""
    received = sum(port["rx_packets"] for port in switch["ports"])
    return {stage["name"]: stage["cycles"] / received for stage in switch["stages"] if received}


class RunningWeft(Running):
    """The whole life of the switch is the trial: its counters start with the first packet."""

    def __init__(self, config, directory, settings):
        super().__init__()
        self._config_path = f"{directory}/weft.yaml"
        self._counters_path = f"{directory}/counters.json"
        with open(self._config_path, "w", encoding="utf-8") as file:
            json.dump(config, file, indent=1)
        self._duration_s = settings.warm_up_s + settings.trial_s
        command = [settings.switch_binary, "-c", self._config_path, f"--duration-s={self._duration_s:g}"]
        command.append(f"--counters-out={self._counters_path}")
        self.worker_child = Child(command, f"{directory}/weft.log", env={"RUNTIME_DIRECTORY": directory})
        self.children.append(self.worker_child)

    def measure(self, settings, ours):
        time.sleep(settings.warm_up_s)
        watch = machine.CpuWatch(self.worker_child.pid, ours | self.pids())
        time.sleep(settings.trial_s / 2)
        share, busy = watch.stop()
        status = self.worker_child.wait(self._duration_s + 30)
        if status:
            raise PeerError(f"weft-switch ended with status {status}\n{self.worker_child.log_tail()}")
        counters = read_counters(self._counters_path)
        (switch,) = counters["switches"]
        return Measurement(
            seconds=counters["elapsed_s"],
            rx_packets=sum(port["rx_packets"] for port in switch["ports"]),
            tx_packets=sum(port["tx_packets"] for port in switch["ports"]),
            tx_bytes=sum(port["tx_bytes"] for port in switch["ports"]),
            share=share,
            busy=busy,
            details={"stages": stage_cycles(switch), "drops": switch["drops"]},
        )


class Weft:
    """weft-switch with the parser and the given stages after it."""

    def __init__(self, name, title, stages, icrc_check="off"):
        self.name = name
        self.title = title
        self.addressed_to = "router" if "l3" in stages else "host"
        self._stages = stages
        self._icrc_check = icrc_check

    def missing(self, settings):
        """What has to be built, "" when nothing."""
        if os.access(settings.switch_binary, os.X_OK):
            return ""
        return f"ninja -C build weft-switch   # {settings.switch_binary}"

    def refuses(self, case):
        """Why this system cannot run a case, "" when it can."""
        return ""

    def start(self, case, pcaps, directory, settings):
        config = configuration(self._stages, self._icrc_check, case, pcaps, settings)
        return RunningWeft(config, directory, settings)


class WeftGenerated(Weft):
    """weft-switch fed by its own generator ports, whose PSNs advance where a pcap's repeat."""

    def __init__(self, name, title):
        super().__init__(name, title, ["rdma_track", "l2"])

    def refuses(self, case):
        return "needs the port type generator"
