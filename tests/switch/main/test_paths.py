#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""The path set, the policy of lb, and nack_filter change while a leaf sprays the packets of a sender over uplinks."""
import program

TOP = "eal: { hugepages: off, mbufs: 8192 }\nidle: sleep\ncontrol: { socket: weft.sock }\n"
# So slowly that a ring between workers is not full before its reader, on a busy machine, gets its CPU.
SENDER = ("{ name: in, type: generator, mac: '02:00:00:00:01:01', source_mac: '02:00:00:00:00:0a', destination_mac: "
          "'02:00:00:00:01:01', source: 10.0.1.2, destination: 10.0.3.2, first_qpn: 34, qps: 1, rate_pps: 4000 }")
UPLINKS = ("s1", "s2", "s3")
FILTER = "nack_filter: { uplinks: [s1, s2, s3] }"
PIPELINE = f"[parse, rdma_track: {{ qps: [QPS] }}, {FILTER}, l3, lb: {{ policy: psn }}]".replace(
    "QPS", "{ a: { address: 10.0.1.2, qpn: 17 }, b: { address: 10.0.3.2, qpn: 34 } }")


class Paths(program.Running):
    PROCESS = TOP

    def setUp(self):
        super().setUp()
        self.describe(PIPELINE)
        self.start()

    def describe(self, pipeline, more=""):
        extra = "    addresses:\n      - { port: in, address: 10.0.1.1/24 }\n"
        neighbours = "    neighbours:\n"
        for number, port in enumerate(UPLINKS):
            extra += f"      - {{ port: {port}, address: 10.1.{number}.1/24 }}\n"
            neighbours += f"      - {{ port: {port}, address: 10.1.{number}.2, mac: '02:00:00:00:02:0{number}' }}\n"
        extra += neighbours + "    routes: [{ prefix: 10.0.3.0/24, via: [10.1.0.2, 10.1.1.2, 10.1.2.2] }]\n" + more
        ports = [SENDER, *(f"{{ name: {port}, type: 'null' }}" for port in UPLINKS)]
        self.configure(ports, pipeline, top=self.PROCESS, extra=extra)

    def moved(self, packets=1200):
        """Packets by uplink until so many have left, of those that were not on their way yet. Not exact to a burst."""
        self.pass_by(100)
        return self.pass_by(packets)

    def pass_by(self, packets):
        sent = lambda: {row["port"]: row["tx_packets"] for row in self.show("ports") if row["port"] in UPLINKS}
        before = sent()
        program.wait_until(lambda: sum(sent().values()) >= sum(before.values()) + packets, "packets")
        return {port: count - before[port] for port, count in sent().items()}

    def paths(self):
        return {row["port"]: row["path"] for row in self.show("lb")}

    def assert_used(self, *ports):
        """These uplinks share the packets evenly, and the others get none."""
        moved = self.moved()
        self.assertEqual({port for port, count in moved.items() if count != 0}, set(ports))
        self.assertLess(max(moved[port] for port in ports) - min(moved[port] for port in ports), 200, moved)

    def assert_nothing_lost(self):
        self.assertEqual(self.show("drops"), [])
        counters, _ = self.stop()
        self.assertEqual(counters["switches"][0]["drops"], {})

    def test_a_path_leaves_the_set_and_comes_back_while_packets_flow(self):
        self.assert_used(*UPLINKS)
        self.assertEqual(self.ctl("set", "paths", "exclude", "s2").stdout, "tor: s2 excluded\n")
        self.assertEqual(self.paths(), {"s1": "up", "s2": "excluded", "s3": "up"})
        self.assertEqual(self.show("nack_filter")[0]["excluded"], "s2")
        self.assert_used("s1", "s3")
        self.assertEqual(self.ctl("set", "paths", "include", "s2", "exclude", "s1", "s3").stdout,
                         "tor: s2 included, s1 excluded, s3 excluded\n")
        self.assert_used("s2")
        self.ctl("set", "paths", "include", "s1", "s3")
        self.assert_used(*UPLINKS)
        self.assert_nothing_lost()

    def test_what_cannot_be_excluded_is_refused_in_a_sentence(self):
        refused = lambda *words: self.refused("set", "paths", *words)
        self.assertIn("unknown switch 'tar'; did you mean 'tor'?", refused("exclude", "s1", "--switch", "tar"))
        self.assertIn("unknown port 's4'; did you mean 's1'", refused("exclude", "s4"))
        self.assertIn("tor: port in is no path: it is in no equal-cost group and no uplink", refused("exclude", "in"))
        self.assertIn("tor: the set of uplinks of nack_filter would have no path left", refused("exclude", *UPLINKS))
        self.assertIn("port 's1' stands twice", refused("exclude", "s1", "include", "s1"))
        for words in (("s1",), ("exclude",), ("include", "exclude"), ()):
            self.assertIn("paths takes what happens to which ports", refused(*words))
        self.assertEqual(set(self.paths().values()), {"up"})
        self.ctl("set", "paths", "exclude", "s1", "s2")
        self.assertIn("would have no path left: s1 is excluded, s2 is excluded", refused("exclude", "s3"))
        self.assert_nothing_lost()

    def test_the_policy_falls_back_to_ecmp_and_returns_when_asked(self):
        self.assertEqual(self.ctl("set", "lb", "policy=ecmp").stdout, "tor: lb policy=ecmp\n")
        self.assertEqual({row["policy"] for row in self.show("lb")}, {"ecmp"})
        self.assertEqual(sorted(self.moved().values())[:2], [0, 0], "a flow keeps its path")
        self.ctl("set", "lb", "policy=psn", "weights.s1=2")
        moved = self.moved()
        self.assertLess(abs(moved["s1"] - moved["s2"] - moved["s3"]), 240, moved)
        self.assertIn("tor: policy: expected one of ecmp, random, adaptive, drill, letflow, conga, conweave, gemma, "
                      "psn, found 'pns'; did you mean 'psn'?", self.refused("set", "lb", "policy=pns"))
        self.assertIn("tor: unknown key 'polcy'; did you mean 'policy'?", self.refused("set", "lb", "polcy=psn"))
        self.assertIn("tor: lb takes what to change", self.refused("set", "lb"))
        self.assert_nothing_lost()

    def test_nack_filter_goes_off_and_changes_its_options(self):
        row = lambda: self.show("nack_filter")[0]
        self.assertTrue(row()["enabled"])
        self.assertEqual(self.ctl("set", "nack_filter", "off", "guard_us=77").stdout,
                         "tor: nack_filter off guard_us=77\n")
        self.assertEqual((row()["enabled"], row()["guard_us"]), (False, 77))
        self.ctl("set", "nack_filter", "on")
        self.assertEqual((row()["enabled"], row()["guard_us"]), (True, 77))
        self.assertIn("tor: guard_us: expected an integer", self.refused("set", "nack_filter", "guard_us=-1"))
        self.assert_nothing_lost()

    def test_a_reload_leaves_alone_what_was_set_unless_the_file_changes_that(self):
        self.ctl("set", "paths", "exclude", "s2")
        self.ctl("set", "lb", "policy=random")
        self.ctl("set", "nack_filter", "guard_us=77")
        policy = lambda: {row["policy"] for row in self.show("lb")}
        # Something else of the switch: all stages are made anew.
        self.describe(PIPELINE, more="    seed: 5\n")
        self.ctl("reload")
        self.assertEqual((policy(), self.show("nack_filter")[0]["guard_us"]), ({"random"}, 77))
        self.assertEqual(self.paths()["s2"], "excluded")
        moved = self.moved()
        self.assertEqual(moved["s2"], 0)
        self.assertGreater(min(moved["s1"], moved["s3"]), 400)
        # The file says otherwise about lb, and nothing new about the rest.
        self.describe(PIPELINE.replace("policy: psn", "policy: adaptive"))
        self.ctl("reload")
        self.assertEqual((policy(), self.show("nack_filter")[0]["guard_us"]), ({"adaptive"}, 77))
        self.assertEqual(self.paths()["s2"], "excluded")
        self.describe(PIPELINE)
        self.ctl("reload")
        self.assertEqual(policy(), {"psn"}, "what a reload has undone does not come back")
        self.assert_used("s1", "s3")
        self.assert_nothing_lost()


class TwoWorkers(Paths):
    PROCESS = TOP.replace("mbufs: 8192", f"mbufs: 8192, workers: [{', '.join(map(str, program.cpus()[:2]))}]")


if __name__ == "__main__":
    program.main()
