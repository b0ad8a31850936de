# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""tools/lab/lab_file.py and reader.py: every mistake of a file is found, at its place, before anything is made."""
import os
import re
import tempfile
import unittest

import support
from tools.lab import lab_file, reader

SMALL = support.SMALL.replace("NAME", "small")

CONFIG = """\
name: cfg
topology:
  kind: config
  switches:
    - name: tor
      ports:
        - { name: a, type: veth, interface: x, mtu_bytes: 4200 }
        - { name: b, type: veth, interface: y, mtu_bytes: 4200 }
      pipeline: [parse, l2]
  hosts:
    - { name: a, port: tor/a, address: 10.7.0.1/24 }
    - { name: b, port: tor/b, address: 10.7.0.11/24 }
workload: { kind: flows, bytes: 1000000, flows: [{ from: a, to: b }] }
variants: [{ name: plain }]
"""


def mistakes(text):
    """LINE:COLUMN: text, without the file."""
    with tempfile.TemporaryDirectory() as folder:
        path = support.written(text, folder)
        try:
            lab_file.load(path)
        except reader.Mistakes as found:
            return [line.removeprefix(path + ":") for line in found.lines]
    return []


class GoodFiles(unittest.TestCase):
    def test_an_mpi_program_has_a_manager_arguments_and_settings(self):
        lab = support.load(support.MPI.replace("NAME", "mpi"))
        self.assertEqual((lab.workload.arguments, lab.workload.limit_s), (["512", "3"], 120))
        self.assertEqual([(each.mpi, each.ranks_per_host) for each in lab.variants],
                         [({"coll_weft_use": 0}, 1), ({"coll_weft_use": 2}, 2)])

    def test_a_ring_goes_across_racks_and_back(self):
        lab = support.load(SMALL.replace("hosts_per_leaf: 1", "hosts_per_leaf: 2"))
        pairs = [(flow.source, flow.target) for flow in lab.workload.flows]
        self.assertEqual(pairs, [("h1", "h3"), ("h3", "h2"), ("h2", "h4"), ("h4", "h1")])

    def test_one_delay_is_the_delay_of_all_spines(self):
        lab = support.load(SMALL.replace("[100000, 2000000]", "5"))
        self.assertEqual(lab.topology.delay_ns, [5, 5])

    def test_a_variant_may_change_the_nic(self):
        lab = support.load(SMALL.replace("{ policy: random } }", "{ policy: random }, nic: { transport: irn } }"))
        self.assertEqual([variant.nic.transport for variant in lab.variants], ["nic_sr", "irn"])
        self.assertEqual(lab.variants[1].nic.window, 64)

    def test_constants_of_congestion_control_go_on_in_variants_of_the_same_kind(self):
        text = SMALL.replace("rate_gbps: 0.02 }", "rate_gbps: 0.02, constants: { t_i_us: 40000, g: 0.5 } }")
        text = text.replace("{ policy: ecmp } }", "{ policy: ecmp }, nic: { cc: { constants: { g: 1 } } } }")
        text = text.replace("{ policy: random } }", "{ policy: random }, nic: { cc: { kind: timely } } }")
        lab = support.load(text)
        self.assertEqual(lab.nic.constants, {"t_i_us": "40000", "g": "0.5"})
        self.assertEqual([variant.nic.constants for variant in lab.variants], [{"t_i_us": "40000", "g": "1"}, {}])

    def test_the_constants_are_those_of_the_rnic(self):
        source = (support.ROOT / "nic/rnic/cc_constants.cc").read_text(encoding="utf-8")
        found = {}
        for kind, name in re.findall(r'CcConstant\{k(\w+), "(\w+)"', source):
            found.setdefault(kind.lower(), []).append(name)
        self.assertEqual(found, {kind: list(names) for kind, names in lab_file.CONSTANTS.items() if names})

    def test_hosts_of_a_configuration_take_three_addresses_each(self):
        host = support.load(CONFIG).hosts[1]
        self.assertEqual(host.addresses(), ["10.7.0.11/24", "10.7.0.12/24", "10.7.0.13/24"])
        self.assertEqual(host.sender(), "10.7.0.12")

    def test_the_name_of_a_file_is_found_whatever_else_is_wrong(self):
        with tempfile.TemporaryDirectory() as folder:
            path = support.written("name: abc\nnonsense: [1\n]\n", folder)
            self.assertEqual(lab_file.name_of(path), "abc")


