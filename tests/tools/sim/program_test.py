# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""weft-sim run, as its users meet it: arguments, results as files, reports, ends before time."""
import json
import re
import signal
import struct
import subprocess
import time
import unittest

from support import (CANNOT_RUN, INCOMPLETE, LONG, SMALL, WEFT_SIM, WRONG_USAGE, SimTest, settings,
                     small_files_only)


class Arguments(SimTest):
    def refused(self, *arguments):
        """What is said about wrong arguments."""
        result = self.sim(*arguments)
        self.assertEqual((result.returncode, result.stdout), (WRONG_USAGE, ""), result.stderr)
        return result.stderr

    def test_words_that_nobody_knows_are_answered_with_what_may_have_been_meant(self):
        self.assertEqual(self.refused("rnu", self.file), "weft-sim: unknown command 'rnu'; did you mean 'run'?\n")
        self.assertEqual(self.refused("run", self.file, "--jsno", "x"),
                         "weft-sim: unknown option '--jsno'; did you mean '--json'?\n")
        self.assertIn("unknown option '--hmtl'; did you mean '--html'?", self.refused("run", "--hmtl=x"))

    def test_what_is_missing_is_said_with_where_to_read_on(self):
        self.assertRegex(self.refused(), r"^weft-sim: .*weft-sim --help explains\n$")
        self.assertRegex(self.refused("run"), r"^weft-sim: file is required; weft-sim run --help explains\n$")
        self.assertIn("--pcap", self.refused("run", self.file, "--pcap-file", "x"))

    def test_seeds_are_whole_numbers_from_0(self):
        for seed in ("-1", "1.5", "x", "9223372036854775808", ""):
            self.assertIn(f"--seed: expected an integer from 0 to 9223372036854775807, found '{seed}'",
                          self.refused("run", self.file, "--seed", seed))

    def test_numbers_of_processes_and_settings_are_checked(self):
        for jobs in ("0", "-1", "x"):
            self.assertIn("--jobs", self.refused("sweep", self.file, "--jobs", jobs))
        for setting in ("switch.lb", "=ecmp"):
            self.assertIn("expected KEY=VALUE", self.refused("run", self.file, "--set", setting))

    def test_an_unknown_key_is_answered_with_the_one_meant_or_with_all(self):
        self.assertIn("unknown key 'swich'; did you mean 'switch'?",
                      self.refused("run", self.file, "--set", "swich.lb=ecmp"))
        known = self.refused("run", self.file, "--set", "zzzz=1")
        for key in ("topology", "switch", "nic", "workload", "faults", "seed", "sweep"):
            self.assertRegex(known, rf"known: .*\b{key}\b")

    def test_a_file_that_cannot_be_read_is_named_with_the_reason(self):
        self.assertEqual(self.refused("run", "nosuch.yaml"),
                         "weft-sim: cannot read nosuch.yaml: No such file or directory\n")
        self.assertEqual(self.refused("run", self.folder), f"weft-sim: cannot read {self.folder}: Is a directory\n")
        self.file = self.written(SMALL.split("workload")[0] + "workload: { kind: flows, file: nowhere.txt }\n")
        self.assertIn("nowhere.txt' cannot be read: No such file or directory", self.refused("run", self.file))

    def test_a_link_that_does_not_exist_is_answered_with_one_that_does(self):
        self.assertIn("unknown link 'leaf0/spin1'; did you mean 'leaf0/spine1'?",
                      self.refused("run", self.file, "--quiet", "--pcap", "leaf0/spin1"))
        self.assertEqual(self.names(), {"small.yaml"})

    def test_help_has_examples_and_exit_codes(self):
        for command in ((), ("run",), ("sweep",)):
            help_text = self.sim(*command, "--help").stdout
            self.assertIn("Examples:", help_text)
            self.assertNotRegex(help_text, r"\b(TEXT|UINT)\b")
        self.assertRegex(self.sim("--help").stdout, r"Exit codes: 0 .*2 .*3 (.|\n)*4 .*5 ")


