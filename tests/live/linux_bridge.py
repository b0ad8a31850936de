# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""Linux's own bridge in the place of weft-switch: what happens there too is not the switch's doing."""
import lab as live


class LinuxBridge:
    """Joins interfaces of this machine, such as the taps of guests or the ports of hosts, until remove() or the end of
    the lab. No switch may have them at that time."""

    def __init__(self, lab, interfaces):
        self.name = f"{lab.prefix}br"
        self.there = True
        lab.on_exit(self.remove)
        live.run("ip", "link", "add", self.name, "type", "bridge", "stp_state", "0", "forward_delay", "0",
                 "mcast_snooping", "0")
        # The bridge is no host: it says nothing of its own, and the machine's firewall has nothing to say to it.
        live.run("ip", "link", "set", self.name, "addrgenmode", "none")
        for table in ("ip", "ip6", "arp"):
            with open(f"/sys/class/net/{self.name}/bridge/nf_call_{table}tables", "w", encoding="ascii") as file:
                file.write("0")
        for interface in interfaces:
            live.run("ip", "link", "set", interface, "master", self.name)
            live.run("ip", "link", "set", interface, "up")
        live.run("ip", "link", "set", self.name, "up")

    def remove(self):
        if self.there:
            self.there = False
            live.run("ip", "link", "del", self.name, check=False)
