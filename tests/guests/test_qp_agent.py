#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""weft-qp-agent inside two Soft-RoCE guests, on Debian's kernel and its BTF: the switch knows the queue pairs of
perftest, which exchanges their numbers over TCP, before their first packet. Reports travel over TCP, too, with
certificates."""
import os
import re
import struct
import subprocess
import sys
import time
import unittest

import guest
import judge
import roce_capture
from guest import live
from image_contents import QP_AGENT_MODULES, QP_AGENT_PACKAGES
from judge import rdma_tools
from nic import Nic

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../ops"))
from certificates import Authority  # noqa: E402

AGENT = os.path.join(live.BIN, "weft-qp-agent")
CONNECTIONS = 200 if judge.FULL else 20
KNOWN_IN_TIME = 0.99


# A disk of 4 MiB in a file, offered by RDMA. $1: the address.
NVME_TARGET = """set -e
mount -t configfs none /sys/kernel/config
truncate -s 4M /tmp/disk
subsystem=/sys/kernel/config/nvmet/subsystems/weft port=/sys/kernel/config/nvmet/ports/1
mkdir $subsystem $subsystem/namespaces/1 $port
echo 1 >$subsystem/attr_allow_any_host
echo /tmp/disk >$subsystem/namespaces/1/device_path
echo 1 >$subsystem/namespaces/1/buffered_io
echo 1 >$subsystem/namespaces/1/enable
echo rdma >$port/addr_trtype
echo ipv4 >$port/addr_adrfam
echo %s >$port/addr_traddr
echo 4420 >$port/addr_trsvcid
ln -s $subsystem $port/subsystems/weft"""
# A file of 1 MiB in a file system that NFS offers by RDMA. The kernel asks who may have it through these channels, and
# is told before it asks, so that no mountd is needed. %s: the client's address.
NFS_SERVER = """set -e
mkdir -p /srv /var/lib/nfs/v4recovery
mount -t tmpfs none /srv
dd if=/dev/urandom of=/srv/file bs=64k count=16
mount -t nfsd nfsd /proc/fs/nfsd
never=2147483647 flags=$((0x2 | 0x10 | 0x400 | 0x2000)) # insecure, async, no_subtree_check, fsid=0
echo "nfsd %s $never weft" >/proc/net/rpc/auth.unix.ip/channel
echo "weft /srv $never $flags 65534 65534 0" >/proc/net/rpc/nfsd.export/channel
echo "weft 1 \\x00000000 $never /srv" >/proc/net/rpc/nfsd.fh/channel
echo "-2 -3" >/proc/fs/nfsd/versions # those want a port mapper
echo "rdma 20049" >/proc/fs/nfsd/portlist
echo 2 >/proc/fs/nfsd/threads
echo Y >/proc/fs/nfsd/v4_end_grace"""
NFS_MOUNT = "mount -i -t nfs4 -o vers=4.1,proto=rdma,port=20049,addr=%s,clientaddr=%s %s:/ /mnt"
NVME_CONNECT = "transport=rdma,traddr=%s,trsvcid=4420,nqn=weft,nr_io_queues=1,queue_size=16"


def management(number):
    """The addresses of a guest and of this machine on a cable of their own."""
    return f"10.8.{number}.1", f"10.8.{number}.254"


class Wire:
    """What crosses an interface of this machine, from now until stop()."""

    def __init__(self, interface, path, condition):
        self.path = path
        self.process = live.spawn(["tcpdump", "-i", interface, "-w", path, "-U", "-s", "128", "--immediate-mode",
                                   condition], stderr=subprocess.PIPE, text=True)
        said = ""
        while "listening on" not in said:
            line = self.process.stderr.readline()
            if not line:
                raise AssertionError(f"tcpdump does not listen: {said}")
            said += line

    def stop(self):
        """Frames, with the seconds at which they came."""
        self.process.terminate()
        self.process.communicate()
        return list(roce_capture.timed_frames(self.path))


def tells(frames, port):
    """When segments of the switch's control service with data went to an agent."""
    times = []
    for at, frame in frames:
        ip = frame[14:]
        tcp = ip[(ip[0] & 15) * 4:]
        data = struct.unpack_from(">H", ip, 2)[0] - (ip[0] & 15) * 4 - (tcp[12] >> 4) * 4
        if struct.unpack_from(">H", tcp)[0] == port and data > 0:
            times.append(at)
    return times


def first_packet(frames, qpn, begin):
    """When the first RoCE packet to a queue pair came, after `begin`."""
    for at, frame in frames:
        found = roce_capture.roce_packet(frame)
        if at < begin or found is None:
            continue
        packet, udp = found
        if int.from_bytes(packet[udp + 13:udp + 16], "big") == qpn:
            return at
    raise AssertionError(f"no packet to queue pair {qpn}")