class Results(SimTest):
    def test_results_that_cannot_be_written_are_refused_before_the_run(self):
        (self.folder / "folder").mkdir()
        for path, why in (("/nosuch/x", "No such file or directory"), ("no-such-dir/", "No such file or directory"),
                          ("/dev/full", "No space left on device"), ("folder", "Is a directory"),
                          ("small.yaml/x", "Not a directory")):
            for option in ("--json", "--html"):
                # A run that would not end: it must not begin.
                result = self.run_small(option, path, *settings(LONG))
                self.assertEqual((result.returncode, result.stdout, result.stderr),
                                 (CANNOT_RUN, "", f"weft-sim: cannot write {path}: {why}\n"))
            result = self.run_small("--pcap", "leaf0/spine1", "--pcap-file", path, *settings(LONG))
            self.assertEqual((result.returncode, result.stdout), (CANNOT_RUN, ""))
            self.assertRegex(result.stderr, f"^weft-sim: cannot write {path}: ({why}|Is a directory)")
        self.assertEqual(self.names(), {"small.yaml", "folder"})

    def test_a_disk_that_fills_up_during_the_run_is_said_at_its_end_and_nothing_is_half_written(self):
        (self.folder / "out.json").write_text("before")
        # Many paths: neither file fits.
        result = self.run_small("--set", "topology.spines=32", "--json", "out.json", "--html", "out.html",
                                preexec_fn=small_files_only(8192))
        self.assertEqual(result.returncode, CANNOT_RUN)
        self.assertIn("weft-sim: cannot write out.json: File too large\n", result.stderr)
        self.assertIn("weft-sim: cannot write out.html: File too large\n", result.stderr)
        self.assertTrue(json.loads(result.stdout)["complete"], "what was found is at least printed")
        self.assertEqual((self.folder / "out.json").read_text(), "before")
        self.assertEqual(self.names(), {"small.yaml", "out.json"})

    def test_a_capture_that_fills_the_disk_ends_and_says_so(self):
        result = self.run_small("--pcap", "leaf0/spine1", preexec_fn=small_files_only(8192))
        self.assertEqual(result.returncode, CANNOT_RUN)
        self.assertRegex(result.stderr, r"cannot write weft-sim.pcap: File too large; the capture ends at packet \d+")

    def test_a_summary_that_nobody_takes_is_an_error(self):
        with open("/dev/full", "w", encoding="utf-8") as full:
            result = subprocess.run([WEFT_SIM, "run", self.file, "--quiet"], stdout=full, stderr=subprocess.PIPE,
                                    text=True, timeout=300, check=False)
        self.assertEqual(result.returncode, CANNOT_RUN)
        self.assertIn("standard output: No space left on device", result.stderr)

    def test_standard_output_is_json_alone_and_the_trace_hash_goes_elsewhere(self):
        first = self.run_small("--trace-hash", "--json", "out.json")
        self.assertEqual(first.returncode, 0, first.stderr)
        self.assertTrue(json.loads(first.stdout)["complete"])
        found = re.fullmatch(r"trace hash ([0-9a-f]{16})\n", first.stderr)
        self.assertIsNotNone(found, first.stderr)
        self.assertEqual(json.loads((self.folder / "out.json").read_text())["trace_hash"], found[1])
        self.assertEqual(self.run_small("--trace-hash").stderr, first.stderr)
        self.assertNotEqual(self.run_small("--trace-hash", "--seed", "2").stderr, first.stderr)

    def test_a_device_or_a_pipe_takes_the_report_as_well(self):
        result = self.run_small("--json", "/dev/stdout")
        self.assertEqual(result.returncode, 0, result.stderr)
        report, end = json.JSONDecoder().raw_decode(result.stdout)
        self.assertEqual(json.loads(result.stdout[end:]), report["summary"])

    def test_a_capture_has_every_packet_of_the_link(self):
        result = self.run_small("--pcap", "leaf0/spine1", "--pcap-file", "out.pcap", "--json", "out.json")
        self.assertEqual(result.returncode, 0, result.stderr)
        data = (self.folder / "out.pcap").read_bytes()
        self.assertEqual(struct.unpack_from("<IHHIIII", data), (0xa1b23c4d, 2, 4, 0, 0, 65535, 1))
        at, times = 24, []
        while at < len(data):
            seconds, nanoseconds, kept, length = struct.unpack_from("<IIII", data, at)
            self.assertLessEqual(kept, length)
            self.assertEqual(data[at + 16 + 12:at + 16 + 14], b"\x08\x00", "IPv4")
            times.append(seconds * 1_000_000_000 + nanoseconds)
            at += 16 + kept
        self.assertEqual(at, len(data))
        self.assertEqual(times, sorted(times))
        paths = json.loads((self.folder / "out.json").read_text())["paths"]
        sent = [p["packets"] for p in paths if (p["from"], p["to"]) == ("leaf0", "spine1")]
        self.assertEqual([len(times)], sent)

    def test_a_counter_of_any_stage_is_in_the_summary(self):
        themis = {"switch.lb": "psn", "switch.nack_filter.check": "gap", "workload.bytes": 1_000_000_000,
                  "workload.kind": "alltoall", "topology.hosts_per_leaf": 4}
        stages = json.loads(self.run_small(*settings(themis)).stdout)["stages"]
        self.assertLessEqual({"parse", "rdma_track", "nack_filter", "l3", "lb"}, set(stages))
        self.assertGreater(stages["nack_filter"]["nacks_seen"], 0)
        self.assertEqual(stages["nack_filter"]["nacks_unknown"], 0, "counters that stayed 0 are there, too")


