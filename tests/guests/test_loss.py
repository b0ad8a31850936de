#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""Soft-RoCE guests over a switch that loses and doubles packets: everything still ends, and what the switch counts is
what the guests have seen."""

import judge
from judge import rdma_tools

# Judged behind the faults: the tracker sees what reaches the hosts.
PIPELINE = """
      - parse
      - impair: {{ rules: [ {rules} ] }}
      - rdma_track: {{ closed_timeout_s: 600 }}
      - {forward}"""
L2, L3 = "l2", "l3\n      - lb: { policy: ecmp }"
# Packets that somebody sends again when they are lost: those of RC, and CM messages. A lost datagram of udaddy is lost.
RELIABLE = {
    "rc": "opcode: [RC_SEND_FIRST, RC_SEND_MIDDLE, RC_SEND_LAST, RC_SEND_LAST_IMM, RC_SEND_ONLY, RC_SEND_ONLY_IMM, "
          "RC_RDMA_WRITE_FIRST, RC_RDMA_WRITE_MIDDLE, RC_RDMA_WRITE_LAST, RC_RDMA_WRITE_ONLY, RC_RDMA_READ_REQUEST, "
          "RC_RDMA_READ_RESPONSE_FIRST, RC_RDMA_READ_RESPONSE_MIDDLE, RC_RDMA_READ_RESPONSE_LAST, "
          "RC_RDMA_READ_RESPONSE_ONLY, RC_ACKNOWLEDGE, RC_ATOMIC_ACKNOWLEDGE, RC_CMP_SWAP, RC_FETCH_ADD]",
    "cm": "dest_qp: 1"}
# Rules that only count: NAKs as hosts send them.
COUNT_NAKS = [f"{{ name: naks_{name}, match: {{ ports: [{name}], aeth: nak }} }}" for name in ("a", "b")]
# A lost last packet costs a timeout, of half a second here; losses inside a message are repaired by NAK.
QP_TIMEOUT = 17


class Loss(judge.TwoGuests):
    def start(self, *rules, forward=L2):
        pipeline = PIPELINE.format(rules=", ".join([*COUNT_NAKS, *rules]), forward=forward)
        self.lab.start((judge.l2 if forward == L2 else judge.l3)(self.guests, pipeline))
        for number, each in enumerate(self.guests, start=1):
            each.wait_up()
            if forward == L2:
                each.configure(judge.l2_addresses(number))
            else:
                judge.use_l3_addresses(each)
        # A router drops what comes in bursts while it still looks for a neighbour.
        for version in (4, 6):
            judge.ping(self.a, self.b, version)
        self.before = judge.counters_of(self.guests)

    def results(self):
        counters = judge.difference(self.before, judge.counters_of(self.guests))
        rules = {row["name"]: row for row in self.lab.show("impair")}
        rows = judge.queue_pairs(self.lab).values()
        towards = {each.name: [row for row in rows if row["destination"] == each.address(row_version(row))]
                   for each in self.guests}
        return counters, rules, towards

    def check_accounting(self, counters, rules, towards):
        """What one host sent, less losses and plus copies, is what the other received. Sequence errors that a host
        noticed are the NAKs it sent, and duplicates it noticed are those that the switch foresaw."""
        for sender, receiver in (("a", "b"), ("b", "a")):
            own = [row for name, row in rules.items() if name.endswith("_" + sender)]
            lost, copies = (sum(row[column] for row in own) for column in ("lost", "duplicated"))
            self.assertEqual(counters[sender]["sent_pkts"] - lost + copies, counters[receiver]["rcvd_pkts"], sender)
            self.assertEqual(rules["naks_" + sender]["matched"], counters[sender]["out_of_seq_request"])
            duplicates = sum(row["duplicates"] for row in towards[receiver])
            self.assertEqual(duplicates, counters[receiver]["duplicate_request"], receiver)
        # What the tracker saw behind the faults is what the hosts received, packet for packet.
        self.assertEqual(self.tracked(), counters["a"]["rcvd_pkts"] + counters["b"]["rcvd_pkts"])
        # Nothing else is dropped, but what hosts say among themselves and a router has no use for.
        drops = self.lab.show("drops")
        self.assertEqual([row for row in drops if row["severity"] != "info"], [])
        lost = sum(row["lost"] for row in rules.values())
        self.assertEqual(sum(row["packets"] for row in drops if row["reason"] == "impair_loss"), lost)
        stage = judge.stage_counters(self.lab, "impair")
        self.assertEqual(stage["lost"], lost)
        self.assertEqual(stage["duplicated"], sum(row["duplicated"] for row in rules.values()))

    def tracked(self):
        """RoCE packets that the tracker has seen; those of CM it counts by kind."""
        track = judge.stage_counters(self.lab, "rdma_track")
        return track["packets"] + sum(track[key] for key in track if key.startswith("cm_") and key != "cm_unmatched")

    def check_qperf(self):
        """Ends in the middle of READs: the last responses find no queue pair any more, which rxe does not count."""
        rdma_tools.qperf(self.a, self.b)
        counters, rules, _ = self.results()
        sent = sum(counters[name]["sent_pkts"] for name in ("a", "b"))
        lost, copies = (sum(row[column] for row in rules.values()) for column in ("lost", "duplicated"))
        self.assertEqual(sent - lost + copies, self.tracked())

    def test_every_lost_packet_inside_a_message_makes_one_nak(self):
        middle = "[RC_SEND_MIDDLE, RC_RDMA_WRITE_MIDDLE]"
        self.start(f"{{ name: loss_a, match: {{ ports: [a], opcode: {middle} }}, every: 97, loss: 1.0 }}")
        # One message of 16 packets at a time: two losses under way at once would make one NAK.
        for program in ("ib_send_bw", "ib_write_bw"):
            rdma_tools.perftest(program, self.a, self.b, "-n 40 -t 1 -s 16384 -m 1024")
        counters, rules, towards = self.results()
        self.check_accounting(counters, rules, towards)
        lost = rules["loss_a"]["lost"]
        self.assertGreater(lost, 5)
        naks = sum(row["nak_psn_sequence"] for row in towards["a"])
        self.assertEqual(naks, lost)
        self.assertEqual(counters["a"]["rcvd_seq_err"], naks)
        self.assertEqual(counters["b"]["out_of_seq_request"], naks)
        self.assertEqual(counters["a"]["retry_exceeded_err"], 0)
        self.lab.stop()

    def run_every_program(self):
        """The programs of the tests without loss; each IP version and path MTU has its turn."""
        for version, mtu in ((4, 1024), (6, 4096)):
            for program in ("ib_send_bw", "ib_write_bw", "ib_read_bw"):
                rdma_tools.perftest(program, self.a, self.b, f"-n 40 -s 16384 -m {mtu}", version,
                                    qp_timeout=QP_TIMEOUT)
            for program in ("ib_send_lat", "ib_atomic_lat"):
                rdma_tools.perftest(program, self.a, self.b, "-n 32", version, qp_timeout=QP_TIMEOUT)
            rdma_tools.rping(self.a, self.b, version=version)
            rdma_tools.ucmatose(self.a, self.b, version=version)
            rdma_tools.udaddy(self.a, self.b, version=version)

    def check_random_faults(self, forward):
        rules = [f"{{ name: {fault}_{kind}_{name}, match: {{ ports: [{name}], {match} }}, {fault}: 0.001 }}"
                 for fault in ("loss", "duplicate") for name in ("a", "b") for kind, match in RELIABLE.items()]
        # Chance alone could lose nothing in so few packets.
        rules.append(f"{{ name: sure_a, match: {{ ports: [a], {RELIABLE['rc']} }}, every: 701, loss: 1.0 }}")
        self.start(*rules, forward=forward)
        self.run_every_program()
        counters, rules, towards = self.results()
        self.check_accounting(counters, rules, towards)
        self.assertGreater(rules["sure_a"]["lost"], 1)
        for name in ("a", "b"):
            delivered = sum(row["nak_psn_sequence"] for row in towards[name])
            # rxe counts a NAK only if it also acknowledges something.
            self.assertLessEqual(counters[name]["rcvd_seq_err"], delivered)
            self.assertEqual(counters[name]["retry_exceeded_err"], 0)
        self.check_qperf()
        self.lab.stop()

    def test_every_program_ends_with_random_loss_and_duplication_on_a_bridge(self):
        self.check_random_faults(L2)

    def test_every_program_ends_with_random_loss_and_duplication_on_a_router(self):
        self.check_random_faults(L3)


def row_version(row):
    return 6 if ":" in row["destination"] else 4


if __name__ == "__main__":
    judge.main()
