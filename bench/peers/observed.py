# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""weft-switch that is watched: its metrics are scraped, and `weftctl --watch` shows two of its tables.

Everything happens TIMES_A_SECOND times a second, where an operator is content with once. What one look costs is a few
microseconds of a worker that counts on: at once a second far below what trials differ by, and it adds up look by look.
So a loss of 10 % here is one of 1 % there.
"""

import os
import socket
import sys

from bench.peers.child import Child, PeerError
from bench.peers.weft import RunningWeft, Weft

TIMES_A_SECOND = 10

SCRAPER = """
import sys, time, urllib.request
while True:
    time.sleep(float(sys.argv[2]))
    with urllib.request.urlopen(sys.argv[1], timeout=5) as reply:
        text = reply.read()
    print(len(text), b"weft_port_rx_packets_total" in text, flush=True)
"""


def _free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class RunningObserved(RunningWeft):
    """The observers start with the switch and are no foreign load; they run on the CPU of everything but the worker."""

    def __init__(self, config, directory, settings):
        port = _free_port()
        control = f"{directory}/weft.sock"
        config |= {"metrics": {"port": port}, "control": {"socket": control}}
        super().__init__(config, directory, settings)
        weftctl = os.path.join(os.path.dirname(settings.switch_binary), "weftctl")
        self._logs = [f"{directory}/observer{number}.log" for number in range(3)]
        every_s = str(1 / TIMES_A_SECOND)
        commands = [[sys.executable, "-c", SCRAPER, f"http://127.0.0.1:{port}/metrics", every_s]]
        shown = ("ports", "stages")
        commands += [[weftctl, "--socket", control, "show", table, "--watch", every_s] for table in shown]
        self.worker_child.until(lambda: os.path.exists(control), "the control socket is there")
        for command, log in zip(commands, self._logs):
            self.children.append(Child(command, log))

    def measure(self, settings, ours):
        measured = super().measure(settings, ours)
        for log in self._logs:
            with open(log, encoding="utf-8", errors="replace") as file:
                seen = file.read()
            if "True" not in seen and "p0" not in seen and "parse" not in seen:
                raise PeerError(f"an observer saw nothing of weft-switch\n{seen[-500:]}")
        return measured


class WeftObserved(Weft):
    """What the same pipeline forwards while it is watched."""

    def run(self, config, directory, settings):
        return RunningObserved(config, directory, settings)
