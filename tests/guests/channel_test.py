#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""The command channel without a guest: agent.pl runs here, at the other end of a socket."""
import os
import pathlib
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time
import unittest
from unittest import mock

import channel

AGENT = str(pathlib.Path(__file__).resolve().with_name("agent.pl"))


def alive(pid):
    """Whether a process runs; one that has ended and was not waited for does not."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


class Agent(unittest.TestCase):
    def setUp(self):
        ours, theirs = socket.socketpair()
        with theirs:
            self.agent = subprocess.Popen(["perl", AGENT, str(theirs.fileno())], pass_fds=[theirs.fileno()])
        self.addCleanup(self.agent.wait)
        self.addCleanup(self.agent.kill)
        self.channel = channel.Channel(ours)
        self.addCleanup(self.channel.close)
        self.assertTrue(self.channel.wait(lambda: self.channel.ready, 10))
        self.folder = self.enterContext(tempfile.TemporaryDirectory(prefix="weft-channel-"))

    def run_command(self, command, timeout=10, data=b""):
        return self.channel.run(command, timeout, data).wait()

    def start_in_background(self, command):
        """The pid of what a shell leaves behind."""
        path = os.path.join(self.folder, "pid")  # the command may write to the outputs before the shell does
        self.assertEqual(self.run_command(f"{command} & echo $! >{path}").code, 0)
        pid = int(pathlib.Path(path).read_text(encoding="ascii"))
        self.addCleanup(lambda: alive(pid) and os.kill(pid, signal.SIGKILL))
        return pid

    def wait_until(self, condition):
        deadline = time.monotonic() + 10
        while not condition():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)

    def test_a_command_that_goes_on_is_left_alone_by_who_looks_whether_it_has_ended(self):
        job = self.channel.run("read line; echo $line", 20, end=False)
        self.assertFalse(job.ended(0.1))
        job.write(b"fine\n", end=True)
        self.assertTrue(job.ended(10))
        self.assertEqual(job.wait(), (0, "fine\n"))

    def test_outputs_exit_codes_and_input(self):
        job = self.channel.run("cat; echo oops >&2; exit 3", 10, b"x" * 200_000)
        self.assertEqual(job.wait().code, 3)
        self.assertEqual((len(job.stdout), job.stderr), (200_000, b"oops\n"))

    def test_all_of_a_large_output_arrives_before_the_end(self):
        result = self.run_command("head -c 1000000 /dev/zero | tr '\\0' x")
        self.assertEqual((result.code, len(result.out)), (0, 1_000_000))

    def test_what_a_command_leaves_in_the_background_outlives_it(self):
        started = time.monotonic()
        pid = self.start_in_background("sleep 30")  # holds the outputs open
        self.assertLess(time.monotonic() - started, 8, "the command waited for its background")
        self.assertEqual(self.run_command("true").code, 0)
        self.assertTrue(alive(pid))

    def test_who_goes_on_writing_in_the_background_disturbs_nobody(self):
        beats = os.path.join(self.folder, "beats")
        pid = self.start_in_background(f"while :; do head -c 100000 /dev/zero; echo x >>{beats}; sleep 0.01; done")
        self.wait_until(lambda: os.path.exists(beats) and os.path.getsize(beats) > 20)
        self.assertEqual(self.run_command("echo fine"), (0, "fine\n"))
        self.assertTrue(alive(pid))

    def test_the_time_limit_ends_all_processes_of_a_command(self):
        path = os.path.join(self.folder, "pids")
        # timeout makes a process group of its own.
        result = self.run_command(f"timeout 60 sleep 50 & echo $! >{path}; sleep 40", timeout=1)
        self.assertEqual(result.code, channel.TIMED_OUT)
        pid = int(pathlib.Path(path).read_text(encoding="ascii"))
        self.wait_until(lambda: not alive(pid))

    def test_kill_ends_a_command(self):
        job = self.channel.run("echo ready; sleep 60", 60)
        job.wait_for("ready")
        job.kill()
        self.assertEqual(job.wait().code, 137)

    def test_the_agent_says_what_a_command_is_doing(self):
        job = self.channel.run("echo ready; sleep 60", 60)
        job.wait_for("ready")
        self.wait_until(lambda: "(sleep) state S" in self.channel.ask(job.number))
        job.kill()
        job.wait()
        self.assertEqual(self.channel.ask(job.number), "")

    def test_a_guest_that_answers_nothing_is_gone(self):
        with mock.patch.object(channel, "GRACE_S", 0.5), mock.patch.object(channel.Channel.ask, "__defaults__", (0, 1)):
            job = self.channel.run("sleep 0.1", 0.5)
            self.agent.send_signal(signal.SIGSTOP)
            with self.assertRaisesRegex(channel.ChannelClosed, "has not answered"):
                job.wait()

    def test_a_guest_that_takes_nothing_is_gone(self):
        self.agent.send_signal(signal.SIGSTOP)
        self.channel.connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("@ll", 1, 0))
        with self.assertRaisesRegex(channel.ChannelClosed, "has taken nothing"):
            self.channel.run("cat", 10, b"x" * 10_000_000)

    def test_a_guest_that_ended_is_gone(self):
        job = self.channel.run("sleep 5", 60)
        self.agent.kill()
        with self.assertRaisesRegex(channel.ChannelClosed, "is gone"):
            job.wait()


class HangingCommand(unittest.TestCase):
    """A guest whose command ignores SIGKILL, as in state D; test_harness.py has a real one."""

    def serve(self):
        received = b""
        while data := self.guest.recv(65536):
            received += data
            while len(received) >= channel.HEADER.size:
                length, number, kind = channel.HEADER.unpack_from(received)
                received = received[channel.HEADER.size + length:]
                if kind == b"Q":
                    text = b"pid 7 (dd) state D in wait_on_page\n"
                    self.guest.sendall(channel.HEADER.pack(len(text), number, b"A") + text)

    def setUp(self):
        ours, self.guest = socket.socketpair()
        self.channel = channel.Channel(ours)
        server = threading.Thread(target=self.serve)
        server.start()
        self.addCleanup(self.guest.close)
        self.addCleanup(server.join)
        self.addCleanup(self.channel.close)
        self.enterContext(mock.patch.object(channel, "GRACE_S", 0.2))

    def test_is_told_from_a_guest_that_is_gone(self):
        job = self.channel.run("dd of=/mnt/file", 0.3)
        with self.assertRaises(channel.CommandHangs) as raised:
            job.wait()
        self.assertIn("dd of=/mnt/file\npid 7 (dd) state D in wait_on_page", str(raised.exception))


if __name__ == "__main__":
    unittest.main(verbosity=2)
