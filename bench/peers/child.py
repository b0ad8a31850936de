# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""Processes that the comparison starts, and the interface of a system under test that runs in one."""

import ctypes
import dataclasses
import os
import signal
import subprocess
import time

from bench.peers import machine

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


class PeerError(Exception):
    """A system under test did not start or stopped by itself. The message holds the end of its log."""


class Refused(PeerError):
    """A system is installed but cannot do what it is asked for on this machine. The message says why."""


def _die_with_parent():
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def replays(pcaps):
    """The DPDK devices that receive captures over and over, and discard what they send."""
    return [f"net_pcap{port},rx_pcap={path},infinite_rx=1" for port, path in enumerate(pcaps)]


class Child:
    """A process with its output in a log file. It ends with stop(), at the latest when this program ends."""

    def __init__(self, command, log_path, env=None, pipe=False):
        """With pipe its output is not in the log but read from `stdout`."""
        self.command = command
        self._log_path = log_path
        with open(log_path, "wb") as log:
            # A session of its own keeps Ctrl-C away from it, so that it is this program that stops it, in order.
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE if pipe else log,
                stderr=log,
                env={**os.environ, **(env or {})},
                start_new_session=True,
                preexec_fn=_die_with_parent,
            )
        self.pid = self._process.pid
        self.stdin, self.stdout = self._process.stdin, self._process.stdout

    def running(self):
        return self._process.poll() is None

    def wait(self, limit_s):
        """Exit status of a process that ends by itself."""
        try:
            return self._process.wait(limit_s)
        except subprocess.TimeoutExpired:
            raise PeerError(f"{self.command[0]} did not end within {limit_s:.0f} s\n{self.log_tail()}") from None

    def stop(self):
        """SIGTERM, and SIGKILL to a process that ignores it."""
        if self.running():
            self._process.terminate()
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self.stdin.close()
        if self.stdout:
            self.stdout.close()

    def log_tail(self, lines=15):
        with open(self._log_path, encoding="utf-8", errors="replace") as log:
            return "".join(log.readlines()[-lines:])

    def until(self, ready, what, limit_s=30):
        """Wait until ready() returns something true, and return it."""
        deadline = time.monotonic() + limit_s
        while True:
            if not self.running():
                raise PeerError(f"{self.command[0]} stopped before {what}\n{self.log_tail()}")
            result = ready()
            if result:
                return result
            if time.monotonic() > deadline:
                raise PeerError(f"{self.command[0]}: no {what} within {limit_s} s\n{self.log_tail()}")
            time.sleep(0.05)


@dataclasses.dataclass(frozen=True)
class Counters:
    """Packets over both ports since the start, and the monotonic time at which they were read."""

    time_s: float
    rx_packets: int
    tx_packets: int
    tx_bytes: int


@dataclasses.dataclass(frozen=True)
class Measurement:
    """One trial as measured. share is that of the worker thread, busy says what others used."""

    seconds: float
    rx_packets: int
    tx_packets: int
    tx_bytes: int
    share: float
    busy: str
    details: dict


@dataclasses.dataclass(frozen=True)
class Settings:
    """What all systems share in one run."""

    main_cpu: int
    worker_cpu: int
    mbufs: int
    burst: int
    warm_up_s: float
    trial_s: float
    switch_binary: str
    before_binary: str = ""  # of another build, "" when there is none


class Running:
    """A started system under test. Subclasses have children, worker_child and counters(), or replace measure()."""

    def __init__(self):
        self.children = []

    def pids(self):
        return {child.pid for child in self.children}

    def counters(self):
        raise NotImplementedError

    def details(self):
        """What the system itself says about its speed, for the results file."""
        return {}

    def measure(self, settings, ours):
        """Warm up, then count for the length of a trial. ours are more pids that are no foreign load."""
        machine.prefer_workers(self.pids(), settings.worker_cpu, settings.warm_up_s)
        time.sleep(settings.warm_up_s)
        watch = machine.CpuWatch(self.worker_child.pid, ours | self.pids())
        before = self.counters()
        time.sleep(settings.trial_s)
        after = self.counters()
        share, busy = watch.stop()
        return Measurement(
            seconds=after.time_s - before.time_s,
            rx_packets=after.rx_packets - before.rx_packets,
            tx_packets=after.tx_packets - before.tx_packets,
            tx_bytes=after.tx_bytes - before.tx_bytes,
            share=share,
            busy=busy,
            details=self.details(),
        )

    def stop(self):
        for child in reversed(self.children):
            child.stop()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
