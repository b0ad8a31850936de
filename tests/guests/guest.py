# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""A Linux guest with Soft-RoCE (rdma_rxe) on a port of the switch: an RNIC that somebody else wrote."""
import ipaddress
import itertools
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time

import channel
import guest_image
from nic import Nic

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../live"))
import lab as live  # noqa: E402

QEMU = "qemu-system-x86_64"
BOOT_TIMEOUT_S = 240
GID_TIMEOUT_S = 5
ANSWERS_S, EVIDENCE_S = 10, 60
# What the kernel has said, which processes there are, where in the kernel their threads wait, and for which sockets.
EVIDENCE = """
dmesg
echo; ps axf -o pid,ppid,stat,wchan:32,args
for thread in /proc/[0-9]*/task/*; do
  [ -e ${thread%/task/*}/exe ] || continue
  read name <$thread/comm; read call <$thread/syscall
  echo; echo "$thread $name $call"
  cat $thread/stack
done 2>/dev/null
echo; ss -xtuapn
"""
# TCG guests take all of a core while they run; the switch and whoever else uses the machine come first.
NICE = 10
# no_timer_check: a busy machine's emulated timer can look broken to the kernel, which then does not boot.
KERNEL_ARGUMENTS = ("console=ttyS0 panic=-1 loglevel=5 nokaslr mitigations=off cryptomgr.notests random.trust_cpu=on "
                    "no_timer_check")


class GuestError(AssertionError):
    """A command in a guest failed, or a guest did not boot."""


def missing_requirements():
    """Why guests cannot run here, or an empty string."""
    if os.geteuid() != 0:
        return "guests need root (network devices)"
    for program in (QEMU, "mmdebstrap"):
        if shutil.which(program) is None:
            return f"{program} is not installed (tools/install-deps check)"
    return ""


class Daemon:
    """A program that runs in a guest until stop(), or until the guest ends."""

    def __init__(self, guest, pid, log_path):
        self.guest = guest
        self.pid = pid
        self.log_path = log_path

    def running(self):
        return self.guest.run(f"kill -s 0 -- -{self.pid} 2>/dev/null").code == 0

    def log(self):
        """Text of both its outputs so far."""
        return self.guest.get(self.log_path).decode(errors="replace")

    def stop(self, signal="TERM", timeout=10):
        """Sends a signal to it and its children, and waits until they have ended."""
        code, _ = self.guest.run(f"kill -s {signal} -- -{self.pid} 2>/dev/null; "
                                 f"for i in $(seq {timeout * 10}); do kill -s 0 -- -{self.pid} 2>/dev/null || exit 0; "
                                 "sleep 0.1; done; exit 1", timeout=timeout + 30)
        if code != 0:
            raise GuestError(f"{self.guest.name}: process {self.pid} has not ended {timeout} s after SIG{signal}:\n"
                             f"{self.log()}")


