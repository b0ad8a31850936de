# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""weft-switch that adds up what hosts send: AllReduces of eight ranks, one group for each port.

The ranks are queue pairs of generator ports: a collective takes PSNs that advance and a control message in front of the
data, which a replay of frames cannot give. Every rank gets a result for each of its packets, so that as many leave as
come."""

import struct

from bench.peers import frames
from bench.peers.weft import ROUTER_MACS, Weft, configuration, generator

RANKS = 8
WINDOW = 8
MEMORY_KB = 1024
MAX_INVOCATIONS = 1024
LARGEST_COLLECTIVE_BYTES = 1 << 30  # collectives/engine/control_message.h
_PATH_MTUS = (256, 512, 1024, 2048, 4096)
_FIRST_QPN = 16  # of the switch's ends
_RANK_QPN = 100
# Immediate of a control message: AllReduce, sum, FP32, version, and the number of the collective in the low 16 bits.
_ALLREDUCE_OF_FP32 = 1 << 16


def path_mtu(case):
    """The largest whose packets are not longer than the case's."""
    room = frames.payload_for(frames.SEND_ONLY, case.largest_frame_bytes)
    return max(mtu for mtu in _PATH_MTUS if mtu <= room)


def first_psn(qp):
    """Of a generator's QP with this index (switch/ports/generator_port.h)."""
    return qp * 0x9E3779 % frames.PSN_MODULUS


def _address(port, host):
    return f"192.0.2.{128 * port + host}"


def _rank_mac(port):
    return f"02:00:00:00:{port:02x}:01"


def ranks(port, case):
    """The device keys of a port with the ranks of its group behind it, which run one AllReduce after the other."""
    mtu = path_mtu(case)
    packets = LARGEST_COLLECTIVE_BYTES // mtu
    payload = struct.pack(">IHHQ", port + 1, 0, 0, packets * mtu)
    return generator(port, case) | {
        "qps": RANKS,
        "first_qpn": _FIRST_QPN,
        "payload_bytes": mtu,
        "opcodes": ["RC_SEND_ONLY"],
        "control": {"every": packets + 1, "immediate": _ALLREDUCE_OF_FP32, "payload": list(payload)},
        "source_mac": _rank_mac(port),
        "destination_mac": ROUTER_MACS[port].hex(":"),
        "source": _address(port, 2),
        "destination": _address(port, 1),
    }


def group(port, case):
    """The group of a port's ranks. Nobody acknowledges results: a collective is known until there are too many."""
    endpoints = [
        {
            "address": _address(port, 1),
            "qp": _FIRST_QPN + rank,
            "peer": _address(port, 2),
            "peer_qp": _RANK_QPN + rank,
            "rank": rank,
            "first_rx": first_psn(rank),
        }
        for rank in range(RANKS)
    ]
    shape = {"mtu": path_mtu(case), "message_packets": 1, "window": WINDOW, "invocations": MAX_INVOCATIONS}
    return {"id": port + 1, "ranks": RANKS, **shape, "endpoints": endpoints}


BRIDGED = "weft-inc-bridged"


class WeftInc(Weft):
    """weft-switch with `inc` between its own generator ports. These cost something else than a replay: it is compared
    with a bridge that has the same ports and packets, and with nothing else."""

    comparable = False
    same_packets = BRIDGED

    def __init__(self, name, title):
        super().__init__(name, title, ["inc", "l3"])

    def refuses(self, case):
        return "" if {kind.name for kind in case.mix} <= {"SEND", "WRITE"} else "collectives are data packets alone"

    def devices(self, case, pcaps):
        return [ranks(port, case) for port in range(2)]

    def start(self, case, pcaps, directory, settings):
        return self.run(self.configuration(case, settings), directory, settings)

    def configuration(self, case, settings):
        """The whole of it as a dictionary."""
        config = configuration(["inc", "l3"], "off", case, self.devices(case, ()), settings)
        (switch,) = config["switches"]
        switch["addresses"] = [{"port": f"p{port}", "address": _address(port, 1) + "/25"} for port in range(2)]
        switch["neighbours"] = [
            {"port": f"p{port}", "address": _address(port, 2), "mac": _rank_mac(port)} for port in range(2)
        ]
        del switch["routes"]
        groups = [group(port, case) for port in range(2)]
        switch["pipeline"] = ["parse", {"inc": {"memory_kb": MEMORY_KB, "groups": groups}}, "l3"]
        return config


class WeftIncBridged(WeftInc):
    """A bridge that passes the ranks' packets to the other port, which costs generators, ports and the forwarding."""

    same_packets = ""

    def devices(self, case, pcaps):
        return [ranks(port, case) | {"destination_mac": _rank_mac(1 - port)} for port in range(2)]

    def configuration(self, case, settings):
        return configuration(["l2"], "off", case, self.devices(case, ()), settings)
