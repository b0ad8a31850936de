# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""A switch between two guests that loses, doubles and reorders packets, and what must be counted there and in the
guests alike."""

import judge

# Judged behind the faults: the tracker sees what reaches the hosts.
PIPELINE = """
      - parse
      - impair: {{ rules: [ {rules} ] }}
      - rdma_track: {{ closed_timeout_s: 600 }}
      - {forward}"""
L2, L3 = "l2", "l3\n      - lb: { policy: ecmp }"
# Packets that somebody sends again when they are lost: those of RC, and CM messages. A lost datagram of udaddy is lost.
# A rule for each kind, so that it is known how many NAKs were lost and doubled.
RELIABLE = {
    "data": "opcode: [RC_SEND_FIRST, RC_SEND_MIDDLE, RC_SEND_LAST, RC_SEND_LAST_IMM, RC_SEND_ONLY, RC_SEND_ONLY_IMM, "
            "RC_RDMA_WRITE_FIRST, RC_RDMA_WRITE_MIDDLE, RC_RDMA_WRITE_LAST, RC_RDMA_WRITE_ONLY, RC_RDMA_READ_REQUEST, "
            "RC_RDMA_READ_RESPONSE_FIRST, RC_RDMA_READ_RESPONSE_MIDDLE, RC_RDMA_READ_RESPONSE_LAST, "
            "RC_RDMA_READ_RESPONSE_ONLY, RC_ATOMIC_ACKNOWLEDGE, RC_CMP_SWAP, RC_FETCH_ADD]",
    "ack": "opcode: RC_ACKNOWLEDGE, aeth: ack",
    "nak": "opcode: RC_ACKNOWLEDGE, aeth: nak",
    "cm": "dest_qp: 1"}
# Rules that only count: NAKs as hosts send them.
COUNT_NAKS = [f"{{ name: naks_{name}, match: {{ ports: [{name}], aeth: nak }} }}" for name in ("a", "b")]
# A lost last packet costs a timeout, of half a second here; losses inside a message are repaired by NAK.
QP_TIMEOUT = 17


class Faults(judge.TwoGuests):
    """Tests of the switch with rules of `impair`."""

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


def row_version(row):
    return 6 if ":" in row["destination"] else 4
