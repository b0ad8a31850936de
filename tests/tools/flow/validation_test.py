# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""weft-flow beside weft-sim, which sends every packet: an AllReduce takes as long to 5 %."""
import json
import os
import subprocess
import tempfile
import unittest

BIN = os.environ["WEFT_BIN"]
BYTES = 8_000_000
# A packet of 1,024 bytes has 82 around it on the wire; ACKs that take their share of the other direction are few.
MTU, AROUND = 1024, 82


def run(program, text):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "case.yaml")
        with open(path, "w") as file:
            file.write(text)
        done = subprocess.run([os.path.join(BIN, program), "run", path, "--quiet"], capture_output=True, text=True,
                              timeout=240, check=True)
        return json.loads(done.stdout)


def by_packets(leaves, spines, hosts, workload, lb="ecmp", transport="gbn"):
    return run("weft-sim", f"""
topology: {{ kind: leaf_spine, leaves: {leaves}, spines: {spines}, hosts_per_leaf: {hosts}, link_gbps: 100,
             delay_ns: 1000 }}
switch: {{ lb: {lb}, pfc: true, ecn: disabled }}
nic: {{ transport: {transport}, mtu: {MTU}, window: 1024, rto_us: 1000, ack_every: 16, cc: {{ kind: none }} }}
workload: {{ {workload} }}
""")["completion_ms"]


def by_flows(leaves, spines, hosts, groups, policy, more=""):
    """A training job that does nothing but an AllReduce of its gradients, in so many groups."""
    summary = run("weft-flow", f"""
fabric: {{ pods: 1, leaves: {leaves}, spines: {max(spines, 1)}, gpus_per_leaf: {hosts}, link_gbps: 100,
           payload_ratio: {MTU / (MTU + AROUND)}, hop_ns: 1000 }}
policy: {policy}
models: {{ one: {{ layers: 1, hidden: {groups}, parameters: {BYTES // 4 * groups}, sequence: 1, batch: {leaves * hosts},
                  activation_bytes: 1, gradient_bytes: 4, gpu_tflops: 1000000 }} }}
workload: {{ kind: jobs, jobs: [{{ model: one, tp: {groups}, dp: {leaves * hosts // groups} }}] }}
{more}
""")
    return summary["jct_mean_s"] * 1000


def in_network(groups, mode="iii", more=""):
    return (f"kind: inc, operation: allreduce, bytes: {BYTES}, window: 16, message_packets: 16, groups: {groups}, "
            f"group: {{ mode: {mode} }}{more}")


class Validation(unittest.TestCase):
    def compare(self, name, packets, flows):
        print(f"{name}: {packets:.4f} ms by packets, {flows:.4f} ms by flows, {flows / packets - 1:+.1%}")
        self.assertAlmostEqual(flows / packets, 1, delta=0.05, msg=name)

    def test_rings(self):
        for leaves, spines, hosts, groups in ((1, 0, 8, 1), (2, 4, 4, 1)):
            self.compare(f"ring, {leaves} x {hosts}, {groups} groups",
                         by_packets(leaves, spines, hosts,
                                    f"kind: ring_allreduce, bytes: {BYTES}, groups: {groups}"),
                         by_flows(leaves, spines, hosts, groups, "ring"))

    def test_two_rings_whose_packets_are_spread(self):
        # weft-flow balances ways. By ECMP of weft-sim flows meet on uplinks, and take twice as long.
        workload = f"kind: ring_allreduce, bytes: {BYTES}, groups: 2"
        flows = by_flows(4, 4, 4, 2, "ring")
        self.compare("two rings, 4 x 4", by_packets(4, 4, 4, workload, lb="adaptive", transport="nic_sr"), flows)
        self.assertGreater(by_packets(4, 4, 4, workload), 1.5 * flows)

    def test_rings_that_share_an_uplink(self):
        for leaves, spines, hosts, groups in ((2, 1, 4, 2), (4, 1, 4, 2), (4, 1, 4, 4)):
            self.compare(f"{groups} rings on one uplink, {leaves} x {hosts}",
                         by_packets(leaves, spines, hosts, f"kind: ring_allreduce, bytes: {BYTES}, groups: {groups}"),
                         by_flows(leaves, spines, hosts, groups, "ring"))

    def test_trees_that_share_an_uplink(self):
        for mode in ("ii", "iii"):
            self.compare(f"two trees on one uplink, mode {mode}, 4 x 4",
                         by_packets(4, 1, 4, in_network(2, mode)), by_flows(4, 1, 4, 2, "spatial"))

    def test_a_tree_and_a_ring_that_share_an_uplink(self):
        # Packets: the two flows of a ring that cross the spine never end. Flows: of two groups one has a tree, and the
        # ring of the other has as much left when the tree is done as 2 (n - 1) / n of the vector is more than the
        # whole. Tensor groups, which are pairs, leave them the memory.
        ring = ", background: [{ from: 3, to: 4 }, { from: 7, to: 0 }]"
        alone_ms = BYTES / (12.5e6 * MTU / (MTU + AROUND))
        both = by_flows(2, 1, 8, 2, "spatial", "memory: { units: 1 }\nadmission: { least_hosts: 3 }")
        self.compare("a tree beside a ring, 2 x 4", by_packets(2, 1, 4, in_network(1, more=ring)),
                     both - (2 * 7 / 8 - 1) * alone_ms)

    def test_mode_ii(self):
        self.compare("tree, mode ii, 2 x 4", by_packets(2, 4, 4, in_network(1, "ii")), by_flows(2, 4, 4, 1, "spatial"))

    def test_trees(self):
        for leaves, spines, hosts, groups in ((1, 0, 8, 1), (2, 4, 4, 1), (4, 4, 4, 2), (8, 8, 8, 1)):
            self.compare(f"tree, {leaves} x {hosts}, {groups} groups",
                         by_packets(leaves, spines, hosts, in_network(groups)),
                         by_flows(leaves, spines, hosts, groups, "spatial"))


if __name__ == "__main__":
    unittest.main()
