# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""weft-switch as a program: runs it, and makes and reads the captures that go in and come out."""
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

BIN = os.environ.get("WEFT_BIN") or os.path.realpath(os.path.join(os.path.dirname(__file__), "../../../build/bin"))
SOURCE = os.path.realpath(os.path.join(os.path.dirname(__file__), "../../.."))
TIMEOUT_S = 60
MAC_A = bytes.fromhex("02000000000a")
MAC_B = bytes.fromhex("02000000000b")
MAC_C = bytes.fromhex("02000000000c")

# The end of the line that says so: a warning about hugepages speaks of forwarding too, before anything runs.
FORWARDING = "forwarding\n"

# No hugepages, no control service: what a test does not speak of cannot fail it.
TOP = "eal: { hugepages: off, mbufs: 4096 }\nidle: sleep\ncontrol: { socket: \"\" }\n"


# --- captures --------------------------------------------------------------------------------------------------------

def frame(source, destination, number, length):
    """An Ethernet frame of an ethertype that nobody reads, with its number inside."""
    head = destination + source + b"\x88\xb5" + struct.pack(">I", number)
    return head + bytes((number + i) & 0xff for i in range(length - len(head)))


def roce_send(source, destination, addresses, qpn, psn, payload=64):
    """A SEND ONLY of RC over IPv4. Its ICRC is wrong: nobody here looks at it."""
    bth = struct.pack(">BBHII", 4, 0, 0xffff, qpn, psn)
    body = bth + bytes(payload) + bytes(4)
    udp = struct.pack(">HHHH", 0xc000 + qpn % 1024, 4791, 8 + len(body), 0)
    total = 20 + len(udp) + len(body)
    ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, total, 0, 0x4000, 64, 17, 0, *addresses)
    words = struct.unpack(">10H", ip)
    checksum = sum(words)
    checksum = (checksum & 0xffff) + (checksum >> 16)
    ip = ip[:10] + struct.pack(">H", ~(checksum + (checksum >> 16)) & 0xffff) + ip[12:]
    return destination + source + b"\x08\x00" + ip + udp + body


def write_capture(path, frames, link_type=1, times_ns=None):
    """Without times, frames are a second apart."""
    with open(path, "wb") as file:
        file.write(struct.pack("<IHHiIII", 0xa1b23c4d, 2, 4, 0, 0, 65535, link_type))
        for number, data in enumerate(frames):
            seconds, nanoseconds = divmod(times_ns[number] if times_ns else number * 10**9, 10**9)
            file.write(struct.pack("<IIII", seconds, nanoseconds, len(data), len(data)) + data)


def capture_times(path):
    """When each frame of a capture of nanoseconds came."""
    with open(path, "rb") as file:
        data = file.read()
    times = []
    at = 24
    while at < len(data):
        seconds, nanoseconds, captured = struct.unpack_from("<III", data, at)
        times.append(seconds * 10**9 + nanoseconds)
        at += 16 + captured
    return times


def read_capture(path):
    with open(path, "rb") as file:
        data = file.read()
    magic, = struct.unpack_from("<I", data)
    if magic not in (0xa1b2c3d4, 0xa1b23c4d):
        raise AssertionError(f"{path} is no capture of this machine")
    frames = []
    at = 24
    while at < len(data):
        captured, original = struct.unpack_from("<II", data, at + 8)
        if captured != original:
            raise AssertionError(f"{path}: a frame of {original} bytes was cut to {captured}")
        frames.append(data[at + 16:at + 16 + captured])
        at += 16 + captured
    return frames


# --- the program -----------------------------------------------------------------------------------------------------

class Result:
    def __init__(self, code, out):
        self.code = code
        self.out = out


def spawn(directory, *arguments, **options):
    """Starts weft-switch in a directory; it ends with this process, however that ends."""
    return subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "--", os.path.join(BIN, "weft-switch"), *arguments],
                            cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)


def finish(process, timeout=TIMEOUT_S):
    try:
        out, _ = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        out, _ = process.communicate()
        raise AssertionError("weft-switch did not end:\n" + out) from None
    return Result(process.returncode, out)


def wait_for_forwarding(process):
    """Reads what it prints until it forwards; returns that."""
    seen = ""
    for line in process.stdout:
        seen += line
        if without_colours(line).endswith(FORWARDING):
            return seen
    raise AssertionError("weft-switch did not start:\n" + seen)


