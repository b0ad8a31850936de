#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""What a host does in the live test of qos: sends marked packets and PFC frames, and counts what it sees on its wire.

qos_host.py send ADDRESS TOS PACKETS RATE_PPS | watch | pfc CLASSES QUANTA TIMES
"""
import collections
import json
import select
import socket
import struct
import sys
import time

ETH_P_ALL = 3
MAC_CONTROL = 0x8808
PFC = 0x0101
SO_RCVBUFFORCE = 33
SOL_PACKET = 263
PACKET_STATISTICS = 6


def send(address, tos, packets, rate_pps):
    out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    out.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, tos)
    begin = time.monotonic()
    for number in range(packets):
        late = begin + number / rate_pps - time.monotonic()
        if late > 0.0005:
            time.sleep(late)
        out.sendto(bytes(1000 - 42), (address, 9999))


def raw():
    out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    # All that a test sends: the default holds what comes in a twentieth of a second.
    out.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 32 << 20)
    out.bind(("eth0", 0))
    return out


def watch():
    """Until stdin ends; then prints how many IPv4 packets came with each TOS, which PFC frames, when packets of each
    TOS came, and how many frames the kernel dropped because this program was too slow."""
    wire = raw()
    tos_seen = collections.Counter()
    xoff = collections.Counter()
    xon = collections.Counter()
    times = collections.defaultdict(list)
    checksums_wrong = 0
    print("ready", flush=True)
    while True:
        ready, _, _ = select.select([wire, sys.stdin], [], [])
        # What has come is counted before it ends.
        if wire not in ready:
            break
        frame, source = wire.recvfrom(2048)
        if source[2] == socket.PACKET_OUTGOING:
            continue
        kind = struct.unpack_from("!H", frame, 12)[0]
        if kind == 0x0800 and frame[23] == socket.IPPROTO_UDP:
            tos_seen[frame[15]] += 1
            times[frame[15] >> 2].append(time.monotonic())
            total = sum(struct.unpack_from("!10H", frame, 14))
            checksums_wrong += (total & 0xffff) + (total >> 16) != 0xffff
        elif kind == MAC_CONTROL and struct.unpack_from("!H", frame, 14)[0] == PFC:
            classes = struct.unpack_from("!H", frame, 16)[0]
            for number, quanta in enumerate(struct.unpack_from("!8H", frame, 18)):
                if classes >> number & 1:
                    (xoff if quanta else xon)[number] += 1
    _, dropped = struct.unpack("II", wire.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))
    print(json.dumps({"tos": tos_seen, "xoff": xoff, "xon": xon, "times": times, "checksums_wrong": checksums_wrong,
                      "dropped": dropped}))


def pfc(classes, quanta, times):
    wire = raw()
    header = bytes.fromhex("0180c2000001") + wire.getsockname()[4] + struct.pack("!HHH", MAC_CONTROL, PFC, classes)
    frame = (header + struct.pack("!8H", *[quanta] * 8)).ljust(60, b"\0")
    for _ in range(times):
        wire.send(frame)
        time.sleep(0.01)


if __name__ == "__main__":
    command, *arguments = sys.argv[1:]
    if command == "send":
        send(arguments[0], *map(int, arguments[1:]))
    elif command == "watch":
        watch()
    else:
        pfc(*map(int, arguments))
