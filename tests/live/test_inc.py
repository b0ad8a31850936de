#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""Collectives of four weft-rnic that three switches add up (conf/inc-tree.yaml); every element is compared."""
import json
import os
import re
import shutil
import time
import unittest

import inc_tree
import lab

# A busy machine takes its time.
CALM = ("--timeout", "90", "-m", "1024")
SCATTERED = ("reducescatter", "allgather")  # an invocation for each rank
PRIMITIVES = ("allreduce", "reduce", "broadcast", "barrier", *SCATTERED)
ELEMENTS = {"uint8": 1, "int8": 1, "fp16": 2, "bf16": 2, "int16": 2, "uint16": 2, "fp32": 4, "int32": 4, "uint32": 4,
            "fp64": 8, "int64": 8, "uint64": 8}
SWITCHES = ("leaf1", "leaf2", "root")
LATE_S = 60 if inc_tree.FULL else 3
STOP_S = 1.5
OPTIONS = {"message_packets": 4, "window": 4}
MODES = inc_tree.modes(9)
# Where nothing is lost, hops wait for a rank that a busy machine does not let run.
PATIENT = inc_tree.modes(14)


class Inc(unittest.TestCase):
    def collectives(self, tree, group, *arguments, mode="ii", faults=False):
        ranks = tree.start_ranks(group, *CALM, "--rto-us", "20000" if faults else "200000", *arguments)
        tree.make_group(group, ranks, **OPTIONS, **(MODES if faults else PATIENT)[mode])
        tree.release(ranks)
        results = tree.results(ranks)
        said = "".join(f"\nrank {n}: {result} {rank.stderr.read()}"
                       for n, (rank, result) in enumerate(zip(ranks, results)))
        ended = [(result.get("error"), rank.returncode) for rank, result in zip(ranks, results)]
        well = [("", 0)] * len(ranks)
        if ended != well:
            # Of a group that stands still, each switch knows whom it waits for.
            said += "".join("\n" + tree.try_weftctl("inc", "explain", str(group), "--switch", switch).stdout
                            for switch in SWITCHES)
        self.assertEqual(ended, well, said)
        for rank in ranks:
            rank.stdout.close()
            rank.stderr.close()
        return results

    def test_every_primitive_and_size_gives_what_one_machine_would_have_added_up(self):
        with lab.Lab() as l:
            tree = inc_tree.Tree(l)
            cases = [(size, mode) for mode in MODES for size in ("4", "1024", "4100", "65536", "4194304")]
            for group, (size, mode) in enumerate(cases, 1):
                results = self.collectives(tree, group, "-s", size, "-n", "3", mode=mode)
                self.assertEqual({r["collectives"] for r in results}, {12})
                rows = tree.show("groups", "root")
                self.assertEqual([row["state"] for row in rows], ["running"])
                self.assertEqual(rows[0]["collectives"], 12)
                tree.remove(group)
            self.assertEqual(tree.show("groups", "root"), [])
            l.stop()

    def test_every_type_of_elements_is_added_up_from_a_vector_of_one_on(self):
        """In tools/check each type in one mode; in full in all of them, and with vectors of several messages."""
        modes = list(MODES)
        cases = [(element, bytes_, modes[number % len(modes)]) for number, (element, bytes_) in
                 enumerate(ELEMENTS.items())]
        if inc_tree.FULL:
            cases = [(element, size, mode) for element, one in ELEMENTS.items() for size in (one, 1000 * one, 1 << 18)
                     for mode in modes]
        with lab.Lab() as l:
            tree = inc_tree.Tree(l)
            for group, (element, size, mode) in enumerate(cases, 1):
                self.collectives(tree, group, "-s", str(size), "-n", "4", "--element", element, mode=mode)
                tree.remove(group)
            l.stop()

    def test_reducescatter_and_allgather_give_every_rank_its_fragments(self):
        """Fragments from a byte on; in full up to 16 MiB together."""
        sizes = [(4, "uint8"), (4112, "uint32"), (1 << 18, "fp32")] + [(16 << 20, "uint32")] * inc_tree.FULL
        with lab.Lab() as l:
            tree = inc_tree.Tree(l)
            cases = [(primitive, mode, *size) for primitive in SCATTERED for mode in MODES for size in sizes]
            for group, (primitive, mode, size, element) in enumerate(cases, 1):
                results = self.collectives(tree, group, "-s", str(size), "-n", "2", "--primitive", primitive,
                                           "--element", element, mode=mode)
                self.assertEqual({r["collectives"] for r in results}, {2 * inc_tree.RANKS})
                tree.remove(group)
            l.stop()

    def test_every_primitive_by_rdma_write_with_immediate(self):
        with lab.Lab() as l:
            tree = inc_tree.Tree(l)
            cases = [(size, mode) for mode in MODES for size in ("4100", "1048576")]
            for group, (size, mode) in enumerate(cases, 1):
                self.collectives(tree, group, "-s", size, "-n", "3", "--write-imm", mode=mode)
                tree.remove(group)
            l.stop()

    def test_16_mib_in_every_mode(self):
        primitives = ("allreduce", "reduce", "broadcast") if inc_tree.FULL else ("allreduce",)
        with lab.Lab() as l:
            tree = inc_tree.Tree(l)
            cases = [(primitive, mode) for primitive in primitives for mode in MODES]
            for group, (primitive, mode) in enumerate(cases, 1):
                self.collectives(tree, group, "-s", str(16 << 20), "-n", "1", "--primitive", primitive, mode=mode)
                tree.remove(group)
            l.stop()

    def test_faults_on_every_link_are_repaired(self):
        sizes = (4, 4100, 65536, 1 << 20) if inc_tree.FULL else (65536,)
        for mode in MODES:
            with self.subTest(mode), lab.Lab() as l:
                tree = inc_tree.Tree(l, inc_tree.FAULTS)
                retransmitted = resent = 0
                cases = [(primitive, max(size - size % 16, 16) if primitive in SCATTERED else size)
                         for primitive in PRIMITIVES for size in sizes]
                for group, (primitive, size) in enumerate(cases, 1):
                    times = "20" if primitive == "barrier" else "3"
                    results = self.collectives(tree, group, "-s", str(size), "-n", times, "--primitive", primitive,
                                               mode=mode, faults=True)
                    retransmitted += sum(r["qp"]["retransmitted"] for r in results)
                    resent += sum(row["resent"] for s in SWITCHES for row in tree.show("groups", s))
                    tree.remove(group)
                self.assertGreater(retransmitted, 0)
                self.assertEqual(resent > 0, mode != "ii")
                drops = l.stop()["switches"]
                self.assertGreater(sum(s["drops"].get("inc_bad_icrc", 0) for s in drops), 0)

    def test_groups_are_spread_over_workers_and_their_packets_find_them(self):
        with lab.Lab() as l:
            tree = inc_tree.Tree(l, top="eal: { workers: [0, 1] }")
            every = []
            for group in (1, 2):
                ranks = tree.start_ranks(group, *CALM, "--rto-us", "200000", "-s", "262144", "-n", "3")
                tree.make_group(group, ranks, qp=100 * group, **OPTIONS)
                every.append((group, ranks))
            for group, ranks in every:
                tree.release(ranks, qp=100 * group)
            for _, ranks in every:
                self.assertEqual([r.get("error") for r in tree.results(ranks)], [""] * 4)
            for switch in SWITCHES:
                rows = tree.show("groups", switch)
                self.assertEqual({row["worker"] for row in rows}, {0, 1}, switch)
                self.assertEqual({row["collectives"] for row in rows}, {12}, switch)
            l.stop()

    def test_a_rank_that_is_late_is_waited_for_and_named(self):
        for mode in MODES:
            with self.subTest(mode):
                self.late(MODES[mode])

    def late(self, mode):
        with lab.Lab() as l:
            tree = inc_tree.Tree(l)
            # Many ACK timeouts: without RNR NAKs the others would give up.
            ranks = tree.start_ranks(5, *CALM, "--rto-us", "20000", "-s", "65536", "-n", "1")
            tree.make_group(5, ranks, **OPTIONS, **mode)
            tree.release(ranks[:3])
            time.sleep(LATE_S)
            row = json.loads(tree.weftctl("inc", "explain", "5", "--switch", "leaf2"))[0]
            self.assertEqual(row["waits_for"], "rank 3 (10.0.4.2)")
            self.assertGreater(row["for_s"], LATE_S / 3)
            ranks[3].stdin.write(json.dumps({"qp": inc_tree.QP + 3}) + "\n")
            ranks[3].stdin.flush()
            self.assertEqual([r.get("error") for r in tree.results(ranks)], [""] * 4)
            l.stop()

    def test_a_rank_that_stops_for_a_while_is_waited_for_in_the_middle(self):
        for mode in MODES:
            with self.subTest(mode):
                self.stopped(MODES[mode])

    def stopped(self, mode):
        """A rank's process stops, its RNIC with it. Hops have the patience for that: what they have sent it is answered
        by nobody meanwhile. The others have not, and need none, because the switch answers them."""
        hops = {"timeout": 18} if "timeout" in mode else {}
        with lab.Lab() as l:
            tree = inc_tree.Tree(l)
            ranks = tree.start_ranks(9, *CALM, "--rto-us", "20000", "-s", "65536", "-n", "200", "--primitive",
                                     "allreduce")
            tree.make_group(9, ranks, **OPTIONS, **{**mode, **hops})
            tree.release(ranks)
            collectives = lambda: tree.show("groups", "root")[0]["collectives"]  # noqa: E731
            lab.wait_for("collectives run", lambda: collectives() > 2)
            with inc_tree.stopped(ranks[3]):
                time.sleep(STOP_S / 2)
                before = collectives()
                row = json.loads(tree.weftctl("inc", "explain", "9", "--switch", "leaf2"))[0]
                time.sleep(STOP_S / 2)
                self.assertEqual(collectives(), before)
            self.assertLess(before, 200)
            self.assertEqual(row["waits_for"], "rank 3 (10.0.4.2)")
            results = tree.results(ranks)
            self.assertEqual([(r.get("error"), r.get("collectives")) for r in results], [("", 200)] * 4)
            # Eight timeouts of 20 ms are what a rank waits for an answer. Where only the result is one, the switch has
            # to say that it is late; in the other modes what the rank has sent may have been acknowledged already.
            if mode is MODES["ii"]:
                self.assertGreater(sum(r["qp"]["rnr_naks"] for r in results[:3]), 0)
            self.assertEqual([r["qp"]["fatal_naks"] for r in results], [0] * 4)
            self.assertEqual([row["state"] for row in tree.show("groups", "root")], ["running"])
            l.stop()

    def test_each_root_has_groups_of_its_own_and_all_run_at_once(self):
        times, size = 2 * inc_tree.RANKS, "16384"
        for mode in MODES:
            with self.subTest(mode), lab.Lab() as l:
                tree = inc_tree.Tree(l)
                ranks = tree.start_ranks(20, *CALM, "--rto-us", "200000", "-s", size, "-n", str(times),
                                         "--group-per-root")
                groups = range(20, 20 + 2 * inc_tree.RANKS + 1)
                for n, group in enumerate(groups):
                    hellos = tree.make_group(group, ranks, qp=100 + 20 * n, **OPTIONS, **MODES[mode])
                    self.assertEqual([hello["group"] for hello in hellos], [group] * inc_tree.RANKS)
                for n in range(len(groups)):
                    tree.release(ranks, qp=100 + 20 * n)
                self.assertEqual([(r.get("error"), r.get("collectives")) for r in tree.results(ranks)],
                                 [("", 4 * times)] * inc_tree.RANKS)
                run = {row["group"]: row["collectives"] for row in tree.show("groups", "root")}
                self.assertEqual(run, {20: 2 * times, **{group: 2 for group in groups[1:]}})
                l.stop()

    def test_a_switch_that_starts_again_ends_the_group_and_runs_the_next(self):
        for mode in MODES:
            with self.subTest(mode), lab.Lab() as l:
                tree = inc_tree.Tree(l)
                ranks = tree.start_ranks(3, "--timeout", "10", "-m", "1024", "--rto-us", "20000", "-s", "1048576",
                                         "-n", "1000", "--primitive", "allreduce")
                tree.make_group(3, ranks, **OPTIONS, **MODES[mode])
                tree.release(ranks)
                lab.wait_for("collectives run", lambda: tree.show("groups", "root")[0]["collectives"] > 2)
                l.kill()
                tree.start()
                began = time.monotonic()
                errors = [result["error"] for result in tree.results(ranks)]
                transport = "^(transport retry counter exceeded|remote operation error) in "
                waits = "^nothing went on for the time of --timeout"
                # Where switches acknowledge what they have, a rank may have nothing under way when they die: RC tells
                # it nothing, and its own patience ends.
                for error in errors:
                    self.assertRegex(error, transport if mode == "ii" else f"{transport}|{waits}")
                # Eight timeouts of 20 ms are the RNICs' patience; the rest is the machine's.
                patience = 10 if any(re.search(waits, error) for error in errors) else 0
                self.assertLess(time.monotonic() - began, 5 + patience)
                self.collectives(tree, 3, "-s", "65536", "-n", "1", mode=mode)
                l.stop()

    def two_groups(self, tree):
        """Group -> (ranks that wait, group as leaf1 has it): two with the same ranks' hosts."""
        out = {}
        for group in (1, 2):
            ranks = tree.start_ranks(group, *CALM, "--rto-us", "200000", "-s", "65536", "-n", "5")
            hellos = tree.make_group(group, ranks, qp=100 * group, **OPTIONS)
            out[group] = ranks, tree.groups.group("leaf1", hellos, 100 * group)
        return out

    def observe(self, tree, groups, *command):
        """What weftctl says when it has run while both groups did."""
        says = tree.start_weftctl(*command)
        time.sleep(0.5)  # until it is attached
        for group, (ranks, _) in groups.items():
            tree.release(ranks, qp=100 * group)
        out, _ = says.communicate(timeout=40)
        for ranks, _ in groups.values():
            self.assertEqual([r.get("error") for r in tree.results(ranks)], [""] * inc_tree.RANKS)
        return out

    def test_a_trace_of_a_group_follows_its_packets_alone(self):
        with lab.Lab() as l:
            tree = inc_tree.Tree(l)
            groups = self.two_groups(tree)
            said = tree.try_weftctl("trace", "--group", "3")
            self.assertNotEqual(said.returncode, 0)
            self.assertIn("group 3 runs on no switch", said.stderr)
            out = self.observe(tree, groups, "--json", "trace", "--group", "2", "--switch", "leaf1", "--count", "20",
                               "--duration-s", "20")
            qps = set(map(int, re.findall(r'"dest_qp": ?(\d+)', out)))
            self.assertTrue(qps)
            self.assertLessEqual(qps, {endpoint["qp"] for endpoint in groups[2][1]["endpoints"]}, out)
            l.stop()

    @unittest.skipUnless(shutil.which("tshark"), "needs the package tshark")
    def test_a_capture_of_a_group_has_its_packets_alone_in_both_directions(self):
        with lab.Lab() as l:
            tree = inc_tree.Tree(l)
            groups = self.two_groups(tree)
            path = os.path.join(l.directory, "group.pcapng")
            said = tree.try_weftctl("capture", "-w", path, "--group", "3", "--duration-s", "1")
            self.assertNotEqual(said.returncode, 0)
            self.assertIn("group 3 runs on no switch", said.stderr)
            self.observe(tree, groups, "capture", "-w", path, "--group", "2", "--switch", "leaf1", "--duration-s", "6")
            found = {tuple(line.split("\t")) for line in lab.run(
                "tshark", "-r", path, "-T", "fields", "-e", "ip.src", "-e", "ip.dst", "-e",
                "infiniband.bth.destqp").splitlines()}
            ends = groups[2][1]["endpoints"]
            expected = {(e["peer"], e["address"], e["qp"]) for e in ends}
            expected |= {(e["address"], e["peer"], e["peer_qp"]) for e in ends}
            self.assertEqual({(source, to, int(qp, 16)) for source, to, qp in found}, expected)
            l.stop()

    def test_what_a_group_lacks_is_said_and_nothing_of_it_stays(self):
        with lab.Lab() as l:
            tree = inc_tree.Tree(l)
            ends = [{"address": f"10.0.{n}.1", "qp": 100, "peer": f"10.0.{n}.2", "peer_qp": 17, "rank": n - 1}
                    for n in (1, 2)]
            good = {"id": 8, "ranks": 2, "endpoints": ends}
            for group, said in ((dict(good, window=4096), "of memory_kb the longest free range"),
                                (dict(good, ranks=3), "rank 2 is behind no endpoint"),
                                (dict(good, mtu=1000), "mtu is one of"),
                                (dict(good, mtuu=1024), "unknown key 'mtuu'"),
                                ([], "group")):
                with self.subTest(said):
                    done = tree.try_weftctl("inc", "create", "group=" + json.dumps(group), "--switch", "leaf1")
                    self.assertNotEqual(done.returncode, 0)
                    self.assertIn(said, done.stderr)
            self.assertEqual(tree.show("groups", "leaf1"), [])
            tree.create("leaf1", good)
            for words, said in ((("create", "group=" + json.dumps(good)), "there is a group 8 already"),
                                (("remove", "9"), "there is no group 9"), (("explain", "9"), "there is no group 9"),
                                (("show", "slotz"), "did you mean 'slots'?")):
                with self.subTest(said):
                    done = tree.try_weftctl("inc", *words, "--switch", "leaf1")
                    self.assertNotEqual(done.returncode, 0)
                    self.assertIn(said, done.stderr)
            row = json.loads(tree.weftctl("inc", "explain", "8", "--switch", "leaf1"))[0]
            self.assertEqual(row["state"], "nothing is under way here")
            l.stop()

    def test_ranks_that_disagree_all_end_and_the_switch_says_who_said_what(self):
        with lab.Lab() as l:
            tree = inc_tree.Tree(l)
            # The one that says something else speaks last, too: seconds after the others had all of theirs resent.
            for late in (0, 3):
                ranks = tree.start_ranks(6, *CALM, "--rto-us", "200000", "-n", "1", "--primitive", "allreduce",
                                         each=lambda rank: ("-s", "8192" if rank == 3 else "4096"))
                tree.make_group(6, ranks, **OPTIONS)
                tree.release(ranks, last_by_s=late)
                for result in tree.results(ranks):
                    self.assertIn("remote operation error", result["error"], late)
                failures = [row["failure"] for s in SWITCHES for row in tree.show("groups", s)]
                self.assertTrue(any("ranks began different collectives" in f for f in failures), failures)
                tree.remove(6)
            self.collectives(tree, 7, "-s", "4096", "-n", "1")
            l.stop()


if __name__ == "__main__":
    lab.main()
