# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""tools/lab/report.py and experiment.py: numbers of a run, the limits that follow from jitter, and the report."""
import dataclasses
import json
import os
import re
import subprocess
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree

import support
from tools.lab import experiment, fabric, flow_report, lab_file, report

LAB = support.load(support.SMALL.replace("NAME", "small"))
JITTER = experiment.Jitter(2000, 3000, 4000, 9100, 5000, 20)
WATCH = """\
qp says hello
    0.0 s     0.000 Gbit/s  retransmitted 0  naks 0  timeouts 0  cnps 0  rate 0.075
    0.2 s     0.021 Gbit/s  retransmitted 5  naks 7  timeouts 1  cnps 0  rate 0.021
"""


def port(name, tx_bytes):
    return {"switch": "leaf1", "port": name, "tx_bytes": tx_bytes}


def filter_row(switch, **counters):
    return {"switch": switch, "bytes": 100, **dict.fromkeys(report.FILTER_COUNTERS, 0), **counters}


def outcome():
    plain = [(2.0, [(0, 0, 0, 0, 0), (0.25, 0.02, 0, 0, 0)], {})] * 2
    sprayed = [(1.0, [(0, 0, 0, 0, 0), (0.25, 0.03, 10, 4, 0), (0.5, 0.03, 30, 9, 0)],
                {"retransmitted": 40, "spurious": 39, "naks": 12, "server_naks_sent": 20}),
               (1.5, [(0, 0, 0, 0, 0), (0.25, 0.01, 1, 2, 0)], {"timeouts": 1})]
    return report.Outcome(LAB, JITTER, experiment.limits(JITTER, LAB.timing), [
        support.result(LAB, 0, plain, [port("s1", 990), port("s2", 10)]),
        support.result(LAB, 1, sprayed, [port("s1", 500), port("s2", 500)],
                       [filter_row("leaf1", seen=3, blocked=2), filter_row("leaf2", seen=4, blocked=4)],
                       [{"reason": "queue_full", "severity": "warning", "packets": 3},
                        {"reason": "ip_destination", "severity": "info", "packets": 8}])],
        experiment.Origin("1.2.3", "2026-01-02 03:04 UTC"))


