# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""tools/lab/weft-lab on this machine: a comparison of two variants, and that nothing is left, however it ends."""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import support

WAIT_S = 40
# What a switch counts when packets went on before those that they had overtaken.
GIVEN_UP = {"conweave": ("flushed", "given_up", "no_queue", "overflowed"), "reorder": ("expired", "overflowed")}


def given_up(variant):
    return sum(row[counter] for stage, counters in GIVEN_UP.items() for row in variant["stages"][stage]
               for counter in counters)


class Live(unittest.TestCase):
    number = 0

    def setUp(self):
        Live.number += 1
        self.name = f"t{os.getpid() % 1000000}x{Live.number}"
        folder = tempfile.TemporaryDirectory(prefix="weft-lab-test-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.addCleanup(lambda: self.lab("down", self.name))
        self.file = support.written(support.SMALL.replace("NAME", self.name), self.folder)

    def lab(self, *arguments):
        return subprocess.run([support.WEFT_LAB, "--programs", support.BIN, *arguments], capture_output=True, text=True,
                              timeout=150, check=False, cwd=self.folder)

    def start(self, *arguments):
        process = subprocess.Popen([support.WEFT_LAB, "--programs", support.BIN, *arguments], stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True, cwd=self.folder)
        self.addCleanup(lambda: process.poll() is None and process.kill())
        return process

    def left(self):
        """Namespaces of the lab, its folder, and its processes."""
        names = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout
        found = re.findall(rf"^weft-lab-{self.name}-\S+", names, re.M)
        if os.path.exists(f"/run/weft-lab/{self.name}"):
            found.append("folder")
        return found + [f"process {pid}" for pid in self.processes()]

    def processes(self):
        marker, found = f"WEFT_LAB={self.name}".encode(), []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/environ", "rb") as file:
                    if marker in file.read().split(b"\0"):
                        found.append(int(pid))
            except OSError:
                pass
        return found

    def wait_for(self, what, condition):
        deadline = time.monotonic() + WAIT_S
        while not condition():
            self.assertLess(time.monotonic(), deadline, what)
            time.sleep(0.05)

    def test_a_comparison_shows_what_spraying_does_and_leaves_nothing(self):
        done = self.lab("run", self.file, "--html", "out.html", "--json", "out.json")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"guard [\d.]+ ms, retransmission timeout [\d.]+ ms")
        with open(os.path.join(self.folder, "out.json"), encoding="utf-8") as file:
            ecmp, random = (variant["summary"] for variant in json.load(file)["variants"])
        self.assertEqual((ecmp["spurious"], ecmp["nacks_sent"], ecmp["paths_used"]), (0, 0, 1))
        self.assertGreater(random["spurious"], 20)
        self.assertGreater(random["nacks_heeded"], 20)
        self.assertEqual(random["paths_used"], 2)
        self.assertEqual(ecmp["drops"] + random["drops"], 0)
        with open(os.path.join(self.folder, "out.html"), encoding="utf-8") as file:
            self.assertIn("<svg", file.read())
        self.assertEqual(self.left(), [])

    def test_nack_filter_hides_reordering_from_senders_and_no_loss(self):
        variants = """\
  - { name: sprayed, lb: { policy: psn }, nack_filter: { check: gap } }
  - { name: lossy, lb: { policy: psn }, nack_filter: { check: gap }, loss: 0.02 }
"""
        text = support.SMALL.replace("NAME", self.name)
        path = support.written(text[:text.index("  - { name: ecmp")] + variants, self.folder)
        done = self.lab("run", path, "--json", "out.json")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        with open(os.path.join(self.folder, "out.json"), encoding="utf-8") as file:
            sprayed, lossy = (variant["summary"] for variant in json.load(file)["variants"])
        self.assertGreater(sprayed["filter"]["blocked"], 20)
        self.assertEqual((sprayed["retransmitted"], sprayed["nacks_heeded"], sprayed["timeouts"]), (0, 0, 0))
        self.assertEqual(sprayed["paths_used"], 2)
        self.assertGreater(lossy["drops"], 5)
        self.assertGreater(lossy["filter"]["valid"] + lossy["filter"]["compensated"], 5)
        # What was lost is sent again, once each time. A packet that was not lost is sent again for two reasons alone:
        # the guard let a NACK pass before the packet came, or a timeout sent the whole window.
        self.assertGreater(lossy["retransmitted"], 5)
        self.assertLessEqual(lossy["spurious"], lossy["filter"]["guard"] + 64 * lossy["timeouts"])

    @unittest.skipIf(shutil.which("mpirun") is None, "Open MPI is not installed")
    def test_an_mpi_program_runs_with_and_without_switches(self):
        path = support.written(support.MPI.replace("NAME", self.name), self.folder)
        done = self.lab("run", path, "--html", "out.html", "--json", "out.json")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        with open(os.path.join(self.folder, "out.json"), encoding="utf-8") as file:
            before, switches = json.load(file)["variants"]
        self.assertEqual([list(each["times_us"]) for each in (before, switches)], [["8", "64", "512"]] * 2)
        # Of each size four AllReduces, a Barrier and a Reduce, and one AllReduce at the end.
        self.assertEqual((before["by_switches"], switches["by_switches"]), (0, 3 * (1 + 1 + 3 + 1) + 1))
        self.assertIn("by switches", done.stdout)
        self.assertEqual(self.left(), [])

    def test_rnics_do_not_notice_load_balancers_that_restore_the_order(self):
        with open(support.ROOT / "conf/labs/load-balancing.yaml", encoding="utf-8") as file:
            head, variants = file.read().split("variants:\n")
        wanted = [block for block in re.split(r"^(?=  - )", variants, flags=re.M)
                  if re.search(r'name: "?(conweave|gemma)', block)]
        text = re.sub(r"^name: .*", f"name: {self.name}", head, flags=re.M).replace("bytes: 8000000", "bytes: 2000000")
        timing = "timing: { probes: 20, rto_us: 1000000 }\n"
        done = self.lab("run", support.written(text + timing + "variants:\n" + "".join(wanted), self.folder),
                        "--json", "out.json", "--html", "out.html")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        with open(os.path.join(self.folder, "out.json"), encoding="utf-8") as file:
            found = {variant["name"]: variant for variant in json.load(file)["variants"]}
        self.assertEqual(sorted(found), sorted(f"{policy}{what}" for policy in ("conweave", "gemma")
                                               for what in ("", ", gbn", ", 2 workers")))
        with open(os.path.join(self.folder, "out.html"), encoding="utf-8") as file:
            page = file.read()
        self.assertIn("<svg", page)
        for name, variant in found.items():
            summary = variant["summary"]
            self.assertIn(f">{name}<", page)
            # A machine that is away for longer than extra_us lets a TAIL of ConWeave come too late: of go-back-N a
            # window is then sent again. The switch has counted it, or it was not that.
            late = {"conweave, gbn": 3 * 96}.get(name, 30)
            excused = name.startswith("conweave") and given_up(variant) != 0
            self.assertLessEqual(summary["retransmitted"], late if excused else 0, name)
            self.assertEqual((summary["timeouts"], summary["drops"]), (0, 0), name)
            self.assertGreater(summary["paths_used"], 1, name)

    def test_collectives_are_compared_by_mode(self):
        text = support.INC.replace("operation: allreduce, sizes: [4,", "operation: [allreduce, barrier, allgather], "
                                   "sizes: [16,")
        path = support.written(text.replace("NAME", self.name), self.folder)
        done = self.lab("run", path, "--html", "out.html", "--json", "out.json")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        with open(os.path.join(self.folder, "out.json"), encoding="utf-8") as file:
            variants = json.load(file)["variants"]
        self.assertEqual([variant["name"] for variant in variants], ["i", "ii", "lossy"])
        for variant in variants:
            self.assertEqual([(run["operation"], run["bytes"], run["collectives"]) for run in variant["runs"]],
                             [("allreduce", 16, 3), ("allreduce", 65536, 3), ("barrier", 0, 3), ("allgather", 16, 3),
                              ("allgather", 65536, 3)])
            self.assertGreater(variant["memory_kib"], 0)
        self.assertEqual(sum(run["resent"] + run["retransmitted"] for run in variants[1]["runs"]), 0)
        self.assertGreater(sum(run["resent"] for run in variants[2]["runs"]), 0)
        self.assertGreater(variants[2]["drops"], 0)
        with open(os.path.join(self.folder, "out.html"), encoding="utf-8") as file:
            self.assertIn("<svg", file.read())
        self.assertEqual(self.left(), [])

    def test_ctrl_c_and_sigterm_unwind(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            process = self.start("run", self.file)
            self.wait_for("the servers", lambda: len(self.processes()) >= 3)
            process.send_signal(number)
            out, _ = process.communicate(timeout=WAIT_S)
            self.assertEqual(process.returncode, 1, out)
            self.assertIn(f"stopped by {number.name}", out)
            self.assertEqual(self.left(), [])

    def test_a_run_that_is_killed_takes_its_processes_along_and_down_finds_the_rest(self):
        process = self.start("run", self.file)
        self.wait_for("the servers", lambda: len(self.processes()) >= 3)
        process.kill()
        process.communicate()
        self.wait_for("the processes to be gone", lambda: not self.processes())
        self.assertNotEqual(self.left(), [])
        refused = self.lab("run", self.file)
        self.assertEqual(refused.returncode, 1)
        self.assertIn(f"weft-lab down {self.name}", refused.stderr)
        self.assertEqual(self.lab("down", self.file).returncode, 0)
        self.assertEqual(self.left(), [])

    def test_up_leaves_a_lab_that_works_and_down_touches_nothing_of_others(self):
        done = self.lab("up", self.file, "--variant", "random")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        namespace = f"weft-lab-{self.name}-h1"
        stranger = subprocess.Popen(["ip", "netns", "exec", namespace, "sleep", "60"])
        self.addCleanup(stranger.wait)
        self.addCleanup(stranger.kill)
        other = f"weft-lab-{self.name}y-h1"  # of a lab with another name
        subprocess.run(["ip", "netns", "add", other], check=True)
        self.addCleanup(subprocess.run, ["ip", "netns", "del", other], check=True)
        rnic = os.path.join(support.BIN, "weft-rnic")
        client = subprocess.run(["ip", "netns", "exec", namespace, rnic, "write_bw", "10.0.2.2", "--address",
                                 "10.0.1.3", "-n", "20", "--json", "--loss-recovery", "nic_sr", "--rto-us", "1000000"],
                                capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(client.returncode, 0, client.stderr)
        self.assertEqual(json.loads(client.stdout)["messages"], 20)
        self.assertEqual(self.lab("up", self.file).returncode, 1)
        self.assertEqual(self.lab("down", self.name).returncode, 0)
        self.assertEqual(self.left(), [])
        self.assertIsNone(stranger.poll())
        self.assertIn(other, subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout)

    def test_mistakes_are_said_before_anything_is_made(self):
        path = support.written(support.SMALL.replace("NAME", self.name).replace("random }", "rondom }"), self.folder)
        done = self.lab("run", path)
        self.assertEqual(done.returncode, 2)
        self.assertRegex(done.stderr, r"lab\.yaml:13:\d+: policy: expected one of .*\n1 mistake\n$")
        self.assertEqual(self.left(), [])

    def test_a_report_that_cannot_be_written_is_said_before_anything_is_made(self):
        path = support.written(support.SMALL.replace("NAME", self.name), self.folder)
        for option in ("--html", "--json"):
            done = self.lab("run", path, option, "/no/such/folder/out")
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("cannot write /no/such/folder/out: No such file or directory", done.stderr)
            self.assertEqual(self.left(), [])


if __name__ == "__main__":
    if os.geteuid() != 0:
        print("SKIP: network namespaces need root")
        sys.exit(77)
    # CTest and people end a test with SIGTERM: unwind as for Ctrl-C, so that cleanups run.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    unittest.main(verbosity=2)
