# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""From trials to verdicts in bench/peers, on made-up trials, and the readers of the peers' counters on real text."""

import dataclasses
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

from bench.peers import cases, html_report, machine, ovs, results, weft  # noqa: E402
from bench.peers.child import Measurement, PeerError, Refused, Settings  # noqa: E402

TSC_HZ = 2_000_000_000
CASE = cases.CASES[0]
FACTS = {
    "cpu": "a CPU",
    "cpu_family": "1",
    "cpu_model": "2",
    "cpus": 2,
    "virtual": True,
    "tsc_hz": TSC_HZ,
    "memory_mb": 1024,
    "kernel": "6",
    "worker_cpu": 1,
    "versions": {"dpdk": "22.11", "ovs": ""},
    "settings": {"rounds": 5, "trial_s": 3.0, "warm_up_s": 1.0, "burst": 32, "mbufs": 16384},
}


def trial(system, mpps, notes=(), details=None, case=CASE.name):
    return results.Trial(case, system, mpps, mpps / 2, 1.0, notes, details or {})


def measurement(rx=1_000_000, tx=1_000_000, share=1.0, busy=""):
    return Measurement(0.5, rx, tx, tx * 64, share, busy, {})


def cells_of(**speeds):
    """Cells of the first case from system_name=Mpps."""
    trials = [trial(name.replace("_", "-"), mpps) for name, mpps in speeds.items()]
    return results.make_cells(trials, TSC_HZ)


class TrialTest(unittest.TestCase):
    def test_the_rate_is_that_of_sent_packets(self):
        made = results.make_trial("c", "s", measurement(rx=1_000_500, tx=1_000_000), "")
        self.assertAlmostEqual(made.mpps, 2.0)
        self.assertAlmostEqual(made.gbit_s, 64 * 8 * 2e6 / 1e9)
        self.assertEqual(made.notes, ())

    def test_a_busy_machine_a_shared_core_and_loss_are_each_noted(self):
        self.assertEqual(len(results.make_trial("c", "s", measurement(), "others use 80%").notes), 1)
        self.assertEqual(len(results.make_trial("c", "s", measurement(busy="others use 80%"), "").notes), 1)
        self.assertEqual(len(results.make_trial("c", "s", measurement(share=0.9), "").notes), 1)
        self.assertEqual(len(results.make_trial("c", "s", measurement(tx=990_000), "").notes), 1)
        self.assertEqual(len(results.make_trial("c", "s", measurement(), "", "the core ran at 80%").notes), 1)


class CellTest(unittest.TestCase):
    def test_noisy_trials_are_left_out_when_two_are_quiet(self):
        trials = [trial("s", 10), trial("s", 12), trial("s", 2, ("x",)), trial("s", 3, ("x",)), trial("s", 4, ("x",))]
        cell = results.make_cell(trials, TSC_HZ)
        self.assertEqual((cell.mpps, cell.low_mpps, cell.high_mpps, cell.noisy, cell.trials), (10, 10, 12, 3, 5))

    def test_one_quiet_trial_counts_alone_only_among_two(self):
        self.assertEqual(results.make_cell([trial("s", 10), trial("s", 3, ("x",))], TSC_HZ).low_mpps, 10)
        cell = results.make_cell([trial("s", 3, ("x",))], TSC_HZ)
        self.assertEqual((cell.mpps, cell.noisy), (3, 1))

    def test_all_trials_count_when_most_are_noisy(self):
        cell = results.make_cell([trial("s", 10), trial("s", 3, ("x",)), trial("s", 4, ("x",))], TSC_HZ)
        self.assertEqual((cell.mpps, cell.low_mpps, cell.high_mpps, cell.noisy), (4, 3, 10, 2))

    def test_cycles_are_the_tsc_rate_over_the_median_rate(self):
        self.assertAlmostEqual(results.make_cell([trial("s", 20)], TSC_HZ).cycles, 100)


