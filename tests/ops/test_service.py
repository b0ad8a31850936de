#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""weft-switch under a service manager: readiness, watchdog, status, the journal, and the unit files."""
import ctypes
import glob
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.dirname(__file__))
from process import BIN, Process, read

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "../.."))
PTRACE_SEIZE, PTRACE_INTERRUPT, PTRACE_DETACH = 0x4206, 0x4207, 17


class Manager:
    """The service manager's end of sd_notify(3)."""

    def __init__(self, process):
        path = process.path("notify")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(path)
        self.environment = {"NOTIFY_SOCKET": path}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def message(self, timeout):
        """The next message as a dict; None when none comes."""
        self.socket.settimeout(timeout)
        try:
            text = self.socket.recv(4096).decode()
        except socket.timeout:
            return None
        return dict(line.split("=", 1) for line in text.splitlines())

    def wait_for(self, key, timeout=20):
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            message = self.message(max(0.01, end - time.monotonic()))
            if message and key in message:
                return message[key]
        raise AssertionError(f"no {key} within {timeout} s")

    def pings(self, seconds):
        """How many watchdog pings come."""
        end = time.monotonic() + seconds
        count = 0
        while time.monotonic() < end:
            message = self.message(max(0.01, end - time.monotonic()))
            count += 1 if message and "WATCHDOG" in message else 0
        return count


def worker_thread(pid):
    for task in glob.glob(f"/proc/{pid}/task/*"):
        if "worker" in read(task + "/comm"):
            return int(os.path.basename(task))
    raise AssertionError("no worker thread")


def ptrace(request, tid):
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    libc.ptrace.restype = ctypes.c_long
    return libc.ptrace(request, tid, None, None)


class Notify(unittest.TestCase):
    def setUp(self):
        self.process = self.enterContext(Process())
        self.manager = self.enterContext(Manager(self.process))

    def start(self, **environment):
        self.process.start(self.process.write(), environment={**self.manager.environment, **environment})

    def test_it_is_ready_when_it_forwards_and_says_when_it_stops(self):
        self.start()
        self.assertEqual(self.manager.wait_for("READY"), "1")
        self.assertEqual(self.process.stop(), 0)
        self.assertEqual(self.manager.wait_for("STOPPING"), "1")

    def test_a_reload_is_announced_and_ends_in_readiness(self):
        self.start()
        self.manager.wait_for("READY")
        before = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        self.process.switch.send_signal(signal.SIGHUP)
        message = self.manager.message(20)
        while message and "RELOADING" not in message:
            message = self.manager.message(20)
        self.assertEqual(message["RELOADING"], "1")
        self.assertGreaterEqual(int(message["MONOTONIC_USEC"]), before)
        self.assertEqual(self.manager.wait_for("READY"), "1")
        self.assertEqual(self.process.stop(), 0)

    def test_a_process_that_cannot_start_is_never_ready(self):
        path = self.process.write(switches="""
  - name: a
    ports: [ { name: p, type: pcap, rx_file: /nonexistent.pcap } ]
    pipeline: [parse, l2]
""")
        with self.assertRaises(AssertionError):
            self.process.start(path, environment=self.manager.environment)
        self.assertIsNone(self.manager.message(0.2))

    def test_the_status_tells_ports_and_rates(self):
        self.start()
        self.assertEqual(self.manager.wait_for("STATUS"), "forwarding")
        self.assertRegex(self.manager.wait_for("STATUS"), r"^4 of 4 ports up, [0-9.]+ [kM]?pps received, "
                                                          r"[0-9.]+ [kM]?pps dropped$")

    def test_a_worker_that_hangs_stops_the_watchdog_pings(self):
        self.start(WATCHDOG_USEC="600000")
        self.manager.wait_for("READY")
        self.assertGreaterEqual(self.manager.pings(2), 3)
        worker = worker_thread(self.process.switch.pid)
        if ptrace(PTRACE_SEIZE, worker) != 0:
            self.skipTest("ptrace is not allowed here")
        self.assertEqual(ptrace(PTRACE_INTERRUPT, worker), 0)
        os.waitpid(worker, 0x40000000)  # __WALL
        self.manager.pings(0.5)  # those on their way
        self.assertEqual(self.manager.pings(1.5), 0)
        self.assertIn("worker 0 has finished no loop for 200 ms: the watchdog will end the process",
                      read(self.process.log_path))
        self.assertEqual(ptrace(PTRACE_DETACH, worker), 0)
        self.assertGreaterEqual(self.manager.pings(2), 3)
        self.assertIn("worker 0 runs again", read(self.process.log_path))

    def test_without_a_watchdog_nobody_is_pinged(self):
        self.start()
        self.manager.wait_for("READY")
        self.assertEqual(self.manager.pings(1), 0)


