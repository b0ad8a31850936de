#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""Captures, traces, clear and set of a running weft-switch. Captures are read by tshark, which is not ours."""
import json
import os
import re
import signal
import subprocess
import unittest

import program

TOP = "eal: { hugepages: off, mbufs: 4096 }\nidle: sleep\ncontrol: { socket: weft.sock }\n"
SENDER = ("type: generator, source_mac: '02:00:00:00:00:0a', destination_mac: '02:00:00:00:00:0b', "
          "source: 10.0.0.1, destination: 10.0.0.2, first_qpn: 16, qps: 2")
LOSSY = "[parse, impair: { rules: [ { name: lossy, match: { dest_qp: 17 }, every: 4, loss: 1 } ] }, rdma_track, l2]"


class Running(program.Running):
    RATE = ", rate_pps: 20000"

    def setUp(self):
        super().setUp()
        self.configure([f"{{ name: in, {SENDER}{self.RATE} }}", "{ name: out, type: 'null' }"], LOSSY, top=TOP)
        self.start()

    def packets(self, name, *fields):
        """Tuples of the fields of every packet; tshark must have nothing to say about the file."""
        command = ["tshark", "-r", self.path(name), "-T", "fields", "-E", "separator=|"]
        for field in fields:
            command += ["-e", field]
        result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        self.assertNotIn("cut short", result.stderr)
        return [tuple(line.split("|")) for line in result.stdout.splitlines()]