class VerdictTest(unittest.TestCase):
    def outcome(self, cells, base):
        (found,) = [
            verdict
            for verdict in results.verdicts(cells, [CASE], cases.TARGETS, cases.IO, cases.ABOVE_IO)
            if verdict.system == cases.WEFT_L2 and f"{base}," in f"{verdict.text},"
        ]
        return found.outcome

    def test_a_ratio_at_or_above_target_floor_and_below_both_is_told_apart(self):
        self.assertEqual(self.outcome(cells_of(weft_l2=19, ovs_normal=10), "ovs-normal"), "target met")
        self.assertEqual(self.outcome(cells_of(weft_l2=17, ovs_normal=10), "ovs-normal"), "floor met")
        self.assertEqual(self.outcome(cells_of(weft_l2=16.9, ovs_normal=10), "ovs-normal"), "missed")
        self.assertEqual(self.outcome(cells_of(weft_l2=13, ovs=10), "ovs"), "target met")
        self.assertEqual(self.outcome(cells_of(weft_l2=12.9, ovs=10), "ovs"), "missed")
        self.assertEqual(self.outcome(cells_of(weft_l2=12.9), "ovs"), "not measured")

    def test_cycles_above_io_are_judged_by_what_the_case_allows(self):
        # testpmd io takes 40 cycles of the 2000 million, and 40 more are allowed.
        self.assertEqual(CASE.above_io, 40)
        self.assertEqual(self.outcome(cells_of(weft_l2=25.01, testpmd_io=50), "testpmd-io"), "target met")
        self.assertEqual(self.outcome(cells_of(weft_l2=24.9, testpmd_io=50), "testpmd-io"), "missed")
        self.assertEqual(self.outcome(cells_of(weft_l2=24.9), "testpmd-io"), "not measured")
        self.assertIsNone(results.above(cells_of(weft_l2=24.9), CASE.name, cases.WEFT_L2, cases.IO))
        text = results.terminal_report(cells_of(weft_l2=20, testpmd_io=50, ovs_normal=10), cases)
        self.assertRegex(text, r"weft L2 +20\.00 +20\.00 +20\.00 +10\.0 +100\.0 +60\.0 +0\.40 +- +2\.00 ")

    def test_the_speed_that_meets_all_targets_is_the_largest_one(self):
        def wanted(**speeds):
            cells = cells_of(**speeds)
            return results.target_mpps(cells, CASE.name, cases.WEFT_L2, cases.TARGETS, cases.IO, 40, TSC_HZ)

        self.assertAlmostEqual(wanted(ovs=10, ovs_normal=10, testpmd_io=50), 25)
        self.assertAlmostEqual(wanted(ovs=10, ovs_normal=20, testpmd_io=50), 38)
        self.assertAlmostEqual(wanted(ovs=40, ovs_normal=20, testpmd_io=50), 52)
        self.assertIsNone(wanted(ovs=40, ovs_normal=20))

    def test_the_large_frame_case_has_an_absolute_floor(self):
        (large,) = [case for case in cases.CASES if case.floor_mpps]
        cells = results.make_cells([trial(cases.WEFT_L2, 5.9, case=large.name)], TSC_HZ)
        outcomes = {verdict.system: verdict.outcome for verdict in results.verdicts(cells, [large], cases.TARGETS)}
        others = {cases.WEFT_L3: "not measured", cases.WEFT_OBSERVED: "not measured"}
        self.assertEqual(outcomes, {cases.WEFT_L2: "missed", **others})


