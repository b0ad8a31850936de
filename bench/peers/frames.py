# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""RoCEv2 frames with a correct ICRC, and the pcap files that the speed comparison replays.

Everything here is deterministic: the same arguments give the same bytes, so every system under test and every machine
replays identical traffic. Only the standard library is used.
"""

import dataclasses
import random
import struct
import zlib

ROCE_UDP_PORT = 4791
ETHERNET_BYTES = 14
IPV4_BYTES = 20
UDP_BYTES = 8
BTH_BYTES = 12
ICRC_BYTES = 4
PSN_MODULUS = 1 << 24
PLAIN_UDP = None  # in the place of an opcode: the frame is no RoCE
PLAIN_UDP_PORT = 5678  # of pktgen
PLAIN_UDP_BYTES = ETHERNET_BYTES + IPV4_BYTES + UDP_BYTES

# BTH opcodes, IBTA volume 1, table 38 (RC service) and annex A17 (CNP).
SEND_FIRST = 0x00
SEND_MIDDLE = 0x01
SEND_LAST = 0x02
SEND_ONLY = 0x04
WRITE_FIRST = 0x06
WRITE_MIDDLE = 0x07
WRITE_LAST = 0x08
WRITE_ONLY = 0x0A
ACKNOWLEDGE = 0x11
CNP = 0x81

AETH_ACK = 0x1F  # positive acknowledge, no end-to-end credit limit
AETH_NAK_SEQUENCE_ERROR = 0x60

_WITH_RETH = frozenset({WRITE_FIRST, WRITE_ONLY})
_WITHOUT_PAYLOAD = frozenset({ACKNOWLEDGE, CNP})


@dataclasses.dataclass(frozen=True)
class Flow:
    """One direction of one RC connection: everything of a frame that does not change from packet to packet."""

    source_mac: bytes
    destination_mac: bytes
    source_ip: bytes
    destination_ip: bytes
    udp_source_port: int
    destination_qpn: int


def mac(text):
    """Six bytes of a MAC address written as 02:00:00:00:00:01."""
    return bytes.fromhex(text.replace(":", ""))


def ipv4_checksum(header):
    """Header checksum of RFC 791 over a header whose checksum field is zero."""
    total = sum(struct.unpack(f"!{len(header) // 2}H", header))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def icrc(frame):
    """ICRC, as the four bytes on the wire, of an Ethernet/IPv4 RoCEv2 frame given without its ICRC (IBTA annex A17).

    The CRC-32 runs over eight bytes of ones in place of the absent LRH, then the packet from the IP header on with the
    fields that routers may change set to ones.
    """
    packet = bytearray(frame[ETHERNET_BYTES:])
    udp = (packet[0] & 0x0F) * 4
    bth = udp + UDP_BYTES
    packet[1] = 0xFF  # type of service
    packet[8] = 0xFF  # time to live
    packet[10:12] = b"\xff\xff"  # header checksum
    packet[udp + 6 : udp + 8] = b"\xff\xff"  # UDP checksum
    packet[bth + 4] = 0xFF  # FECN, BECN, reserved
    return struct.pack("<I", zlib.crc32(bytes(packet), zlib.crc32(b"\xff" * 8)))


def build_frame(flow, opcode, psn, payload=b"", *, syndrome=AETH_ACK, msn=0, virtual_address=0, rkey=0x1234):
    """One Ethernet frame, without FCS. ACKNOWLEDGE carries an AETH, the first or only packet of a WRITE an RETH."""
    if opcode in _WITHOUT_PAYLOAD and payload:
        raise ValueError(f"opcode {opcode:#04x} carries no payload")
    pad = -len(payload) % 4
    ack_request = opcode in (SEND_LAST, SEND_ONLY, WRITE_LAST, WRITE_ONLY)
    transport = struct.pack(
        "!BBHII",
        opcode,
        0x40 | pad << 4,  # migration state "migrated", as every RNIC sends it
        0xFFFF,
        flow.destination_qpn,
        ack_request << 31 | psn % PSN_MODULUS,
    )
    if opcode in _WITH_RETH:
        transport += struct.pack("!QII", virtual_address, rkey, len(payload))
    elif opcode == ACKNOWLEDGE:
        transport += struct.pack("!I", syndrome << 24 | msn % (1 << 24))
    elif opcode == CNP:
        transport = bytearray(transport + bytes(16))
        transport[1] = 0  # as ConnectX RNICs send it
        transport[4] = 0x40  # BECN
    body = bytes(transport) + payload + bytes(pad)
    udp_bytes = UDP_BYTES + len(body) + ICRC_BYTES
    ip = struct.pack(
        "!BBHHHBBH4s4s",
        0x45,
        0x02 if opcode not in _WITHOUT_PAYLOAD else 0x00,  # ECT(0) on data packets
        IPV4_BYTES + udp_bytes,
        0,
        0x4000,
        64,
        17,
        0,
        flow.source_ip,
        flow.destination_ip,
    )
    ip = ip[:10] + struct.pack("!H", ipv4_checksum(ip)) + ip[12:]
    udp = struct.pack("!HHHH", flow.udp_source_port, ROCE_UDP_PORT, udp_bytes, 0)
    frame = flow.destination_mac + flow.source_mac + b"\x08\x00" + ip + udp + body
    return frame + icrc(frame)


def build_udp_frame(flow, size_bytes, number):
    """One plain UDP frame of exactly size_bytes without FCS, as pktgen makes it: nothing in it is RoCE."""
    payload = bytes((number + offset) & 0xFF for offset in range(size_bytes - PLAIN_UDP_BYTES))
    ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, size_bytes - ETHERNET_BYTES, 0, 0x4000, 64, 17, 0,
                     flow.source_ip, flow.destination_ip)
    ip = ip[:10] + struct.pack("!H", ipv4_checksum(ip)) + ip[12:]
    udp = struct.pack("!HHHH", flow.udp_source_port, PLAIN_UDP_PORT, UDP_BYTES + len(payload), 0)
    return flow.destination_mac + flow.source_mac + b"\x08\x00" + ip + udp + payload


def frame_bytes(opcode, payload_bytes):
    """Size of the frame that build_frame makes, without FCS."""
    extension = 16 if opcode in _WITH_RETH or opcode == CNP else 4 if opcode == ACKNOWLEDGE else 0
    fixed = ETHERNET_BYTES + IPV4_BYTES + UDP_BYTES + BTH_BYTES + extension + ICRC_BYTES
    return fixed + payload_bytes + -payload_bytes % 4


def payload_for(opcode, size_bytes):
    """Payload size that makes a frame of exactly size_bytes."""
    payload_bytes = size_bytes - frame_bytes(opcode, 0)
    if payload_bytes < 0 or payload_bytes % 4:
        raise ValueError(f"no frame of opcode {opcode:#04x} has {size_bytes} bytes")
    return payload_bytes


# --- traffic ---------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Kind:
    """One kind of packet in a mix. weight counts packets; size_bytes is the size of the whole frame."""

    name: str
    opcode: int
    size_bytes: int
    weight: int
    syndrome: int = AETH_ACK


# One NAK and one CNP in 512: what a network with trouble sends. (`two_way_mix` has far more of them.)
SMALL_MIX = (
    Kind("ACK", ACKNOWLEDGE, 62, 254),
    Kind("NAK", ACKNOWLEDGE, 62, 1, AETH_NAK_SEQUENCE_ERROR),
    Kind("CNP", CNP, 74, 1),
    Kind("SEND", SEND_ONLY, 74, 171),
    Kind("WRITE", WRITE_ONLY, 78, 85),
)


# 64 bytes with the FCS; and the "simple IMIX" of 64, 594 and 1518 bytes as 7 : 4 : 1.
UDP_64 = (Kind("UDP", PLAIN_UDP, 60, 1),)
UDP_IMIX = (Kind("UDP", PLAIN_UDP, 60, 7), Kind("UDP", PLAIN_UDP, 590, 4), Kind("UDP", PLAIN_UDP, 1514, 1))


def data_mix(write_bytes, send_bytes):
    """WRITE and SEND messages of one packet each."""
    return (Kind("WRITE", WRITE_ONLY, write_bytes, 3), Kind("SEND", SEND_ONLY, send_bytes, 1))


def two_way_mix(size_bytes):
    """Data in both directions with the acknowledges, NAKs and CNPs that go with it: half data, half control."""
    return (
        Kind("WRITE", WRITE_ONLY, size_bytes, 6),
        Kind("SEND", SEND_ONLY, size_bytes, 2),
        Kind("ACK", ACKNOWLEDGE, 62, 6),
        Kind("NAK", ACKNOWLEDGE, 62, 1, AETH_NAK_SEQUENCE_ERROR),
        Kind("CNP", CNP, 74, 1),
    )


HOSTS_PER_SIDE = 16


def host_mac(side, host):
    """MAC address of a host; side is the port (0 or 1) that it is attached to."""
    return bytes([0x02, 0x00, 0x00, 0x01, side, host])


def host_ip(side, host):
    """IPv4 address of a host, from the benchmarking range of RFC 2544 (198.18.0.0/15)."""
    return bytes([198, 18, side, 10 + host])


def flows(side, qps, destination_mac=None):
    """The flows that enter at one port: one direction of qps connections. The other side carries the other direction.

    With destination_mac every frame is addressed to that router, otherwise to the destination host itself.
    """
    result = []
    for number in range(qps):
        ends = (number % HOSTS_PER_SIDE, (number // HOSTS_PER_SIDE + number) % HOSTS_PER_SIDE)
        source, destination = ends[side], ends[1 - side]
        result.append(
            Flow(
                source_mac=host_mac(side, source),
                destination_mac=destination_mac or host_mac(1 - side, destination),
                source_ip=host_ip(side, source),
                destination_ip=host_ip(1 - side, destination),
                # RNICs derive the port from the QP number and keep the two top bits set.
                udp_source_port=0xC000 | (number * 0x9E37 + side) & 0x3FFF,
                destination_qpn=0x1000 * (side + 1) + number,
            )
        )
    return result


def shuffled(items, seed):
    """The items in an order that depends on nothing but the seed."""
    result = list(items)
    random.Random(seed).shuffle(result)
    return result


class _Deck:
    """Draws the kinds of a mix in random order, each as often as its weight says."""

    def __init__(self, kinds, order):
        self._all = [kind for kind in kinds for _ in range(kind.weight)]
        self._order = order
        self._left = []

    def draw(self):
        if not self._left:
            self._left = self._all[:]
            self._order.shuffle(self._left)
        return self._left.pop()


def traffic(mix, flow_lists, count, seed, train=1):
    """The frames of both ports, `count` each; flow_lists are the two directions of the same connections.

    Connections take turns after `train` frames; with one, neighbours in a burst belong to different QPs. Where the
    mix has answers, one side of a connection, chosen at random, sends a request and the other side answers that very
    PSN; otherwise both send requests. The PSNs of a direction's requests advance by one from a random start, as RNICs
    choose it; a replay starts again at the first.
    """
    order = random.Random(seed)
    requests = _Deck([kind for kind in mix if kind.opcode not in _WITHOUT_PAYLOAD], order)
    answers = _Deck([kind for kind in mix if kind.opcode in _WITHOUT_PAYLOAD], order)
    has_answers = any(kind.opcode in _WITHOUT_PAYLOAD for kind in mix)
    connections = len(flow_lists[0])
    sent = [[0] * connections for _ in flow_lists]
    start = [[order.randrange(PSN_MODULUS) for _ in range(connections)] for _ in flow_lists]
    result = [[] for _ in flow_lists]

    def add(side, index, kind, psn, msn):
        if kind.opcode is PLAIN_UDP:
            result[side].append(build_udp_frame(flow_lists[side][index], kind.size_bytes, len(result[side])))
            return
        payload_bytes = payload_for(kind.opcode, kind.size_bytes)
        payload = bytes((len(result[side]) + offset) & 0xFF for offset in range(payload_bytes))
        flow = flow_lists[side][index]
        result[side].append(build_frame(flow, kind.opcode, psn, payload, syndrome=kind.syndrome, msn=msn))

    for number in range(count):
        index = number // train % connections
        first = order.randrange(2)
        for side in (first, 1 - first):
            if side != first and has_answers:
                kind = answers.draw()
                asked = sent[first][index]
                psn = 0 if kind.opcode == CNP else start[first][index] + asked - 1
                add(side, index, kind, psn, asked)
            else:
                add(side, index, requests.draw(), start[side][index] + sent[side][index], 0)
                sent[side][index] += 1
    return result


def write_pcap(path, frame_list):
    """Write a classic little-endian pcap file (microseconds, link type Ethernet), one frame per microsecond."""
    with open(path, "wb") as out:
        out.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
        for number, frame in enumerate(frame_list):
            out.write(struct.pack("<IIII", number // 1_000_000, number % 1_000_000, len(frame), len(frame)))
            out.write(frame)
