# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""Collectives that the switches of a lab add up: the groups over their tree, their ranks, and what they measured."""
import contextlib
import dataclasses
import json
import os
import subprocess
import time

from bench.report import charts, page
from tools.lab import experiment, namespaces, workload
from tools.lab.namespaces import LabError

# Of the switches: a rank's is this and its number, those between switches follow.
FIRST_QP = 100
# The PSNs between switches wrap early.
_UP_PSN, _DOWN_PSN = 0xfffff0, 77
RTO_US = 200_000


class Tree:
    """The switches of a configuration between its hosts: from the one that is closest to all of them, the shortest
    ways down."""

    def __init__(self, switches, hosts):
        """@param hosts  (switch, port) of each rank, in the order of ranks"""
        self._addresses = {(switch["name"], entry["port"]): entry["address"].split("/")[0]
                           for switch in switches for entry in switch.get("addresses", ())}
        self._hosts = hosts
        ways = {switch["name"]: {port["name"]: port["peer"].split("/") for port in switch["ports"]
                                 if port["type"] == "link"} for switch in switches}
        leaves = {switch for switch, _ in hosts}
        trees = {name: self._below(ways, name) for name in ways}
        far = {name: max(found.get(leaf, (len(ways), None))[0] for leaf in leaves) for name, found in trees.items()}
        self.root = min(far, key=far.get)
        self._parents = {}  # switch -> (own port, parent, the parent's port)
        for leaf in sorted(leaves):
            at = leaf
            while at != self.root and at not in self._parents:
                self._parents[at] = trees[self.root][at][1]
                at = self._parents[at][1]
        self.switches = [self.root, *self._parents]

    @staticmethod
    def _below(ways, root):
        """switch -> (hops, (own port, parent, the parent's port)) of all that can be reached."""
        found, queue = {root: (0, None)}, [root]
        for at in queue:
            for port, (peer, peer_port) in ways[at].items():
                if peer not in found:
                    found[peer] = (found[at][0] + 1, (peer_port, at, port))
                    queue.append(peer)
        return found

    def _ranks_below(self, switch):
        own = [rank for rank, (at, _) in enumerate(self._hosts) if at == switch]
        return own + [rank for child, (_, parent, _) in self._parents.items() if parent == switch
                      for rank in self._ranks_below(child)]

    def _edge_qps(self, child, first):
        number = first + len(self._hosts) + 2 * list(self._parents).index(child)
        return number, number + 1  # the child's and the parent's

    def group(self, switch, ranks, first_qp=FIRST_QP, **options):
        """What `weftctl inc create` takes for a switch. ranks: what each weft-rnic says of itself."""
        endpoints = []
        for rank, (at, port) in enumerate(self._hosts):
            if at == switch:
                said = ranks[rank]
                endpoints.append({"address": self._addresses[at, port], "qp": first_qp + rank,
                                  "peer": said["address"], "peer_qp": said["qp"], "rank": rank,
                                  "first_rx": said["first_psn"], "first_tx": said["expects_psn"],
                                  "loss_recovery": said["loss_recovery"],
                                  **{key: said[key] for key in ("vaddr", "rkey") if key in said}})
        for child, (port, parent, parent_port) in self._parents.items():
            own, above = self._edge_qps(child, first_qp)
            low, high = self._addresses[child, port], self._addresses[parent, parent_port]
            if child == switch:
                endpoints.append({"address": low, "qp": own, "peer": high, "peer_qp": above, "parent": True,
                                  "first_rx": _UP_PSN, "first_tx": _DOWN_PSN})
            elif parent == switch:
                endpoints.append({"address": high, "qp": above, "peer": low, "peer_qp": own,
                                  "ranks": self._ranks_below(child), "first_rx": _DOWN_PSN, "first_tx": _UP_PSN})
        return {"ranks": len(self._hosts), "mtu": ranks[0]["mtu"], **options, "endpoints": endpoints}


