# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""What is compared: the traffic cases, the systems, and the targets."""

import dataclasses

from bench.peers import frames
from bench.peers.inc import BRIDGED, WeftInc, WeftIncBridged
from bench.peers.observed import TIMES_A_SECOND, WeftObserved
from bench.peers.ovs import Ovs
from bench.peers.testpmd import Testpmd
from bench.peers.weft import ROUTER_MACS, Weft, WeftBefore, WeftGenerated

PORTS = 2


@dataclasses.dataclass(frozen=True)
class Case:
    """One kind of traffic. Each port replays `frames_per_port` frames; qps is the number of QPs of both directions."""

    name: str
    title: str
    mix: tuple
    qps: int
    frames_per_port: int
    mbuf_bytes: int
    floor_mpps: float = 0.0  # absolute floor for the weft pipelines with rdma_track, 0 when none
    judged: bool = False  # whether the ratio targets apply
    above_io: float = 0.0  # TSC cycles of a packet beyond those of testpmd io that weft L2 may take, 0: any
    train: int = 1  # frames of one QP that follow each other

    @property
    def largest_frame_bytes(self):
        return max(kind.size_bytes for kind in self.mix)

    @property
    def mean_frame_bytes(self):
        packets = sum(kind.weight for kind in self.mix)
        return sum(kind.size_bytes * kind.weight for kind in self.mix) / packets

    @property
    def roce(self):
        """Whether the frames are RoCE at all."""
        return all(kind.opcode is not frames.PLAIN_UDP for kind in self.mix)

    def frame_lists(self, router_macs=(None, None)):
        """The frames of each port, addressed to that port of a router or to the hosts."""
        flows = [frames.flows(side, self.qps // PORTS, router_macs[side]) for side in range(PORTS)]
        return frames.traffic(self.mix, flows, self.frames_per_port, seed=1, train=self.train)

    def write_pcaps(self, directory, addressed_to):
        """Write the pcap file of each port, with frames addressed to the "host" or to the "router". Returns paths."""
        router_macs = ROUTER_MACS if addressed_to == "router" else (None, None)
        paths = []
        for port, frame_list in enumerate(self.frame_lists(router_macs)):
            paths.append(f"{directory}/{self.name}-{addressed_to}-{port}.pcap")
            frames.write_pcap(paths[-1], frame_list)
        return paths


# OVS sizes its buffers by the MTU: 1500 becomes 2048 bytes and the headroom of 128. Everybody gets that where OVS takes
# part. Larger frames need the buffers that weft has by default.
_SMALL_MBUF_BYTES = 2176
_LARGE_MBUF_BYTES = 8320

CASES = (
    Case("small-16", "62-78 B, 16 QPs", frames.SMALL_MIX, 16, 512, _SMALL_MBUF_BYTES, judged=True, above_io=40),
    Case("small-4096", "62-78 B, 4096 QPs", frames.SMALL_MIX, 4096, 2048, _SMALL_MBUF_BYTES, judged=True, above_io=46),
    # What a window of an RNIC looks like that sends messages of several packets.
    Case("trains", "62-78 B, 256 QPs in trains of 16", frames.SMALL_MIX, 256, 2048, _SMALL_MBUF_BYTES, train=16),
    Case("udp-64", "64 B UDP, one flow", frames.UDP_64, 2, 512, _SMALL_MBUF_BYTES),
    Case("imix", "IMIX, UDP, 16 flows", frames.UDP_IMIX, 16, 384, _SMALL_MBUF_BYTES),
    Case("two-way", "1090 B data and ACK/NAK/CNP, 16 QPs", frames.two_way_mix(1090), 16, 256, _SMALL_MBUF_BYTES),
    Case("data-1090", "1090 B, 16 QPs", frames.data_mix(1090, 1090), 16, 256, _SMALL_MBUF_BYTES),
    # Both carry 4096 bytes, the largest path MTU; a WRITE has a longer header.
    Case("data-4170", "4170 B, 16 QPs", frames.data_mix(4170, 4154), 16, 64, _LARGE_MBUF_BYTES, floor_mpps=6.0),
)


def _destination_flows():
    """One flow per host: the lookup of an L2 switch without its learning."""
    return [
        "dl_dst={},actions=output:{}".format(frames.host_mac(side, host).hex(":"), side + 1)
        for side in range(PORTS)
        for host in range(frames.HOSTS_PER_SIDE)
    ]


IO = "testpmd-io"
OVS = "ovs"
OVS_NORMAL = "ovs-normal"
WEFT_L2 = "weft-l2"
WEFT_L3 = "weft-l3"
WEFT_QOS = "weft-l2-qos"
WEFT_OBSERVED = "weft-l2-observed"

_TODAY = (
    Testpmd(IO, "testpmd io", "io"),
    Testpmd("testpmd-macswap", "testpmd macswap", "macswap"),
    Ovs(OVS, "OVS in_port to output", ["in_port=1,actions=output:2", "in_port=2,actions=output:1"]),
    # A bridge that learns, as weft L2 is; without QPs.
    Ovs(OVS_NORMAL, "OVS NORMAL", ["actions=NORMAL"]),
    Ovs("ovs-normal-avx512", "OVS NORMAL, AVX-512", ["actions=NORMAL"], avx512=True),
    Ovs("ovs-dst", "OVS dl_dst to output", _destination_flows()),
    Weft("weft-bare", "weft parse, l2", ["l2"]),
    Weft(WEFT_L2, "weft L2", ["rdma_track", "l2"]),
    Weft(WEFT_QOS, "weft L2, class queues", ["rdma_track", "l2"], qos=True),
    Weft(WEFT_L3, "weft L3", ["rdma_track", "l3", "lb"]),
    Weft("weft-l2-icrc-sample", "weft L2, ICRC sampled", ["rdma_track", "l2"], icrc_check="sample"),
    Weft("weft-l2-icrc-all", "weft L2, ICRC all", ["rdma_track", "l2"], icrc_check="all"),
    WeftObserved(WEFT_OBSERVED, "weft L2, observed", ["rdma_track", "l2"]),
    WeftGenerated("weft-generated", "weft L2, generator", ["rdma_track", "l2"]),
    WeftInc("weft-inc", "weft AllReduce of eight, generator"),
    WeftIncBridged(BRIDGED, "weft L2 of the same packets"),
)

# The same pipelines in another build; they run only when one is named. Each next to what it is compared with.
SYSTEMS = tuple(
    each for system in _TODAY for each in ((WeftBefore(system), system) if type(system) is Weft else (system,))
)


# The pipeline that the cases' cycles above io are for.
ABOVE_IO = WEFT_L2


@dataclasses.dataclass(frozen=True)
class Target:
    """A ratio that a weft pipeline must reach in the judged cases."""

    system: str
    base: str
    target: float
    floor: float


# Of the speed, what being watched once a second may cost.
WATCHING = 0.01

TARGETS = (
    Target(WEFT_L2, OVS_NORMAL, 1.9, 1.7),
    Target(WEFT_L2, OVS, 1.3, 1.3),
    Target(WEFT_OBSERVED, WEFT_L2, 1 - WATCHING * TIMES_A_SECOND, 1 - WATCHING * TIMES_A_SECOND),
    Target(WEFT_L3, OVS, 1.4, 1.1),
    Target(WEFT_L3, IO, 0.33, 0.26),
)


def names_of(systems, before):
    """Names of all systems; of those of another build only if there is one."""
    return [system.name for system in systems if before or not isinstance(system, WeftBefore)]


def by_name(items, names):
    """The items with these names, in the order of the plan. An unknown name raises KeyError with the known ones."""
    known = {item.name: item for item in items}
    for name in names:
        if name not in known:
            raise KeyError(f"{name} (known: {', '.join(known)})")
    return [item for item in items if item.name in names]