class Page(SimTest):
    def page(self, *arguments):
        result = self.run_small("--html", "out.html", *arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        return (self.folder / "out.html").read_text()

    def test_says_what_ran(self):
        page = self.page("--set", "switch.lb=ecmp", "--seed", "7")
        self.assertIn("<title>small: switch.lb=ecmp, seed=7</title>", page)
        self.assertIn("<h1>small: switch.lb=ecmp, seed=7</h1>", page)
        self.assertRegex(page, r"Seed 7, .*small\.yaml --set 'switch.lb=ecmp' --set 'seed=7', weft-sim \d+\.\d+\.\d+, "
                               r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
        self.assertIn("<td>switch.lb</td><td>ecmp</td>", page)
        self.assertIn("<td>topology.delay_ns</td><td>1000</td>", page)
        self.assertNotEqual(re.search("<title>.*?</title>", page)[0],
                            re.search("<title>.*?</title>", self.page("--set", "switch.lb=random"))[0])

    def test_numbers_have_units_and_an_explanation(self):
        page = self.page()
        summary = json.loads(self.run_small().stdout)
        for key in summary:
            self.assertNotIn(f"<td>{key}</td>", page)
        self.assertRegex(page, r"<td>Completion</td><td class=\"number\">[\d.]+ ms</td><td class=\"meaning\">\w")
        rows = re.findall(r"<tr><td>([^<]+)</td><td class=\"number\">([^<]+)</td>"
                          r"<td class=\"meaning\">([^<]+)</td>", page)
        self.assertEqual(len(rows), len(summary) - 3, "all but `fct_slowdown_by_bytes`, `stages`, `stages_most`")
        self.assertRegex(page, r"(?s)<h2>Slowdown by size</h2>.*?<td>100 KB</td><td>\d+</td>")
        for name, value, meaning in rows:
            self.assertNotIn("e+", value, name)
            self.assertGreater(len(meaning), 10, name)
        events = f"{summary['events']:,}"
        self.assertIn(("Events", events), [row[:2] for row in rows])

    def test_a_plot_of_zeros_has_an_axis_from_0_to_1(self):
        page = self.page("--set", "switch.lb=ecmp")
        plot = re.search(r"<h2>NACKs at senders</h2>.*?</svg>", page, re.S)[0]
        labels = re.findall(r"text-anchor=\"end\">([^<]+)<", plot)
        self.assertEqual(labels, ["0", "1"])
        self.assertRegex(plot, r"<p>That arrived in each interval of [\d.,]+ us")


class Ends(SimTest):
    def test_ctrl_c_writes_what_is_known_and_null_for_what_is_not(self):
        process = self.started("run", self.file, "--quiet", "--json", "out.json", "--html", "out.html", "--pcap",
                               "leaf0/spine1", *settings(LONG))
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and process.poll() is None:
            # The capture grows: the run is under way.
            capture = self.folder / "weft-sim.pcap"
            if capture.exists() and capture.stat().st_size > 100_000:
                break
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        out, error = process.communicate(timeout=60)
        self.assertEqual((process.returncode, error), (INCOMPLETE, ""))
        summary = json.loads(out)
        self.assertFalse(summary["complete"])
        for key in ("completion_ms", "goodput_gbps", "fct_slowdown_mean", "fct_slowdown_p99"):
            self.assertIsNone(summary[key], key)
        self.assertGreater(summary["packets"], 0)
        report = json.loads((self.folder / "out.json").read_text())
        self.assertTrue(report["interrupted"])
        self.assertEqual(report["summary"], summary)
        page = (self.folder / "out.html").read_text()
        self.assertIn("The run was interrupted.", page)
        self.assertIn("<td>Completion</td><td class=\"number\">unknown</td>", page)
        self.assertIn("no transfer has ended", page)

    def test_a_time_limit_is_no_interruption(self):
        result = self.run_small("--json", "out.json", "--set", "time_limit_ms=0.002")
        self.assertEqual((result.returncode, result.stderr), (INCOMPLETE, ""))
        self.assertFalse(json.loads((self.folder / "out.json").read_text())["interrupted"])
        self.assertIsNone(json.loads(result.stdout)["completion_ms"])

    def test_more_memory_than_there_is_is_refused_before_anything_is_built(self):
        huge = {"topology.leaves": 16, "topology.spines": 16, "topology.hosts_per_leaf": 32,
                "workload.kind": "alltoall", "workload.groups": 1, "workload.bytes": 1_000_000_000, "nic.window": 4096,
                "switch.buffer_mb": 1000}
        result = self.run_small(*settings(huge))
        self.assertEqual((result.returncode, result.stdout), (CANNOT_RUN, ""))
        self.assertRegex(result.stderr, r"^weft-sim: the run needs about \d+ MB, and \d+ MB are available; .*--force")

    def test_packet_buffers_that_run_out_are_an_error(self):
        result = self.run_small("--set", "mbufs=2")
        self.assertEqual((result.returncode, result.stdout), (CANNOT_RUN, ""))
        self.assertIn("weft-sim: all 2 packet buffers are in use; set mbufs to more", result.stderr)


if __name__ == "__main__":
    unittest.main()
