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

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../live"))
import lab as live  # noqa: E402

QEMU = "qemu-system-x86_64"
BOOT_TIMEOUT_S = 240
GID_TIMEOUT_S = 5
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


class Guest:
    """A guest that boots when it is constructed. run() waits until it is up, so several boot side by side.

    attach   "tap": QEMU makes a Linux tap, on which the switch has a port of type veth.
             "vhost": vhost-user with the switch as the client of QEMU's socket. The guest starts to boot only once the
                      switch has connected.
             "vhost-server": vhost-user with the switch as the server; QEMU connects, and again after a restart.
    port     the item of the configuration's `ports` for this guest.
    """

    numbers = itertools.count(1)  # makes MAC addresses differ

    def __init__(self, lab, name, attach="tap", addresses=(), mtu=1500, memory_mb=384):
        self.lab = lab
        self.name = name
        self.addresses = [str(address) for address in addresses]
        self.mtu = mtu
        self.gids = {}
        self.number = next(Guest.numbers)
        self.mac = f"02:77:65:66:74:{self.number:02x}"
        self.interface = f"{lab.prefix}{name}"[:15]
        self.folder = tempfile.mkdtemp(prefix=f"{name}-", dir=lab.directory)
        self.console_path = os.path.join(self.folder, "console.log")
        self.channel = None
        self.process = None
        self.up = False
        lab.on_exit(self.close)
        net = {"tap": self._tap, "vhost": self._vhost_client, "vhost-server": self._vhost_server}[attach]()
        self._start(memory_mb, net)
        if attach == "tap":
            self._configure_tap()

    def _tap(self):
        self.port = f"{{ name: {self.name}, type: veth, interface: {self.interface} }}"
        return ["-netdev", f"tap,id=net,ifname={self.interface},script=no,downscript=no,vnet_hdr=off", "-device",
                f"virtio-net-pci,netdev=net,mac={self.mac},romfile=,host_mtu={self.mtu},csum=off,gso=off"]

    def _vhost_client(self):
        return self._vhost("client", "server=on")

    def _vhost_server(self):
        return self._vhost("server", "server=off,reconnect=1")

    def _vhost(self, role, side):
        path = os.path.join(self.folder, "vhost.sock")
        self.port = f"{{ name: {self.name}, type: vhost, socket: {path}, role: {role}, mtu_bytes: {self.mtu} }}"
        # More than one interrupt vector makes QEMU 7.2 crash when the driver sets them up on a vhost-user device.
        return ["-chardev", f"socket,id=vhost,path={path},{side}", "-netdev", "vhost-user,id=net,chardev=vhost",
                "-device", f"virtio-net-pci,netdev=net,mac={self.mac},romfile=,vectors=0,csum=off,gso=off,"
                "guest_csum=off,host_tso4=off,host_tso6=off,guest_tso4=off,guest_tso6=off,mrg_rxbuf=on"]

    def _start(self, memory_mb, net):
        image = guest_image.ensure()
        ours, theirs = socket.socketpair()
        append = (f"{KERNEL_ARGUMENTS} weft.name={self.name} weft.mtu={self.mtu} "
                  f"weft.addresses={','.join(self.addresses)}")
        command = [
            "nice", "-n", str(NICE), QEMU, "-name", self.name, "-accel", "tcg", "-cpu", "max", "-smp", "1",
            "-machine", "pc,memory-backend=ram", "-object", f"memory-backend-memfd,id=ram,size={memory_mb}M,share=on",
            "-m", str(memory_mb), "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
            "-kernel", os.path.join(image, "vmlinux"), "-initrd", os.path.join(image, "root.cpio"), "-append", append,
            "-serial", f"file:{self.console_path}", "-device", "virtio-rng-pci", "-device", "virtio-serial-pci",
            "-chardev", f"socket,id=agent,fd={theirs.fileno()}", "-device",
            "virtserialport,chardev=agent,name=weft.agent", *net]
        with theirs, open(os.path.join(self.folder, "qemu.log"), "w") as log:
            self.process = live.spawn(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                      pass_fds=[theirs.fileno()])
        self.channel = channel.Channel(ours)

    def _configure_tap(self):
        deadline = time.monotonic() + BOOT_TIMEOUT_S
        while not os.path.exists(f"/sys/class/net/{self.interface}"):
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise GuestError(f"{self.name}: QEMU made no tap:\n{self._logs()}")
            time.sleep(0.02)
        live.run("ip", "link", "set", self.interface, "mtu", str(self.mtu), "up")

    def _logs(self):
        paths = (os.path.join(self.folder, "qemu.log"), self.console_path)
        return "".join(live.read(path) for path in paths if os.path.exists(path))[-4000:]

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

    def start(self, command, timeout=60, data=b""):
        """Starts a shell command, which is ended after `timeout` seconds; returns its Job."""
        self.wait_up()
        return self.channel.run(command, timeout, data)

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

    def configure(self, addresses, gateways=()):
        """Exchanges the addresses of eth0; gateways become default routes."""
        commands = ["ip address flush dev eth0 scope global"]
        commands += [f"ip address add {address} dev eth0" for address in addresses]
        commands += [f"ip route replace default via {gateway}" for gateway in gateways]
        self.check(" && ".join(commands))
        self.addresses = [str(address) for address in addresses]
        self.gids.clear()

    def hw_counters(self):
        """Counters of the Soft-RoCE device by name."""
        out = self.check("cd /sys/class/infiniband/rxe0/ports/1/hw_counters && grep -H . *")
        return {name: int(value) for name, value in re.findall(r"^(\w+):(\d+)$", out, re.M)}

    def gid_index(self, address):
        """Index of the GID that stands for an address of this guest."""
        if address not in self.gids:
            self.gids[address] = self._find_gid(ipaddress.ip_address(address))
        return self.gids[address]

    def _find_gid(self, wanted):
        address = wanted
        if wanted.version == 4:
            wanted = ipaddress.ip_address(f"::ffff:{wanted}")
        # The kernel's GID table follows the addresses a moment later.
        deadline = time.monotonic() + GID_TIMEOUT_S
        while True:
            # Reading an empty slot fails.
            out = self.run("cd /sys/class/infiniband/rxe0/ports/1/gids && grep -H . * 2>/dev/null").out
            for index, gid in re.findall(r"^(\d+):([0-9a-f:]+)$", out, re.M):
                if ipaddress.ip_address(gid) == wanted:
                    return int(index)
            if time.monotonic() > deadline:
                raise GuestError(f"{self.name} has no GID for {address}")
            time.sleep(0.1)

    def address(self, version=4):
        """The first address of an IP version."""
        for address in self.addresses:
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