class ReportTest(unittest.TestCase):
    def cells(self, weft_mpps):
        stages = {"stages": {"parse": 10.0, "rdma_track": 30.0, "l2": 15.0, "tx": 20.0}}
        trials = [trial(cases.IO, 50), trial(cases.OVS, 10), trial(cases.OVS_NORMAL, 36 / 1.9)]
        trials.append(trial(cases.WEFT_L2, weft_mpps, details=stages))
        return results.make_cells(trials, TSC_HZ)

    def test_the_distance_names_gap_and_largest_part(self):
        # Wanted are 36 Mpps, 55.6 cycles; measured are 100, of which 25 are left and 20 are tx, and 40 in testpmd io.
        (text,) = html_report.distances(FACTS, self.cells(20), cases)
        self.assertIn("100 cycles per packet, 44 more than the 56", text)
        self.assertIn("Ports and loop take 45 (testpmd io, which does nothing else, needs 40)", text)
        self.assertIn("The largest part is rdma_track, 30 cycles; it could not close the gap alone.", text)

    def test_a_met_target_has_no_gap_to_close(self):
        (text,) = html_report.distances(FACTS, self.cells(40), cases)
        self.assertIn("50 cycles per packet, 6 fewer than the 56", text)
        self.assertNotIn("largest part", text)

    def test_without_testpmd_the_distance_is_the_gap_alone(self):
        trials = [trial(cases.WEFT_L2, 20, details={"stages": {"parse": 10.0, "tx": 20.0}})]
        trials += [trial(cases.WEFT_OBSERVED, 19, details={"stages": {"parse": 10.0, "tx": 20.0}})]
        (text,) = html_report.distances(FACTS, results.make_cells(trials, TSC_HZ), cases)
        self.assertTrue(text.startswith("weft-l2-observed"))
        self.assertTrue(text.endswith("every target is met."))

    def test_the_report_and_the_terminal_text_show_every_measured_system(self):
        cells = self.cells(20)
        page = html_report.render(FACTS, cells, cases)
        text = results.terminal_report(cells, cases)
        for title in ("testpmd io", "OVS in_port to output", "weft L2"):
            self.assertIn(title, page)
            self.assertIn(title, text)
        self.assertNotIn("testpmd macswap", text)
        self.assertIn("at most 40 cycles above testpmd-io", page)
        self.assertNotIn("Not measured", page)
        page = html_report.render(FACTS | {"refused": {"ovs-normal-avx512": "this OVS has none"}}, cells, cases)
        self.assertIn("Not measured: ovs-normal-avx512, because this OVS has none.", page)


class OvsTextTest(unittest.TestCase):
    def test_only_dpdk_ports_are_counted(self):
        text = """netdev@ovs-netdev:
  lookups: hit:42680608 missed:0 lost:0
  port 0: ovs-netdev (tap)
    RX packets:7 errors:0 dropped:0 overruns:0 frame:0
    TX packets:7 errors:0 dropped:0 aborted:0 carrier:0
    RX bytes:7  TX bytes:7
  port 1: p0 (dpdk: configured_rx_queues=1, mtu=1500)
    RX packets:100 errors:0 dropped:0 overruns:? frame:?
    TX packets:90 errors:0 dropped:0 aborted:? carrier:?
    RX bytes:6400 (6.2 KiB)  TX bytes:5760 (5.6 KiB)
  port 2: p1 (dpdk: configured_rx_queues=1, mtu=1500)
    RX packets:10 errors:0 dropped:0 overruns:? frame:?
    TX packets:20 errors:0 dropped:0 aborted:? carrier:?
    RX bytes:640  TX bytes:1280 (1.2 KiB)
"""
        self.assertEqual(ovs.parse_port_counters(text), (110, 110, 7040))

    def test_an_ovs_without_avx512_is_refused_in_its_words(self):
        said = []

        def call(method, *params):
            said.append((method, *params))
            return "" if len(said) < 2 else "DPIF implementation dpif_avx512 not supported\n"

        with self.assertRaisesRegex(Refused, "no AVX-512: dpif-netdev/dpif-impl-set: .* not supported$"):
            ovs.use_avx512(call)
        self.assertEqual(said[0], ("dpif-netdev/subtable-lookup-prio-set", "avx512_gather", "5"))

        def broken(method, *_):
            raise PeerError(f'{method}: "x" is not a valid command')

        with self.assertRaisesRegex(Refused, "is not a valid command"):
            ovs.use_avx512(broken)
        ovs.use_avx512(lambda *_: "Lookup priority change affected 1 dpcls ports and 1 subtables.\n")

    def test_pmd_statistics_are_those_of_the_worker(self):
        text = """pmd thread numa_id 0 core_id 1:
  packets received: 42582944
  simple match hits: 42582912
  emc hits: 3
  avg cycles per packet: 122.57 (5219381894/42582944)
main thread:
  packets received: 9
"""
        wanted = {
            "packets_received": 42582944,
            "simple_match_hits": 42582912,
            "emc_hits": 3,
            "avg_cycles_per_packet": 122.57,
        }
        self.assertEqual(ovs.parse_pmd_stats(text), wanted)


