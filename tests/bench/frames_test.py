# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""bench/peers/frames.py against scapy's RoCE layer, which computes ICRCs in its own way, and against real captures."""

import collections
import itertools
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

from scapy.all import Ether, IP, UDP, rdpcap  # noqa: E402
from scapy.contrib.roce import AETH, BTH  # noqa: E402

from bench.peers import cases, frames  # noqa: E402

FLOW = frames.flows(0, 1)[0]
ALL_OPCODES = (
    frames.SEND_FIRST,
    frames.SEND_MIDDLE,
    frames.SEND_LAST,
    frames.SEND_ONLY,
    frames.WRITE_FIRST,
    frames.WRITE_MIDDLE,
    frames.WRITE_LAST,
    frames.WRITE_ONLY,
    frames.ACKNOWLEDGE,
    frames.CNP,
)


def scapy_icrc(frame):
    """ICRC bytes that scapy computes for a frame, from its fields and not from the bytes at the end."""
    return Ether(frame)[BTH].compute_icrc(None)


def case_frames():
    """(case, frame) of every frame that the comparison replays, to hosts and to the router."""
    for case in cases.CASES:
        for router_macs in ((None, None), cases.ROUTER_MACS):
            for frame_list in case.frame_lists(router_macs):
                for frame in frame_list:
                    yield case, frame


class IcrcTest(unittest.TestCase):
    def test_icrc_of_a_cnp_captured_from_a_connectx4_is_reproduced(self):
        # From the test suite of scapy (test/contrib/roce.uts).
        frame = bytes.fromhex(
            "e41d2dab2bc27cfe90643b32080045c2003c718c4000401191610a0011010a001201000012b70028000081"
            "00ffff4000011800000000" + "00" * 16
        )
        self.assertEqual(frames.icrc(frame).hex(), "82fd002a")

    def test_icrc_of_every_opcode_and_padding_equals_scapys(self):
        for opcode in ALL_OPCODES:
            sizes = (0,) if opcode in (frames.ACKNOWLEDGE, frames.CNP) else (0, 1, 2, 3, 4, 255, 1024)
            for size in sizes:
                payload = bytes(number % 251 for number in range(size))
                frame = frames.build_frame(FLOW, opcode, 0xFFFFFF, payload)
                self.assertEqual(frame[-4:], scapy_icrc(frame), f"opcode {opcode:#x}, {size} bytes")

    def test_icrc_of_the_frames_of_all_cases_equals_scapys(self):
        checked = 0
        for number, (case, frame) in enumerate(case_frames()):
            # Trains are the kinds of small-16 in another order. scapy is slow, and 7 shares no factor with the length
            # of any list.
            if number % 7 == 0 and case.roce and case.train == 1:
                self.assertEqual(frame[-4:], scapy_icrc(frame), f"{case.name}, frame {number}")
                checked += 1
        self.assertGreater(checked, 1000)


class FieldTest(unittest.TestCase):
    def test_frame_sizes_are_those_that_their_kinds_state(self):
        for case in cases.CASES:
            sizes = {kind.size_bytes for kind in case.mix}
            for frame_list in case.frame_lists():
                self.assertEqual({len(frame) for frame in frame_list}, sizes, case.name)

    def test_no_packet_carries_more_than_the_largest_path_mtu(self):
        for case in cases.CASES:
            if not case.roce:
                continue
            largest = max(frames.payload_for(kind.opcode, kind.size_bytes) for kind in case.mix)
            self.assertLessEqual(largest, 4096, case.name)

    def test_lengths_and_header_checksum_are_consistent(self):
        for _, frame in case_frames():
            ip_bytes = int.from_bytes(frame[16:18], "big")
            udp_bytes = int.from_bytes(frame[38:40], "big")
            self.assertEqual((ip_bytes, udp_bytes), (len(frame) - 14, len(frame) - 34))
            self.assertEqual(frames.ipv4_checksum(frame[14:34]), 0)

    def test_fields_read_back_by_scapy_are_those_that_were_given(self):
        frame = Ether(frames.build_frame(FLOW, frames.ACKNOWLEDGE, 0x123456, syndrome=0x60, msn=77))
        self.assertEqual((frame[IP].ttl, frame[UDP].dport, frame[UDP].sport), (64, 4791, FLOW.udp_source_port))
        self.assertEqual((frame[BTH].opcode, frame[BTH].psn, frame[BTH].dqpn), (0x11, 0x123456, FLOW.destination_qpn))
        self.assertEqual((frame[AETH].syndrome, frame[AETH].msn), (0x60, 77))
        self.assertEqual(Ether(frames.build_frame(FLOW, frames.CNP, 0))[BTH].becn, 1)
        self.assertEqual(Ether(frames.build_frame(FLOW, frames.SEND_ONLY, 0, b"abcde"))[BTH].padcount, 3)

    def test_payload_on_an_acknowledge_is_refused(self):
        with self.assertRaises(ValueError):
            frames.build_frame(FLOW, frames.ACKNOWLEDGE, 0, b"x")