def lead_s(begin, first, told):
    """How long before the first packet the switch had answered the last message that could have told of it; None when
    nobody told in time. told: by agent, as tells()."""
    in_time = [[at for at in times if begin <= at < first] for times in told]
    return max((first - times[-1] for times in in_time if times), default=None)


class QpAgent(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.lab = cls.enterClassContext(live.Lab())
        folder = cls.lab.directory
        cls.servers, cls.clients = Authority(folder, "servers"), Authority(folder, "clients")
        server = cls.servers.sign("server", ",".join(f"IP:{management(number)[1]}" for number in (1, 2)))
        cls.guests = [guest.Guest(cls.lab, name, extra_packages=QP_AGENT_PACKAGES, modules=QP_AGENT_MODULES, nics=[
            Nic("tap", judge.l2_addresses(number), judge.MTU), Nic("tap", [f"{management(number)[0]}/24"], 1500)])
                      for number, name in ((1, "a"), (2, "b"))]
        for number, each in enumerate(cls.guests, 1):
            live.run("ip", "address", "add", f"{management(number)[1]}/24", "dev", each.nics[1].interface)
        cls.lab.control = (f", tcp: {{ address: 0.0.0.0, port: 0, certificate: {server[0]}, key: {server[1]}, "
                           f"client_ca: {cls.clients.certificate}, operators: [] }}")
        agents = ", ".join(f"{{ host: {each.name}, addresses: [10.9.0.{number}/32, 'fd09::{number}/128'] }}"
                           for number, each in enumerate(cls.guests, 1))
        cls.lab.start(judge.l2(cls.guests, f"[parse, rdma_track: {{ closed_timeout_s: 600, agents: [{agents}] }}, l2]"))
        cls.port = int(re.search(r"control on \S+ port (\d+)", live.read(cls.lab.log_path)).group(1))
        stripped = os.path.join(folder, "weft-qp-agent")
        subprocess.run(["strip", "-o", stripped, AGENT], check=True)
        cls.agents = []
        for number, each in enumerate(cls.guests, 1):
            each.wait_up()
            certificate, key = cls.clients.sign(each.name)
            for source, target in ((stripped, "agent"), (certificate, "crt"), (key, "key"),
                                   (cls.servers.certificate, "ca")):
                each.put(source, f"/tmp/{target}")
            # An emulated clock is late on a busy machine, and certificates are valid from now on.
            each.check(f"date -s @{int(time.time()) + 1}")
            cls.agents.append(each.daemon(
                f"exec /tmp/agent --host {each.name} --connect {management(number)[1]}:{cls.port} --cert /tmp/crt "
                "--key /tmp/key --ca /tmp/ca --source kernel --state '' --log-level debug", "agent"))
        for agent in cls.agents:
            live.wait_for("the agent to report", lambda agent=agent: "reporting to" in agent.log() or
                          not agent.running(), 60)
            if "reporting to" not in agent.log():
                raise AssertionError(agent.log())
        judge.ping(*cls.guests, 4)

    def rows(self):
        return [row for row in self.lab.show("qps") if row["transport"] == "RC"]

    def counter(self, name):
        return sum(row["value"] for row in self.lab.show("counters") if row["counter"] == name)

    def told(self, before=(0, 0)):
        """Connections that agents told late, and all of them, since `before`."""
        return tuple(self.counter(name) - value for name, value in zip(("late_entry", "pairs_agent"), before))

    def logs(self):
        return "\n".join(agent.log() for agent in self.agents)

    def test_connections_that_are_made_over_tcp_are_known_before_their_first_packet(self):
        a, b = self.guests
        before = self.told()
        for version in (4, 6):
            run = rdma_tools.PerftestRun("ib_send_bw", a, b, "-D 4 -f 0 -s 1024", version)
            live.wait_for("both ends", lambda: [row["qps"] for row in self.lab.show("qp_agents")] == [1, 1])
            rows = {(row["source"], row["dest_qp"]): row for row in self.rows() if row["state"] == "open"}
            transfer = run.wait()
            server, client = transfer.server[0].qpn, transfer.client[0].qpn
            for source, dest_qp, peer_qp in ((a, server, client), (b, client, server)):
                row = rows[source.address(version), dest_qp]
                self.assertEqual([row[key] for key in ("pairing", "peer_qp", "process", "dest_process", "device")],
                                 ["agent", peer_qp, "ib_send_bw", "ib_send_bw", "rxe0"], self.logs())
        self.assertEqual(self.told(before), (0, 2), self.logs())
        live.wait_for("all to be gone", lambda: {row["qps"] for row in self.lab.show("qp_agents")} == {0})

    def test_how_long_before_the_first_packet_they_are_known(self):
        a, b = self.guests
        folder = self.lab.directory
        data = Wire(a.nics[0].interface, os.path.join(folder, "data.pcap"), "udp port 4791")
        reports = [Wire(each.nics[1].interface, os.path.join(folder, f"{each.name}.pcap"), f"tcp port {self.port}")
                   for each in self.guests]
        before = self.told()
        runs = []
        for _ in range(CONNECTIONS):
            begin = time.time()
            runs.append((begin, rdma_tools.perftest("ib_send_lat", a, b, "-n 5").server[0].qpn))
        live.wait_for("all to be gone", lambda: {row["qps"] for row in self.lab.show("qp_agents")} == {0})
        late, known = self.told(before)
        packets, told = data.stop(), [tells(wire.stop(), self.port) for wire in reports]
        leads = [lead_s(begin, first_packet(packets, qpn, begin), told) for begin, qpn in runs]
        in_time = sorted(lead for lead in leads if lead is not None)
        print(f"{known} connections told by agents, {late} of them after their first packet; before it by "
              f"{1000 * in_time[len(in_time) // 2]:.1f} ms (p50), {1000 * in_time[len(in_time) // 100]:.1f} ms (p99)")
        self.assertEqual(known, CONNECTIONS, self.logs())
        self.assertLessEqual(late, (1 - KNOWN_IN_TIME) * CONNECTIONS, self.logs())

    def assert_open_by_cm(self, directions):
        """That many are open, agents have told of all of them, and a mebibyte has passed."""
        rows = [row for row in self.rows() if row["state"] == "open"]
        self.assertEqual(len(rows), directions, rows)
        self.assertEqual({(row["pairing"], row["device"]) for row in rows}, {("cm", "rxe0")}, self.logs())
        self.assertGreaterEqual(sum(row["bytes"] for row in rows), 1 << 20, rows)

    def assert_they_end(self):
        live.wait_for("their end", lambda: {row["qps"] for row in self.lab.show("qp_agents")} == {0})
        self.assertNotIn("open", {row["state"] for row in self.rows()})

    def test_queue_pairs_of_nvme_over_fabrics_are_seen_too(self):
        a, b = self.guests
        a.check(NVME_TARGET % a.address(4))
        b.check(f"echo {NVME_CONNECT % a.address(4)} >/dev/nvme-fabrics")
        live.wait_for("an admin queue and one for data", lambda: [row["qps"] for row in self.lab.show("qp_agents")] ==
                      [2, 2])
        b.check("dd if=/dev/nvme0n1 of=/dev/null bs=64k count=16")
        self.assert_open_by_cm(4)
        b.check("echo 1 >/sys/class/nvme/nvme0/delete_controller")
        self.assert_they_end()

    def test_queue_pairs_of_nfs_are_seen_too(self):
        a, b = self.guests
        a.check(NFS_SERVER % b.address(4))
        b.check("mkdir -p /mnt; " + NFS_MOUNT % (a.address(4), b.address(4), a.address(4)))
        live.wait_for("both ends", lambda: [row["qps"] for row in self.lab.show("qp_agents")] == [1, 1])
        sums = [each.check(f"md5sum <{path}").split()[0] for each, path in ((a, "/srv/file"), (b, "/mnt/file"))]
        self.assertEqual(*sums)
        self.assert_open_by_cm(2)
        b.check("umount /mnt")
        self.assert_they_end()

    def test_connections_by_cm_are_cms(self):
        a, b = self.guests
        before = self.counter("pairs_cm")
        rdma_tools.rping(a, b)
        self.assertEqual(self.counter("pairs_cm") - before, 1)
        self.assertEqual(self.lab.show("qp_agents")[0]["refused"], 0)

    def test_the_queue_pairs_of_a_process_that_is_killed_are_gone(self):
        a, b = self.guests
        run = rdma_tools.PerftestRun("ib_send_bw", a, b, "-D 20 -f 0 -s 1024", timeout=40)
        live.wait_for("the connection", lambda: [row["qps"] for row in self.lab.show("qp_agents")] == [1, 1])
        a.check("pkill -KILL ib_send_bw")
        live.wait_for("its end", lambda: self.lab.show("qp_agents")[0]["qps"] == 0)
        b.run("pkill -KILL ib_send_bw")
        for job in (run.client, run.server):
            job.kill()
            job.wait()
        live.wait_for("the other end", lambda: self.lab.show("qp_agents")[1]["qps"] == 0)
        self.assertEqual({row["state"] for row in self.rows()}, {"closed"})


if __name__ == "__main__":
    if not os.path.exists(AGENT):
        print("SKIP: weft-qp-agent is not built: libbpf-dev and clang are missing")
        sys.exit(77)
    judge.main()