class WeftTest(unittest.TestCase):
    SETTINGS = Settings(0, 1, 16384, 32, 1.0, 3.0, "weft-switch")

    def test_the_l3_configuration_has_one_route_with_eight_resolved_next_hops(self):
        config = weft.configuration(["rdma_track", "l3", "lb"], "off", CASE, [{}, {}], self.SETTINGS)
        (switch,) = config["switches"]
        (route,) = switch["routes"]
        self.assertEqual(len(set(route["via"])), 8)
        self.assertEqual({entry["address"] for entry in switch["neighbours"]}, set(route["via"]))
        names = [next(iter(stage)) if isinstance(stage, dict) else stage for stage in switch["pipeline"]]
        self.assertEqual(names, ["parse", "rdma_track", "l3", "lb"])

    def test_a_pipeline_of_another_build_runs_that_builds_program(self):
        before = next(system for system in cases.SYSTEMS if system.name == "weft-l2-before")
        self.assertIn("--before BUILD", before.missing(self.SETTINGS))
        settings = dataclasses.replace(self.SETTINGS, before_binary="/nowhere/weft-switch")
        self.assertIn("/nowhere/weft-switch", before.missing(settings))
        self.assertNotIn(before.name, cases.names_of(cases.SYSTEMS, None))
        self.assertIn(before.name, cases.names_of(cases.SYSTEMS, "/nowhere"))

    def test_two_builds_are_compared_case_by_case(self):
        cells = cells_of(weft_l2=12.0, weft_l2_before=10.0, weft_l3=8.0)
        compared = results.before_and_after(cells, cases.CASES, cases.SYSTEMS)
        self.assertEqual(compared, [("weft-l2", CASE.name, 1.2)])
        text = results.terminal_report(cells, cases)
        self.assertRegex(text, r"weft-l2, small-16 +1\.200")

    def test_collectives_are_compared_with_a_bridge_that_has_the_same_packets(self):
        cells = cells_of(weft_inc=1.5, weft_inc_bridged=6.0, weft_l2=12.0)
        compared = results.beside_a_bridge(cells, cases.CASES, cases.SYSTEMS)
        self.assertEqual(compared, [("weft-inc", CASE.name, 0.25)])
        text = results.terminal_report(cells, cases)
        self.assertRegex(text, r"weft-inc, small-16 +0\.25")

    def test_stage_cycles_are_shared_among_all_received_packets(self):
        rows = [("parse", "ingress", 100, 900), ("l2", "ingress", 50, 500), ("parse", "egress", 100, 100)]
        keys = ("stage", "half", "packets", "cycles")
        switch = {
            "ports": [{"rx_packets": 60}, {"rx_packets": 40}],
            "stages": [dict(zip(keys, row)) for row in rows],
        }
        self.assertEqual(weft.stage_cycles(switch), {"parse": 9.0, "l2": 5.0, "parse (egress)": 1.0})

    def test_generated_packets_have_the_kinds_and_sizes_of_the_case(self):
        (generated,) = [system for system in cases.SYSTEMS if system.name == "weft-generated"]
        for case in cases.CASES:
            if not case.roce:
                self.assertIn("RoCE alone", generated.refuses(case))
                continue
            port = weft.generator(1, case)
            self.assertEqual(len(port["opcodes"]), sum(kind.weight for kind in case.mix))
            self.assertEqual(port["payload_bytes"] + 74, case.largest_frame_bytes)


