# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""weft-sim sweep: whole results only, resumed after any end, and never a process left behind."""
import csv
import json
import os
import pathlib
import signal
import time
import unittest
import xml.etree.ElementTree

from support import CANNOT_RUN, INCOMPLETE, SMALL, WRONG_USAGE, SimTest, small_files_only

TWO = SMALL + "sweep: { switch.lb: [ecmp, random] }\n"
# The first run takes a moment, the second one a few seconds.
SHORT_AND_LONG = SMALL + "sweep: { workload.bytes: [100000, 20000000] }\n"
# The second run takes longer than any test waits.
ENDLESS = SMALL + "sweep: { workload.bytes: [100000, 2000000000] }\n"


def children(pid):
    """Processes whose parent this is."""
    found = set()
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid:
            found.add(int(stat.parent.name))
    return found


def alive(pid):
    try:
        state = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def wait_until(condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError("it did not come true in time")
        time.sleep(0.01)


class Sweep(SimTest):
    def setUp(self):
        super().setUp()
        self.file = self.written(TWO, "two.yaml")

    def sweep(self, *arguments, **more):
        return self.sim("sweep", self.file, "--out", "out", *arguments, **more)

    def results(self):
        """Files of the runs that have ended."""
        return sorted(path for path in (self.folder / "out").glob("*.json") if path.name != "sweep.json")

    def all_of_sweep(self):
        return json.loads((self.folder / "out/sweep.json").read_text())

    def test_runs_what_is_missing_and_puts_all_together(self):
        first = self.sweep()
        self.assertEqual(first.returncode, 0, first.stderr)
        self.assertIn("2 runs, 2 to do\n", first.stderr)
        self.assertEqual([row["set"] for row in self.all_of_sweep()], [{"switch.lb": "ecmp"}, {"switch.lb": "random"}])
        hashes = [row["trace_hash"] for row in self.all_of_sweep()]
        self.assertNotEqual(*hashes)
        with open(self.folder / "out/sweep.csv", newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual([(row["switch.lb"], row["trace_hash"]) for row in rows], list(zip(["ecmp", "random"], hashes)))
        for row, each in zip(rows, self.all_of_sweep()):
            self.assertEqual(float(row["completion_ms"]), each["summary"]["completion_ms"])
            self.assertNotIn("stages", row)
        text = (self.folder / "out/sweep.html").read_text().replace("<!DOCTYPE html>", "")
        page = xml.etree.ElementTree.fromstring(text.replace('<meta charset="utf-8">', ""))
        charts = {svg.get("aria-label"): ["".join(t.itertext()) for t in svg.iter("text")] for svg in page.iter("svg")}
        labels = charts["completion_ms"][::2]
        self.assertEqual(labels, ["switch.lb=ecmp", "switch.lb=random"])
        self.assertNotIn("transfers", charts)  # the same in both
        again = self.sweep()
        self.assertEqual((again.returncode, again.stderr), (0, "2 runs, 0 to do\n"))
        self.assertEqual(again.stdout, first.stdout)
        self.results()[0].unlink()
        self.assertIn("2 runs, 1 to do\n", self.sweep().stderr)
        self.assertEqual([row["trace_hash"] for row in self.all_of_sweep()], hashes)
        self.assertEqual({p.name for p in (self.folder / "out").iterdir()},
                         {"sweep.json", "sweep.csv", "sweep.html", *(p.name for p in self.results())})

    def test_a_result_that_is_not_whole_is_named_and_its_run_repeated(self):
        self.assertEqual(self.sweep().returncode, 0)
        whole = self.results()[0].read_text()
        rows = self.all_of_sweep()
        for broken in ("", "{}", "[]", "null", whole[:100], whole[:-100], whole.replace('"summary"', '"summery"', 1),
                       whole.replace('"interrupted": false', '"interrupted": true', 1)):
            self.results()[0].write_text(broken)
            result = self.sweep()
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn(f"weft-sim: out/{self.results()[0].name} is no whole result; the run is repeated\n",
                          result.stderr)
            self.assertIn("2 runs, 1 to do\n", result.stderr)
            self.assertEqual([row["trace_hash"] for row in self.all_of_sweep()], [row["trace_hash"] for row in rows])

    def test_a_folder_that_cannot_be_had_is_an_error_before_anything_runs(self):
        (self.folder / "a-file").write_text("")
        for folder, why in (("a-file", "Not a directory|File exists"), ("/proc/x", "No such file or directory"),
                            ("/dev/null/x", "Not a directory")):
            result = self.sim("sweep", self.file, "--out", folder)
            self.assertEqual((result.returncode, result.stdout), (CANNOT_RUN, ""))
            self.assertRegex(result.stderr, f"^weft-sim: cannot (make the folder|write) {folder}.*: ({why})\n$")

    def test_a_disk_that_is_full_is_an_error(self):
        result = self.sweep("--set", "topology.spines=32", preexec_fn=small_files_only(8192))
        self.assertEqual(result.returncode, CANNOT_RUN)
        self.assertIn("weft-sim: run 'switch.lb=ecmp': exit code 3\n", result.stderr)
        self.assertIn(": File too large\n", result.stderr)
        self.assertEqual([p for p in (self.folder / "out").iterdir() if not p.name.startswith("sweep.")], [])
        self.assertIn("no result", result.stdout)

    def test_all_values_are_checked_before_the_first_run(self):
        self.file = self.written(SMALL + "sweep: { topology.leaves: [2, 5000], switch.lb: [ecmp, ecpm] }\n")
        result = self.sweep()
        self.assertEqual((result.returncode, result.stdout), (WRONG_USAGE, ""))
        self.assertIn("weft-sim: run 'topology.leaves=2 switch.lb=ecpm':\n", result.stderr)
        self.assertIn("did you mean 'ecmp'?", result.stderr)
        self.assertIn("weft-sim: run 'topology.leaves=5000 switch.lb=ecmp':\n", result.stderr)
        self.assertNotIn("to do", result.stderr)
        self.assertFalse((self.folder / "out").exists())

    def test_a_run_that_ends_incomplete_by_itself_has_a_result(self):
        result = self.sweep("--set", "time_limit_ms=0.002")
        self.assertEqual(result.returncode, INCOMPLETE, result.stderr)
        self.assertEqual([row["summary"]["complete"] for row in self.all_of_sweep()], [False, False])
        self.assertIn("incomplete", result.stdout)
        self.assertIn("2 runs, 0 to do", self.sweep("--set", "time_limit_ms=0.002").stderr)

    def test_a_large_run_that_is_alone_gets_a_thread_for_each_cpu_and_small_ones_get_one(self):
        self.file = self.written(SMALL + "sweep: { workload.bytes: [2000000000] }\n")
        cpus = len(os.sched_getaffinity(0))
        for mtu, more, threads in ((256, (), cpus), (256, ("--jobs", "1"), 1), (4096, (), 1)):
            result = self.sweep("--set", "time_limit_ms=0.002", "--set", f"nic.mtu={mtu}", *more)
            self.assertEqual(result.returncode, INCOMPLETE, result.stderr)
            self.assertEqual([json.loads(path.read_text())["run"]["threads"] for path in self.results()], [threads])
            self.results()[0].unlink()

    def test_killed_it_leaves_no_process_and_is_resumed(self):
        self.file = self.written(SHORT_AND_LONG)
        process = self.started("sweep", self.file, "--out", "out", "--jobs", "1")
        wait_until(lambda: self.results())
        wait_until(lambda: children(process.pid))
        below = children(process.pid)
        process.kill()
        process.wait()
        wait_until(lambda: not any(alive(pid) for pid in below), 5)
        self.assertEqual(len(self.results()), 1)
        first = self.results()[0].stat().st_mtime_ns
        resumed = self.sweep("--jobs", "1")
        self.assertEqual(resumed.returncode, 0, resumed.stderr)
        self.assertIn("2 runs, 1 to do\n", resumed.stderr)
        self.assertIn(first, [path.stat().st_mtime_ns for path in self.results()])
        self.assertEqual([row["summary"]["complete"] for row in self.all_of_sweep()], [True, True])

    def test_interrupted_it_ends_its_runs_and_keeps_what_is_whole(self):
        self.file = self.written(ENDLESS)
        process = self.started("sweep", self.file, "--out", "out", "--jobs", "1")
        wait_until(lambda: self.results())
        wait_until(lambda: any(os.path.exists(f"/proc/{pid}/exe") and b"--quiet" in
                               pathlib.Path(f"/proc/{pid}/cmdline").read_bytes() for pid in children(process.pid)))
        below = children(process.pid)
        time.sleep(0.5)
        process.send_signal(signal.SIGTERM)
        out, error = process.communicate(timeout=60)
        self.assertEqual(process.returncode, INCOMPLETE, error)
        self.assertFalse(any(alive(pid) for pid in below))
        self.assertEqual([row["set"] for row in self.all_of_sweep()], [{"workload.bytes": "100000"}])
        self.assertIn("no result", out)
        self.assertIn("1 of 2 runs, ", error)
        self.assertNotIn("2 of 2 runs, ", error)


if __name__ == "__main__":
    unittest.main()