class Capture(Running):
    def test_both_directions_and_drops_with_their_reason(self):
        out = self.ctl("capture", "-w", "all.pcapng", "--rx", "--tx", "--drop", "any", "--count", "2000").stderr
        self.assertIn("2000 packets captured", out)
        self.assertIn(" 0 lost", out)
        seen = self.packets("all.pcapng", "frame.interface_name", "frame.packet_flags_direction",
                            "infiniband.bth.destqp", "frame.comment")
        self.assertEqual(len(seen), 2000)
        comment = "dropped: impair_loss: The impair stage was told to lose it. Switch tor, in in, out none"
        kinds = {"tor/in": ("0x00000001", ""), "tor/out": ("0x00000002", ""), "tor drops": ("", comment)}
        self.assertEqual({interface for interface, *_ in seen}, set(kinds))
        for interface, direction, qp, text in seen:
            self.assertEqual((direction and f"0x{int(direction, 0):08x}", text), kinds[interface])
            self.assertIn(int(qp, 16), (16, 17))
            if text:
                self.assertEqual(int(qp, 16), 17)

    def test_filters_choose_by_port_queue_pair_opcode_and_psn(self):
        self.ctl("capture", "-w", "f.pcapng", "--port", "out", "--qp", "17", "--opcode", "RC_SEND_ONLY",
                 "--count", "50")
        seen = self.packets("f.pcapng", "frame.interface_name", "infiniband.bth.destqp", "infiniband.bth.opcode")
        self.assertEqual(set(seen), {("tor/out", "0x000011", "4")})
        self.ctl("capture", "-w", "none.pcapng", "--opcode", "CNP", "--duration-s", "0.3")
        self.assertEqual(self.packets("none.pcapng", "frame.number"), [])
        # Ahead of what the generator sends now, by some seconds.
        now = json.loads(self.ctl("trace", "--qp", "16", "--count", "1", "--json").stdout)["what"]
        first = int(re.search(r"psn (\d+)", now)[1]) + 40000
        self.ctl("capture", "-w", "psn.pcapng", "--rx", "--qp", "16", "--psn", f"{first}-{first + 9}",
                 "--count", "10", "--duration-s", "20")
        psns = [int(psn) for psn, in self.packets("psn.pcapng", "infiniband.bth.psn")]
        self.assertEqual(psns, list(range(first, first + 10)))

    def test_a_drop_reason_captures_only_its_drops(self):
        self.ctl("capture", "-w", "loss.pcapng", "--drop", "impair_loss", "--count", "5")
        self.assertEqual(set(self.packets("loss.pcapng", "frame.interface_name")), {("tor drops",)})
        self.ctl("capture", "-w", "other.pcapng", "--drop", "no_route", "--duration-s", "0.3")
        self.assertEqual(self.packets("other.pcapng", "frame.number"), [])

    def test_snaplen_and_size_bound_the_file(self):
        out = self.ctl("capture", "-w", "small.pcapng", "--snaplen", "64", "--max-bytes", "20000").stderr
        self.assertIn("the size was reached", out)
        self.assertLess(os.path.getsize(self.path("small.pcapng")), 21000)
        lengths = set(self.packets("small.pcapng", "frame.cap_len"))
        self.assertEqual(lengths, {("64",)})

    def test_ctrl_c_ends_it_with_a_whole_file(self):
        command = [os.path.join(program.BIN, "weftctl"), "--socket", self.path("weft.sock")]
        command += ["capture", "-w", "c.pcapng"]
        with subprocess.Popen(command, cwd=self.directory, stderr=subprocess.PIPE, text=True) as process:
            program.wait_until(lambda: os.path.exists(self.path("c.pcapng")) and
                               os.path.getsize(self.path("c.pcapng")) > 100_000, "packets in the file")
            process.send_signal(signal.SIGINT)
            err = process.communicate(timeout=20)[1]
            self.assertEqual(process.returncode, 0, err)
        self.assertRegex(err, r"[0-9]+ packets captured, .*\(stopped\)")
        count = int(err.split(" packets captured")[0].split()[-1])
        self.assertEqual(len(self.packets("c.pcapng", "frame.number")), count)

    def test_stdout_feeds_tshark_and_its_end_is_no_mistake(self):
        command = (f"{program.BIN}/weftctl --socket weft.sock capture -w - --rx "
                   "| tshark -r - -c 5 -T fields -e frame.interface_name 2>/dev/null")
        result = subprocess.run(["bash", "-o", "pipefail", "-c", command], cwd=self.directory, capture_output=True,
                                text=True, timeout=30, check=False)
        self.assertEqual(result.stdout, "tor/in\n" * 5)
        self.assertEqual(result.returncode, 0, result.stderr)

    @unittest.skipIf(os.geteuid() != 0, "mounting a small file system needs root")
    def test_a_full_disk_ends_the_capture_and_not_the_switch(self):
        small = self.path("small")
        os.mkdir(small)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "weft-test", small], check=True)
        self.addCleanup(subprocess.run, ["umount", small], check=True)
        err = self.refused("capture", "-w", "small/full.pcapng")
        self.assertRegex(err, r"cannot write small/full.pcapng: No space left on device; the capture has ended, "
                              r"\d+ bytes were kept")
        self.assertGreater(len(self.packets("small/full.pcapng", "frame.number")), 50)
        before = self.show("ports")[1]["tx_packets"]
        program.wait_until(lambda: self.show("ports")[1]["tx_packets"] > before, "forwarding")
        self.ctl("capture", "-w", "again.pcapng", "--tx", "--count", "1")
        self.assertEqual(self.packets("again.pcapng", "frame.interface_name"), [("tor/out",)])

    def test_mistakes_get_a_suggestion_and_replace_no_file(self):
        for arguments, sentence in (
                (("--drop", "impair_los"), "unknown drop reason 'impair_los'; did you mean 'impair_loss'?"),
                (("--opcode", "RC_SEND_ONL"), "unknown opcode 'RC_SEND_ONL'; did you mean 'RC_SEND_ONLY'?"),
                (("--port", "ouz"), "unknown port 'ouz'; did you mean 'out'?"),
                (("--switch", "tot"), "unknown switch 'tot'; did you mean 'tor'?"),
                (("--qp", "16777216"), "queue pair number 16777216 has more than 24 bits")):
            with self.subTest(arguments=arguments):
                self.assertEqual(self.refused("capture", "-w", "x.pcapng", *arguments), f"weftctl: {sentence}\n")
        self.assertFalse(os.path.exists(self.path("x.pcapng")))
        self.assertIn("--psn: '5-x' is neither", self.refused("capture", "-w", "x", "--psn", "5-x", code=2))
        self.assertIn("unknown command 'captre'; did you mean 'capture'?", self.refused("captre", code=2))
        self.assertIn("unknown option '--prt'; did you mean '--port'?",
                      self.refused("capture", "-w", "x", "--prt", "in", code=2))
        self.assertIn("cannot write no/where", self.refused("capture", "-w", "no/where"))


