#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""Sends the gradients of one layer of Table 33's models packet by packet and flow by flow: 64 ranks in eight servers of
8, in data groups of one rank of each server, all at the same time, in rings and in the network.

Usage: layers.py [--bin FOLDER] [--spines N] [MODEL...]
  --spines  1, 2, 4 or 8, which is the default; with fewer, groups share uplinks
Prints a table."""
import argparse
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.realpath(__file__))
ROOT = os.path.realpath(os.path.join(HERE, "../../../.."))
# Table 33: parameters, layers, ranks that share a layer; 2 bytes of gradient for each parameter.
MODELS = {"gpt3-175b": (175e9, 96, 4), "gpt3-13b": (13e9, 40, 8), "llama-65b": (65e9, 80, 8),
          "llama-7b": (6.7e9, 32, 8)}
SERVERS = GPUS = 8
MTU, AROUND = 4096, 82


def run(program, folder, text):
    path = os.path.join(folder, "experiment.yaml")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    done = subprocess.run([program, "run", path, "--quiet"], stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def packets(program, folder, size, tree, spines):
    """Milliseconds by weft-sim. Rings spray, as no hash gives each group a spine of its own, and RNICs do not take
    overtaking for loss; trees take turns over the spines."""
    workload = (f"kind: inc, operation: allreduce, bytes: {size}, window: 16, message_packets: 16, groups: {GPUS}, "
                "group: { mode: iii }" if tree else f"kind: ring_allreduce, bytes: {size}, groups: {GPUS}")
    return run(program, folder, f"""
topology: {{ kind: leaf_spine, leaves: {SERVERS}, spines: {spines}, hosts_per_leaf: {GPUS}, link_gbps: 100,
             delay_ns: 1000 }}
switch: {{ lb: {"ecmp" if tree else "adaptive"}, pfc: true, ecn: disabled }}
nic: {{ transport: {"gbn" if tree else "ideal"}, mtu: {MTU}, window: 1024, rto_us: 1000, ack_every: 16,
        cc: {{ kind: none }} }}
workload: {{ {workload} }}
time_limit_ms: 10000
""")["completion_ms"]


def flows(program, folder, size, tree, spines):
    """Milliseconds by weft-flow, of a job that does nothing else."""
    return 1000 * run(program, folder, f"""
fabric: {{ pods: 1, leaves: {SERVERS}, spines: {spines}, gpus_per_leaf: {GPUS}, link_gbps: 100,
           payload_ratio: {MTU / (MTU + AROUND)}, hop_ns: 1000 }}
policy: {"spatial" if tree else "ring"}
memory: {{ units: {2 * GPUS} }}
models: {{ layer: {{ layers: 1, hidden: {GPUS}, parameters: {size // 4 * GPUS}, sequence: 1, batch: {SERVERS * GPUS},
                    activation_bytes: 1, gradient_bytes: 4, gpu_tflops: 1000000 }} }}
workload: {{ kind: jobs, jobs: [{{ model: layer, tp: {GPUS}, dp: {SERVERS} }}] }}
""")["jct_mean_s"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default=os.path.join(ROOT, "build/bin"))
    parser.add_argument("--spines", type=int, choices=(1, 2, 4, 8), default=GPUS)
    parser.add_argument("models", nargs="*", metavar="MODEL", help=", ".join(MODELS))
    options = parser.parse_args()
    for model in options.models:
        if model not in MODELS:
            parser.error(f"there is no model {model}; there are: {', '.join(MODELS)}")
    print("| model | MB | in | by packets, ms | by flows, ms | |\n|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for model in options.models or MODELS:
            parameters, layers, share = MODELS[model]
            size = round(parameters / layers / share * 2 / 1024) * 1024
            for tree in (False, True):
                times = [measure(os.path.join(options.bin, program), folder, size, tree, options.spines)
                         for measure, program in ((packets, "weft-sim"), (flows, "weft-flow"))]
                print(f"| {model} | {size / 1e6:.0f} | {'trees' if tree else 'rings'} | {times[0]:.2f} | "
                      f"{times[1]:.2f} | {times[1] / times[0] - 1:+.1%} |", flush=True)


if __name__ == "__main__":
    sys.exit(main())
