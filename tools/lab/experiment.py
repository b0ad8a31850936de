# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""Runs the variants of a lab, one after the other, on the same hosts."""
import contextlib
import dataclasses
import json
import os
import re
import signal
import subprocess
import time

from tools.lab import emitter, fabric, namespaces
from tools.lab.namespaces import LabError

START_TIMEOUT_S = 30
RNIC_PORT = 18515
LOST = "impair_loss"  # the reason of a drop that a lab asked for
# The guard and the retransmission timeout are made from the longest round trip that was measured under load: the guard
# must outlast the path skew and the last hop's round trip, both of which are parts of one round trip; the timeout must
# leave the guard the time to act, and outlast the queue that all flows of a rack can build on one path.
GUARD_ROUND_TRIPS = 2
RTO_ROUND_TRIPS = 6
MIN_GUARD_US = 1000
MIN_RTO_US = 200_000  # seven of them: a machine that is away for a second breaks no connection
MAX_RTO_US = 2_000_000
UNMEASURED_US = 50_000
LOAD_SAMPLE_MS = 100  # how soon a load says that it is under way: weft-rnic takes no less
HICCUP_US = 100_000
CALM_ATTEMPTS = 3
LONGEST_RUN_S = 900

_WATCH = re.compile(r"\s*([\d.]+) s\s+([\d.]+) Gbit/s\s+retransmitted (\d+)\s+naks (\d+)\s+timeouts (\d+)")
_RATE = re.compile(r"\s*([\d.]+) s .* rate ([\d.]+)$")


@dataclasses.dataclass(frozen=True)
class Jitter:
    """Round trips between two hosts of different racks, in microseconds."""

    idle_typical_us: float
    idle_max_us: float
    busy_typical_us: float
    busy_max_us: float
    backlog_us: float
    probes: int


@dataclasses.dataclass(frozen=True)
class Limits:
    guard_us: int
    rto_us: int


@dataclasses.dataclass(frozen=True)
class FlowResult:
    flow: object
    summary: dict  # weft-rnic --json
    samples: list  # (seconds, Gbit/s, retransmitted, naks, timeouts) since the start
    rates: list = dataclasses.field(default_factory=list)  # (seconds, Gbit/s) that congestion control allows


@dataclasses.dataclass(frozen=True)
class VariantResult:
    variant: object
    flows: list
    ports: list  # weftctl --json show ports
    filter_rows: list  # weftctl --json show nack_filter
    drops: list
    uplinks: dict
    sending_racks: set  # the switches of hosts that send data
    wall_s: float
    # weftctl --json show STAGE, of those in STAGE_TABLES, and order_rows()
    stages: dict = dataclasses.field(default_factory=dict)


# Stages whose sums a report shows, where switches have them.
STAGE_TABLES = ("pnp", "trp")
# The stages that restore order, and how the names of their counters about it begin.
ORDER_STAGES = {"reorder": ("reorder", ""), "conweave": ("lb_tag", "conweave_")}


def limits(jitter, timing):
    """What the file says, or what follows from the jitter (None: it is not known)."""
    longest = _longest_us(jitter) if jitter else UNMEASURED_US
    guard = timing.guard_us or _round_up(max(MIN_GUARD_US, GUARD_ROUND_TRIPS * longest))
    rto = max(MIN_RTO_US, RTO_ROUND_TRIPS * longest, 2 * guard) + (jitter.backlog_us if jitter else 0)
    rto = timing.rto_us or min(MAX_RTO_US, _round_up(rto))
    return Limits(guard, rto)


def calmest(measure):
    """The jitter that `measure` finds; that of the calmest of some attempts, if the machine was away for so long that
    no guard should be made from it."""
    found = []
    while len(found) < CALM_ATTEMPTS and (not found or min(map(_longest_us, found)) > HICCUP_US):
        found.append(measure())
    return min(found, key=_longest_us)


def _longest_us(jitter):
    return max(jitter.idle_max_us, jitter.busy_max_us)