class Journal(unittest.TestCase):
    def test_lines_for_the_journal_begin_with_a_priority_and_hold_no_colours(self):
        with Process() as process:
            open(process.log_path, "w").close()
            status = os.stat(process.log_path)
            # start() opens the same file again, so the stream is the one that the variable names.
            process.start(process.write(), environment={"JOURNAL_STREAM": f"{status.st_dev}:{status.st_ino}"})
            self.assertEqual(process.stop(), 0)
            log = read(process.log_path)
            self.assertIn("<6>forwarding\n", log)
            self.assertNotIn("\033", log)
            self.assertEqual([line for line in log.splitlines() if not re.match(r"<[3-7]>\S", line)], [])

    def test_mistakes_in_the_configuration_are_errors_in_the_journal(self):
        with Process() as process:
            open(process.log_path, "w").close()
            status = os.stat(process.log_path)
            with self.assertRaises(AssertionError):
                process.start(process.write("idle: often\nsteer: left"),
                              environment={"JOURNAL_STREAM": f"{status.st_dev}:{status.st_ino}"})
            self.assertEqual(process.switch.returncode, 2)
            lines = read(process.log_path).splitlines()
            self.assertEqual(len(lines), 3)
            self.assertEqual([line for line in lines if not line.startswith("<3>")], [])

    def test_a_redirected_stream_is_no_journal(self):
        with Process() as process:
            process.start(process.write(), environment={"JOURNAL_STREAM": "1:2"})
            self.assertRegex(read(process.log_path),
                             r"(?m)^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} info: forwarding$")


class Units(unittest.TestCase):
    def test_systemd_finds_nothing_wrong_with_the_units(self):
        if shutil.which("systemd-analyze") is None:
            self.skipTest("systemd-analyze is not installed")
        with Process() as process:
            for unit in glob.glob(ROOT + "/tools/package/*.service"):
                text = read(unit).replace("/usr/bin/weft-", os.path.join(BIN, "weft-"))
                text = re.sub(r"^Documentation=.*\n", "", text, flags=re.M)
                name = os.path.basename(unit).replace("@.", "@tor.")
                with open(process.path(name), "w") as file:
                    file.write(text)
                result = subprocess.run(["systemd-analyze", "verify", "--man=no", process.path(name)],
                                        capture_output=True, text=True, timeout=60)
                self.assertEqual(result.stdout + result.stderr, "")
                self.assertEqual(result.returncode, 0)

    def test_both_units_differ_in_the_configuration_only(self):
        single, template = (read(f"{ROOT}/tools/package/weft-switch{at}.service") for at in ("", "@"))
        template = template.replace("%i.yaml", "weft.yaml").replace(", configuration %i", "")
        self.assertEqual(single, template)

    def settings(self):
        """The last value of each key of the [Service] and [Unit] sections."""
        lines = read(f"{ROOT}/tools/package/weft-switch.service").splitlines()
        return dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))

    def test_the_switch_may_enter_network_namespaces_and_no_others(self):
        # systemd answers setns() into what is not listed with EPERM: "no" allows all, "yes" none, a list what it names.
        self.assertEqual(self.settings()["RestrictNamespaces"], "net")
        self.assertIn("CAP_SYS_ADMIN", self.settings()["CapabilityBoundingSet"].split())

    def test_what_stays_wrong_is_not_tried_again_and_what_may_get_right_is(self):
        settings = self.settings()
        self.assertEqual(settings["RestartPreventExitStatus"].split(), ["2"])
        self.assertEqual(settings["Restart"], "on-failure")
        # Without this systemd gives up after five failures in ten seconds.
        self.assertEqual(settings["StartLimitIntervalSec"], "0")


if __name__ == "__main__":
    unittest.main(verbosity=2)