class Numbers(unittest.TestCase):
    def test_counters_are_summed_over_flows_and_drops_that_mean_nothing_are_left_out(self):
        row = report.row(outcome().results[1])
        self.assertEqual((row.retransmitted, row.spurious, row.nacks_sent, row.nacks_heeded, row.timeouts, row.drops),
                         (40, 39, 20, 12, 1, 3))
        self.assertEqual(row.retransmit_percent, 2.0)
        self.assertEqual(row.seconds, 1.5)
        self.assertAlmostEqual(row.gbps, 2 * 100 * 10_000 * 8e-9 / 1.5)
        self.assertEqual(row.filter, {"seen": 7, "valid": 0, "blocked": 6, "compensated": 0, "guard": 0, "unknown": 0})

    def test_what_restored_order_has_counted_is_shown_by_variant(self):
        def counted(switch, stage, **values):
            return [{"switch": switch, "stage": stage, "counter": name, "value": value}
                    for name, value in values.items()]

        rows = experiment.order_rows(
            counted("leaf1", "reorder", packets_held=0, expired=0) +
            counted("leaf2", "reorder", packets_held=7, expired=2, late=3, overflowed=0, leaps=0, went_back=1) +
            counted("leaf2", "lb_tag", conweave_flushed=0, gemma_reports=9) + counted("leaf2", "l3", packets_held=5))
        self.assertEqual(rows["conweave"], [])
        self.assertEqual([(row["switch"], row["packets_held"], row["expired"]) for row in rows["reorder"]],
                         [("leaf2", 7, 2)], "a switch at which nothing happened is left out")
        measured = outcome()
        measured.results[1].stages.update(rows)
        self.assertIn([("reorder", "packets held", "expired", "late", "overflowed", "leaps", "went back"),
                       ("random", "7", "2", "3", "0", "0", "1")], flow_report.tables(measured))

    def test_a_path_that_carries_acknowledgements_only_is_not_used(self):
        self.assertEqual([report.row(result).paths_used for result in outcome().results], [1, 2])

    def test_a_leaf_that_sends_acknowledgements_only_uses_no_paths(self):
        text = support.SMALL.replace("NAME", "one").replace("kind: ring", "kind: flows, flows: [{ from: h2, to: h1 }]")
        lab = support.load(text)
        self.assertEqual(fabric.sending_racks(lab), {"leaf2"})
        # leaf1: acknowledgements on one path, the greetings of programs on the other.
        ports = [port("s1", 96_000), port("s2", 4_000), {**port("s1", 10_000_000), "switch": "leaf2"}]
        measured = support.result(lab, 0, [(2.0, [], {})], ports)
        measured.uplinks["leaf2"] = ["s1", "s2"]
        self.assertEqual(report.row(measured).paths_used, 1)

    def test_guard_and_timeout_follow_from_the_longest_round_trip_unless_the_file_says_otherwise(self):
        self.assertEqual(experiment.limits(JITTER, lab_file.Timing()), experiment.Limits(19_000, 210_000))
        self.assertEqual(experiment.limits(JITTER, lab_file.Timing(20, 5, 6)), experiment.Limits(5, 6))
        self.assertEqual(experiment.limits(None, lab_file.Timing()), experiment.Limits(100_000, 300_000))

    def test_a_load_is_under_way_when_messages_of_it_have_arrived_or_it_has_ended(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "load0.log")
            with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
                load = experiment.Load(LAB.workload.flows[0], process, path)
                self.assertFalse(load.under_way(), "it has said nothing yet")
                with open(path, "w", encoding="utf-8") as file:
                    file.write(WATCH.splitlines(keepends=True)[1])
                self.assertFalse(load.under_way(), "it is connected, and nothing has arrived")
                with open(path, "w", encoding="utf-8") as file:
                    file.write(WATCH)
                self.assertTrue(load.under_way())
                os.unlink(path)
                process.stdin.close()
                process.wait()
                self.assertTrue(load.under_way(), "finish() says why it has ended")

    def test_jitter_is_measured_again_when_the_machine_was_away(self):
        def measured(*longest_us):
            attempts = iter([experiment.Jitter(1, 1, 1, each, 0, 20) for each in longest_us])
            return experiment.calmest(lambda: next(attempts)).busy_max_us, len(list(attempts))

        self.assertEqual(measured(9_000, 1), (9_000, 1))
        self.assertEqual(measured(900_000, 8_000, 1), (8_000, 1))
        self.assertEqual(measured(900_000, 700_000, 800_000, 1), (700_000, 1))

    def test_the_queue_of_a_path_is_what_the_flows_of_a_rack_have_under_way(self):
        self.assertAlmostEqual(fabric.backlog_us(LAB, LAB.nic), 64 * 1124 * 8 / 20)

    def test_progress_of_weft_rnic_is_read(self):
        self.assertEqual(experiment.parse_samples(WATCH), [(0.0, 0.0, 0, 0, 0), (0.2, 0.021, 5, 7, 1)])

    def test_the_rate_that_congestion_control_allows_is_read(self):
        self.assertEqual(experiment.parse_rates(WATCH), [(0.0, 0.075), (0.2, 0.021)])
        self.assertEqual(experiment.parse_rates(WATCH.replace("  rate 0.075", "").replace("  rate 0.021", "")), [])

    def test_a_flow_is_told_everything_that_the_file_says_about_its_nic(self):
        words = experiment.flow_command("weft-rnic", LAB.hosts[0], LAB.hosts[1], LAB.nic, LAB.workload, 7, 250)
        for pair in (("write_bw", "10.0.2.2"), ("--address", "10.0.1.3"), ("--loss-recovery", "nic_sr"),
                     ("--mtu", "1024"), ("--window", "64"), ("--cc", "dcqcn"), ("--rate-gbps", "0.02"),
                     ("--rto-us", "7"), ("--iters", "15"), ("--watch", "0.25")):
            self.assertIn(pair, list(zip(words, words[1:])))
        self.assertNotIn("--nack-is-cnp", words)
        self.assertNotIn("--cc-constant", words)
        nic = dataclasses.replace(LAB.nic, cc="timely", constants={"t_low_us": "5", "beta": "0.5"})
        words = experiment.flow_command("weft-rnic", LAB.hosts[0], LAB.hosts[1], nic, LAB.workload, 7, 250)
        self.assertIn(("--cc-constant", "t_low_us=5,beta=0.5"), list(zip(words, words[1:])))
        self.assertNotIn("--dcqcn", words)