class Collectives(unittest.TestCase):
    TEXT = support.INC.replace("NAME", "inc")

    def test_a_group_is_taken_as_it_stands(self):
        lab = support.load(self.TEXT)
        self.assertEqual([variant.group for variant in lab.variants],
                         [{"mode": "i"}, {"mode": "ii"}, {"mode": "iii", "timeout": 9}])
        self.assertEqual((lab.workload.sizes, lab.workload.times), ([4, 65536], 3))
        self.assertEqual(lab.workload.operations, ["allreduce"])

    def test_there_may_be_several_operations(self):
        text = self.TEXT.replace("operation: allreduce, sizes: [4,", "operation: [barrier, allgather], sizes: [16,")
        lab = support.load(text)
        self.assertEqual((lab.workload.operations, lab.workload.sizes), (["barrier", "allgather"], [16, 65536]))
        self.assertEqual(lab.workload.text(), "barrier, allgather, 2 sizes")

    def test_what_does_not_fit_is_said(self):
        for before, after, said in (
                ("sizes: [4, 65536], ", "", "workload: kind inc needs 'sizes'"),
                ("[4, 65536]", "[6]", "workload: sizes: 6 is no multiple of 4"),
                ("[4, 65536]", "[2]", "workload: sizes: 2 is not within 4 and 1073741824"),
                ("allreduce", "barrier", "workload: 'sizes' does not belong to kind inc with a barrier"),
                ("allreduce", "gather", "workload: operation: expected one of allreduce, reduce, broadcast, barrier, "
                                        "reducescatter, allgather, found 'gather'"),
                ("allreduce", "[reduce, reduce]", "workload: operation: reduce is there already"),
                ("allreduce", "[reduce, allgather]",
                 "workload: sizes: 4 is no multiple of 16, 4 for each rank's fragment"),
                (", gateway: 10.0.4.1", "", "workload: kind inc needs a gateway of h4: the switch's endpoint"),
                ("group: { mode: i }", "group: [i]", "variant: group: expected a mapping, found a list")):
            with self.subTest(said):
                found = mistakes(self.TEXT.replace(before, after))
                self.assertEqual([line.split(" ", 1)[1].split("; did you")[0] for line in found], [said])
        self.assertEqual(mistakes(SMALL.replace("{ policy: random } }", "{ policy: random }, group: { mode: i } }")),
                         ["13:52: variant: group is for workloads of kind inc"])


class Mpi(unittest.TestCase):
    def test_what_does_not_fit_is_said(self):
        text = support.MPI.replace("NAME", "mpi").replace("allreduce.c", "nothing.c")
        self.assertRegex("\n".join(mistakes(text)), r"workload: program: there is no file \S+/conf/labs/nothing\.c")
        found = mistakes(SMALL.replace("policy: random } }", "policy: random }, mpi: { a: 1 }, ranks_per_host: 2 }"))
        self.assertEqual([line.split(": ", 1)[1] for line in found],
                         ["variant: mpi is for workloads of kind mpi",
                          "variant: ranks_per_host is for workloads of kind mpi"])