class Unlimited(Running):
    RATE = ""

    def test_a_capture_loses_copies_and_no_packets(self):
        out = self.ctl("capture", "-w", "/dev/null", "--buffer-mib", "1", "--duration-s", "0.5").stderr
        self.assertRegex(out, r"[1-9]\d* packets captured, .* [1-9]\d* lost")
        counters, _ = self.stop()
        drops = counters["switches"][0]["drops"]
        self.assertEqual(set(drops), {"impair_loss"})


class Impair(Running):
    def lost(self):
        return self.show("impair")[0]["lost"]

    def test_rules_change_while_packets_flow(self):
        program.wait_until(lambda: self.lost() > 0, "losses")
        self.assertEqual(self.ctl("set", "impair", "lossy", "off").stdout, "tor: impair rule lossy changed\n")
        before = self.lost()
        matched = self.show("impair")[0]["matched"]
        program.wait_until(lambda: self.show("impair")[0]["matched"] > matched + 100, "further packets")
        self.assertEqual(self.lost(), before)
        self.ctl("set", "impair", "lossy", "on", "every=1", "match.dest_qp=16")
        seen = {json.loads(line)["what"].split(" psn")[0]
                for line in self.ctl("trace", "--drop", "impair_loss", "--count", "5", "--json").stdout.splitlines()}
        self.assertEqual(seen, {"roce RC_SEND_ONLY qp 16"})


class Trace(Running):
    def test_every_stage_says_what_it_did_and_why(self):
        out = self.ctl("trace", "--qp", "16", "--count", "2", "--json").stdout
        packets = [json.loads(line) for line in out.splitlines()]
        self.assertEqual([packet["packet"] for packet in packets], [1, 2])
        for packet in packets:
            self.assertRegex(packet["what"], r"^roce RC_SEND_ONLY qp 16 psn \d+( [a-z_]+)* \S+ > \S+, \d+ bytes$")
            self.assertEqual((packet["bth"]["opcode"], packet["bth"]["dest_qp"]), ("RC_SEND_ONLY", 16))
            self.assertIn(packet["source"] + " > " + packet["destination"], packet["what"])
            self.assertEqual([(step["stage"], step["verdict"]) for step in packet["steps"]],
                             [("port", "received from in"), ("parse", "passed on"), ("impair", "passed on"),
                              ("rdma_track", "passed on"), ("l2", "forwarded to out"), ("admission", "queued for out"),
                              ("port", "sent to out")])
        l2 = packets[1]["steps"][4]
        self.assertIn("flooded_unknown", l2["why"])

    def test_a_drop_reason_shows_packets_that_end_that_way(self):
        out = self.ctl("trace", "--drop", "impair_loss", "--count", "1").stdout
        self.assertIn("qp 17", out.splitlines()[0])
        self.assertRegex(out, r"impair +dropped: impair_loss +The impair stage was told to lose it\.")

    def test_a_second_trace_is_refused_and_mistakes_get_a_suggestion(self):
        command = [os.path.join(program.BIN, "weftctl"), "--socket", self.path("weft.sock"), "trace", "--opcode", "CNP"]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as first:
            self.assertIn("tracing", first.stderr.readline())
            self.assertIn("a trace is running already", self.refused("trace"))
            first.send_signal(signal.SIGINT)
            self.assertIn("0 packets traced", first.communicate(timeout=20)[1])
        self.assertIn("did you mean 'RC_SEND_ONLY'?", self.refused("trace", "--opcode", "RC_SEND_ONLI"))

    def test_one_packet_is_one_packet(self):
        self.assertIn("weftctl: 1 packet traced, ", self.ctl("trace", "--count", "1").stderr)
        self.assertIn("weftctl: 2 packets traced, ", self.ctl("trace", "--count", "2").stderr)

    def test_traced_packets_are_forwarded_and_accounted_for(self):
        self.ctl("trace", "--count", "500", "--json")
        counters, _ = self.stop()
        self.assertEqual(set(counters["switches"][0]["drops"]), {"impair_loss"})


