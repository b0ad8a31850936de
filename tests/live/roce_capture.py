# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""Judges a capture of RoCEv2 without any code of weft: Wireshark's dissector, and an ICRC of its own."""
import struct
import subprocess
import zlib

ROCE_PORT = 4791
ICRC_BYTES = 4


def timed_frames(path):
    """The frames of a pcap file as tcpdump writes it, as (seconds since the epoch, bytes)."""
    with open(path, "rb") as file:
        data = file.read()
    order = "<" if data[:4] in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1") else ">"
    fraction = 1e-9 if data[:4] in (b"\x4d\x3c\xb2\xa1", b"\xa1\xb2\x3c\x4d") else 1e-6
    at = 24
    while at + 16 <= len(data):
        seconds, part, length = struct.unpack_from(order + "III", data, at)
        at += 16
        yield seconds + part * fraction, data[at:at + length]
        at += length


def frames(path):
    """The frames of a pcap file as tcpdump writes it."""
    return (frame for _, frame in timed_frames(path))


def roce_packet(frame):
    """The IP packet of a RoCEv2 frame without Ethernet padding, as (bytes, offset of UDP), or None."""
    ethertype = struct.unpack_from(">H", frame, 12)[0]
    packet = frame[14:]
    if ethertype == 0x0800 and packet[9] == 17:
        udp = (packet[0] & 15) * 4
        packet = packet[:struct.unpack_from(">H", packet, 2)[0]]
    elif ethertype == 0x86dd and packet[6] == 17:
        udp = 40
        packet = packet[:40 + struct.unpack_from(">H", packet, 4)[0]]
    else:
        return None
    return (packet, udp) if struct.unpack_from(">H", packet, udp + 2)[0] == ROCE_PORT else None


def icrc(packet, udp):
    """The invariant CRC (IBTA annex A17.3.3) of an IP packet, as its last four bytes should be."""
    masked = bytearray(packet[:-ICRC_BYTES])
    if masked[0] >> 4 == 4:
        masked[1] = masked[8] = masked[10] = masked[11] = 0xff
    else:
        masked[0] |= 0x0f
        masked[1] = masked[2] = masked[3] = masked[7] = 0xff
    masked[udp + 6] = masked[udp + 7] = 0xff
    masked[udp + 8 + 4] = 0xff
    return struct.pack("<I", zlib.crc32(b"\xff" * 8 + masked))


def check_icrcs(path):
    """Returns how many RoCEv2 frames there are, and those whose ICRC is wrong."""
    count, wrong = 0, []
    for frame in frames(path):
        found = roce_packet(frame)
        if found is None:
            continue
        count += 1
        packet, udp = found
        if packet[-ICRC_BYTES:] != icrc(packet, udp):
            wrong.append(frame.hex())
    return count, wrong


# Wireshark 4.0 looks for other protocols in the payload of a SEND, and reads on where there are only a few bytes.
MALFORMED = "_ws.malformed && !(infiniband.bth.opcode in {2, 3, 4, 5, 22, 23} && frame.len <= 70)"


def complaints(path):
    """What tshark finds wrong, by frame."""
    found = subprocess.run(["tshark", "-r", path, "-Y", f"({MALFORMED}) || ip.checksum.status == 0",
                            "-o", "ip.check_checksum:TRUE"], capture_output=True, text=True, timeout=120, check=True)
    return found.stdout


def opcodes(path):
    """The BTH opcodes that occur, as numbers."""
    found = subprocess.run(["tshark", "-r", path, "-Y", "infiniband", "-T", "fields", "-e", "infiniband.bth.opcode"],
                           capture_output=True, text=True, timeout=120, check=True)
    return {int(line) for line in found.stdout.split()}
