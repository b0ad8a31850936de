# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""tools/lab/fabric.py and emitter.py: the configurations of variants, and what weft-switch says about them."""
import json
import math
import os
import pathlib
import re
import tempfile
import unittest

import support
from tools.lab import emitter, fabric, lab_file, reader

SMALL = support.SMALL.replace("NAME", "small")
WEFT_SWITCH = os.path.join(support.BIN, "weft-switch")

# Its hosts are those of conf/leaf-spine.yaml.
LEAF_SPINE = """\
name: cfg
topology:
  kind: config
  file: FILE
  hosts:
    - { name: h1, port: leaf1/h1, address: 10.0.1.2/24, gateway: 10.0.1.1 }
    - { name: h2, port: leaf1/h2, address: 10.0.2.2/24, gateway: 10.0.2.1 }
    - { name: h3, port: leaf2/h3, address: 10.0.3.2/24, gateway: 10.0.3.1 }
    - { name: h4, port: leaf2/h4, address: 10.0.4.2/24, gateway: 10.0.4.1 }
workload: { kind: ring, bytes: 1000000 }
variants:
  - { name: as it is }
  - { name: random, lb: { policy: random } }
""".replace("FILE", str(support.ROOT / "conf/leaf-spine.yaml"))


def config(lab, number=0, guard_us=1000):
    return json.loads(emitter.Emitter(fabric.document(lab, lab.variants[number], "/s", guard_us)).text)


def pipelines(lab, number, guard_us=1000):
    return {switch["name"]: switch["pipeline"] for switch in config(lab, number, guard_us)["switches"]}


class Files(unittest.TestCase):
    def test_every_lab_in_conf_is_one_that_weft_switch_takes(self):
        found = sorted((support.ROOT / "conf/labs").glob("*.yaml"))
        self.assertTrue(found)
        for path in map(str, found):
            fabric.check(lab_file.load(path), WEFT_SWITCH)

    def test_a_configuration_is_taken_from_another_file(self):
        lab = support.load(LEAF_SPINE)
        fabric.check(lab, WEFT_SWITCH)
        ports = {port["name"]: port for port in config(lab)["switches"][0]["ports"]}
        self.assertEqual(ports["h1"]["interface"], "to-h1")
        self.assertEqual(ports["s1"]["rate_mbps"], 10000)
        self.assertEqual(fabric.uplinks(lab), {"leaf1": ["s1", "s2"], "leaf2": ["s1", "s2"]})
        self.assertEqual(fabric.slowest_link_mbps(lab), 10000)
        self.assertEqual(pipelines(lab, 0)["leaf1"][-1], {"lb": {"policy": "ecmp"}})