class TrafficTest(unittest.TestCase):
    def test_each_case_has_exactly_its_number_of_qps(self):
        for case in cases.CASES:
            qps = set()
            for frame_list in case.frame_lists():
                # Plain UDP has its source port in the place of a QP.
                number = slice(47, 50) if case.roce else slice(34, 36)
                qps |= {(frame[26:34], frame[number]) for frame in frame_list}
            self.assertEqual(len(qps), case.qps, case.name)

    def test_the_two_ports_carry_the_two_directions_of_the_same_host_pairs(self):
        pairs = [{(flow.source_ip, flow.destination_ip) for flow in frames.flows(side, 2048)} for side in (0, 1)]
        self.assertEqual(pairs[0], {(b, a) for a, b in pairs[1]})

    def test_a_train_is_frames_of_one_qp_that_follow_each_other(self):
        (case,) = [case for case in cases.CASES if case.train > 1]
        for frame_list in case.frame_lists():
            runs = [len(list(run)) for _, run in itertools.groupby(frame_list, key=lambda f: f[30:36] + f[47:50])]
            self.assertEqual(runs, [case.train] * (case.qps // 2))

    def test_plain_udp_frames_are_no_roce_and_have_their_sizes_in_the_mix_of_their_weights(self):
        (imix,) = [case for case in cases.CASES if case.name == "imix"]
        for frame_list in imix.frame_lists():
            self.assertEqual({Ether(frame)[UDP].dport for frame in frame_list}, {frames.PLAIN_UDP_PORT})
        sizes = collections.Counter(map(len, itertools.chain(*imix.frame_lists())))
        self.assertEqual(sizes, {60: 448, 590: 256, 1514: 64})
        (single,) = [case for case in cases.CASES if case.name == "udp-64"]
        for frame_list in single.frame_lists():
            self.assertEqual(len({frame[:42] for frame in frame_list}), 1)
            self.assertEqual({len(frame) for frame in frame_list}, {60})

    def small_traffic(self):
        return frames.traffic(frames.SMALL_MIX, [frames.flows(side, 8) for side in (0, 1)], 1024, seed=1)

    def test_psns_of_the_requests_of_each_direction_advance_by_one(self):
        last = {}
        for frame in itertools.chain(*self.small_traffic()):
            if frame[42] not in (frames.ACKNOWLEDGE, frames.CNP):
                qpn, psn = frame[47:50], int.from_bytes(frame[51:54], "big")
                self.assertEqual(psn, (last.get(qpn, psn - 1) + 1) % frames.PSN_MODULUS)
                last[qpn] = psn
        self.assertEqual(len(set(last.values())), 16)

    def test_every_acknowledge_is_for_the_request_of_the_other_side_at_the_same_place(self):
        answers = 0
        for pair in zip(*self.small_traffic()):
            request, answer = sorted(pair, key=lambda frame: frame[42] in (frames.ACKNOWLEDGE, frames.CNP))
            self.assertNotIn(request[42], (frames.ACKNOWLEDGE, frames.CNP))
            self.assertEqual(request[26:30], answer[30:34])
            if answer[42] == frames.ACKNOWLEDGE:
                self.assertEqual(answer[51:54], request[51:54])
                answers += 1
        self.assertGreater(answers, 1000)

    def test_the_small_mix_has_its_weights(self):
        opcodes = collections.Counter(frame[42] for frame in itertools.chain(*self.small_traffic()))
        self.assertEqual(opcodes[frames.ACKNOWLEDGE], 4 * 255)
        self.assertEqual(opcodes[frames.CNP], 4)
        self.assertEqual(opcodes[frames.SEND_ONLY], 4 * 171)
        self.assertEqual(opcodes[frames.WRITE_ONLY], 4 * 85)

    def test_only_destination_macs_differ_between_frames_to_hosts_and_to_the_router(self):
        to_hosts, to_router = cases.CASES[0].frame_lists(), cases.CASES[0].frame_lists(cases.ROUTER_MACS)
        for port, mac in enumerate(cases.ROUTER_MACS):
            self.assertEqual([frame[6:] for frame in to_hosts[port]], [frame[6:] for frame in to_router[port]])
            self.assertEqual({frame[:6] for frame in to_router[port]}, {mac})


class PcapTest(unittest.TestCase):
    def test_a_written_pcap_is_read_back_unchanged_by_scapy(self):
        wanted = cases.CASES[0].frame_lists()[0]
        with tempfile.TemporaryDirectory() as directory:
            frames.write_pcap(f"{directory}/x.pcap", wanted)
            read = rdpcap(f"{directory}/x.pcap")
        self.assertEqual([bytes(packet) for packet in read], wanted)
        self.assertEqual([packet.wirelen for packet in read], [len(frame) for frame in wanted])


if __name__ == "__main__":
    unittest.main()