class Guest:
    """A guest that boots when it is constructed. run() waits until it is up, so several boot side by side.

    attach, addresses, mtu   of its only network card, see Nic
    nics            Nic objects, when it has several cards or none; instead of these three
    memory_mb       by default as much as its image needs, and 256 MB
    cpus            emulated by a thread each
    extra_packages  Debian packages beside those that every guest has. They are unpacked, not installed: what their
                    maintainer scripts would do (users, alternatives) is for the test.
    modules         kernel modules that it loads beside its own, in this order
    """

    numbers = itertools.count(1)  # makes MAC addresses differ

    def __init__(self, lab, name, attach="tap", addresses=(), mtu=1500, nics=None, memory_mb=None, cpus=1,
                 extra_packages=(), modules=()):
        self.lab = lab
        self.name = name
        self.nics = [Nic(attach, list(addresses), mtu)] if nics is None else list(nics)
        self.gids = {}
        self.number = next(Guest.numbers)
        self.folder = tempfile.mkdtemp(prefix=f"{name}-", dir=lab.directory)
        self.console_path = os.path.join(self.folder, "console.log")
        self.qemu_log_path = os.path.join(self.folder, "qemu.log")
        self.channel = None
        self.process = None
        self.up = False
        lab.on_exit(self.close)
        lab.evidence.add(self._write_evidence)
        image = guest_image.ensure(extra_packages, modules)
        devices = [word for index, nic in enumerate(self.nics)
                   for word in nic.plug(index, (name, self.number), lab.prefix, self.folder)]
        self._start(image, memory_mb or self._memory_mb(image), cpus, devices)
        for nic in self.nics:
            if nic.attach == "tap":
                self._configure_tap(nic)

    # Of the only card, or the first.

    @property
    def port(self):
        """The item of the configuration's `ports` for this guest."""
        return self.nics[0].port

    @property
    def interface(self):
        return self.nics[0].interface

    @property
    def mtu(self):
        return self.nics[0].mtu

    @property
    def addresses(self):
        return self.nics[0].addresses

    @staticmethod
    def _memory_mb(image):
        """The file system is in memory twice while the kernel unpacks it."""
        return 256 + 2 * os.path.getsize(os.path.join(image, "root.cpio")) // 1_000_000

    def _start(self, image, memory_mb, cpus, devices):
        ours, theirs = socket.socketpair()
        append = " ".join([KERNEL_ARGUMENTS, f"weft.name={self.name}", *(nic.boot_option for nic in self.nics)])
        command = [
            "nice", "-n", str(NICE), QEMU, "-name", self.name, "-accel", "tcg", "-cpu", "max", "-smp", str(cpus),
            "-machine", "pc,memory-backend=ram", "-object", f"memory-backend-memfd,id=ram,size={memory_mb}M,share=on",
            "-m", str(memory_mb), "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
            "-kernel", os.path.join(image, "vmlinux"), "-initrd", os.path.join(image, "root.cpio"), "-append", append,
            "-serial", f"file:{self.console_path}", "-device", "virtio-rng-pci", "-device", "virtio-serial-pci",
            "-chardev", f"socket,id=agent,fd={theirs.fileno()}", "-device",
            "virtserialport,chardev=agent,name=weft.agent", *devices]
        with theirs, open(self.qemu_log_path, "w") as log:
            self.process = live.spawn(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                      pass_fds=[theirs.fileno()])
        self.channel = channel.Channel(ours)

    def _configure_tap(self, nic):
        deadline = time.monotonic() + BOOT_TIMEOUT_S
        while not os.path.exists(f"/sys/class/net/{nic.interface}"):
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise GuestError(f"{self.name}: QEMU made no tap:\n{self._logs()}")
            time.sleep(0.02)
        live.run("ip", "link", "set", nic.interface, "mtu", str(nic.mtu), "up")

    def _logs(self):
        paths = (self.qemu_log_path, self.console_path)
        return "".join(live.read(path) for path in paths if os.path.exists(path))[-4000:]

    def _write_evidence(self, folder):
        """The console, and, where the guest answers, EVIDENCE."""
        for path in (self.console_path, self.qemu_log_path):
            if os.path.exists(path) and os.path.getsize(path):
                shutil.copy(path, os.path.join(folder, f"{self.name}-{os.path.basename(path)}"))
        if not self.up or self.channel is None:
            return
        with open(os.path.join(folder, f"{self.name}-dmesg.txt"), "w", encoding="utf-8") as file:
            try:
                if self.channel.ask(timeout=ANSWERS_S) is None:
                    file.write("the guest does not answer\n")
                else:
                    file.write(self.run(EVIDENCE, EVIDENCE_S).out)
            except (channel.ChannelClosed, channel.CommandHangs) as error:
                file.write(f"{error}\n")

    def wait_up(self):
        """Waits until the guest takes commands."""
        if self.up:
            return self
        try:
            if not self.channel.wait(lambda: self.channel.ready, BOOT_TIMEOUT_S):
                raise GuestError(f"{self.name} did not boot within {BOOT_TIMEOUT_S} s:\n{self._logs()}")
        except channel.ChannelClosed as error:
            raise GuestError(f"{self.name} ended while booting:\n{self._logs()}") from error
        self.up = True
        return self

    def start(self, command, timeout=60, data=b"", end=True):
        """Starts a shell command, which is ended after `timeout` seconds; returns its Job. `end`: the data is all of
        its input; otherwise Job.write() has more."""
        self.wait_up()
        return self.channel.run(command, timeout, data, end)

    def run(self, command, timeout=60, data=b""):
        """Runs a shell command to its end; returns (code, out)."""
        return self.start(command, timeout, data).wait()

    def check(self, command, timeout=60, data=b""):
        """Runs a shell command that must succeed; returns what it wrote to its standard output."""
        job = self.start(command, timeout, data)
        result = job.wait()
        if result.code != 0:
            raise GuestError(f"{self.name}: {command}: exit {result.code}\n{result.out}")
        return job.stdout.decode(errors="replace")

    def daemon(self, command, name="daemon"):
        """Starts a shell command that goes on until it is stopped; returns its Daemon. `name` names its log."""
        path = f"/run/{name}.log"
        pid = self.check(f"setsid sh -c {shlex.quote(command)} </dev/null >{path} 2>&1 & echo $!")
        return Daemon(self, int(pid), path)

    def put(self, source, target, mode=0o755):
        """Copies a file of the host into the guest."""
        with open(source, "rb") as file:
            self.check(f"cat >{shlex.quote(target)} && chmod {mode:o} {shlex.quote(target)}", data=file.read())

    def get(self, source, target=None):
        """Returns the bytes of a file of the guest, and writes them to `target` when that is given."""
        job = self.start(f"cat {shlex.quote(source)}")
        if job.wait().code != 0:
            raise GuestError(f"{self.name}: {job.out}")
        if target is not None:
            with open(target, "wb") as file:
                file.write(job.stdout)
        return job.stdout

    def configure(self, addresses, gateways=(), nic=0):
        """Exchanges the addresses of a card; gateways become default routes."""
        device = self.nics[nic].device
        commands = [f"ip address flush dev {device} scope global"]
        commands += [f"ip address add {address} dev {device}" for address in addresses]
        commands += [f"ip route replace default via {gateway}" for gateway in gateways]
        self.check(" && ".join(commands))
        self.nics[nic].addresses = [str(address) for address in addresses]
        self.gids.clear()

    def hw_counters(self, nic=0):
        """Counters of a card's Soft-RoCE device by name."""
        out = self.check(f"cd /sys/class/infiniband/rxe{nic}/ports/1/hw_counters && grep -H . *")
        return {name: int(value) for name, value in re.findall(r"^(\w+):(\d+)$", out, re.M)}

    def gid_index(self, address, nic=0):
        """Index of the GID that stands for an address, at the Soft-RoCE device of a card."""
        if (address, nic) not in self.gids:
            self.gids[address, nic] = self._find_gid(ipaddress.ip_address(address), nic)
        return self.gids[address, nic]

    def _find_gid(self, wanted, nic):
        address = wanted
        if wanted.version == 4:
            wanted = ipaddress.ip_address(f"::ffff:{wanted}")
        # The kernel's GID table follows the addresses a moment later.
        deadline = time.monotonic() + GID_TIMEOUT_S
        while True:
            # Reading an empty slot fails.
            out = self.run(f"cd /sys/class/infiniband/rxe{nic}/ports/1/gids && grep -H . * 2>/dev/null").out
            for index, gid in re.findall(r"^(\d+):([0-9a-f:]+)$", out, re.M):
                if ipaddress.ip_address(gid) == wanted:
                    return int(index)
            if time.monotonic() > deadline:
                raise GuestError(f"{self.name} has no GID for {address}")
            time.sleep(0.1)

    def address(self, version=4, nic=0):
        """The first address of an IP version that a card has."""
        for address in self.nics[nic].addresses:
            interface = ipaddress.ip_interface(address)
            if interface.version == version:
                return str(interface.ip)
        raise GuestError(f"{self.name} has no IPv{version} address")

    def close(self):
        """Ends the guest; its tap and sockets go with it."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        if self.channel is not None:
            self.channel.close()
            self.channel = None
        shutil.rmtree(self.folder, ignore_errors=True)
