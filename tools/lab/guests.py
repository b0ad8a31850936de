# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""Hosts that are Linux guests with Soft-RoCE (rdma_rxe), made by the harness of tests/guests; perftest is the traffic.

weft-lab runs in the namespace of the fabric then, so that the guests' network devices are there and nowhere else.
"""
import contextlib
import math
import os
import pathlib
import re
import shutil
import sys

from tools.lab import experiment, fabric
from tools.lab.namespaces import LabError

_TESTS = pathlib.Path(__file__).resolve().parents[2] / "tests"
# What perftest takes for a transport timeout is a power of two of 4.096 us. A guest that gets no CPU for longer than
# the smaller ones would send again what nobody lost.
MIN_QP_TIMEOUT = 17  # 0.54 s


def _harness(programs):
    """The modules of tests/guests; only those who want guests need them. `programs`: the folder of weft's programs."""
    if not _TESTS.is_dir():
        raise LabError("Soft-RoCE guests need weft's source tree: run its tools/lab/weft-lab")
    for folder in ("guests", "live"):
        if str(_TESTS / folder) not in sys.path:
            sys.path.insert(0, str(_TESTS / folder))
    os.environ.setdefault("WEFT_BIN", os.path.abspath(programs))
    import channel  # pylint: disable=import-outside-toplevel
    import evidence  # pylint: disable=import-outside-toplevel
    import guest  # pylint: disable=import-outside-toplevel
    import rdma_tools  # pylint: disable=import-outside-toplevel
    reason = guest.missing_requirements()
    if reason:
        raise LabError(reason)
    return channel, evidence, guest, rdma_tools


class _Place:
    """What a guest wants to know about its lab. Its tap is called to-HOST, as fabric.host_interface() has it."""

    prefix = "to-"

    def __init__(self, folder, stack, evidence):
        self.directory = folder
        self.on_exit = stack.callback
        self.evidence = evidence


class GuestBench(experiment.Bench):
    def __init__(self, lab, site, programs):
        super().__init__(lab, site, programs)
        self._stack = contextlib.ExitStack()
        self._guests = {}
        self._channel, evidence, self._guest, self._tools = _harness(programs)
        self._save_evidence = evidence.save
        self._evidence = evidence.Collection()
        self._evidence.add(self._write_switch_log)
        self._stack.callback(self._evidence.close)

    @contextlib.contextmanager
    def _told(self):
        """What goes wrong in a guest, as weft-lab says it; what the guests and the switch have to say is kept."""
        try:
            yield
        except (AssertionError, self._channel.ChannelClosed) as error:  # the harness is one of tests
            self._save_evidence(self._evidence, name=f"weft-lab-{self._site.name}")
            raise LabError(str(error)) from None

    def _write_switch_log(self, folder):
        for name in ("switch.log", "weft.yaml"):
            if os.path.exists(self._site.path(name)):
                shutil.copy(self._site.path(name), folder)

    def make_hosts(self):
        with self._told():
            self._boot()

    def _boot(self):
        place = _Place(self._site.folder, self._stack, self._evidence)
        for host in self._lab.hosts:
            self._guests[host.name] = self._guest.Guest(place, host.name, "tap", [str(host.address)],
                                                        self._lab.topology.mtu_bytes)
        for host in self._lab.hosts:
            self._guests[host.name].wait_up()
            self._guests[host.name].configure([str(host.address)], [host.gateway] if host.gateway else [])

    def close(self):
        self._stack.close()

    def _start_servers(self, stack):
        """perftest's servers are for one transfer each."""

    # --- measuring ---------------------------------------------------------------------------------------------------

    def _jitter_of(self, variant, timing):
        flow = self._lab.workload.flows[0]
        with self._told(), self.running(variant, experiment.MIN_GUARD_US):
            self._ping(flow, 3)
            idle = self._ping(flow, timing.probes)
            load = self._transfers(variant, experiment.MAX_RTO_US)
            busy = self._ping(flow, timing.probes)
            for job in (job for each in load for job in (each.client, each.server)):
                job.kill()
                job.wait()
        return experiment.Jitter(*idle, *busy, fabric.backlog_us(self._lab, variant.nic), timing.probes)

    def _ping(self, flow, count):
        """Typical and longest round trip in microseconds."""
        target = self._hosts[flow.target].address.ip
        out = self._guests[flow.source].check(f"ping -n -q -c {count} -i 0.01 -W 5 {target}", timeout=60)
        times = re.search(r"= [\d.]+/([\d.]+)/([\d.]+)/", out)
        if not times:
            raise LabError(f"{flow.source} cannot ping {flow.target}:\n{out}")
        return float(times[1]) * 1000, float(times[2]) * 1000

    def _transfers(self, variant, rto_us):
        """Starts all flows."""
        size, nic = self._lab.workload.message_bytes, variant.nic
        depth = max(1, nic.window * nic.mtu // size)
        options = f"-D {self._lab.workload.duration_s} -f 0 -s {size} -m {nic.mtu} -t {depth}"
        options += " -R" if nic.cm else ""
        limit_s = self._lab.workload.duration_s + self._lab.workload.limit_s
        return [self._tools.PerftestRun("ib_write_bw", self._guests[flow.source], self._guests[flow.target], options,
                                        timeout=limit_s, qp_timeout=qp_timeout(rto_us),
                                        port=self._tools.PERFTEST_PORT + number)
                for number, flow in enumerate(self._lab.workload.flows)]

    def _run_flows(self, variant, found):
        with self._told():
            before = self._counters()
            done = [each.wait() for each in self._transfers(variant, found.rto_us)]
            after = self._counters()
        gained = {name: {key: after[name][key] - before[name][key] for key in after[name]} for name in after}
        return [self._result(flow, variant, gained, each.out) for flow, each in zip(self._lab.workload.flows, done)]

    def _counters(self):
        return {name: each.hw_counters() for name, each in self._guests.items()}

    def _result(self, flow, variant, gained, out):
        """rdma_rxe counts by device: a packet that a host sends as a receiver counts as one that it sends."""
        size = self._lab.workload.message_bytes
        messages = int(out.strip().splitlines()[-2].split()[1])
        # Besides these there are the messages that were under way at the end.
        needed = messages * math.ceil(size / variant.nic.mtu) + variant.nic.window
        qp = {"request_packets": gained[flow.source]["sent_pkts"],
              "retransmitted": max(0, gained[flow.source]["sent_pkts"] - needed),
              "spurious": gained[flow.target]["duplicate_request"],
              "server_naks_sent": gained[flow.target]["out_of_seq_request"]}
        summary = {"messages": messages, "bytes": size, "seconds": self._lab.workload.duration_s, "qps": [qp]}
        return experiment.FlowResult(flow, summary, [])


def qp_timeout(rto_us):
    """The exponent of a transport timeout of at least rto_us."""
    return min(31, max(MIN_QP_TIMEOUT, math.ceil(math.log2(rto_us / 4.096))))