class Report(unittest.TestCase):
    def test_the_table_has_a_line_for_each_variant_and_one_for_the_filter(self):
        lines = report.text_table(outcome()).splitlines()
        self.assertRegex(lines[3], r"^ecmp +8 +2\.0 +0 +0\.0 +0 +0 +0 +0 +0 +1 of 2$")
        self.assertRegex(lines[4], r"^random +11 +1\.5 +40 +2\.0 +39 +20 +12 +1 +3 +2 of 2$")
        self.assertRegex(lines[-1], r"^random +7 +0 +6 +0 +0 +0$")

    def test_curves_add_flows_and_a_count_stays_when_its_flow_has_ended(self):
        lines = report._lines(outcome(), 3)
        self.assertEqual(lines[1].points, [(0.25, 6), (0.5, 11)])
        self.assertEqual(report._lines(outcome(), 1)[1].points, [(0.25, 0.04), (0.5, 0.03)])

    def test_the_page_is_well_formed_and_loads_nothing_and_says_what_is_not_claimed(self):
        text = report.html(outcome())
        ElementTree.fromstring(re.search(r"<body>.*</body>", text, re.DOTALL).group(0))
        self.assertNotRegex(text.replace("http://www.w3.org/2000/svg", ""), r"https?:|src=|href=|url\(|@import|<script")
        self.assertEqual(text.count("<svg"), 4)
        self.assertIn("no microseconds", text)
        self.assertIn('<td class="bad">39</td>', text)
        self.assertIn("the guard, 19 ms, and the retransmission timeout, 1000 ms", text)

    def charts_of(self, text):
        """The texts of each chart of a page, by its label."""
        body = ElementTree.fromstring(re.search(r"<body>.*</body>", text, re.DOTALL).group(0))
        svg = "{http://www.w3.org/2000/svg}"
        return {chart.get("aria-label"): [part.text for part in chart.iter(svg + "text")]
                for chart in body.iter(svg + "svg")}

    def test_the_plot_has_the_unit_of_the_table(self):
        text = report.html(outcome())
        throughput = self.charts_of(text)["Throughput"]
        self.assertIn("Mbit/s", throughput)
        # The highest sample of both flows together is 40 Mbit/s.
        self.assertIn("40", throughput)
        self.assertNotIn("Gbit/s", text)

    def test_shares_end_at_a_hundred_percent_without_saying_so_at_each_bar(self):
        measured = outcome()
        for result, counts in zip(measured.results, ((1, 1, 1, 1, 1, 1), (2, 1, 1, 1, 1, 0))):
            result.uplinks["leaf1"] = [f"s{number}" for number in range(6)]
            result.ports[:] = [port(f"s{number}", count) for number, count in enumerate(counts)]
        paths = self.charts_of(report.html(measured))["Paths used"]
        self.assertIn("100", paths)
        self.assertNotIn("120", paths)
        self.assertNotIn("100.0", paths)

    def test_variants_without_nacks_are_named_in_place_of_curves_at_zero(self):
        text = report.html(outcome())
        nacks = self.charts_of(text)["NACKs over time"]
        self.assertIn("random", nacks)
        self.assertNotIn("ecmp", nacks)
        self.assertIn("None was heeded in: ecmp.", text)
        measured = outcome()
        del measured.results[1]
        text = report.html(measured)
        self.assertNotIn("NACKs over time", text)
        self.assertIn("The senders heeded no NACK.", text)

    def test_a_variant_has_one_colour_in_all_charts(self):
        text = report.html(outcome())
        curve = re.search(r'aria-label="NACKs over time".*?<path d="[^"]*" class="(l\d)"', text, re.DOTALL)[1]
        both = re.search(r'aria-label="Throughput".*?class="(l\d)".*?class="(l\d)"', text, re.DOTALL).groups()
        self.assertEqual((curve, both), ("l2", ("l1", "l2")))

    def test_the_page_says_when_and_by_which_version_it_was_made(self):
        self.assertIn("weft 1.2.3, 2026-01-02 03:04 UTC.", report.html(outcome()))

    def test_flows_with_names_have_a_table_and_figures_of_their_own(self):
        plain = outcome()
        self.assertEqual(flow_report.tables(plain), [], "nobody gave them names")
        flows = [dataclasses.replace(flow, name=name) for flow, name in zip(LAB.workload.flows, ("inside", None))]
        lab = dataclasses.replace(LAB, workload=dataclasses.replace(LAB.workload, flows=flows))
        results = []
        for each in plain.results:
            named = [dataclasses.replace(old, flow=flow, rates=[(0.0, 0.02), (0.25, 0.01)])
                     for old, flow in zip(each.flows, flows)]
            results.append(dataclasses.replace(each, flows=named))
        pnp = {"marked": 5, "cnps_sent": 2, "marks_cleared": 5, "unknown_qp": 0, "mode": "x"}
        results[1] = dataclasses.replace(results[1], stages={"pnp": [pnp, pnp], "trp": []})
        named = dataclasses.replace(plain, lab=lab, results=results)
        self.assertEqual(flow_report.tables(named), [
            [("Mbit/s by flow", "inside", "h2 to h1"), ("ecmp", "4.00", "4.00"), ("random", "8.00", "5.33")],
            [("pnp", "marked", "cnps sent", "marks cleared", "unknown qp"), ("random", "10", "4", "10", "0")]])
        self.assertRegex(report.text_table(named), r"Mbit/s by flow +inside +h2 to h1\n-+\necmp +4\.00 +4\.00\n")
        text = report.html(named)
        ElementTree.fromstring(re.search(r"<body>.*</body>", text, re.DOTALL).group(0))
        self.assertEqual(text.count("<svg"), 8, "throughput and rates of each variant")

    def test_json_has_all_that_was_measured(self):
        read = json.loads(report.json_text(outcome()))
        self.assertEqual(read["limits"], {"guard_us": 19000, "rto_us": 1000000})
        self.assertEqual((read["version"], read["date"]), ("1.2.3", "2026-01-02 03:04 UTC"))
        self.assertEqual(read["variants"][1]["summary"]["spurious"], 39)
        self.assertEqual(read["variants"][1]["paths"], {"leaf1": [0.5, 0.5]})
        self.assertEqual(read["variants"][1]["flows"][0]["samples"][2], [0.5, 0.03, 30, 9, 0])


if __name__ == "__main__":
    unittest.main()
