# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""Network namespaces, cables and processes of a lab, and their end.

All that a lab makes is inside namespaces called weft-lab-NAME-..., so that nothing else on the machine is touched and
whatever ends weft-lab, down() finds it all by the name: cables go with their namespaces, and processes are those in a
namespace of the lab whose environment says WEFT_LAB=NAME. A process that somebody else started in there is left alone.
"""
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time

STATE = "/run/weft-lab"
STOP_TIMEOUT_S = 10


class LabError(Exception):
    """Something on this machine does not work; the text is for people."""


def run(*command, check=True, timeout=60, **options):
    """Runs a command to its end and returns what it printed."""
    result = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False, **options)
    if check and result.returncode != 0:
        raise LabError(f"{' '.join(command)}: exit {result.returncode}\n{result.stdout}{result.stderr}".rstrip())
    return result.stdout


def wait_for(condition, what, timeout_s, process=None, log=None):
    """Asks until the condition holds; LabError when it does not in time, or when a process ends meanwhile."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if process is not None and process.poll() is not None:
            raise LabError(f"waited for {what}, but the process ended with {process.returncode}\n{_tail(log)}")
        if time.monotonic() > deadline:
            raise LabError(f"not within {timeout_s} s: {what}\n{_tail(log)}")
        time.sleep(0.05)


def _tail(path):
    if path is None or not os.path.exists(path):
        return ""
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()[-3000:].rstrip()


class Site:
    """Where a lab is on this machine."""

    def __init__(self, name):
        self.name = name
        self.folder = os.path.join(STATE, name)
        self.socket = os.path.join(self.folder, "weft.sock")
        self.fabric = self.namespace("fabric")
        self._lock = None

    def namespace(self, host):
        return f"weft-lab-{self.name}-{host}"

    def path(self, name):
        return os.path.join(self.folder, name)

    def namespaces(self):
        """Those that exist."""
        names = [line.split()[0] for line in run("ip", "netns", "list").splitlines() if line.strip()]
        return [name for name in names if name.startswith(f"weft-lab-{self.name}-")]

    def exists(self):
        return bool(self.namespaces()) or os.path.exists(self.folder)

    @contextlib.contextmanager
    def made(self, keep=False):
        """The folder and the namespace of the fabric; behind it everything is removed, with `keep` only after an
        error. A lab that exists already is not touched."""
        self._hold()
        if self.exists():
            raise LabError(f"lab {self.name} is up, or left over: weft-lab down {self.name}")
        done = False
        try:
            os.makedirs(self.folder, mode=0o700)
            run("ip", "netns", "add", self.fabric)
            run("ip", "-n", self.fabric, "link", "set", "lo", "up")
            self._without_ipv6(self.fabric)
            yield
            done = True
        finally:
            if not (done and keep):
                self.down()

    def _hold(self):
        """Keeps a second weft-lab away from this lab for as long as this process lives."""
        self._lock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            self._lock.bind(f"\0weft-lab-{self.name}")  # an abstract name goes with the process
        except OSError:
            raise LabError(f"lab {self.name} is being worked on by another weft-lab") from None

    # --- making ------------------------------------------------------------------------------------------------------

    def add_host(self, host, interface, mtu, addresses):
        """A namespace with eth0, whose other end is `interface` in the namespace of the fabric."""
        namespace = self.namespace(host.name)
        run("ip", "netns", "add", namespace)
        run("ip", "-n", self.fabric, "link", "add", interface, "type", "veth", "peer", "name", "eth0", "netns",
            namespace)
        run("ip", "-n", self.fabric, "link", "set", interface, "mtu", str(mtu), "up")
        run("ip", "-n", namespace, "link", "set", "lo", "up")
        if host.address.version == 4:
            self._without_ipv6(namespace)
        run("ip", "-n", namespace, "link", "set", "eth0", "mtu", str(mtu), "up")
        for address in addresses:
            extra = ["nodad"] if ":" in address else []
            run("ip", "-n", namespace, "address", "add", address, "dev", "eth0", *extra)
        if host.gateway:
            run("ip", "-n", namespace, "route", "add", "default", "via", host.gateway)

    @staticmethod
    def _without_ipv6(namespace):
        """No router solicitations and duplicate detection: they would count as drops."""
        run("ip", "netns", "exec", namespace, "sh", "-c",
            "for each in all default; do echo 1 >/proc/sys/net/ipv6/conf/$each/disable_ipv6; done", check=False)

    def spawn(self, namespace, command, log, detached=False, **options):
        """Starts a process in a namespace, its messages going to a file of the folder. It ends with this process,
        however this one ends, unless it is detached."""
        words = ["ip", "netns", "exec", namespace, *command]
        if not detached:
            words = ["setpriv", "--pdeathsig", "KILL", "--", *words]
        with open(self.path(log), "ab") as file:
            return subprocess.Popen(words, stdin=options.pop("stdin", subprocess.DEVNULL), stderr=file,
                                    start_new_session=True,
                                    stdout=options.pop("stdout", file),
                                    env={**os.environ, "WEFT_LAB": self.name}, **options)

    # --- ending ------------------------------------------------------------------------------------------------------

    def down(self):
        """Ends and removes all of the lab; returns what was removed. Does as much as it can, and no signal stops it."""
        with undisturbed():
            return self._down()

    def _down(self):
        removed = []
        namespaces = self.namespaces()
        pids = self._processes(namespaces)
        for number, names in ((signal.SIGTERM, "ended"), (signal.SIGKILL, "killed")):
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
                    removed.append(f"process {pid} ({names})")
            deadline = time.monotonic() + STOP_TIMEOUT_S
            while pids and time.monotonic() < deadline:
                time.sleep(0.05)
                pids = self._processes(namespaces)
            if not pids:
                break
        for namespace in namespaces:
            run("ip", "netns", "del", namespace, check=False)
            removed.append(f"namespace {namespace}")
        if os.path.exists(self.folder):
            shutil.rmtree(self.folder, ignore_errors=True)
            removed.append(self.folder)
        return removed

    def _processes(self, namespaces):
        """Processes of ours in these namespaces."""
        marker = f"WEFT_LAB={self.name}".encode()
        found = []
        for namespace in namespaces:
            for word in run("ip", "netns", "pids", namespace, check=False).split():
                with contextlib.suppress(OSError):
                    with open(f"/proc/{word}/environ", "rb") as file:
                        if marker in file.read().split(b"\0"):
                            found.append(int(word))
        return found


def stop(process, timeout_s=STOP_TIMEOUT_S):
    """Ends a process as an operator would; its exit status."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    return process.returncode


_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def _handled(handler):
    before = {each: signal.signal(each, handler) for each in _SIGNALS}
    try:
        yield
    finally:
        for each, earlier in before.items():
            signal.signal(each, earlier)


def undisturbed():
    """Signals that come meanwhile are forgotten."""
    return _handled(signal.SIG_IGN)


def signals_raise():
    """Ctrl-C, SIGTERM and SIGHUP unwind what is under way, once; a second one does not disturb the unwinding."""
    def unwind(number, _frame):
        for each in _SIGNALS:
            signal.signal(each, signal.SIG_IGN)
        raise KeyboardInterrupt(signal.Signals(number).name)

    return _handled(unwind)