@dataclasses.dataclass(frozen=True)
class Run:
    """Collectives of one kind and size."""

    operation: str
    bytes: int  # 0: a barrier
    collectives: int
    seconds: float
    retransmitted: int  # by ranks
    resent: int  # by switches

    @property
    def each_s(self):
        return self.seconds / max(1, self.collectives)

    @property
    def mbps(self):
        return 8e-6 * self.bytes / self.each_s if self.each_s else 0.0


@dataclasses.dataclass(frozen=True)
class Result:
    variant: object
    runs: list
    memory_kib: int  # of the group at the root
    drops: int
    wall_s: float


class Bench(experiment.Bench):
    """Hosts that are ranks."""

    def prepare(self):
        self.make_hosts()

    def measure(self, variant):
        started = time.monotonic()
        with contextlib.ExitStack() as stack:
            switch = self.start_switch(variant, experiment.MIN_GUARD_US)
            stack.callback(namespaces.stop, switch)
            with open(self._site.path("weft.yaml"), encoding="utf-8") as file:
                tree = Tree(json.load(file)["switches"], [tuple(host.port.split("/")) for host in self._lab.hosts])
            runs, memory = [], 0
            work = self._lab.workload
            cases = [(operation, size) for operation in work.operations
                     for size in ([0] if operation == "barrier" else work.sizes)]
            for number, (operation, size) in enumerate(cases, 1):
                run, memory = self._run(tree, number, operation, size, variant)
                runs.append(run)
            drops = sum(row["packets"] for row in self._show("drops")
                        if row["severity"] != "info" or row["reason"] == experiment.LOST)
            return Result(variant, runs, memory // 1024, drops, time.monotonic() - started)

    def _run(self, tree, number, operation, size, variant):
        work = self._lab.workload
        ranks = [self._start_rank(rank, number, operation, size, variant) for rank in range(len(self._lab.hosts))]
        try:
            said = [self._line(rank, process) for rank, process in enumerate(ranks)]
            options = {"id": number, "window": work.window, "message_packets": work.message_packets, **variant.group}
            for switch in tree.switches:
                self._weftctl("inc", "create", "group=" + json.dumps(tree.group(switch, said, **options)), "--switch",
                              switch)
            for rank, process in enumerate(ranks):
                process.stdin.write(json.dumps({"qp": FIRST_QP + rank}) + "\n")
                process.stdin.flush()
            results = [self._line(rank, process) for rank, process in enumerate(ranks)]
            rows = {switch: json.loads(self._weftctl("--json", "inc", "show", "groups", "--switch", switch))[0]
                    for switch in tree.switches}
            for switch in tree.switches:
                self._weftctl("inc", "remove", str(number), "--switch", switch)
        finally:
            for process in ranks:
                process.stdin.close()
                namespaces.stop(process)
        for rank, result in enumerate(results):
            if result["error"]:
                why = "; ".join(row["failure"] for row in rows.values() if row["failure"])
                raise LabError(f"rank {rank}: {result['error']}" + (f" ({why})" if why else ""))
        # A scattered one is an invocation for each rank, its root.
        parts = len(ranks) if operation in workload.SCATTERED else 1
        return (Run(operation, size, results[0]["collectives"] // parts, max(result["seconds"] for result in results),
                    sum(result["qp"]["retransmitted"] for result in results),
                    sum(row["resent"] for row in rows.values())), rows[tree.root]["bytes"])

    def _start_rank(self, rank, number, operation, size, variant):
        host, work, nic = self._lab.hosts[rank], self._lab.workload, variant.nic
        words = [self.program("weft-rnic"), "inc", host.gateway, "--address", str(host.address.ip), "--rank", str(rank),
                 "--ranks", str(len(self._lab.hosts)), "--group", str(number), "--primitive", operation,
                 *(["--size", str(size)] if size else []), "--iters", str(work.times),
                 "--group-window", str(work.window),
                 "--message-packets", str(work.message_packets), "--mtu", str(nic.mtu),
                 "--loss-recovery", nic.transport, "--rto-us", str(self._lab.timing.rto_us or RTO_US), "--timeout",
                 str(work.limit_s)]
        return self._site.spawn(self._site.namespace(host.name), words, f"rank{rank}.log", stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, text=True)

    def _line(self, rank, process):
        line = process.stdout.readline()
        if line:
            return json.loads(line)
        with open(self._site.path(f"rank{rank}.log"), encoding="utf-8", errors="replace") as file:
            raise LabError(f"rank {rank}: weft-rnic ended with {process.wait()}\n{file.read().strip()[-1000:]}")

    def _weftctl(self, *words):
        done = subprocess.run([self.program("weftctl"), "--socket", self._site.socket, *words], capture_output=True,
                              text=True, timeout=60, check=False)
        if done.returncode != 0:
            raise LabError(f"weftctl {' '.join(words[:3])}: {done.stderr.strip()}")
        return done.stdout


# --- what was found --------------------------------------------------------------------------------------------------


def size_text(count):
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if count >= unit and count % unit == 0:
            return f"{count // unit} {name}"
    return f"{count} B"


HEADER = ("", "collective", "vector", "us each", "Mbit/s", "ranks sent again", "switches sent again", "drops", "KiB")


def rows(results):
    return [(result.variant.name, run.operation, size_text(run.bytes) if run.bytes else "", f"{1e6 * run.each_s:.0f}",
             f"{run.mbps:.0f}" if run.bytes else "", run.retransmitted, run.resent, result.drops, result.memory_kib)
            for result in results for run in result.runs]


def text_table(results):
    table = [HEADER, *rows(results)]
    widths = [max(len(str(row[column])) for row in table) for column in range(len(HEADER))]
    lines = ["  ".join(str(cell).rjust(width) if column else str(cell).ljust(width)
                       for column, (cell, width) in enumerate(zip(row, widths))).rstrip() for row in table]
    lines.insert(1, "-" * max(map(len, lines)))
    return "\n" + "\n".join(lines)


def html(lab, results, origin):
    made = page.Page(lab.title)
    if lab.about:
        made.paragraph(lab.about)
    work = lab.workload
    made.paragraph(f"{len(lab.hosts)} ranks that are weft-rnic, {', '.join(work.operations)} of vectors of 32-bit "
                   f"integers, {work.times} of each size, {work.window} messages of {work.message_packets} packets "
                   "under way. Every element of every result was compared. Ranks and switches share the CPUs of this "
                   f"machine ({os.cpu_count()}), so the numbers tell variants apart, not switches.")
    for operation in work.operations:
        lines = [charts.Line(result.variant.name, [(run.bytes, run.mbps) for run in result.runs
                                                   if run.operation == operation and run.bytes], dots=True)
                 for result in results]
        if any(line.points for line in lines):
            made.heading(f"{operation}: throughput by size")
            made.figure(charts.line_chart(lines, "bytes of the vector", "Mbit/s", x_log=True, y_from_zero=True,
                                          label=f"{operation}: throughput by size"),
                        "Bytes of the vector by the time that it takes.")
    made.table(HEADER, rows(results))
    made.paragraph("Of reducescatter and allgather, which are a Reduce or a Broadcast for each rank, the vector is all "
                   "fragments together. drops: packets that a switch dropped, for whatever reason, in all runs of the "
                   "variant. KiB: what the group takes of the root's memory.")
    made.paragraph(origin.text())
    return made.html()


def json_text(lab, results, origin):
    return json.dumps({"lab": lab.name, **dataclasses.asdict(origin), "variants": [
        {"name": result.variant.name, "memory_kib": result.memory_kib, "drops": result.drops,
         "runs": [{**dataclasses.asdict(run), "mbps": run.mbps} for run in result.runs]} for result in results]},
        indent=1) + "\n"
