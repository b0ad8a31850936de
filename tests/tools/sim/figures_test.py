# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""The experiments of bench/papers, run small: figure 5 of the Themis paper with what it claims, the others, and the
examples, to their end."""
import json
import unittest

from support import ROOT, SimTest, settings

PAPERS = ROOT / "bench/papers"
FILTER = "{guard_us: 100}"


class PaperTest(SimTest):
    def summary(self, path, values):
        """What weft-sim says of one run."""
        out = self.folder / "out.json"
        result = self.sim("run", path, "--quiet", "--json", out, *settings(values))
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(out.read_text(encoding="utf-8"))["summary"]


class Figure5(PaperTest):
    """64 NICs as the files have it, but 4 MB for each: what holds at the paper's scale must hold here."""

    def completions(self, name):
        """Milliseconds by (T_I, T_D) and policy, after what must hold in each run."""
        times = {}
        for t_i, t_d in ((10, 50), (900, 4)):
            for policy in ("ecmp", "adaptive", "psn"):
                values = {"workload.bytes": 4_000_000, "switch.lb": policy, "nic.cc.t_i_us": t_i, "nic.cc.t_d_us": t_d}
                if policy == "psn":
                    values["switch.nack_filter"] = FILTER
                summary = self.summary(PAPERS / f"themis/{name}.yaml", values)
                times[t_i, policy] = summary["completion_ms"]
                with self.subTest(name=name, t_i=t_i, policy=policy):
                    self.assertTrue(summary["complete"])
                    self.assertEqual(summary["timeouts"], 0)
                    if policy == "psn":
                        self.assertEqual(summary["spurious_retransmit_ratio"], 0)
                        self.assertEqual(summary["nacks_false"], 0)
                        self.assertGreater(summary["nacks_sent"], 0, "packets do come out of order")
        return times

    def check(self, name, gains):
        """`gains`: by T_I, the band in percent for Themis against adaptive routing."""
        times = self.completions(name)
        self.assertEqual(times[10, "psn"], times[900, "psn"], "nothing cuts a rate, so DCQCN's timers change nothing")
        for t_i, (least, most) in gains.items():
            adaptive, themis = times[t_i, "adaptive"], times[t_i, "psn"]
            gain = 100 * (themis - adaptive) / adaptive
            with self.subTest(name=name, t_i=t_i, times=times):
                self.assertLess(adaptive, times[t_i, "ecmp"])
                self.assertTrue(least <= gain <= most, f"{gain:.1f} % is not between {least} and {most} %")

    # The paper, at 256 NICs and 300 MB: -15.6 to -75.3 % (AllReduce), -11.5 to -40.7 % (AlltoAll). With 4 MB a transfer
    # is over before a rate that was cut has risen again where that takes 900 us, so that one cut costs more than there.
    def test_ring_allreduce_is_faster_than_with_adaptive_routing(self):
        self.check("fig5a", {10: (-20, -5), 900: (-86, -60)})

    def test_alltoall_is_faster_than_with_adaptive_routing(self):
        self.check("fig5b", {10: (-25, -8), 900: (-95, -80)})


class EveryExperiment(PaperTest):
    """Each file of weft-sim below bench/papers, with few bytes. Those in folders `flow` are weft-flow's."""

    FEW = {"workload.bytes": 200_000}
    SMALL = {"themis/beyond.yaml": FEW, "themis/dead_path.yaml": FEW, "themis/fig1.yaml": FEW,
             "themis/fig5a.yaml": FEW, "themis/fig5b.yaml": FEW, "themis/three_tiers.yaml": FEW,
             "epic/star.yaml": FEW, "longhaul/dcqcn_30.yaml": {}, "longhaul/dcqcn_50.yaml": {},
             "longhaul/dcqcn_70.yaml": {},
             "conweave/leaf_spine.yaml": {"workload.duration_ms": 0.2},
             "conweave/websearch.yaml": {"workload.duration_ms": 0.02},
             "conweave/fbhdp.yaml": {"workload.duration_ms": 0.02},
             "gemma/websearch.yaml": {"workload.duration_ms": 0.02},
             "gemma/fbhdp.yaml": {"workload.duration_ms": 0.02},
             "gemma/leaf_spine.yaml": {"workload.duration_ms": 0.2},
             "gemma/parameters.yaml": {"workload.duration_ms": 0.2}, "gemma/full.yaml": {"workload.duration_ms": 0.02},
             "conweave/public_model.yaml": {"workload.duration_ms": 0.02},
             "gemma/ablation.yaml": {"workload.duration_ms": 0.1},
             "gemma/seeds.yaml": {"workload.duration_ms": 0.2}, "gemma/rnics.yaml": {"workload.duration_ms": 0.1},
             "gemma/incast.yaml": {"workload.duration_ms": 0.15}, "gemma/allreduce.yaml": FEW,
             "gemma/slow_spine.yaml": {"workload.duration_ms": 0.1},
             "gemma/dead_link.yaml": {"workload.duration_ms": 0.1, "nic.transport": "irn"},
             "gemma/fat_tree.yaml": {"workload.duration_ms": 0.02}}

    def first_flows(self, path, count):
        """A file with the first flows of the one that the experiment names."""
        name = next(line for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("workload:"))
        flows = path.with_name(name.split("file: ")[1].split(",")[0])
        lines = flows.read_text(encoding="utf-8").splitlines()[1:count + 1]
        return self.written("\n".join([str(count), *lines]) + "\n", "flows.txt")

    def test_runs_to_its_end(self):
        files = {str(path.relative_to(PAPERS)): path for path in PAPERS.rglob("*.yaml") if path.parent.name != "flow"}
        self.assertEqual(set(files), set(self.SMALL), "an experiment is missing here")
        for name, path in sorted(files.items()):
            values = dict(self.SMALL[name])
            if name.startswith("longhaul/"):
                values["workload.file"] = self.first_flows(path, 30)
            with self.subTest(name=name):
                self.assertTrue(self.summary(path, values)["complete"])

    def test_examples_run_to_their_end_as_they_are(self):
        examples = sorted((ROOT / "tools/sim/examples").glob("*.yaml"))
        self.assertGreater(len(examples), 3)
        for path in examples:
            with self.subTest(name=path.name):
                self.assertTrue(self.summary(path, {})["complete"])


if __name__ == "__main__":
    unittest.main()