class Variants(unittest.TestCase):
    def test_workers_get_a_cpu_each(self):
        lab = support.load(SMALL)
        self.assertNotIn("workers", config(lab)["eal"])
        cpus = sorted(os.sched_getaffinity(0))
        if len(cpus) < 2:
            self.skipTest("one CPU")
        lab = support.load(SMALL.replace("{ policy: random } }", "{ policy: random }, workers: 2 }"))
        self.assertEqual(config(lab, 1)["eal"]["workers"], cpus[:2])
        fabric.check(lab, WEFT_SWITCH)

    def test_a_variant_switches_stages_off_and_changes_their_options(self):
        changed = "- { name: as it is, stages: { rdma_track: off, lb: { policy: random } } }"
        text = LEAF_SPINE.replace("- { name: as it is }", changed)
        lab = support.load(text)
        self.assertEqual(pipelines(lab, 0)["leaf1"], ["parse", "l3", {"lb": {"policy": "random"}}])
        self.assertEqual(pipelines(lab, 1)["leaf1"][:3], ["parse", "rdma_track", "l3"])
        fabric.check(lab, WEFT_SWITCH)
        for wrong, said in (("{ policy: rondom }", r":12:\d+: policy: expected one of .*; did you mean 'random'\?$"),
                            ("off, pnp: off", r":12:\d+: variant as it is: stages: no switch has a stage pnp$")):
            with self.assertRaises(reader.Mistakes) as caught:
                fabric.check(support.load(text.replace("{ policy: random } } }", wrong + " } }")), WEFT_SWITCH)
            self.assertRegex("\n".join(caught.exception.lines), re.compile(said, re.M))

    def test_what_switches_tell_each_other_is_completed_for_leaves_and_spines(self):
        text = SMALL + """\
  - { name: conga, lb: { policy: conga }, lb_tag: {} }
  - { name: conweave, lb: { policy: conweave }, lb_tag: { conweave: { reply_us: 9 } } }
  - { name: gemma, lb: { policy: gemma }, lb_tag: { gemma: { period_us: 9 } }, reorder: { max_kb: 64 } }
"""
        lab = support.load(text)
        fabric.check(lab, WEFT_SWITCH)
        conga, conweave, gemma = (pipelines(lab, number) for number in (2, 3, 4))
        tag = conga["leaf2"][1]["lb_tag"]
        self.assertEqual((tag["leaf"], tag["uplinks"]), (2, ["s1", "s2"]))
        self.assertEqual([(leaf["id"], leaf["prefixes"]) for leaf in tag["leaves"]],
                         [(1, ["10.0.1.0/24"]), (2, ["10.0.2.0/24"])])
        self.assertEqual(conga["spine1"], ["parse", {"lb_tag": {}}, "l3"])
        self.assertEqual(conweave["leaf1"][1]["lb_tag"]["conweave"]["reply_us"], 9)
        self.assertEqual(conweave["spine1"], ["parse", {"lb_tag": {}}, "l3"])
        reports = gemma["spine1"][1]["lb_tag"]["gemma"]
        self.assertEqual(reports["period_us"], 9)
        self.assertEqual(reports["downlinks"], [{"port": "l1", "leaves": [1]}, {"port": "l2", "leaves": [2]}])
        self.assertEqual(gemma["leaf1"][3],
                         {"reorder": {"max_kb": 64, "uplinks": ["s1", "s2"],
                                      "bound_us": 1000 + math.ceil(fabric.backlog_us(lab, lab.nic))}},
                         "the guard, and the queue that a path can have")
        with self.assertRaises(reader.Mistakes) as caught:
            support.load(LEAF_SPINE + "  - { name: tagged, lb_tag: {} }\n")
        self.assertRegex(caught.exception.lines[0], r"variant: lb_tag is for kind leaf_spine")

    def test_times_of_conweave_follow_the_round_trip(self):
        def times(delay_ns, guard_us):
            text = re.sub(r"delay_ns: .*", f"delay_ns: {delay_ns}", SMALL).replace("window: 64", "window: 512")
            lab = support.load(text + "  - { name: conweave, lb: { policy: conweave }, lb_tag: { conweave: {} } }\n")
            tag = pipelines(lab, len(lab.variants) - 1, guard_us)["leaf1"][1]["lb_tag"]
            return fabric.round_trip_us(lab), tag["conweave"]

        near, of_near = times(10_000, 100)
        far, of_far = times(1_000_000, 30_000)
        self.assertAlmostEqual(far - near, 4 * 990)
        self.assertEqual(of_near["extra_us"], math.ceil(4 * near), "more than was measured")
        for trip, found in ((near, of_near), (far, of_far)):
            self.assertEqual(found["reply_us"], math.ceil(2 * trip))
            self.assertEqual(found["pause_us"], math.ceil(4 * trip))
            self.assertLess(found["reply_us"], found["expiry_us"])
            self.assertLessEqual(found["extra_us"], found["bound_us"])
        self.assertEqual(of_far["bound_us"], 60_000)
        self.assertEqual(times(30_000_000, 900_000)[1]["bound_us"], 100_000, "the most that lb_tag takes")

    def test_times_of_gemma_follow_the_round_trip(self):
        def times(delay_ns, options="{}"):
            text = re.sub(r"delay_ns: .*", f"delay_ns: {delay_ns}", SMALL).replace("window: 64", "window: 512")
            lab = support.load(text + "  - { name: gemma, lb: { policy: gemma, gemma: " + options + " }, "
                               "lb_tag: { gemma: { scan_us: 7 } }, reorder: {} }\n")
            fabric.check(lab, WEFT_SWITCH)
            found = pipelines(lab, len(lab.variants) - 1)
            policy = next(stage["lb"] for stage in found["leaf1"] if isinstance(stage, dict) and "lb" in stage)
            return (fabric.round_trip_us(lab), policy["gemma"], found["leaf1"][1]["lb_tag"]["gemma"],
                    found["spine1"][1]["lb_tag"]["gemma"])

        near, far = times(10_000), times(1_000_000)
        self.assertAlmostEqual(far[0] - near[0], 4 * 990)
        for trip, policy, leaf, spine in (near, far):
            self.assertEqual(policy, {"guard_us": math.ceil(2 * trip), "new_flow_us": math.ceil(500 * trip)})
            self.assertEqual(leaf["scan_us"], 7, "what the file says stays")
            self.assertEqual(spine["period_us"], math.ceil(1.25 * trip))
            self.assertEqual(spine["most_us"], math.ceil(10 * trip))
        self.assertEqual(times(10_000, "{ guard_us: 3 }")[1]["guard_us"], 3)
        self.assertEqual(times(30_000_000)[1]["new_flow_us"], 10_000_000, "the most that is taken")

    def test_a_variant_changes_lb_where_there_is_one(self):
        for text in (SMALL, LEAF_SPINE):
            found = pipelines(support.load(text), 1)
            self.assertEqual(found["leaf1"], ["parse", "rdma_track", "l3", {"lb": {"policy": "random"}}])
            self.assertEqual(found["spine1"], ["parse", "l3"])

    def test_nack_filter_stands_before_forwarding_with_what_the_lab_knows(self):
        text = SMALL.replace("{ policy: random } }", "{ policy: random }, nack_filter: { check: gap } }")
        self.assertEqual(pipelines(support.load(text), 1, guard_us=7000)["leaf2"],
                         ["parse", "rdma_track",
                          {"nack_filter": {"check": "gap", "uplinks": ["s1", "s2"], "guard_us": 7000}},
                          "l3", {"lb": {"policy": "random"}}])

    def test_loss_is_at_every_spine_of_that_variant(self):
        lab = support.load(SMALL.replace("{ policy: random } }", "{ policy: random }, loss: 0.01 }"))
        rules = {"impair": {"rules": [{"name": "loss", "match": {"kind": "roce"}, "loss": 0.01}]}}
        self.assertEqual(pipelines(lab, 0)["spine2"], ["parse", "l3"])
        self.assertEqual(pipelines(lab, 1)["spine2"], ["parse", rules, "l3"])
        fabric.check(lab, WEFT_SWITCH)

    def test_what_the_file_says_about_the_filter_stays(self):
        text = SMALL.replace("{ policy: random }", "{ policy: random }, nack_filter: { guard_us: 5, uplinks: [s2] }")
        expected = {"nack_filter": {"guard_us": 5, "uplinks": ["s2"]}}
        self.assertIn(expected, pipelines(support.load(text), 1, guard_us=7000)["leaf1"])


