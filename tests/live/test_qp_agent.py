#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""weft-qp-agent with Debian's libibverbs: what a program connects is in the switch's table, whatever restarts."""
import os
import re
import shutil
import signal
import subprocess
import time
import unittest

import lab

AGENT = os.path.join(lab.BIN, "weft-qp-agent")
CALLS = os.path.join(lab.BIN, "verbs_calls")
LIBRARY = "/usr/lib/x86_64-linux-gnu/libibverbs.so.1"
DEVICE = f"rxe{os.getpid()}"  # of this test alone: an agent sees the programs of the whole machine
HERE, THERE, HERE6, THERE6 = "10.77.1.2", "10.77.2.2", "fd77:1::2", "fd77:2::2"
SWITCH = """  - name: tor
    ports:
      - {{ name: a, type: veth, interface: {a} }}
      - {{ name: b, type: veth, interface: {b} }}
    addresses:
      - {{ port: a, address: 10.77.1.1/24 }}
      - {{ port: b, address: 10.77.2.1/24 }}
    pipeline: [parse, rdma_track: {{ agents: [ {{ host: h1, addresses: [10.77.1.0/24, "fd77:1::/64"] }} ] }}, l3]
"""


OUTLIVED_S = 2.5  # the agent looks each second for processes that have ended