def _round_up(us):
    """To two digits, so that people can say the number."""
    step = 10 ** max(0, len(str(int(us))) - 2)
    return -int(-us // step) * step


def flow_command(rnic, source, target, nic, workload, rto_us, sample_ms):
    """The client of a flow."""
    words = [rnic, "write_bw", str(target.address.ip), "--address", source.sender(), "--json",
             "--size", str(workload.message_bytes), "--tx-depth", "16", "--watch", f"{sample_ms / 1000:g}",
             "--mtu", str(nic.mtu), "--window", str(nic.window), "--loss-recovery", nic.transport,
             "--renack", nic.renack, "--reorder-window", str(nic.reorder_window), "--rto-us", str(rto_us),
             "--cc", nic.cc, "--timeout", str(workload.limit_s)]
    if workload.bytes:
        words += ["--iters", str(max(1, workload.bytes // workload.message_bytes))]
    else:
        words += ["--duration", str(workload.duration_s)]
    if nic.cc == "dcqcn":
        words += ["--dcqcn", nic.preset]
    if nic.constants:
        words += ["--cc-constant", ",".join(f"{name}={value}" for name, value in nic.constants.items())]
    if nic.rate_gbps is not None:
        words += ["--rate-gbps", f"{nic.rate_gbps:g}"]
    if nic.nack_is_cnp:
        words.append("--nack-is-cnp")
    return words


@dataclasses.dataclass(frozen=True)
class Origin:
    """What a report was made with, and when."""

    version: str  # of weft-switch
    date: str  # with the time of day, UTC

    def text(self):
        return f"weft {self.version}, {self.date}."


def origin(programs):
    version = subprocess.run([os.path.join(programs, "weft-switch"), "--version"], capture_output=True, text=True,
                             timeout=60, check=True).stdout.strip()
    return Origin(version, time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()))


class Bench:
    """Hosts with weft-rnic, and the fabric between them."""

    def __init__(self, lab, site, programs):
        self._lab = lab
        self._site = site
        self._programs = programs
        self._hosts = {host.name: host for host in lab.hosts}

    def make_hosts(self):
        for host in self._lab.hosts:
            self._site.add_host(host, fabric.host_interface(host), self._lab.topology.mtu_bytes,
                                self.addresses(host))

    def addresses(self, host):
        """Those that the host has."""
        return host.addresses()

    def program(self, name):
        return os.path.join(self._programs, name)

    def start_switch(self, variant, guard_us, detached=False):
        """The fabric of a variant, forwarding."""
        written = emitter.Emitter(fabric.document(self._lab, variant, self._site.socket, guard_us))
        with open(self._site.path("weft.yaml"), "w", encoding="utf-8") as file:
            file.write(written.text)
        log = self._site.path("switch.log")
        if os.path.exists(log):
            os.truncate(log, 0)
        process = self._site.spawn(self._site.fabric, [self.program("weft-switch"), "-c", file.name], "switch.log",
                                   detached)
        namespaces.wait_for(lambda: "info: forwarding" in _read(log), "weft-switch to forward", START_TIMEOUT_S,
                            process, log)
        return process

    def start_server(self, host, detached=False):
        log = f"{host.name}.server.log"
        path = self._site.path(log)
        if os.path.exists(path):
            os.truncate(path, 0)
        process = self._site.spawn(
            self._site.namespace(host.name),
            [self.program("weft-rnic"), "serve", "--interface", "eth0", "--address", str(host.address.ip)], log,
            detached)
        namespaces.wait_for(lambda: f"port {RNIC_PORT}" in _read(path), f"the server of {host.name}", START_TIMEOUT_S,
                            process, path)
        return process

    @contextlib.contextmanager
    def running(self, variant, guard_us):
        """The fabric of a variant and the servers of all hosts that flows go to."""
        with contextlib.ExitStack() as stack:
            switch = self.start_switch(variant, guard_us)
            stack.callback(namespaces.stop, switch)
            self._start_servers(stack)
            yield switch
            stack.pop_all().close()
            if switch.returncode != 0:
                raise LabError(f"weft-switch ended with {switch.returncode}:\n{_read(self._site.path('switch.log'))}")

    def _start_servers(self, stack):
        for name in sorted({flow.target for flow in self._lab.workload.flows}):
            stack.callback(namespaces.stop, self.start_server(self._hosts[name]))

    def close(self):
        """Nothing: the namespaces take it all along."""

    # --- measuring ---------------------------------------------------------------------------------------------------

    def jitter(self, timing):
        """Round trips along the first flow, the longest of the first and the last variant: one of them sprays, and
        its probes meet the queues of all paths."""
        found = []
        for variant in {each.name: each for each in (self._lab.variants[0], self._lab.variants[-1])}.values():
            plain = dataclasses.replace(variant, nack_filter=None, loss=0.0)
            found.append(calmest(lambda plain=plain: self._jitter_of(plain, timing)))
        return dataclasses.replace(max(found, key=lambda each: each.busy_max_us),
                                   idle_max_us=max(each.idle_max_us for each in found))

    def _jitter_of(self, variant, timing):
        """On the idle fabric and while all flows run."""
        flow = self._lab.workload.flows[0]
        with self.running(variant, MIN_GUARD_US):
            idle = self._latency(flow, timing.probes)
            loads = [self._start_flow(each, variant, MAX_RTO_US, f"load{number}", LOAD_SAMPLE_MS)
                     for number, each in enumerate(self._lab.workload.flows)]
            try:
                # A flow that goes far connects when probes that stay near are done already: it would be no load, and
                # the signal that ends it would meet a client without a connection, for which that is a failure.
                for load in loads:
                    namespaces.wait_for(load.under_way, f"{load.flow.text()} to be under way", START_TIMEOUT_S)
                busy = self._latency(flow, timing.probes)
            finally:
                for load in loads:
                    load.process.send_signal(signal.SIGINT)
                for load in loads:
                    load.finish(LONGEST_RUN_S)
        return Jitter(2 * idle["typical_us"], 2 * idle["max_us"], 2 * busy["typical_us"], 2 * busy["max_us"],
                      fabric.backlog_us(self._lab, variant.nic), timing.probes)

    def _latency(self, flow, probes):
        source, target = self._hosts[flow.source], self._hosts[flow.target]
        # A lost probe waits for its timeout, which would be taken for jitter: short ones, many of them.
        out = namespaces.run(
            "ip", "netns", "exec", self._site.namespace(source.name), self.program("weft-rnic"), "write_lat",
            str(target.address.ip), "--address", source.sender(2), "--size", "64", "--iters", str(probes),
            "--rto-us", str(MAX_RTO_US), "--json", timeout=self._lab.workload.limit_s + 30)
        return json.loads(out)

    def _start_flow(self, flow, variant, rto_us, label, sample_ms):
        source, target = self._hosts[flow.source], self._hosts[flow.target]
        command = flow_command(self.program("weft-rnic"), source, target, variant.nic, self._lab.workload, rto_us,
                               sample_ms)
        log = f"{label}.log"
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._site.path(log))
        process = self._site.spawn(self._site.namespace(source.name), command, log, stdout=subprocess.PIPE, text=True)
        return Load(flow, process, self._site.path(log))

    def measure(self, variant, found):
        """Runs the workload on a variant."""
        with self.running(variant, found.guard_us):
            started = time.monotonic()
            flows = self._run_flows(variant, found)
            wall_s = time.monotonic() - started
            return VariantResult(variant, flows, self._show("ports"), self._show("nack_filter"), self._show("drops"),
                                 fabric.uplinks(self._lab), fabric.sending_racks(self._lab), wall_s,
                                 {**{name: self._show(name) for name in STAGE_TABLES},
                                  **order_rows(self._show("counters"))})

    def _run_flows(self, variant, found):
        running = [self._start_flow(flow, variant, found.rto_us, f"flow{number}", self._lab.sample_ms)
                   for number, flow in enumerate(self._lab.workload.flows)]
        try:
            return [each.finish(LONGEST_RUN_S) for each in running]
        finally:
            for each in running:
                namespaces.stop(each.process)

    def _show(self, table):
        """Rows of weftctl; none for a table that the switch does not have."""
        result = subprocess.run([self.program("weftctl"), "--socket", self._site.socket, "--json", "show", table],
                                capture_output=True, text=True, timeout=60, check=False)
        return json.loads(result.stdout) if result.returncode == 0 else []


class Load:
    """A flow under way."""

    def __init__(self, flow, process, log):
        self.flow = flow
        self.process = process
        self._log = log

    def under_way(self):
        """Whether messages of it have arrived; also when it has ended, whose reason finish() tells."""
        return self.process.poll() is not None or any(sample[1] > 0 for sample in parse_samples(_read(self._log)))

    def finish(self, limit_s):
        try:
            out, _ = self.process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            raise LabError(f"{self.flow.source} -> {self.flow.target}: not done within {limit_s} s") from None
        said = _read(self._log)
        if self.process.returncode != 0:
            raise LabError(f"{self.flow.source} -> {self.flow.target}: weft-rnic ended with "
                           f"{self.process.returncode}\n{said.strip()[-1000:]}")
        return FlowResult(self.flow, json.loads(out), parse_samples(said), parse_rates(said))


def order_rows(counters):
    """A row of counters for each switch that restored order, by the names in ORDER_STAGES.

    counters  weftctl --json show counters"""
    found = {name: {} for name in ORDER_STAGES}
    for row in counters:
        for name, (stage, prefix) in ORDER_STAGES.items():
            if row["stage"] == stage and row["counter"].startswith(prefix):
                found[name].setdefault(row["switch"], {})[row["counter"].removeprefix(prefix)] = row["value"]
    return {name: [{"switch": switch, **values} for switch, values in rows.items() if any(values.values())]
            for name, rows in found.items()}


def parse_samples(text):
    """(seconds, Gbit/s, retransmitted, naks, timeouts) of each line of weft-rnic --watch."""
    found = []
    for line in text.splitlines():
        match = _WATCH.match(line)
        if match:
            found.append((float(match[1]), float(match[2]), *map(int, match.groups()[2:])))
    return found


def parse_rates(text):
    """(seconds, Gbit/s) of each line of weft-rnic --watch that says what rate its first queue pair may send at."""
    found = map(_RATE.match, text.splitlines())
    return [(float(match[1]), float(match[2])) for match in found if match]


def _read(path):
    if not os.path.exists(path):
        return ""
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()
