# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""What the tests of weft-lab share: the tree, files of labs, and measurements that nobody had to make."""
import os
import pathlib
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT))

from tools.lab import experiment, fabric, lab_file  # noqa: E402

BIN = os.environ.get("WEFT_BIN") or str(ROOT / "build/bin")
WEFT_LAB = str(ROOT / "tools/lab/weft-lab")

SMALL = """\
name: NAME
topology:
  kind: leaf_spine
  spines: 2
  hosts_per_leaf: 1
  link_gbps: 0.02
  delay_ns: [100000, 2000000]
nic: { transport: nic_sr, mtu: 1024, window: 64, cc: { kind: dcqcn, rate_gbps: 0.02 } }
workload: { kind: ring, bytes: 1000000, limit_s: 30 }
timing: { probes: 20, rto_us: 1000000 }
variants:
  - { name: ecmp, lb: { policy: ecmp } }
  - { name: random, lb: { policy: random } }
"""

INC = f"""\
name: NAME
topology:
  kind: config
  file: {ROOT}/conf/inc-tree.yaml
  hosts:
    - {{ name: h1, port: leaf1/h1, address: 10.0.1.2/24, gateway: 10.0.1.1 }}
    - {{ name: h2, port: leaf1/h2, address: 10.0.2.2/24, gateway: 10.0.2.1 }}
    - {{ name: h3, port: leaf2/h3, address: 10.0.3.2/24, gateway: 10.0.3.1 }}
    - {{ name: h4, port: leaf2/h4, address: 10.0.4.2/24, gateway: 10.0.4.1 }}
nic: {{ transport: gbn, mtu: 1024 }}
workload: {{ kind: inc, operation: allreduce, sizes: [4, 65536], times: 3, limit_s: 40 }}
variants:
  - {{ name: i, group: {{ mode: i }} }}
  - {{ name: ii, group: {{ mode: ii }} }}
  - {{ name: lossy, group: {{ mode: iii, timeout: 9 }}, loss: 0.02 }}
# Longer than the machine is away: nothing is sent again but what was lost.
timing: {{ rto_us: 1000000 }}
"""


MPI = INC[:INC.index("nic:")] + f"""\
workload: {{ kind: mpi, manager: {ROOT}/conf/inc-manager/inc-tree.yaml, program: {ROOT}/conf/labs/allreduce.c,
             arguments: [512, 3] }}
variants:
  - {{ name: before, mpi: {{ coll_weft_use: 0 }} }}
  - {{ name: switches, mpi: {{ coll_weft_use: 2 }}, ranks_per_host: 2 }}
"""


def written(text, folder):
    """The path of a file with this text."""
    path = os.path.join(folder, "lab.yaml")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def load(text):
    """The lab of a text."""
    with tempfile.TemporaryDirectory() as folder:
        return lab_file.load(written(text, folder))


def qp(**counters):
    return {"request_packets": 1000, "retransmitted": 0, "naks": 0, "timeouts": 0, "spurious": 0, "server_naks_sent": 0,
            **counters}


def result(lab, number, flows, ports=(), filter_rows=(), drops=()):
    """Of a variant. flows: (seconds, samples, counters of the queue pair) for each flow."""
    found = []
    for flow, (seconds, samples, counters) in zip(lab.workload.flows, flows):
        summary = {"messages": 100, "bytes": 10_000, "seconds": seconds, "qps": [qp(**counters)]}
        found.append(experiment.FlowResult(flow, summary, samples))
    return experiment.VariantResult(lab.variants[number], found, list(ports), list(filter_rows), list(drops),
                                    {"leaf1": ["s1", "s2"]}, fabric.sending_racks(lab), 2.0)