class Judgement(unittest.TestCase):
    def test_mistakes_in_variants_are_told_at_their_place_in_the_lab_once(self):
        text = SMALL.replace("{ policy: ecmp }", "{ polcy: ecmp }").replace("{ policy: random }", "{ policy: rondom }")
        with tempfile.TemporaryDirectory() as folder:
            path = support.written(text, folder)
            with self.assertRaises(reader.Mistakes) as caught:
                fabric.check(lab_file.load(path), WEFT_SWITCH)
        lines = [line.removeprefix(path + ":") for line in caught.exception.lines]
        self.assertEqual(len(lines), 2, lines)
        self.assertRegex(lines[0], "^12:25: lb: unknown key .*polcy.*did you mean 'policy'")
        self.assertRegex(lines[1], "^13:35: policy: expected one of .*rondom")

    def test_a_variant_that_would_change_nothing_is_a_mistake(self):
        text = LEAF_SPINE[:LEAF_SPINE.index("topology")] + """topology:
  kind: config
  switches:
    - name: tor
      ports: [{ name: a, type: veth, interface: x }, { name: b, type: veth, interface: y }]
      pipeline: [parse, l2]
  hosts: [{ name: a, port: tor/a, address: 10.7.0.1/24 }, { name: b, port: tor/b, address: 10.7.0.11/24 }]
workload: { kind: ring, bytes: 1000000 }
variants: [{ name: plain }, { name: x, lb: { policy: random } }]
"""
        with tempfile.TemporaryDirectory() as folder:
            path = support.written(text, folder)
            with self.assertRaises(reader.Mistakes) as caught:
                fabric.check(lab_file.load(path), WEFT_SWITCH)
        self.assertEqual(caught.exception.lines,
                         [f"{path}:10:44: variant x: no switch has a stage lb, so this would change nothing"])

    def test_mistakes_in_a_configuration_are_told_at_their_place_in_its_file(self):
        original = (support.ROOT / "conf/leaf-spine.yaml").read_text()
        lines = original.splitlines()
        number = next(index for index, line in enumerate(lines) if "peer: spine2/l1" in line)
        lines[number] = lines[number].replace("rate_mbps: 10000", "rate_mbs: 10000")
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "fabric.yaml").write_text("\n".join(lines))
            text = LEAF_SPINE.replace(str(support.ROOT / "conf/leaf-spine.yaml"), "fabric.yaml")
            path = support.written(text, folder)
            with self.assertRaises(reader.Mistakes) as caught:
                fabric.check(lab_file.load(path), WEFT_SWITCH)
        (line,) = caught.exception.lines
        column = lines[number].index("rate_mbs") + 1
        self.assertTrue(line.startswith(f"{folder}/fabric.yaml:{number + 1}:{column}: "), line)
        self.assertIn("unknown key 'rate_mbs'", line)


if __name__ == "__main__":
    unittest.main()
