# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""Runs of dcqcn_*.yaml with other settings, and their results in a file that grows run by run: a series that is stopped
goes on where it was."""
import argparse
import datetime
import json
import os
import re
import subprocess
import sys
import tempfile

import yaml

import metric

HERE = os.path.dirname(os.path.realpath(__file__))
ROOT = os.path.realpath(os.path.join(HERE, "../../.."))
WEFT_SIM = os.path.join(ROOT, "build/bin/weft-sim")
LOADS = (30, 50, 70)
WAN_NS = 500_000  # the link between the data centres in dcqcn_*.yaml
# What the results of weft-sim depend on.
SOURCES = ("switch", "nic", "collectives", "tools/sim", "CMakeLists.txt", ":(exclude)*.md")

# Where the authors' switches and wires do otherwise than real ones: each is a line of their code (Themis @d941dc1,
# NS3/simulation). All of their runs have them.
FABRIC = {
    "framing": (["topology.overhead_bytes=-10", "topology.mpu_bytes=48"],
                "1048 bytes on the wire for 1000: rdma-hw.cc:332; here an ACK takes 52, theirs 48"),
    "ecn": (["switch.ecn=[{gbps: 100, kmin_kb: 400, kmax_kb: 1600}, {gbps: 400, kmin_kb: 800, kmax_kb: 6400}, "
             "{gbps: 1600, kmin_kb: 1600, kmax_kb: 25600}]"], "KMIN_MAP and KMAX_MAP of config.txt"),
    "profiles": (["switch.buffer_profiles=[{gbps: 100, dynamic_th: -3, size: 4096, xoff: 37500}, "
                  "{gbps: 400, dynamic_th: -1, size: 4096, xoff: 150000}, "
                  "{gbps: 1600, dynamic_th: 0, size: 4096, xoff: 300000000}]"],
                 "PFC alpha by speed, reserve, headroom of 3 * rate * delay: third.cc:868-895"),
    "buffer": (["switch.buffer_mb=33.554432"], "32 MiB: config.txt"),
}


def fabric():
    """What --set gets for all of FABRIC."""
    return [one for sets, _ in FABRIC.values() for one in sets]


class Results:
    """One line of JSON a run, by `load variant seed`."""

    def __init__(self, name):
        self.path = os.path.join(HERE, name)

    def load(self):
        if not os.path.exists(self.path):
            return {}
        with open(self.path, encoding="utf-8") as text:
            return json.load(text)

    def add(self, key, figures):
        results = self.load()  # others may have added theirs
        results[key] = figures
        with open(self.path + ".new", "w", encoding="utf-8") as text:
            lines = [f"  {json.dumps(k)}: {json.dumps(results[k])}" for k in sorted(results)]
            text.write("{\n" + ",\n".join(lines) + "\n}\n")
        os.replace(self.path + ".new", self.path)

    def of_variant(self, load, variant):
        """By seed."""
        found = {}
        for key, value in self.load().items():
            at, name, seed = key.split()
            if int(at) == load and name == variant:
                found[int(seed)] = value
        return dict(sorted(found.items()))

    def run_missing(self, program, jobs, measure=None, again=False):
        """`jobs`: (load, variant, seed, sets). `measure`: as run(), which it is without. `again`: all of them."""
        for load, variant, seed, sets in jobs:
            key = f"{load} {variant} {seed}"
            if key in self.load() and not again:
                continue
            figures = (measure or run)(program, load, seed, sets)
            self.add(key, figures)
            means = {flows: figures[flows]["mean"] for flows in ("within", "between", "all")}
            print(key, means, f"{figures['cpu_s']} s", flush=True)


def stamp():
    """Commit of the sources and today's date, for results. Whoever has changed the sources since gets none."""
    def git(*arguments):
        done = subprocess.run(["git", "-C", ROOT, *arguments], check=True, capture_output=True, text=True)
        return done.stdout.strip()
    if changed := git("status", "--porcelain", "--", *SOURCES):
        sys.exit("the sources differ from the last commit, results would have none:\n" + changed)
    return {"commit": git("log", "-1", "--format=%h", "--", *SOURCES),
            "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat()}


def page_with_tables(text, lines_of):
    """A page whose tables are made again. Each stands between two comments, the first with its name, of which
    lines_of(name) makes lines."""
    def replaced(match):
        return "\n".join([match[1], "", *lines_of(match[2]), "", "<!-- end -->"])
    return re.sub(r"(<!-- table: (\S+) -->)\n.*?<!-- end -->", replaced, text, flags=re.DOTALL)


def result_of(program, experiment, seed, sets):
    """All that weft-sim tells about a run of an experiment of this folder."""
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "out.json")
        command = [program, "run", os.path.join(HERE, experiment), "--json", out, "--seed", str(seed)]
        for one in sets:
            command += ["--set", one]
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr}")
        with open(out, encoding="utf-8") as text:
            return json.load(text)