class Program:
    """verbs_calls, one command after the other."""

    def __init__(self, command=(CALLS,)):
        self.process = lab.spawn([*command, DEVICE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def do(self, text):
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if answer != "done\n":
            raise AssertionError(f"verbs_calls: {text}: {answer}")

    def kill(self):
        self.process.kill()
        self.process.communicate()


@unittest.skipUnless(os.path.exists(AGENT), "weft-qp-agent is not built: libbpf-dev and clang are missing")
class QpAgent(unittest.TestCase):
    def setUp(self):
        self.lab = self.enterContext(lab.Lab())
        self.a, self.b = self.lab.routed_hosts()
        self.switches = SWITCH.format(a=self.a.port_interface, b=self.b.port_interface)
        self.sysfs = os.path.join(self.lab.directory, "infiniband")
        for index, gid, kind in ((0, "fe80:0000:0000:0000:0202:c9ff:fe00:0001", "IB/RoCE v1"),
                                 (1, "0000:0000:0000:0000:0000:ffff:0a4d:0102", "RoCE v2"),
                                 (2, "fd77:0001:0000:0000:0000:0000:0000:0002", "RoCE v2"),
                                 (3, "0000:0000:0000:0000:0000:ffff:0a4d:0902", "RoCE v2")):
            for folder, text in (("gids", gid), ("gid_attrs/types", kind)):
                path = os.path.join(self.sysfs, DEVICE, "ports/1", folder)
                os.makedirs(path, exist_ok=True)
                with open(os.path.join(path, str(index)), "w") as file:
                    file.write(text + "\n")
        self.log = os.path.join(self.lab.directory, "agent.log")
        self.lab.evidence.add(lambda folder: os.path.exists(self.log) and shutil.copy(self.log, folder))
        self.agent = None

    def start_agent(self, *more, log_level="debug", quick=("--heartbeat-s", "0.2"), before=()):
        """before: a command in front of the agent's."""
        command = [*before, AGENT, "--host", "h1", "--socket", self.lab.socket, "--sysfs", self.sysfs, "--source",
                   "verbs", "--state", os.path.join(self.lab.directory, "state.json"), "--log-level", log_level, *quick,
                   *more]
        with open(self.log, "w") as log:
            self.agent = lab.spawn(command, stderr=log)
        # unshare waits for its child, whatever signal it gets, and takes it along when it is killed.
        self.addCleanup(self.end_agent, signal.SIGKILL if before else signal.SIGTERM)
        lab.wait_for("the agent to watch", lambda: "watching" in lab.read(self.log) or self.agent.poll() is not None)
        said = lab.read(self.log)
        if "cannot load BPF programs" in said or "cannot watch" in said:
            self.skipTest("this kernel or container does not allow uprobes: " + said.strip().splitlines()[-1])

    def end_agent(self, how=signal.SIGTERM):
        if self.agent.poll() is None:
            self.agent.send_signal(how)
        return self.agent.wait(timeout=10)

    def program(self, *command):
        program = Program(*command)
        self.addCleanup(program.kill)
        return program

    def row(self, source, destination, dest_qp):
        found = [row for row in self.lab.show("qps")
                 if (row["source"], row["destination"], row["dest_qp"]) == (source, destination, dest_qp)]
        return found[0] if found else None

    def expect(self, what, source, destination, dest_qp, **columns):
        """Within five seconds the row of a queue pair has these columns."""
        deadline = time.monotonic() + 5
        while True:
            row = self.row(source, destination, dest_qp)
            if row is not None and all(row[key] == value for key, value in columns.items()):
                return row
            if time.monotonic() > deadline:
                self.fail(f"{what}: {row}\n{lab.read(self.log)}")
            time.sleep(0.02)

    def test_what_a_program_connects_is_known_before_its_first_packet(self):
        self.lab.start(self.switches)
        self.start_agent()
        program = self.program()
        for source, destination, gid in ((HERE, THERE, 1), (HERE6, THERE6, 2)):
            program.do(f"connect 17 {gid} {destination} 18 900 70")
            row = self.expect("the connection", source, destination, 18, pairing="agent", state="open")
            self.assertEqual({key: row[key] for key in ("packets", "peer_qp", "process", "pid", "device", "pmtu_bytes",
                                                        "confidence", "dest_process")},
                             {"packets": 0, "peer_qp": 17, "process": "verbs_calls", "pid": program.process.pid,
                              "device": DEVICE, "pmtu_bytes": 1024, "confidence": 100, "dest_process": None})
            self.expect("its other direction", destination, source, 17, peer_qp=18, dest_process="verbs_calls")
            program.do("destroy 17")
            self.expect("its end", source, destination, 18, state="closed", pairing="none", process=None)
        self.assertEqual([(row["host"], row["qps"], row["refused"]) for row in self.lab.show("qp_agents")],
                         [("h1", 0, 0)])
        self.assertEqual(self.end_agent(), 0)
        self.lab.stop()

    def test_a_number_that_is_used_again_and_a_process_that_dies(self):
        self.lab.start(self.switches)
        self.start_agent()
        program, other = self.program(), self.program()
        program.do(f"connect 17 1 {THERE} 18 0 0")
        other.do(f"connect 40 1 {THERE} 41 0 0")
        self.expect("the first", HERE, THERE, 18, peer_qp=17)
        program.do(f"connect 17 1 {THERE} 19 0 0")
        self.expect("its successor", HERE, THERE, 19, peer_qp=17)
        self.expect("the end of the first", HERE, THERE, 18, state="closed", pairing="none")
        program.kill()
        self.expect("the end of the dead", HERE, THERE, 19, state="closed", pairing="none", process=None)
        self.expect("the other one", HERE, THERE, 41, state="open", process="verbs_calls")

    def test_a_switch_that_restarts_hears_it_all_again(self):
        self.start_agent()
        program = self.program()
        program.do(f"connect 17 1 {THERE} 18 0 0")  # no switch is there yet
        self.lab.start(self.switches)
        self.expect("the connection", HERE, THERE, 18, pairing="agent", state="open")
        self.lab.kill()
        program.do(f"connect 20 1 {THERE} 21 0 0")
        program.do("destroy 17")
        self.lab.start(self.switches)
        self.expect("the one that was connected meanwhile", HERE, THERE, 21, pairing="agent", state="open")
        self.assertIsNone(self.row(HERE, THERE, 18))
        self.assertRegex(lab.read(self.log), "is weft-switch running|cannot connect|No such file")

    def test_an_agent_that_restarts_knows_what_is_still_there(self):
        self.lab.start(self.switches)
        self.start_agent()
        program, other = self.program(), self.program()
        program.do(f"connect 17 1 {THERE} 18 0 0")
        other.do(f"connect 40 1 {THERE} 41 0 0")
        self.expect("the second", HERE, THERE, 41, pairing="agent")
        self.assertEqual(self.end_agent(), 0)
        other.kill()
        self.start_agent()
        self.expect("the end of the dead", HERE, THERE, 41, state="closed", pairing="none")
        self.expect("the first", HERE, THERE, 18, pairing="agent", state="open", process="verbs_calls")
        program.do("destroy 17")
        self.expect("its end", HERE, THERE, 18, state="closed", pairing="none")

    def test_an_address_that_is_not_the_hosts_is_refused(self):
        self.lab.start(self.switches)
        self.start_agent()
        program = self.program()
        program.do(f"connect 30 3 {THERE} 31 0 0")
        program.do(f"connect 17 1 {THERE} 18 0 0")
        self.expect("the connection", HERE, THERE, 18, pairing="agent")
        self.assertIsNone(self.row("10.77.9.2", THERE, 31))
        self.assertIn(self.lab.show("qp_agents")[0]["refused"], (1, 2), "to RTR and to RTS, told in one most likely")
        lab.wait_for("the agent to say so", lambda: "changes: addresses that are not this host's there" in
                     lab.read(self.log))

    def test_another_copy_of_the_library_is_found(self):
        self.lab.start(self.switches)
        copies = os.path.join(self.lab.directory, "lib")
        os.mkdir(copies)
        shutil.copy(os.path.realpath(LIBRARY), os.path.join(copies, "libibverbs.so.1"))
        program = self.program_with(copies)
        self.start_agent("--scan-s", "0.1")
        program.do(f"connect 17 1 {THERE} 18 0 0")
        self.expect("the connection", HERE, THERE, 18, pairing="agent", process="verbs_calls")

    def program_with(self, libraries):
        program = Program.__new__(Program)
        program.process = lab.spawn([CALLS, DEVICE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                    env={**os.environ, "LD_LIBRARY_PATH": libraries})
        self.addCleanup(program.kill)
        maps = f"/proc/{program.process.pid}/maps"
        lab.wait_for("the program to have its library", lambda: re.search(f"{libraries}/libibverbs", lab.read(maps)))
        return program

    def capabilities(self):
        """What of it the agent may: names by number, as CapEff and CapPrm have them both."""
        status = lab.read(f"/proc/{self.agent.pid}/status")
        sets = {int(re.search(rf"{name}:\s+(\w+)", status).group(1), 16) for name in ("CapEff", "CapPrm")}
        self.assertEqual(len(sets), 1, status)
        bits = sets.pop()
        return {number for number in range(64) if bits >> number & 1}

    def test_what_attaching_takes_is_given_up(self):
        dac_read_search, sys_ptrace, sys_admin, perfmon, bpf = 2, 19, 21, 38, 39
        self.start_agent("--scan-s", "0")
        self.assertLessEqual(self.capabilities(), {dac_read_search, sys_ptrace})
        self.end_agent()
        self.start_agent("--scan-s", "30")
        self.assertLessEqual(self.capabilities(), {dac_read_search, sys_ptrace, sys_admin, perfmon, bpf})
        self.assertIn(sys_admin, self.capabilities(), "libraries are watched that processes open later")

    def test_a_program_in_a_pid_and_a_network_namespace_of_its_own(self):
        self.lab.start(self.switches)
        self.start_agent()
        program = self.program(("unshare", "--pid", "--net", "--fork", "--kill-child", "--mount-proc", CALLS))
        program.do(f"connect 17 1 {THERE} 18 0 0")
        row = self.expect("the connection", HERE, THERE, 18, pairing="agent", process="verbs_calls")
        self.assertEqual(row["pid"], self.child(program.process.pid), "as the agent's namespace numbers it")
        time.sleep(OUTLIVED_S)
        self.expect("it is still there", HERE, THERE, 18, pairing="agent", state="open")
        program.kill()
        self.expect("its end", HERE, THERE, 18, state="closed", pairing="none")

    def test_an_agent_in_a_pid_namespace_of_its_own(self):
        self.lab.start(self.switches)
        self.start_agent(before=("unshare", "--pid", "--fork", "--kill-child", "--mount-proc"))
        self.assertIn("this PID namespace is not the machine's first", lab.read(self.log))
        inside = self.program(("nsenter", "--target", str(self.child(self.agent.pid)), "--pid", "--mount", CALLS))
        outside = self.program()
        outside.do(f"connect 40 1 {THERE} 41 0 0")
        inside.do(f"connect 17 1 {THERE} 18 0 0")
        row = self.expect("the one inside", HERE, THERE, 18, pairing="agent", process="verbs_calls")
        self.assertLess(row["pid"], 10, "as the agent's namespace numbers it")
        time.sleep(OUTLIVED_S)
        self.expect("it is still there", HERE, THERE, 18, pairing="agent", state="open")
        self.assertIsNone(self.row(HERE, THERE, 41), "its end would not be seen")
        self.assertIn("verbs_calls and others are in PID namespaces that this agent does not see", lab.read(self.log))
        inside.kill()
        self.expect("its end", HERE, THERE, 18, state="closed", pairing="none")

    def test_an_agent_without_a_proc_of_its_own_does_not_start(self):
        command = ["unshare", "--pid", "--fork", "--kill-child", AGENT, "--host", "h1", "--socket", self.lab.socket,
                   "--state", ""]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
        self.assertEqual(ended.returncode, 3, ended.stderr)
        self.assertIn("/proc is that of another PID namespace", ended.stderr)

    @staticmethod
    def child(pid):
        return int(lab.read(f"/proc/{pid}/task/{pid}/children").split()[0])

    def test_a_thousand_connections_cost_little_and_none_is_left(self):
        self.lab.start(self.switches)
        self.start_agent(log_level="info")
        program = self.program()
        program.do(f"connect 17 1 {THERE} 18 0 0")
        for connections, every_us in ((5000, 0), (3000, 1000)):
            before, started = self.run_ns(), time.monotonic()
            program.do(f"repeat {connections} {every_us} 50 1 {THERE} 51")
            took = time.monotonic() - started
            self.expect("the one that stays", HERE, THERE, 18, pairing="agent", state="open")
            lab.wait_for("the others to be gone", lambda: self.lab.show("qp_agents")[0]["qps"] == 1)
            cost = (self.run_ns() - before) / 1e3 / connections
            print(f"{connections / took:.0f} connections a second: {cost:.1f} us of CPU each, the agent's")
        self.assertNotIn("were lost", lab.read(self.log))

    def test_an_agent_with_nothing_to_do_costs_next_to_nothing(self):
        known, watched_s = 300, float(os.environ.get("WEFT_IDLE_S") or 10)
        self.lab.start(self.switches)
        self.start_agent(log_level="info", quick=())
        program = self.program()
        for qpn in range(17, 17 + known):
            program.do(f"connect {qpn} 1 {THERE} {1000 + qpn} 0 0")
        lab.wait_for("all to be known", lambda: self.lab.show("qp_agents")[0]["qps"] == known)
        time.sleep(1)  # what the last ones leave to do
        before, started = self.run_ns(), time.monotonic()
        time.sleep(watched_s)
        share = (self.run_ns() - before) / 1e9 / (time.monotonic() - started)
        print(f"{known} queue pairs, {watched_s:.0f} s without a change: {share:.3%} of a core")
        self.assertEqual(self.lab.show("qp_agents")[0]["qps"], known)
        self.assertLess(share, 0.01)

    def run_ns(self):
        """Time that all threads of the agent have run, to the nanosecond."""
        folder = f"/proc/{self.agent.pid}/task"
        return sum(int(lab.read(f"{folder}/{thread}/schedstat").split()[0]) for thread in os.listdir(folder))


if __name__ == "__main__":
    lab.main()