def stop(process, number=signal.SIGTERM):
    process.send_signal(number)
    return finish(process)


class Case(unittest.TestCase):
    """A test with a directory of its own, in which weft-switch runs."""

    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="weft-main-")
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)

    def path(self, name):
        return os.path.join(self.directory, name)

    def write(self, text, name="weft.yaml"):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        return name

    def configure(self, ports, pipeline="[parse, l2]", top=TOP, extra=""):
        lines = "".join(f"      - {port}\n" for port in ports)
        return self.write(f"{top}switches:\n  - name: tor\n    ports:\n{lines}{extra}    pipeline: {pipeline}\n")

    def run_switch(self, *arguments):
        return finish(spawn(self.directory, *arguments))

    def run_to_the_end(self, *arguments):
        """Runs until the inputs have ended; returns the counters, which must balance."""
        result = self.run_switch("-c", "weft.yaml", "--exit-on-eof", "--counters-out", "counters.json", *arguments)
        self.assertEqual(result.code, 0, result.out)
        return self.counters(result)

    def counters(self, result=None):
        with open(self.path("counters.json"), encoding="utf-8") as file:
            counters = json.load(file)
        for switch in counters["switches"]:
            t = switch["totals"]
            self.assertEqual(t["rx"] + t["generated"] + t["replicated"],
                             t["tx"] + t["consumed"] + t["dropped"] + t["held"], t)
            self.assertTrue(t["balanced"])
            self.assertEqual(t["dropped"], sum(switch["drops"].values()))
            for side in ("rx", "tx"):
                self.assertEqual(t[side], sum(port[f"{side}_packets"] for port in switch["ports"]))
            if result is not None:
                self.assertIn(f"switch {switch['name']}: rx {t['rx']} + generated {t['generated']} + replicated "
                              f"{t['replicated']} = tx {t['tx']} + consumed {t['consumed']} + dropped {t['dropped']} "
                              f"+ held {t['held']}\n", result.out)
        return counters

    def assert_refused(self, result, code, pattern):
        self.assertEqual(result.code, code, result.out)
        self.assertRegex(result.out, pattern)


def show(socket, table):
    """Rows of a table of a running switch, as weftctl prints them."""
    command = [os.path.join(BIN, "weftctl"), "--socket", socket, "--json", "show", table]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    if done.returncode != 0:
        raise AssertionError(f"weftctl show {table} ended with {done.returncode}: {done.stderr}")
    return json.loads(done.stdout)


def port_row(counters, name, switch=0):
    return next(port for port in counters["switches"][switch]["ports"] if port["port"] == name)


def cpus():
    return sorted(os.sched_getaffinity(0))


def wait_until(condition, what, timeout=TIMEOUT_S):
    end = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > end:
            raise AssertionError("waited in vain: " + what)
        time.sleep(0.02)


def main():
    # CTest and people end a test with SIGTERM: unwind as for Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    unittest.main(verbosity=2)


def without_colours(text):
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


if __name__ == "__main__":
    sys.exit("a library of the tests beside it")


class Running(Case):
    """A test of a weft-switch that runs, with its control socket at weft.sock."""

    def start(self):
        """Runs what configure() wrote."""
        self.switch = spawn(self.directory, "-c", "weft.yaml", "--duration-s", "60", "--counters-out", "counters.json")
        self.addCleanup(self.end)
        wait_for_forwarding(self.switch)

    def end(self):
        if self.switch.poll() is None:
            self.switch.kill()
        self.switch.wait()
        self.switch.stdout.close()

    def stop(self):
        result = stop(self.switch)
        self.assertEqual(result.code, 0, result.out)
        return self.counters(), result

    def weftctl(self, *arguments):
        return [os.path.join(BIN, "weftctl"), "--socket", self.path("weft.sock"), *arguments]

    def ctl(self, *arguments, code=0, **options):
        result = subprocess.run(self.weftctl(*arguments), capture_output=True, text=True, timeout=30,
                                cwd=self.directory, check=False, **options)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        return result

    def refused(self, *arguments, code=1):
        return self.ctl(*arguments, code=code).stderr

    def show(self, table):
        return json.loads(self.ctl("--json", "show", table).stdout)
