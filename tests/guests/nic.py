# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""A guest's network card: what QEMU makes of it, and the port that the switch has at its other end."""
import os
from dataclasses import dataclass, field

# More than one interrupt vector makes QEMU 7.2 crash when the driver sets them up on a vhost-user device.
_VHOST_OPTIONS = ("vectors=0,guest_csum=off,host_tso4=off,host_tso6=off,guest_tso4=off,guest_tso6=off,"
                  "mrg_rxbuf=on")
# QEMU before 9.1 loses a guest's kick when buffers arrive between its two looks at a receive ring that is too short.
# From then on the card receives nothing (qemu/qemu pull request 267). Only event indexes lose the kick.
_TAP_OPTIONS = "event_idx=off"
# Of the switch, and what QEMU's socket is then.
_VHOST_SIDES = {"vhost": ("client", "server=on"), "vhost-server": ("server", "server=off,reconnect=1")}


@dataclass
class Nic:
    """The first card of a guest is its eth0 with the RDMA device rxe0, the second eth1 with rxe1, and so on.

    attach   "tap": QEMU makes a Linux tap, on which the switch has a port of type veth.
             "vhost": vhost-user with the switch as the client of QEMU's socket. The guest starts to boot only once the
                      switch has connected.
             "vhost-server": vhost-user with the switch as the server; QEMU connects, and again after a restart.
    """
    attach: str = "tap"
    addresses: list = field(default_factory=list)
    mtu: int = 1500
    # Set when a guest gets the card.
    port: str = ""  # the item of the configuration's `ports`
    interface: str = ""  # of a tap: its name on this machine
    device: str = ""  # its name in the guest

    def plug(self, index, guest, prefix, folder):
        """Becomes the card of this index of a guest, (name, number); returns words of QEMU's command line."""
        name, number = guest
        self.addresses = [str(address) for address in self.addresses]
        self.device = f"eth{index}"
        tail = f"-{index}" if index else ""
        mac = f"02:77:65:66:{index:02x}:{number:02x}"
        virtio = f"virtio-net-pci,netdev={self.device},mac={mac},romfile=,csum=off,gso=off"
        if self.attach == "tap":
            self.interface = f"{prefix}{name}"[:15 - len(tail)] + tail
            self.port = f"{{ name: {name}{tail}, type: veth, interface: {self.interface} }}"
            return ["-netdev", f"tap,id={self.device},ifname={self.interface},script=no,downscript=no,vnet_hdr=off",
                    "-device", f"{virtio},host_mtu={self.mtu},{_TAP_OPTIONS}"]
        role, side = _VHOST_SIDES[self.attach]
        path = os.path.join(folder, f"vhost{tail}.sock")
        self.port = f"{{ name: {name}{tail}, type: vhost, socket: {path}, role: {role}, mtu_bytes: {self.mtu} }}"
        return ["-chardev", f"socket,id=vhost{index},path={path},{side}", "-netdev",
                f"vhost-user,id={self.device},chardev=vhost{index}", "-device", f"{virtio},{_VHOST_OPTIONS}"]

    @property
    def boot_option(self):
        """What `init` reads on the kernel's command line."""
        return f"weft.{self.device}={','.join([str(self.mtu), *self.addresses])}"