class Ports(Running):
    def test_the_rate_of_a_port_changes_while_packets_flow(self):
        full = lambda: {row["reason"]: row["packets"] for row in self.show("drops")}.get("egress_queue_full", 0)
        self.assertEqual(self.ctl("set", "port", "out", "rate_mbps=1").stdout, "tor/out: 1 Mbit/s\n")
        program.wait_until(lambda: full() > 0, "a full queue")
        self.ctl("set", "port", "out", "rate_mbps=0", "delay_ns=1000")
        program.wait_until(lambda: self.show("ports")[1]["queue"] == 0, "an empty queue")
        before = full()
        sent = self.show("ports")[1]["tx_packets"]
        program.wait_until(lambda: self.show("ports")[1]["tx_packets"] > sent + 5000, "packets")
        self.assertEqual(full(), before)
        self.stop()


class TwoSwitches(program.Running):
    """Switches whose ports have the same names, and a route over two of them."""

    SWITCH = """\
  - name: NAME
    ports:
      - { name: in, SENDER, rate_pps: 1000 }
      - { name: s1, type: 'null', mac: '02:00:00:00:MAC:01' }
      - { name: s2, type: 'null', mac: '02:00:00:00:MAC:02' }
    addresses: [{ port: s1, address: 10.1.1.1/24 }, { port: s2, address: 10.1.2.1/24 },
                { port: in, address: 10.0.0.3/24 }]
    neighbours: [{ port: s1, address: 10.1.1.2, mac: '02:00:00:00:03:01' },
                 { port: s2, address: 10.1.2.2, mac: '02:00:00:00:03:02' }]
    routes: [{ prefix: 10.9.0.0/24, via: [10.1.1.2, 10.1.2.2] }]
    pipeline: [parse, l3, lb]
"""

    def setUp(self):
        super().setUp()
        sender = SENDER.replace("destination: 10.0.0.2", "destination: 10.9.0.2") + ", mac: '02:00:00:00:00:0b'"
        switch = self.SWITCH.replace("SENDER", sender.replace("00:00:0b", "00:MAC:0b"))
        self.write(TOP + "switches:\n" + "".join(switch.replace("NAME", name).replace("MAC", mac)
                                                 for name, mac in (("leaf1", "a1"), ("leaf2", "a2"))))
        self.start()

    def test_a_port_is_named_with_its_switch(self):
        self.assertEqual(self.ctl("set", "port", "leaf2/s1", "rate_mbps=5").stdout, "leaf2/s1: 5 Mbit/s\n")
        self.assertEqual(self.ctl("set", "port", "leaf1/s1", "delay_ns=7").stdout, "leaf1/s1: delay 7 ns\n")
        self.assertIn("several switches have a port 's1'; say which one: SWITCH/s1",
                      self.refused("set", "port", "s1", "rate_mbps=5"))
        self.assertIn("unknown port 'spine/uplink'; known: leaf1/in, leaf1/s1, leaf1/s2, leaf2/in, leaf2/s1, leaf2/s2",
                      self.refused("set", "port", "spine/uplink", "rate_mbps=5"))
        self.assertIn("unknown port 'uplink'; known: in, s1, s2\n",
                      self.refused("set", "port", "uplink", "rate_mbps=5", "--switch", "leaf2"))

    def test_a_group_has_a_small_number_in_a_trace(self):
        packet = json.loads(self.ctl("trace", "--switch", "leaf1", "--count", "1", "--json").stdout)
        verdicts = {step["stage"]: step["verdict"] for step in packet["steps"]}
        self.assertRegex(verdicts["l3"], r"^forwarded to group \d{1,3}$")
        self.assertRegex(verdicts["lb"], r"^forwarded to s[12]$")