class ForeignLoadTest(unittest.TestCase):
    def busy(self, total, ticks, ours):
        """What is said of one second in which the machine was busy for `total` ticks, and processes as in `ticks`."""
        names = {1: "switch", 2: "compiler"}
        readings = iter(
            [
                (0.0, 1000, {pid: (names[pid], 70) for pid in ticks}),
                (1.0, 1000 + total, {pid: (names[pid], 70 + used) for pid, used in ticks.items()}),
            ]
        )
        return machine.ForeignLoad(ours, read=lambda: next(readings)).busy()

    def test_our_own_processes_do_not_count(self):
        second = machine.TICKS_PER_S
        self.assertEqual(self.busy(second, {1: second}, {1}), "")
        self.assertIn("100%", self.busy(second, {1: second}, set()))

    def test_the_largest_foreign_process_is_named(self):
        second = machine.TICKS_PER_S
        text = self.busy(2 * second, {1: second, 2: second}, {1})
        self.assertEqual(text, "others use 100% of a CPU, most of it compiler")

    def test_processes_that_ended_meanwhile_count(self):
        second = machine.TICKS_PER_S
        self.assertEqual(self.busy(2 * second, {1: second}, {1}), "others use 100% of a CPU")

    def test_a_little_load_is_no_load(self):
        second = machine.TICKS_PER_S
        self.assertEqual(self.busy(second + second // 5, {1: second, 2: second // 5}, {1}), "")


class PreferWorkersTest(unittest.TestCase):
    @unittest.skipIf(os.geteuid(), "real-time priority needs root")
    def test_a_worker_that_comes_late_is_waited_for_and_one_that_never_comes_is_not(self):
        cpu = min(os.sched_getaffinity(0))
        late = "import os, time; time.sleep(0.3); os.sched_setaffinity(0, {%d}); time.sleep(30)" % cpu
        with subprocess.Popen([sys.executable, "-c", late]) as child:
            asked = []
            machine.prefer_workers({child.pid}, cpu, 20, lambda: asked.append(1) or child.poll() is None)
            self.assertEqual(os.sched_getaffinity(child.pid), {cpu})
            child.kill()
        self.assertGreater(len(asked), 2)
        started = time.monotonic()
        machine.prefer_workers({os.getpid()}, 10_000, 20, lambda: False)
        self.assertLess(time.monotonic() - started, 10)


class AllOfTheirCpusTest(unittest.TestCase):
    def test_the_limit_is_lifted_and_comes_back_whatever_happens(self):
        path = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory())) / "limit"
        path.write_text("950000\n", encoding="ascii")
        with self.assertRaises(KeyError), machine.all_of_their_cpus(path, settle_s=0):
            self.assertEqual(path.read_text(encoding="ascii"), "-1")
            raise KeyError
        self.assertEqual(path.read_text(encoding="ascii"), "950000\n")


class CoreSpeedTest(unittest.TestCase):
    def core(self, *speeds):
        speeds = iter(speeds)
        return machine.CoreSpeed(0, measure=lambda _: next(speeds))

    def test_a_core_is_slow_beside_its_fastest(self):
        core = self.core(1.0, 1.4, 1.35, 0.7)
        self.assertEqual([core.slow() for _ in range(4)], ["", "", "", "the core ran at 50% of its fastest"])

    def test_waiting_ends_when_it_is_fast_again_or_time_is_up(self):
        core = self.core(1.0, 0.5, 0.5, 1.0, 0.5, 0.5)
        self.assertEqual(core.wait(10, pause_s=0), "")
        self.assertEqual(core.wait(10, pause_s=0), "")
        self.assertIn("50%", core.wait(0, pause_s=0))

    def test_the_real_one_measures(self):
        cpu = min(os.sched_getaffinity(0))
        self.assertEqual(machine.CoreSpeed(cpu).slow(), "")
        self.assertEqual(cpu, min(os.sched_getaffinity(0)))


if __name__ == "__main__":
    unittest.main()
