# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""weft-switch as a system under test.

The switch is run as `weft-switch -c FILE --duration-s N --counters-out FILE` on ports that never end. It writes its
counters when N seconds of forwarding have passed.
"""

import dataclasses
import json
import os
import subprocess
import time

from bench.peers import frames, machine
from bench.peers.child import Child, Measurement, PeerError, Running

ROUTER_MACS = (frames.mac("02:00:00:00:fe:00"), frames.mac("02:00:00:00:fe:01"))  # one per port
NEXT_HOPS_PER_PORT = 4
TRACKED_QPS = 8192
START_LIMIT_S = 30


def _port(number, case, device):
    mtu_bytes = 1500 if case.largest_frame_bytes <= 1514 else 4200
    return {"name": f"p{number}", "mac": ROUTER_MACS[number].hex(":"), "mtu_bytes": mtu_bytes} | device


def replay(pcap):
    """A port that receives a capture over and over and discards what it sends."""
    return {"type": "pcap", "rx_file": pcap, "infinite": True}


def generator(side, case):
    """A port that makes packets of a case's kinds and number of QPs, with PSNs that advance for ever."""
    flow = frames.flows(side, 1)[0]
    opcodes = {"ACK": "RC_ACKNOWLEDGE", "NAK": "RC_ACKNOWLEDGE", "CNP": "CNP"}
    opcodes |= {"SEND": "RC_SEND_ONLY", "WRITE": "RC_RDMA_WRITE_ONLY"}
    return {
        "type": "generator",
        "qps": case.qps // 2,
        "first_qpn": flow.destination_qpn,
        # The payload of a SEND; a WRITE has 16 more bytes of header.
        "payload_bytes": frames.payload_for(frames.SEND_ONLY, case.largest_frame_bytes - 16),
        "opcodes": frames.shuffled([opcodes[kind.name] for kind in case.mix for _ in range(kind.weight)], side),
        "source_mac": flow.source_mac.hex(":"),
        "destination_mac": flow.destination_mac.hex(":"),
        "source": ".".join(map(str, flow.source_ip)),
        "destination": ".".join(map(str, flow.destination_ip)),
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


def _queue_pairs(case):
    """Which directions belong together, as CM would have told. Inference settles on PSNs that advance; in a replay with
    one packet of each QP they never do, and it would go on for ever."""

    def end(flow, qpn):
        return {"address": ".".join(map(str, flow.source_ip)), "qpn": qpn}

    both = [frames.flows(side, case.qps // 2) for side in (0, 1)]
    return [{"a": end(a, b.destination_qpn), "b": end(b, a.destination_qpn)} for a, b in zip(*both)]


def configuration(stages, icrc_check, case, devices, settings, qos=False):
    """The switch's configuration as a dictionary; written as JSON it is also YAML. devices: one port's keys each."""
    options = {"rdma_track": {"max_qps": TRACKED_QPS}, "lb": {"policy": "ecmp"}}
    if all(device.get("type") == "pcap" for device in devices):
        options["rdma_track"]["qps"] = _queue_pairs(case)
    pipeline = [{"parse": {"icrc_check": icrc_check}}]
    pipeline += [{stage: options[stage]} if stage in options else stage for stage in stages]
    switch = {"name": "tor", "ports": [_port(number, case, device) for number, device in enumerate(devices)]}
    if "l3" in stages:
        switch |= _routing()
    switch["pipeline"] = pipeline
    if qos:
        switch["qos"] = {}
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


def stage_cycles(switch):
    """{stage: cycles per received packet} in the order of the pipeline. The egress half of a stage with two says so."""
    received = sum(port["rx_packets"] for port in switch["ports"])
    found = {}
    for row in switch["stages"]:
        name = f"{row['stage']} ({row['half']})" if row["stage"] in found else row["stage"]
        found[name] = row["cycles"] / received if received else 0.0
    return found


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
        # It counts from its first packet, and a busy machine takes its time to get there.
        machine.prefer_workers(self.pids(), settings.worker_cpu, START_LIMIT_S, self.worker_child.running)
        watch = machine.CpuWatch(self.worker_child.pid, ours | self.pids())
        time.sleep(settings.trial_s / 2)
        _, busy = watch.stop()
        waited = {}
        while self.worker_child.running():
            waited.update(machine.seconds_without_cpu(self.worker_child.pid, "worker"))
            time.sleep(0.02)
        status = self.worker_child.wait(self._duration_s + 30)
        if status:
            raise PeerError(f"weft-switch ended with status {status}\n{self.worker_child.log_tail()}")
        with open(self._counters_path, encoding="utf-8") as file:
            counters = json.load(file)
        if not counters["hugepages"]:
            raise PeerError("weft-switch ran without hugepages")
        (switch,) = counters["switches"]
        return Measurement(
            seconds=counters["elapsed_s"],
            rx_packets=sum(port["rx_packets"] for port in switch["ports"]),
            tx_packets=sum(port["tx_packets"] for port in switch["ports"]),
            tx_bytes=sum(port["tx_bytes"] for port in switch["ports"]),
            # It polls, and so is ready to run whenever it does not run. Ticks would be those of its start as well.
            share=max(0.0, 1 - sum(waited.values()) / counters["elapsed_s"]),
            busy=busy,
            details={"stages": stage_cycles(switch), "drops": switch["drops"]},
        )


class Weft:
    """weft-switch with the parser and the given stages after it; with qos, with class queues at its egress."""

    comparable = True

    def __init__(self, name, title, stages, icrc_check="off", qos=False):
        self.name = name
        self.title = title
        self.addressed_to = "router" if "l3" in stages else "host"
        self._stages = stages
        self._icrc_check = icrc_check
        self._qos = qos

    def missing(self, settings):
        """What has to be built, "" when nothing."""
        if not os.access(settings.switch_binary, os.X_OK):
            return f"ninja -C build weft-switch   # {settings.switch_binary}"
        command = [settings.switch_binary, "--print-schema"]
        schema = subprocess.run(command, capture_output=True, text=True, check=False).stdout
        unknown = [stage for stage in self._stages if f'"{stage}"' not in schema]
        return f"a weft-switch with the stage {unknown[0]}   # {settings.switch_binary}" if unknown else ""

    def refuses(self, case):
        """Why this system cannot run a case, "" when it can."""
        return ""

    def devices(self, case, pcaps):
        """What the two ports are."""
        return [replay(pcap) for pcap in pcaps]

    def start(self, case, pcaps, directory, settings):
        devices = self.devices(case, pcaps)
        config = configuration(self._stages, self._icrc_check, case, devices, settings, self._qos)
        return self.run(config, directory, settings)

    def run(self, config, directory, settings):
        return RunningWeft(config, directory, settings)


class WeftGenerated(Weft):
    """weft-switch fed by its own generator ports. Their cost differs from that of a replay, so ratios say nothing."""

    comparable = False

    def refuses(self, case):
        return "" if case.roce else "generator ports make RoCE alone"

    def devices(self, case, pcaps):
        return [generator(side, case) for side in range(2)]


class WeftBefore:
    """One of the systems above with the weft-switch of another build, to see what changed between the two."""

    comparable = True

    def __init__(self, after):
        self.after = after
        self.name = f"{after.name}-before"
        self.title = f"{after.title}, before"
        self.addressed_to = after.addressed_to

    def missing(self, settings):
        if not settings.before_binary:
            return f"--before BUILD   # {self.name} runs BUILD/bin/weft-switch"
        return self.after.missing(_with_before(settings))

    def refuses(self, case):
        return self.after.refuses(case)

    def start(self, case, pcaps, directory, settings):
        return self.after.start(case, pcaps, directory, _with_before(settings))


def _with_before(settings):
    return dataclasses.replace(settings, switch_binary=settings.before_binary)
