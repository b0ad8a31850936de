#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""Depths of queues of a running weft-switch: recorded as CSV and as a picture, and watched as bars on a terminal."""
import csv
import fcntl
import os
import pty
import signal
import struct
import subprocess
import termios
import time
import xml.etree.ElementTree as xml

import program

TOP = "eal: { hugepages: off, mbufs: 8192 }\nidle: sleep\ncontrol: { socket: weft.sock }\n"
SENDER = ("type: generator, source_mac: '02:00:00:00:00:0a', destination_mac: '02:00:00:00:00:0b', "
          "source: 10.0.0.1, destination: 10.0.0.2, first_qpn: 16, qps: 2, rate_pps: 20000")
SVG = "{http://www.w3.org/2000/svg}"
# 20,000 packets a second of 1 KiB do not fit through 100 Mbit/s.
LIMIT = 500_000
QOS = (f"    static_macs: [ {{ mac: '02:00:00:00:00:0b', port: out }} ]\n"
       f"    qos:\n      BUFFER_PROFILE: {{ small: {{ static_th: {LIMIT} }} }}\n"
       f"      BUFFER_QUEUE: {{ 'all|0-2': {{ profile: small }} }}\n")


class Queues(program.Running):
    def setUp(self):
        super().setUp()
        self.configure([f"{{ name: in, {SENDER} }}", "{ name: out, type: 'null', rate_mbps: 100 }"], top=TOP, extra=QOS)
        self.start()
        program.wait_until(lambda: self.show("queues")[8]["bytes"] > LIMIT * 0.9, "a full queue")

    def rows(self, name):
        with open(self.path(name), newline="", encoding="ascii") as file:
            return list(csv.DictReader(file))

    def test_a_recording_has_a_line_for_every_sample_at_the_rate_asked_for(self):
        out = self.ctl("record", "-w", "q.csv", "--svg", "q.svg", "--port", "out", "--count", "5000").stderr
        self.assertIn("5000 samples", out)
        self.assertIn(" 0 lost", out)
        rows = self.rows("q.csv")
        self.assertEqual(len(rows), 5000)
        self.assertEqual(list(rows[0]), ["time_ns"] + [f"tor/out/{queue}" for queue in range(8)])
        times = [int(row["time_ns"]) for row in rows]
        self.assertLess(abs(times[0] / 1e9 - time.time()), 60)
        self.assertTrue(all(before < after for before, after in zip(times, times[1:])))
        steps = sorted(after - before for before, after in zip(times, times[1:]))
        # 10 kHz; a busy machine may keep the thread from its CPU now and then.
        self.assertLess(abs(steps[len(steps) // 2] - 100_000), 10_000)
        depths = [int(row["tor/out/0"]) for row in rows]
        self.assertTrue(all(LIMIT * 0.8 < depth <= LIMIT for depth in depths), (min(depths), max(depths)))
        self.assertGreater(len(set(depths)), 1)
        self.assertEqual({row["tor/out/3"] for row in rows}, {"0"})
        # The picture is one SVG with one band: the queue that was not empty.
        picture = xml.parse(self.path("q.svg")).getroot()
        self.assertEqual(picture.tag, SVG + "svg")
        self.assertEqual(len(picture.findall(SVG + "path")), 1)
        words = [text.text for text in picture.findall(SVG + "text")]
        self.assertTrue(any(word.startswith("tor/out/0  peak ") for word in words), words)
        self.stop()

    def test_ports_and_queues_are_chosen_and_a_picture_needs_no_file_of_numbers(self):
        self.ctl("record", "-w", "q.csv", "--queue", "0", "--queue", "6", "--count", "10", "--rate-hz", "1000")
        self.assertEqual(list(self.rows("q.csv")[0]),
                         ["time_ns", "tor/in/0", "tor/in/6", "tor/out/0", "tor/out/6"])
        self.ctl("record", "--svg", "only.svg", "--port", "tor/out", "--count", "10")
        self.assertTrue(os.path.exists(self.path("only.svg")))
        out = self.ctl("record", "-w", "-", "--port", "out", "--queue", "0", "--count", "3").stdout
        self.assertEqual((out.splitlines()[0], len(out.splitlines())), ("time_ns,tor/out/0", 4))

    def test_ctrl_c_ends_it_with_whole_lines_and_a_picture(self):
        process = subprocess.Popen(self.weftctl("record", "-w", "q.csv", "--svg", "q.svg", "--rate-hz", "1000"),
                                   cwd=self.directory, stderr=subprocess.PIPE, text=True)
        program.wait_until(lambda: os.path.exists(self.path("q.csv")) and os.path.getsize(self.path("q.csv")) > 1000,
                           "samples in the file")
        process.send_signal(signal.SIGINT)
        self.assertIn("(stopped)", process.communicate(timeout=20)[1])
        self.assertEqual(process.returncode, 0)
        with open(self.path("q.csv"), encoding="ascii") as file:
            text = file.read()
        self.assertTrue(text.endswith("\n"))
        self.assertEqual({line.count(",") for line in text.splitlines()}, {16})
        self.assertTrue(os.path.exists(self.path("q.svg")))

    def test_a_client_that_does_not_read_loses_samples_which_are_counted(self):
        process = subprocess.Popen(self.weftctl("record", "-w", "q.csv", "--rate-hz", "100000", "--buffer-mib", "1",
                                                "--duration-s", "4"),
                                   cwd=self.directory, stderr=subprocess.PIPE, text=True)
        program.wait_until(lambda: os.path.exists(self.path("q.csv")), "a file")
        process.send_signal(signal.SIGSTOP)
        time.sleep(2.5)  # a megabyte has room for 7700 samples of 16 queues
        process.send_signal(signal.SIGCONT)
        words = process.communicate(timeout=30)[1].splitlines()[-1].split()
        self.assertGreater(int(words[words.index("lost") - 1]), 0, words)
        self.assertEqual(len(self.rows("q.csv")), int(words[1]), words)

    def test_a_reload_that_changes_the_switch_ends_a_recording_and_says_so(self):
        process = subprocess.Popen(self.weftctl("record", "-w", "q.csv"), cwd=self.directory, stderr=subprocess.PIPE,
                                   text=True)
        program.wait_until(lambda: os.path.exists(self.path("q.csv")) and os.path.getsize(self.path("q.csv")) > 1000,
                           "samples in the file")
        self.configure([f"{{ name: in, {SENDER} }}", "{ name: out, type: 'null', rate_mbps: 200 }"], top=TOP, extra=QOS)
        self.ctl("reload")
        self.assertIn("the configuration was reloaded", process.communicate(timeout=20)[1])
        self.assertEqual(process.returncode, 0)
        self.ctl("record", "-w", "q.csv", "--count", "10")
        self.stop()

    def test_mistakes_get_a_suggestion_and_replace_no_file(self):
        self.write("kept", "q.csv")
        self.assertIn("has a port 'outt'; did you mean 'out'?", self.refused("record", "-w", "q.csv", "--port", "outt"))
        self.assertIn("unknown switch 'tr'; did you mean 'tor'?",
                      self.refused("record", "-w", "q.csv", "--switch", "tr"))
        self.assertIn("no queue 8", self.refused("record", "-w", "q.csv", "--queue", "8"))
        self.assertIn("writes nothing without -w FILE or --svg FILE", self.refused("record", code=2))
        with open(self.path("q.csv"), encoding="ascii") as file:
            self.assertEqual(file.read(), "kept")

    def test_watching_queues_on_a_terminal_draws_bars(self):
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        process = subprocess.Popen(self.weftctl("show", "queues", "--watch", "0.2"), stdout=slave, close_fds=True)
        os.close(slave)
        self.addCleanup(os.close, master)
        seen = ""
        while seen.count("\033[H") < 3:
            seen += os.read(master, 65536).decode()
        process.send_signal(signal.SIGINT)
        process.wait(timeout=10)
        screen = seen.split("\033[H\033[J")[1].replace("\r", "")
        bars = [line for line in screen.splitlines() if "[" in line]
        self.assertEqual(len(bars), 1, screen)
        self.assertRegex(bars[0], r"^out +0 .*\[#{20,24}[ |]*\] +(9\d|100) %")
        self.assertIn("15 more that never held a byte", screen)
        # No terminal, no bars: programs read this.
        self.assertNotIn("[#", self.ctl("show", "queues").stdout)


if __name__ == "__main__":
    program.main()
