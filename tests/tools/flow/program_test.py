# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""weft-flow as a person runs it."""
import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

PAPERS = pathlib.Path(__file__).resolve().parents[3] / "bench/papers/epic/flow"
PROGRAM = os.path.join(os.environ["WEFT_BIN"], "weft-flow")
ONE_JOB = "workload: { kind: jobs, jobs: [{ model: llama-7b, tp: 8, dp: 4, iterations: 5 }] }\n"
TRACE = "workload: { kind: csv, file: trace.csv, model: llama-7b, busy: 0.9 }\n"
CSV = "job_id,submission_time,duration,num_gpu\na,100,1000,8\nb,200,900,32\nc,150,800,3\n"


class Program(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)
        self.folder = pathlib.Path(self.scratch.name)

    def flow(self, *arguments, code=0):
        done = subprocess.run([PROGRAM, *arguments], cwd=self.folder, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def written(self, text, name="one.yaml"):
        (self.folder / name).write_text(text)
        return name

    def mistakes(self, text):
        return self.flow("run", self.written(text), code=2).stderr

    def test_run_writes_all_that_is_known(self):
        file = self.written(ONE_JOB)
        done = self.flow("run", file, "--json", "out.json", "--html", "out.html", "--trace-hash", "--quiet")
        summary = json.loads(done.stdout)
        self.assertTrue(summary["complete"])
        self.assertEqual(summary["iterations"], 5)
        report = json.loads((self.folder / "out.json").read_text())
        self.assertIn(report["trace_hash"], done.stderr)
        decisions = summary["decisions"]
        self.assertEqual(decisions["count"], 12)
        times = [decisions[what] for what in ("p50_us", "p99_us", "most_us")]
        self.assertEqual(times, sorted(times))
        self.assertGreater(times[0], 0)
        self.assertEqual(report["jobs"][0]["gpus"], 32)
        page = (self.folder / "out.html").read_text()
        self.assertIn("Job completion times", page)
        self.assertIn("<p>No job with 8 GPUs has ended.</p>", page)
        self.assertIn("<td>p99_us</td>", page)
        # Four tensor groups below a leaf each, and eight data groups across, of which leaves have memory for seven.
        groups = report["trees"]["groups"]
        self.assertEqual([group["root"] for group in groups[:4]], ["leaf0", "leaf1", "leaf2", "leaf3"])
        self.assertEqual([(group["kind"], group["reason"], group["at"]) for group in groups if "reason" in group],
                         [("data", "no_memory", "leaf0")])
        self.assertEqual(page.count(": a data group under spine"), 7)
        self.assertIn("<td>0 (llama-7b)</td><td>1 data</td><td>no_memory</td><td>leaf0</td>", page)
        self.flow("run", file, "--set", "policy=ring", "--html", "out.html", "--quiet")
        self.assertIn("No group had a tree.", (self.folder / "out.html").read_text())

    def test_the_curve_of_many_jobs_ends_with_the_last_one(self):
        file = self.written("workload: { kind: jobs, jobs: [{ model: llama-7b, tp: 8, dp: 1, count: 1500 }] }\n")
        self.flow("run", file, "--html", "out.html", "--quiet")
        plot = (self.folder / "out.html").read_text().split("Job completion times", 1)[1].split("</svg>", 1)[0]
        at_100 = re.search(r'd="M70\.0 ([\d.]+)H740\.0"/><text [^>]*>100</text>', plot)[1]
        self.assertEqual(re.findall(r'([\d.]+)" style=', plot)[-1], at_100)

    def test_the_closed_form_and_the_seed_change_nothing_of_one_job(self):
        file = self.written(ONE_JOB)
        hashes = {self.flow("run", file, "--trace-hash", *more).stderr
                  for more in ([], ["--set", "closed_form=false"], ["--seed", "7"])}
        self.assertEqual(len(hashes), 1)

    def test_policies_are_in_the_papers_order(self):
        file = self.written(ONE_JOB)
        times = [json.loads(self.flow("run", file, "--set", f"policy={policy}", "--set", "memory.units=4").stdout)
                 ["jct_mean_s"] for policy in ("temporal", "spatial", "edge_disjoint", "ring")]
        self.assertEqual(times, sorted(times))
        self.assertLess(times[0], times[-1])

    def test_trace_1_of_the_paper_runs_with_few_jobs(self):
        few = ("--set", "workload.jobs=30", "--set", "workload.iterations=20")
        done = {policy: json.loads(self.flow("run", PAPERS / "trace1.yaml", *few, "--set", f"policy={policy}").stdout)
                for policy in ("ring", "edge_disjoint", "spatial", "temporal")}
        for policy, summary in done.items():
            self.assertTrue(summary["complete"], policy)
        self.assertLess(done["temporal"]["jct_mean_s"], done["ring"]["jct_mean_s"])

    def test_experiments_of_the_paper_are_fine(self):
        files = sorted(PAPERS.glob("*.yaml"))
        self.assertGreater(len(files), 3)
        for file in files:
            self.assertIn("AllReduces", self.flow("explain", file).stdout, file.name)

    def test_mistakes_have_line_and_column(self):
        text = self.mistakes("fabric: { pods: 0 }\npolicy: spacial\nworkload: { kind: jobs, jobs: [] }\n")
        for where in ("one.yaml:1:17", "one.yaml:2:9", "one.yaml:3:"):
            self.assertIn(where, text)
        text = self.mistakes("workload:\n  kind: jobs\n  jobs:\n  - { model: lama-7b }\n"
                             "  - { model: llama-7b, dp: 64 }\n  - { model: llama-7b, pp: 5 }\n")
        self.assertIn("did you mean 'llama-7b'?", text)
        self.assertIn("512 GPUs, and the cluster has 128", text)
        self.assertIn("32 layers cannot be divided by 5", text)
        text = self.mistakes("models: { mine: { layers: 2, hidden: 8, parameters: 9, sequence: 1, gpu_tflops: 0 } }\n" +
                             ONE_JOB)
        self.assertIn("a GPU that computes nothing never ends", text)
        self.assertIn("one.yaml:1:", text)

    def test_iterations_take_a_time_that_can_be_counted(self):
        tiny = ("models: {{ tiny: {{ layers: 1, hidden: 8, parameters: {p}, sequence: {s}, batch: 8, "
                "gpu_tflops: {t} }} }}\n"
                "workload: {{ kind: jobs, jobs: [{{ model: tiny, tp: {tp}, dp: 1, iterations: {n} }}] }}\n")
        text = self.mistakes(tiny.format(p=1, s=1, t=1000000, tp=1, n=5))
        self.assertIn("one.yaml:2:32: tiny: an iteration takes less than a nanosecond", text)
        # Integers of 64 bits have no room for the first two.
        for tflops, iterations in (("1e-9", 1), ("1e-6", 10), ("1e-3", 1000000000)):
            text = self.mistakes(tiny.format(p=6.7e9, s=4096, t=tflops, tp=8, n=iterations))
            self.assertIn("one.yaml:2:32: tiny: ", text)
            self.assertIn("a job may take 1e+09 s", text)
        slow = "fabric: { link_gbps: 0.001 }\n" + tiny.format(p=1e15, s=1, t=1000000, tp=8, n=1)
        self.assertIn("a job may take 1e+09 s", self.mistakes(slow.replace("dp: 1", "dp: 2")))
        self.written(CSV, "trace.csv")
        for more in ("kind: csv, file: trace.csv", "kind: trace1"):
            text = self.mistakes(tiny.format(p=6.7e9, s=4096, t="1e-9", tp=8, n=1).split("\n")[0] +
                                 f"\nworkload: {{ {more}, model: tiny, iterations: 9 }}\n")
            self.assertIn("a job may take 1e+09 s", text)
        # Months of each job, and a hundredth of the GPUs busy.
        text = self.mistakes("workload: { kind: trace1, model: llama-7b, jobs: 100, iterations: 1000000, "
                             "busy: 0.01 }\n")
        self.assertIn("busy: arrivals would spread over", text)

    def test_failures_are_named_and_must_leave_a_way(self):
        job = ONE_JOB + "fabric: { spines: 2 }\n"
        fails = "failures: [{ switch: spine0, at_s: 0.5, for_s: 1 }]\n"
        report = self.flow("run", self.written(job + fails), "--json", "out.json")
        self.assertGreater(json.loads(report.stdout)["groups_moved"] + json.loads(report.stdout)["groups_fell_back"], 0)
        series = json.loads((self.folder / "out.json").read_text())["timeline"]
        self.assertEqual(set(map(len, (series["gpus"], series["memory"], series["leaf_spine_links"]))),
                         {len(series["gpus"])})
        self.assertTrue(all(0 <= share <= 1.0001 for name in series if name != "interval_s" for share in series[name]))
        for failures, said in (("{ switch: spine9, at_s: 0, for_s: 1 }", "there is no switch 'spine9'"),
                               ("{ link: leaf0-spine0, at_s: 0, for_s: 1 }", "there is no link 'leaf0-spine0'"),
                               ("{ at_s: 0, for_s: 1 }", "either a switch or a link"),
                               ("{ switch: leaf0, at_s: 0, for_s: 1 }", "that would cut h0 off"),
                               ("{ switch: spine0, at_s: 1, for_s: 9 }, { switch: spine1, at_s: 0, for_s: 2 }",
                                "nothing would connect leaf0 and leaf1 any more")):
            self.assertIn(said, self.mistakes(job + f"failures: [{failures}]\n"))

    def test_traces_are_compressed_until_the_cluster_is_busy(self):
        self.written(CSV, "trace.csv")
        summary = json.loads(self.flow("run", self.written(TRACE)).stdout)
        self.assertEqual(summary["jobs_ended"], 3)
        large = json.loads(self.flow("run", "one.yaml", "--set", "workload.least_gpus=8", "--set",
                                     "workload.iterations=7", "--json", "out.json").stdout)
        self.assertEqual(large["jobs_ended"], 2)
        self.assertEqual({job["iterations"] for job in json.loads((self.folder / "out.json").read_text())["jobs"]}, {7})
        self.assertIn("one.yaml", self.mistakes(TRACE.replace("busy", "least_gpus: 99, busy")))
        self.assertLess(summary["arrival_factor"], 10)
        self.assertNotEqual(summary["arrival_factor"], 1)

    def test_mistakes_in_traces_have_line_and_field(self):
        self.written(CSV + "d,x,5,8\ne,5,6\nf,5,6,0.5\n", "trace.csv")
        text = self.mistakes(TRACE)
        self.assertIn("trace.csv:5:3: submission_time", text)
        self.assertIn("trace.csv:6:1: expected 4 fields, found 3", text)
        self.assertIn("trace.csv:7:7: num_gpu: expected a whole number", text)
        self.written(CSV + "d,2e9,5,8\n", "trace.csv")
        self.assertIn("trace.csv:5:3: submission_time: expected a number from 0 to 1000000000, found '2e9'",
                      self.mistakes(TRACE))
        self.written("job_id,duration\n", "trace.csv")
        self.assertIn("trace.csv:1:1: there is no column 'submission_time'", self.mistakes(TRACE))

    def test_jobs_of_a_trace_that_are_too_large_are_reported_with_all_else(self):
        self.written(CSV + "d,x,5,8\ne,300,5,4000\nf,1,2,400\ng,2,2,400\n", "trace.csv")
        text = self.mistakes(TRACE.replace("busy: 0.9", "busy: 99"))
        for said in ("one.yaml:1:64: busy: ", "trace.csv:5:3: submission_time",
                     "trace.csv:6:9: num_gpu: 4000 GPUs, and the cluster has 128",
                     "trace.csv:7:7: num_gpu: 400 GPUs", "trace.csv:8:7: num_gpu: 400 GPUs",
                     "5 mistakes"):
            self.assertIn(said, text)
        # Where the cluster is not known, nothing is said about its size, and a model that cannot be divided once.
        odd = "models: { odd: { layers: 1, hidden: 9, parameters: 9e9, sequence: 9 } }\n"
        text = self.mistakes(odd + "fabric: { pods: 0 }\n" + TRACE.replace("llama-7b", "odd"))
        self.assertIn("trace.csv:2:12: odd: 9 elements (hidden) cannot be divided by 8", text)
        self.assertEqual(text.count("elements (hidden)"), 4)  # on 8, 32, 400 and 4,000 GPUs
        self.assertNotIn("the cluster has", text)

    def test_mistakes_of_all_sections_come_at_once(self):
        text = self.mistakes("""fabrik: { pods: 2 }
memory: { units: 4, mb: 1 }
models:
  none: { layers: 1, hidden: 1, parameters: 1, sequence: 1, gpu_tflops: 0 }
  half: { layers: 1, hidden: 1, parameters: 1 }
failures: [{ switch: spine99, at_s: 0, for_s: 1 }, { switch: 5, at_s: 0 }]
workload:
  kind: jobs
  jobs:
  - { model: lama-7b }
  - { model: llama-7b, dp: 64 }
  - { model: half }
  - { model: none, tp: 3 }
  - { model: llama-7b, tp: -1, dp: 999 }
  - { model: llama-7b, pp: 5, iterations: 0 }
""")
        for line, said in ((1, "fabrik"), (2, "mb: there are units already"), (4, "none: a GPU that computes nothing"),
                           (5, "missing key 'sequence', as there is no base"),
                           (6, "there is no switch 'spine99'"), (6, "for_s"),
                           (10, "did you mean 'llama-7b'?"), (11, "512 GPUs, and the cluster has 128"),
                           (14, "tp: expected"), (15, "iterations: expected")):
            self.assertTrue(any(one.startswith(f"one.yaml:{line}:") and said in one for one in text.splitlines()),
                            (line, said, text))
        self.assertIn("11 mistakes", text)  # and that the second failure's switch is no name
        # A size that is not known is not compared with.
        text = self.mistakes("fabric: { pods: 0 }\nfailures: [{ switch: spine99, at_s: 0, for_s: 1 }]\n"
                             "workload: { kind: jobs, jobs: [{ model: llama-7b, dp: 64 }, { model: x }] }\n")
        self.assertIn("2 mistakes", text)

    def test_a_model_can_be_a_built_in_one_with_another_efficiency(self):
        one = "workload: { kind: jobs, jobs: [{ model: llama-7b, tp: 8, dp: 4, iterations: 5 }] }\n"
        built_in = json.loads(self.flow("run", self.written(one), "--set", "policy=ring").stdout)
        self.assertAlmostEqual(built_in["iteration_mean_s"] * 5, built_in["jct_mean_s"], places=6)
        mine = "models: { mine: { base: llama-7b, efficiency: 0.5 } }\n" + one.replace("llama-7b", "mine")
        slower = json.loads(self.flow("run", self.written(mine), "--set", "policy=ring").stdout)
        # What it computes takes twice as long: 6 FLOPs for each parameter and token.
        computing = 6 * 6.7e9 * 128 * 4096 / (32 * 312e12)
        self.assertAlmostEqual(slower["iteration_mean_s"] - built_in["iteration_mean_s"], computing, places=5)
        text = self.mistakes(mine.replace("base: llama-7b", "base: lama-7b"))
        self.assertIn("one.yaml:1:25: base: there is no built-in model 'lama-7b'; did you mean 'llama-7b'?", text)
        self.assertIn("1 mistake", text)

    def test_gpus_are_busy_until_the_last_arrival_and_until_the_last_end(self):
        jobs = "".join(f"{{ model: llama-7b, tp: 8, dp: {dp}, iterations: 1, arrival_s: {at} }}, "
                       for dp, at in ((4, 0), (8, 0), (1, 15)))
        summary, jobs = self.result(self.written(f"workload: {{ kind: jobs, jobs: [{jobs}] }}\n"))
        self.assertEqual([job["start_s"] for job in jobs], [0, 0, 15])
        ends = [job["arrival_s"] + job["jct_s"] for job in jobs]
        self.assertGreater(ends[0], 15)
        self.assertLess(ends[1], 15)
        self.assertAlmostEqual(summary["gpus_busy_until_last_arrival"], (32 * 15 + 64 * ends[1]) / (128 * 15))
        one, _ = self.result(self.written(ONE_JOB))
        self.assertIsNone(one["gpus_busy_until_last_arrival"])

    def test_explain_shows_volumes(self):
        text = self.flow("explain", self.written(ONE_JOB)).stdout
        self.assertIn("32 GPUs, TP 8, DP 4, PP 1", text)
        self.assertIn("AllReduces in 8 data groups, 1 of 3350 MB each", text)
        self.assertIn("did you mean 'llama-7b'?", self.flow("explain", "one.yaml", "llama-7", code=2).stderr)

    def test_sweep_runs_every_combination(self):
        file = self.written(ONE_JOB + "sweep: { policy: [ring, spatial], memory.units: [4, 8] }\n")
        self.flow("sweep", file, "--out", "out")
        runs = json.loads((self.folder / "out/sweep.json").read_text())
        self.assertEqual([run["set"]["policy"] for run in runs], ["ring", "ring", "spatial", "spatial"])
        self.assertIn("0 to do", self.flow("sweep", file, "--out", "out").stderr)

    def test_sections_of_a_sweep_are_run_one_after_the_other(self):
        file = self.written(ONE_JOB + "sweep:\n- { policy: [ring, spatial] }\n- { seed: [5], memory.units: [4, 8] }\n")
        self.flow("sweep", file, "--out", "out")
        runs = json.loads((self.folder / "out/sweep.json").read_text())
        self.assertEqual([run["set"] for run in runs],
                         [{"policy": "ring"}, {"policy": "spatial"}, {"seed": "5", "memory.units": "4"},
                          {"seed": "5", "memory.units": "8"}])
        self.assertIn("one.yaml:2:", self.mistakes(ONE_JOB + "sweep: []\n"))

    def result(self, file, *sets):
        """Summary and jobs."""
        more = [word for one in sets for word in ("--set", one)]
        self.flow("run", file, "--quiet", "--json", "out.json", *more)
        report = json.loads((self.folder / "out.json").read_text())
        self.assertTrue(report["summary"]["complete"])
        return report["summary"], report["jobs"]

    def test_trace_1_has_the_papers_sizes(self):
        sizes = {}
        for seed in ("1", "2"):
            _, jobs = self.result(PAPERS / "trace1.yaml", "workload.jobs=200", "workload.iterations=1", f"seed={seed}")
            sizes[seed] = [job["gpus"] for job in jobs]
            self.assertEqual([sizes[seed].count(gpus) for gpus in (8, 16, 32, 64, 128)], [60, 60, 50, 20, 10])
        self.assertNotEqual(sizes["1"], sizes["2"])

    def test_groups_of_a_job_that_are_known_to_be_of_one_take_turns(self):
        file = self.written("fabric: { pods: 2, leaves: 2, spines: 2, gpus_per_leaf: 16, cores_per_spine: 2, "
                            "paths: ecmp }\npolicy: temporal\nmemory: { units: 4 }\n"
                            "workload: { kind: jobs, jobs: [{ model: llama-7b, tp: 8, dp: 4, count: 2, "
                            "iterations: 3 }] }\n")
        with_stagger, _ = self.result(file)
        without, _ = self.result(file, "stagger=false")
        self.assertGreater(with_stagger["locks_refused"], 0)
        self.assertLess(with_stagger["locks_refused"], without["locks_refused"])
        self.assertLess(with_stagger["jct_mean_s"], without["jct_mean_s"])

    def test_what_admission_adds(self):
        small = ("workload={ kind: trace1, model: llama-7b, busy: 0.9, jobs: 40, iterations: 5 }", "fabric.pods=1")

        def run(policy, units, admission):
            return self.result(PAPERS / "policies.yaml", *small, f"policy={policy}", f"memory.units={units}",
                               f"admission={admission}")

        def partly(jobs):
            """Jobs of which a kind of groups has some trees: there are gpus / 8 tensor groups, and 8 data groups."""
            return [job for job in jobs if job["with_tree"] not in {0, 8, job["gpus"] // 8, job["gpus"] // 8 + 8}]

        for units in (4, 8):
            plain, jobs = run("spatial", units, "{}")
            self.assertEqual(plain["groups_came_back"], 0)
            self.assertGreater(len(partly(jobs)), 0)
            _, jobs = run("spatial", units, "{ together: true }")
            self.assertEqual(partly(jobs), [])
            again, _ = run("spatial", units, "{ ask_again: true }")
            self.assertGreater(again["groups_came_back"], 0)
        plain, _ = run("temporal", 8, "{}")
        ours, _ = run("temporal", 8, "{ local_share: 0.25, patience: 2 }")
        self.assertEqual(plain["lock_waits"], 0)
        self.assertGreater(ours["lock_waits"], 0)
        self.assertLess(ours["jct_mean_s"], plain["jct_mean_s"])

    def test_trace_1_is_in_order(self):
        orders = {}
        for paths, units in (("ecmp", 8), ("balanced", 4)):
            file = self.written(f"fabric: {{ pods: 4, leaves: 8, spines: 8, gpus_per_leaf: 8, paths: {paths} }}\n"
                                "workload: { kind: trace1, model: llama-7b, jobs: 60, iterations: 8, busy: 0.8 }\n")
            times = {}
            for policy in ("temporal", "spatial", "edge_disjoint", "ring"):
                done = self.flow("run", file, "--set", f"policy={policy}", "--set", f"memory.units={units}")
                times[policy] = json.loads(done.stdout)["jct_mean_s"]
            orders[paths] = times
        # The paper's order, where rings meet on links by chance.
        self.assertEqual(list(orders["ecmp"].values()), sorted(orders["ecmp"].values()))
        times = orders["balanced"]
        self.assertLessEqual(times["temporal"], times["spatial"])
        self.assertLessEqual(times["spatial"], times["ring"])
        self.assertLessEqual(times["edge_disjoint"], times["ring"])

    def test_wrong_words_are_named(self):
        self.assertIn("did you mean", self.flow("rnu", "x", code=2).stderr)
        self.assertIn("as seed=7, found 'policy'", self.flow("run", "x", "--set", "policy", code=2).stderr)
        self.assertIn("cannot read none.yaml", self.flow("run", "none.yaml", code=2).stderr)


if __name__ == "__main__":
    unittest.main()
