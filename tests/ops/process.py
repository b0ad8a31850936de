# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""A running weft-switch on generated traffic: no root, no NIC, no hugepages. What a Process starts, it ends."""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

BIN = os.environ.get("WEFT_BIN") or os.path.realpath(os.path.join(os.path.dirname(__file__), "../../build/bin"))
START_TIMEOUT_S = 30
STOP_TIMEOUT_S = 15

# A router port that gets RoCE from a generator and a bridge behind it, so that metrics of all stages have samples.
SWITCHES = """\
  - name: tor1
    ports:
      - name: in
        type: generator
        mac: "02:00:00:00:00:01"
        source_mac: "02:00:00:00:00:aa"
        destination_mac: "02:00:00:00:00:01"
        source: 10.1.0.9
        destination: 10.2.0.9
        rate_pps: 20000
        mtu_bytes: 1500
      - { name: out, type: "null", mac: "02:00:00:00:00:02", mtu_bytes: 1500 }
    addresses:
      - { port: in, address: 10.1.0.1/24 }
      - { port: out, address: 10.2.0.1/24 }
    neighbours:
      - { port: out, address: 10.2.0.9, mac: "02:00:00:00:00:bb" }
    pipeline: [parse, impair: { rules: [{ name: loss, match: { kind: roce }, loss: 0.01 }] }, rdma_track, l3, lb]
  - name: tor2
    ports:
      - { name: in, type: "null", rx: true, mtu_bytes: 1500 }
      - { name: out, type: "null", mtu_bytes: 1500 }
    pipeline: [parse, rdma_track, l2]
"""


def read(path):
    with open(path) as file:
        return file.read()


class Process:
    """Use as a context manager."""

    def __init__(self):
        self.directory = tempfile.mkdtemp(prefix="weft-ops-")
        self.socket = self.path("weft.sock")
        self.log_path = self.path("switch.log")
        self.switch = None

    def __enter__(self):
        return self

    def __exit__(self, exception_type, exception, traceback):
        if self.switch is not None and self.switch.poll() is None:
            self.switch.kill()
            self.switch.wait()
        if exception is not None and os.path.exists(self.log_path):
            sys.stderr.write(read(self.log_path))
        shutil.rmtree(self.directory, ignore_errors=True)

    def path(self, name):
        return os.path.join(self.directory, name)

    def write(self, top="", control="", switches=SWITCHES):
        """Writes the configuration; returns its path."""
        path = self.path("weft.yaml")
        with open(path, "w") as file:
            file.write(f"eal: {{ hugepages: off, mbufs: 2048, mbuf_data_room_bytes: 2304 }}\n"
                       f"control: {{ socket: {self.socket}{control} }}\n{top}\nswitches:\n{switches}")
        return path

    def check(self, path):
        """Exit status and messages of --check."""
        result = subprocess.run([os.path.join(BIN, "weft-switch"), "-c", path, "--check"], capture_output=True,
                                text=True, timeout=60)
        return result.returncode, result.stdout + result.stderr

    def start(self, path, environment=None, **options):
        """Starts weft-switch; returns when it forwards."""
        with open(self.log_path, "w") as log:
            self.switch = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", "--", os.path.join(BIN, "weft-switch"), "-c", path],
                stdout=log, stderr=subprocess.STDOUT, env={**os.environ, **(environment or {})}, **options)
        # A warning about hugepages speaks of forwarding too, and comes before anything runs.
        self.wait_for(lambda: "forwarding\n" in read(self.log_path), "weft-switch to start")
        return self

    def wait_for(self, condition, what, timeout=START_TIMEOUT_S):
        deadline = time.monotonic() + timeout
        while True:
            value = condition()
            if value:
                return value
            if time.monotonic() > deadline:
                raise AssertionError(f"waited in vain for {what}")
            if self.switch is not None and self.switch.poll() is not None:
                raise AssertionError(f"waited for {what}, but weft-switch ended with {self.switch.returncode}")
            time.sleep(0.02)

    def stop(self):
        """Ends the switch as an operator would; its exit status."""
        self.switch.send_signal(signal.SIGTERM)
        return self.switch.wait(timeout=STOP_TIMEOUT_S)

    def ctl(self, *arguments, socket=True, timeout=60):
        """Runs weftctl; its exit status, output and messages."""
        where = ["--socket", self.socket] if socket else []
        result = subprocess.run([os.path.join(BIN, "weftctl"), *where, *arguments], capture_output=True, text=True,
                                timeout=timeout)
        return result.returncode, result.stdout, result.stderr

    def show(self, table, *arguments):
        status, out, err = self.ctl("--json", "show", table, *arguments)
        if status != 0:
            raise AssertionError(err)
        return json.loads(out)

    def metrics_url(self):
        return re.search(r"metrics on (http://\S+)", read(self.log_path)).group(1)

    def scrape(self):
        with urllib.request.urlopen(self.metrics_url(), timeout=10) as reply:
            return reply.read().decode()