class Mistakes(unittest.TestCase):
    def expect(self, before, after, *expected, text=SMALL):
        self.assertEqual(text.count(before), 1, before)
        self.assertEqual(mistakes(text.replace(before, after)), list(expected))

    def test_all_mistakes_of_a_file_are_said_at_once_in_its_order(self):
        text = SMALL.replace("spines: 2", "spins: 2").replace("mtu: 1024", "mtu: 1000").replace("bytes: 1", "bytes: -1")
        found = mistakes(text)
        self.assertEqual([line.split(":")[0] for line in found], ["4", "8", "9"])
        self.assertEqual(found[0], "4:3: topology: unknown key 'spins'; did you mean 'spines'?")

    def test_unknown_and_repeated_and_missing_keys(self):
        self.expect("timing: {", "timings: {", "10:1: lab: unknown key 'timings'; did you mean 'timing'?")
        self.expect("timing: {", "name: b\ntiming: {", "10:1: lab: 'name' stands twice")
        self.expect("name: small\n", "", "1:1: lab: 'name' is missing")

    def test_wrong_values(self):
        self.expect("name: small", "name: Small!", "1:7: name: expected up to 12 lower-case letters and digits, found "
                                                   "'Small!'")
        self.expect("spines: 2", "spines: many", "4:11: topology: spines: expected a whole number, found 'many'")
        self.expect("link_gbps: 0.02", "link_gbps: 1_0", "6:14: topology: link_gbps: expected a number, found '1_0'")
        self.expect("link_gbps: 0.02", "link_gbps: 0", "6:14: topology: link_gbps: 0 is not within 0.001 and 100")
        self.expect("transport: nic_sr", "transport: nicsr",
                    "8:19: nic: transport: expected one of gbn, nic_sr, irn, found 'nicsr'; did you mean 'nic_sr'?")
        self.expect("variants:", "report: { sample_ms: 50 }\nvariants:",
                    "11:22: report: sample_ms: 50 is not within 100 and 10000")
        self.expect("kind: ring", "kind: [ring]", "9:19: workload: kind: expected one value, found a list")

    def test_words_that_yaml_guesses_are_no_booleans_and_no_numbers(self):
        self.expect("mtu: 1024", "nack_is_cnp: yes", "8:40: nic: nack_is_cnp: expected one of true, false, found 'yes'")
        self.expect("probes: 20", "probes: '20'", "10:19: timing: probes: expected a whole number, found '20'")

    def test_sizes_that_do_not_fit_together(self):
        self.expect("[100000, 2000000]", "[1, 2, 3]", "7:13: topology: delay_ns has 3 entries for 2 spines")
        self.expect("hosts_per_leaf: 1", "leaves: 8\n  hosts_per_leaf: 16",
                    "6:19: topology: 128 hosts; at most 32 fit on a machine")
        self.expect("bytes: 1000000", "bytes: 1000000, duration_s: 5", "9:11: workload: either 'bytes' or 'duration_s'")
        self.expect("{ transport: nic_sr", "{ kind: soft_roce", "8:52: nic: 'cc' is not ours to choose with Soft-RoCE",
                    "9:11: workload: Soft-RoCE needs 'duration_s', because "
                    "perftest may take for ever to move 'bytes' over paths that reorder")
        self.expect("bytes: 1000000", "bytes: 100", "9:32: workload: bytes are less than a message (65536)")

    def test_a_window_that_a_long_link_does_not_fit_into_is_refused(self):
        what = ("window: a round trip over the longest link takes 8 ms, and 20 Mbit/s carry 20000 bytes meanwhile: a "
                "window of 19456 bytes would be all that is measured; give at least 20 packets of 1024 bytes, or say "
                "window_below_bdp: true")
        self.expect("window: 64", "window: 19", f"8:6: nic: {what}")
        for window in ("20", "1, window_below_bdp: true"):
            self.assertEqual(mistakes(SMALL.replace("window: 64", f"window: {window}")), [])
        short = SMALL.replace("window: 64", "window: 1").replace("[100000, 2000000]", "99999")
        self.assertEqual(mistakes(short), [])
        # Of a file with switches: a link of 40 ms there and back, at the rate that RNICs have.
        with open(support.ROOT / "conf/labs/long-haul.yaml", encoding="utf-8") as file:
            longhaul = file.read()
        self.assertEqual(mistakes(longhaul), [])
        self.assertIn("takes 40 ms, and 20 Mbit/s carry 100000 bytes meanwhile: a window of 65536 bytes",
                      "".join(mistakes(longhaul.replace("window: 512 ", "window: 64 "))))

    def test_only_soft_roce_connects_by_cm(self):
        self.expect("transport: nic_sr,", "transport: nic_sr, cm: true,", "8:31: nic: cm is for Soft-RoCE")
        text = SMALL.replace("transport: nic_sr, mtu: 1024, window: 64, cc: { kind: dcqcn, rate_gbps: 0.02 }",
                             "kind: soft_roce, cm: true").replace("bytes: 1000000", "duration_s: 1")
        self.assertEqual([variant.nic.cm for variant in support.load(text).variants], [True, True])

    def test_keys_of_another_kind_are_refused(self):
        self.expect("spines: 2", "spines: 2\n  hosts: []", "5:10: topology: 'hosts' does not belong to kind leaf_spine")
        self.expect("kind: ring", "kind: ring, flows: []", "9:32: workload: 'flows' does not belong to kind ring")

    def test_flows_name_hosts_and_a_host_sends_one(self):
        self.expect("to: b }", "to: c }", "13:65: flow: to: expected one of a, b, found 'c'", text=CONFIG)
        self.expect("to: b }", "to: a }", "13:50: flow: a sends to itself", text=CONFIG)
        self.expect("to: b }", "to: b }, { from: a, to: b }", "13:70: flow: a sends already; a host sends one flow",
                    text=CONFIG)

    def test_constants_belong_to_the_kind_of_congestion_control(self):
        self.expect("rate_gbps: 0.02", "constants: { t_low_us: 5 }",
                    "8:92: nic: cc: constants: dcqcn has no 't_low_us', but: t_i_us, t_d_us, t_alpha_us, "
                    "cnp_interval_us, r_ai_mbps, r_hai_mbps, min_mbps, g, near_qcn, near_t_us, near_b_kb, "
                    "near_r_ai_mbps, near_r_hai_mbps, near_min_mbps")
        self.expect("rate_gbps: 0.02", "constants: { g: much }",
                    "8:85: nic: cc: constants: g: expected a number, found 'much'")
        self.expect("kind: dcqcn", "kind: swift, preset: longhaul", "8:77: nic: cc: preset is for kind dcqcn")

    def test_stages_of_a_variant_are_off_or_have_options(self):
        self.expect("{ name: plain }", "{ name: plain, stages: { l2: on, parse: [] } }",
                    "14:41: variant: stages: l2: expected off, or options, found 'on'",
                    "14:52: variant: stages: parse: expected off, or options, found a list", text=CONFIG)
        self.expect("{ policy: random } }", "{ policy: random }, stages: { l3: off } }",
                    "13:53: variant: stages is for kind config")

    def test_a_variant_has_as_many_workers_as_there_are_cpus_at_most(self):
        cpus = len(os.sched_getaffinity(0))
        self.assertEqual([each.workers for each in support.load(SMALL).variants], [1, 1])
        self.expect("{ policy: random } }", "{ policy: random }, workers: 1000 }",
                    f"13:54: variant: workers: 1000 is not within 1 and {cpus}")

    def test_variants_have_different_names(self):
        self.expect("name: random", "name: ecmp", "13:5: variants: two are called ecmp")

    def test_hosts_fit_the_configuration(self):
        self.expect("port: tor/b", "port: tor/a", "11:5: hosts: nobody is at the veth ports tor/b",
                    "11:5: hosts: two have the port tor/a", text=CONFIG)
        self.expect("10.7.0.11/24", "10.7.0.2/24", "11:5: hosts: addresses overlap; a host takes three in a row",
                    text=CONFIG)
        self.expect("10.7.0.11/24", "10.7.0.300/24", "12:40: expected an address with the length of its subnet, as in "
                    "10.0.1.2/24, found '10.7.0.300/24'", text=CONFIG)

    def test_a_file_that_is_no_yaml_or_not_there_or_empty(self):
        self.assertEqual(mistakes("name: [1\n"), ["2:1: expected ',' or ']', but got '<stream end>'"])
        self.assertEqual(mistakes(""), ["1:1: the file is empty"])
        with self.assertRaises(reader.Mistakes) as caught:
            lab_file.load("/nonexistent/lab.yaml")
        self.assertEqual(caught.exception.lines, ["/nonexistent/lab.yaml: cannot be read: No such file or directory"])


if __name__ == "__main__":
    unittest.main()