class ClearAndSet(Running):
    RATE = ", limit_packets: 4000"

    def test_tables_count_from_zero_and_nothing_else_notices(self):
        program.wait_until(lambda: self.show("ports")[0]["rx_packets"] == 4000, "all packets")
        before = self.show("totals")
        self.assertEqual(self.show("drops")[0]["packets"], 500)
        self.assertEqual(self.ctl("clear", "drops").stdout, "cleared drops\n")
        self.assertEqual(self.show("drops"), [])
        self.assertEqual(self.show("ports")[0]["rx_packets"], 4000)
        self.assertGreater(self.show("latency")[0]["samples"], 0)
        cleared = "cleared ports, stages, drops, port_drops, counters, latency, qps, impair\n"
        self.assertEqual(self.ctl("clear").stdout, cleared)
        tables = cleared.removeprefix("cleared ").strip()
        self.assertIn(tables, " ".join(self.ctl("clear", "--help").stdout.split()))
        with open(os.path.join(program.SOURCE, "tools/weftctl/weftctl.bash"), encoding="utf-8") as completion:
            self.assertIn('$command == clear ]]; then\n        words="' + tables.replace(",", "") + '"\n',
                          completion.read())
        self.assertEqual(self.show("latency"), [])
        for table, column in (("ports", "rx_packets"), ("stages", "packets"), ("counters", "value"), ("qps", "packets"),
                              ("impair", "matched")):
            rows = self.show(table)
            self.assertTrue(rows, table)
            self.assertEqual({row[column] for row in rows}, {0}, table)
        self.assertEqual(self.show("totals"), before)
        counters, _ = self.stop()
        self.assertEqual(counters["switches"][0]["totals"]["rx"], 4000)

    def test_clear_names_what_it_does_not_know(self):
        self.assertIn("unknown table 'drps'; did you mean 'drops'?", self.refused("clear", "drps"))
        self.assertIn("nothing in table 'workers' counts up; to clear: ports,", self.refused("clear", "workers"))
        self.assertIn("unknown switch 'tar'; did you mean 'tor'?", self.refused("clear", "--switch", "tar"))

    def test_the_log_level_changes_while_it_runs(self):
        self.assertEqual(self.ctl("set", "log-level", "error").stdout, "log level is now error\n")
        _, result = self.stop()
        self.assertNotIn("switch tor: rx", result.out)

    def test_set_port_says_what_is_wrong(self):
        self.assertIn("its driver (net_null) cannot take the link down",
                      self.refused("set", "port", "out", "link=down"))
        self.assertIn("did you mean 'out'", self.refused("set", "port", "oud", "link=down"))
        self.assertIn("expected up or down, found 'off'", self.refused("set", "port", "out", "link=off"))
        self.assertIn("expected 0 to 1600000", self.refused("set", "port", "out", "rate_mbps=-1"))
        self.assertIn("did you mean 'rate_mbps'", self.refused("set", "port", "out", "rate=1"))
        self.assertIn("takes a name and what changes", self.refused("set", "port", "out"))

    def test_set_names_what_it_does_not_know(self):
        self.assertIn("tor: unknown rule 'losy'; did you mean 'lossy'?", self.refused("set", "impair", "losy", "off"))
        self.assertIn("unknown key 'los'; did you mean 'loss'?", self.refused("set", "impair", "lossy", "los=1"))
        self.assertIn("unknown log level 'debg'; did you mean 'debug'?", self.refused("set", "log-level", "debg"))
        self.assertIn("unknown setting 'loglevel'; did you mean 'log-level'?", self.refused("set", "loglevel", "x"))
        self.assertIn("log-level takes one word", self.refused("set", "log-level"))


if __name__ == "__main__":
    program.main()