def parser_of(description, variants, seeds=None, loads=None):
    """The command line of a program that runs variants; with the option for more seeds, or for loads, where there is a
    default for them."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weft-sim", default=WEFT_SIM)
    if seeds:
        parser.add_argument("--seeds", type=int, default=seeds)
    if loads:
        parser.add_argument("--loads", type=int, nargs="+", default=list(loads), choices=LOADS)
    parser.add_argument("--variants", nargs="+", default=list(variants), choices=list(variants))
    parser.add_argument("--table", action="store_true")
    return parser


def table_of(columns, rows):
    """Lines of a table, of cells that are text."""
    return ["| " + " | ".join(columns) + " |", "|---" * len(columns) + "|",
            *("| " + " | ".join(row) + " |" for row in rows)]


def write_page(name, lines):
    with open(os.path.join(HERE, name), "w", encoding="utf-8") as text:
        text.write("\n".join(lines).rstrip() + "\n")


def add_html(parser):
    """The option of programs whose tables can be a page with charts as well: its value is for write_html()."""
    parser.add_argument("--html", metavar="OUT", help="also writes a page with charts")


def write_html(path, html):
    """`html`: makes the page, when there is a path."""
    if path:
        with open(path, "w", encoding="utf-8") as text:
            text.write(html())


# Who can be told to pause, by the beginning of a name.
KINDS = {"hosts": "h", "ToRs": "tor", "leaves": "leaf", "edge switches": "esw"}


def kind_of(name):
    return next(kind for kind, begins in KINDS.items() if name.startswith(begins))


def links_of(load, wan_ns):
    """What --set gets for the links of an experiment, the one between the data centres being so long."""
    with open(os.path.join(HERE, f"dcqcn_{load}.yaml"), encoding="utf-8") as text:
        found = yaml.safe_load(text)["topology"]["links"]
    for link in found:
        if "delay_ns" in link:
            link["delay_ns"] = wan_ns
    return "topology.links=" + json.dumps(found)


def run(program, load, seed, sets, wan_ns=WAN_NS):
    """`wan_ns`: how long the link between the data centres is."""
    if wan_ns != WAN_NS:
        sets = [*sets, links_of(load, wan_ns)]
    result = result_of(program, f"dcqcn_{load}.yaml", seed, sets)
    summary = result["summary"]
    figures = metric.of_result(result, wan_ns)
    figures["pfc_pauses"] = summary["pfc_pauses"]
    figures["pfc_paused_ms"] = round(summary["pfc_paused_ms"], 4)
    figures["paused"] = {kind: sum(one["pauses"] for one in result["pauses"] if kind_of(one["told"]) == kind)
                         for kind in KINDS}
    figures["held_by_waits"] = metric.held_of_result(result, wan_ns)
    figures["under_way"] = metric.most_under_way(result)
    figures["drops"] = summary["drops"]
    figures["nacks"] = summary["nacks_sent"]
    figures["cpu_s"] = round(summary["cpu_s"])
    for stage in ("pnp", "trp", "bicc"):
        if stage in summary.get("stages", {}):
            figures[stage] = summary["stages"][stage]
    return figures
