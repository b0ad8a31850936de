# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""Reads the file of a lab. README.md lists its keys; load() says all that is wrong with a file at once.

What goes to weft-switch as it is (`lb`, `nack_filter`, `lb_tag`, `reorder`, a configuration with its switches) stays a
node of the file: weft-switch judges it (fabric.check), and its judgement is told at the node's place.
"""
import dataclasses
import ipaddress
import os

import yaml

from tools.lab import long_links
from tools.lab.emitter import Fields
from tools.lab.reader import Reader
from tools.lab.workload import OPERATIONS, SCATTERED, Collectives, Flow, Mpi, Workload

NAME = r"[a-z][a-z0-9]{0,11}"
_NAME_MEANING = "up to 12 lower-case letters and digits"
TRANSPORTS = ("gbn", "nic_sr", "irn")
PRESETS = ("hpcc_mix", "hpcc_run", "conweave", "dcqcn_paper", "longhaul", "connectx")
# Of each kind of congestion control, as weft-rnic's --cc-constant has them; it knows the ranges.
CONSTANTS = {
    "none": (),
    "dcqcn": ("t_i_us", "t_d_us", "t_alpha_us", "cnp_interval_us", "r_ai_mbps", "r_hai_mbps", "min_mbps", "g",
              "near_qcn", "near_t_us", "near_b_kb", "near_r_ai_mbps", "near_r_hai_mbps", "near_min_mbps"),
    "timely": ("t_low_us", "t_high_us", "min_rtt_us", "ewma", "beta", "delta_mbps", "hai_events", "hai_factor",
               "min_mbps", "above_base", "near_echo"),
    "swift": ("base_target_us", "ai", "beta", "max_mdf", "fs_range_us", "fs_min_cwnd", "fs_max_cwnd", "min_cwnd",
              "reset_after", "near_target_us"),
    "hpcc": ("eta", "max_stage", "base_rtt_us", "r_ai_mbps", "min_mbps", "near_rtt_us", "windowless"),
}
MTUS = ("256", "512", "1024", "2048", "4096")
MAX_HOSTS = 32
_OF_LEAF_SPINE = ("lb_tag", "reorder")  # stages whose options the lab completes, because it knows the fabric


@dataclasses.dataclass(frozen=True)
class Host:
    name: str
    port: str  # SWITCH/PORT
    address: ipaddress.IPv4Interface | ipaddress.IPv6Interface  # its server's; senders take the next ones
    gateway: str | None

    @property
    def rack(self):
        """The switch to which it is attached."""
        return self.port.split("/")[0]

    def sender(self, number=1):
        """The address of the host's client: 1 sends the workload, 2 measures."""
        return str(self.address.ip + number)

    def addresses(self):
        length = self.address.network.prefixlen
        return [f"{self.address.ip + number}/{length}" for number in range(3)]


@dataclasses.dataclass(frozen=True)
class Nic:
    kind: str = "weft_rnic"  # or soft_roce
    transport: str = "nic_sr"
    renack: str = "lazy"
    mtu: int = 1024
    window: int = 256
    window_below_bdp: bool = False
    reorder_window: int = 512
    cc: str = "none"
    preset: str = "hpcc_mix"
    rate_gbps: float | None = None
    constants: dict = dataclasses.field(default_factory=dict)  # of congestion control, as texts
    nack_is_cnp: bool = False
    cm: bool = False  # of soft_roce: perftest connects by CM, which switches read


@dataclasses.dataclass(frozen=True)
class Timing:
    probes: int = 300
    guard_us: int | None = None
    rto_us: int | None = None


@dataclasses.dataclass(frozen=True)
class Variant:
    name: str
    lb: yaml.Node | None
    nack_filter: yaml.Node | None
    loss: float  # of RoCE packets, at every spine, or at every switch that adds up
    nic: Nic
    group: dict = dataclasses.field(default_factory=dict)  # of stage inc: mode, slots...
    stages: dict = dataclasses.field(default_factory=dict)  # by name: nodes, options or `off`
    mpi: dict = dataclasses.field(default_factory=dict)  # settings of Open MPI
    ranks_per_host: int = 1
    lb_tag: yaml.Node | None = None  # options, completed at every switch
    reorder: yaml.Node | None = None  # the same at every leaf
    workers: int = 1  # of weft-switch


@dataclasses.dataclass(frozen=True)
class LeafSpine:
    leaves: int
    spines: int
    hosts_per_leaf: int
    link_gbps: list  # of the links of each spine
    delay_ns: list
    mtu_bytes: int


@dataclasses.dataclass(frozen=True)
class Configuration:
    """Switches as a person wrote them."""

    switches: list  # nodes
    mtu_bytes: int


@dataclasses.dataclass(frozen=True)
class Lab:
    path: str
    name: str
    title: str
    about: str
    topology: LeafSpine | Configuration
    hosts: list
    nic: Nic
    workload: Workload | Collectives | Mpi
    timing: Timing
    variants: list
    sample_ms: int


def load(path):
    """The lab of a file; reader.Mistakes when something is wrong with it."""
    file = Reader()
    root = file.compose(path)
    file.finish()
    if root is None:
        file.mistake(yaml.Mark(path, 0, 0, 0, None, 0), "the file is empty")
        file.finish()
    lab = _LabReader(file, path).lab(root)
    file.finish()
    return lab


def name_of(path):
    """The name of the lab of a file, whatever else may be wrong with it."""
    file = Reader()
    root = file.compose(path)
    file.finish()
    values = fields_of(root)
    if "name" not in values:
        file.mistake(yaml.Mark(path, 0, 0, 0, None, 0), "'name' is missing")
        file.finish()
    name = file.text(values["name"], "name", NAME, _NAME_MEANING)
    file.finish()
    return name


class _LabReader:
    """Every method returns what it read, or None (or what is left) after it noted a mistake."""

    def __init__(self, file, path):
        self._file = file
        self._path = path
        self._hosts_known = True  # else a name may be that of a host that could not be read

    def lab(self, root):
        top = self._file.mapping(root, "lab", ("name", "topology", "workload", "variants"),
                                 ("title", "about", "nic", "timing", "report"))
        name = self._file.text(top["name"], "name", NAME, _NAME_MEANING) if "name" in top else None
        title = self._file.text(top["title"], "title") if "title" in top else name
        about = self._file.text(top["about"], "about") if "about" in top else ""
        topology, hosts = self._topology(top["topology"]) if "topology" in top else (None, [])
        nic = self._nic(top["nic"], Nic(), "nic") if "nic" in top else Nic()
        workload = self._workload(top["workload"], hosts) if "workload" in top else None
        if nic.kind == "soft_roce" and isinstance(workload, Collectives):
            self._file.mistake(top["workload"], "workload: kind inc needs weft_rnic")
        elif nic.kind == "soft_roce" and workload is not None and workload.bytes is not None:
            self._file.mistake(top["workload"], "workload: Soft-RoCE needs 'duration_s', because perftest may take for "
                                                "ever to move 'bytes' over paths that reorder")
        timing = self._timing(top["timing"]) if "timing" in top else Timing()
        variants = self._variants(top["variants"], nic, topology, workload) if "variants" in top else []
        if self._file.is_right():
            self._check_windows(topology, variants, top["variants"].value, top.get("nic", root))
        sample_ms = 250
        if "report" in top:
            report = self._file.mapping(top["report"], "report", optional=("sample_ms",))
            sample_ms = self._number(report, "sample_ms", "report", 100, 10_000, sample_ms)
        return Lab(self._path, name, title, about, topology, hosts, nic, workload, timing, variants, sample_ms)

    def _number(self, values, key, what, low, high, default=None, integer=True):
        if key not in values:
            return default
        value = self._file.number(values[key], f"{what}: {key}", low, high, integer)
        return default if value is None else value

    def _choice(self, values, key, what, choices, default):
        if key not in values:
            return default
        return self._file.choice(values[key], f"{what}: {key}", choices) or default

    # --- topology ----------------------------------------------------------------------------------------------------

    def _topology(self, node):
        both = ("kind", "mtu_bytes")
        leaf_spine = ("leaves", "spines", "hosts_per_leaf", "link_gbps", "delay_ns")
        values = self._file.mapping(node, "topology", ("kind",), (*both, *leaf_spine, "file", "switches", "hosts"))
        kind = self._choice(values, "kind", "topology", ("leaf_spine", "config"), None)
        mtu = self._number(values, "mtu_bytes", "topology", 1280, 9216, 4200)
        if kind is None:
            return None, []
        own = leaf_spine if kind == "leaf_spine" else ("file", "switches", "hosts")
        for key in values:
            if key not in (*both, *own):
                self._file.mistake(values[key], f"topology: '{key}' does not belong to kind {kind}")
        return self._leaf_spine(values, mtu) if kind == "leaf_spine" else self._config(node, values, mtu)

    def _leaf_spine(self, values, mtu):
        leaves = self._number(values, "leaves", "topology", 2, 8, 2)
        spines = self._number(values, "spines", "topology", 1, 16, 2)
        per_leaf = self._number(values, "hosts_per_leaf", "topology", 1, 16, 2)
        if leaves * per_leaf > MAX_HOSTS:
            self._file.mistake(values.get("hosts_per_leaf", values.get("leaves")),
                               f"topology: {leaves * per_leaf} hosts; at most {MAX_HOSTS} fit on a machine")
        rates = self._per_spine(values, "link_gbps", spines, 0.001, 100, 1.0, integer=False)
        delays = self._per_spine(values, "delay_ns", spines, 0, 1_000_000_000, 0)
        hosts = []
        for number in range(1, leaves * per_leaf + 1):
            address = ipaddress.ip_interface(f"10.0.{number}.2/24")
            leaf = (number - 1) // per_leaf + 1
            hosts.append(Host(f"h{number}", f"leaf{leaf}/h{number}", address, f"10.0.{number}.1"))
        return LeafSpine(leaves, spines, per_leaf, rates, delays, mtu), hosts

    def _per_spine(self, values, key, spines, low, high, default, integer=True):
        """A number for each spine: one for all, or a list."""
        node = values.get(key)
        if node is None or isinstance(node, yaml.ScalarNode):
            return [self._number(values, key, "topology", low, high, default, integer)] * spines
        items = self._file.items(node, f"topology: {key}")
        if len(items) != spines:
            self._file.mistake(node, f"topology: {key} has {len(items)} entries for {spines} spines")
        return [self._file.number(item, f"topology: {key}", low, high, integer) for item in items]

    def _config(self, node, values, mtu):
        switches = None
        if ("file" in values) == ("switches" in values):
            self._file.mistake(node, "topology: kind config has either 'file' or 'switches'")
        elif "switches" in values:
            switches = self._file.items(values["switches"], "switches", least=1)
        else:
            name = self._file.text(values["file"], "topology: file")
            path = os.path.join(os.path.dirname(self._path), name or "")
            root = self._file.compose(os.path.normpath(path))
            if isinstance(root, yaml.MappingNode):
                found = [value for key, value in root.value if key.value == "switches"]
                switches = self._file.items(found[0], "switches", least=1) if found else None
            if switches is None:
                self._file.mistake(values["file"], f"topology: {name} is no configuration of weft-switch")
        ports = self._veth_ports(switches or [])
        if "hosts" not in values:
            self._file.mistake(node, "topology: kind config needs 'hosts'")
            return None, []
        read = [self._host(item, ports) for item in self._file.items(values["hosts"], "hosts", least=2)]
        hosts = [host for host in read if host is not None]
        self._hosts_known = len(hosts) == len(read)
        self._unique(hosts, values["hosts"])
        free = set(ports) - {host.port for host in hosts}
        if free and self._hosts_known:
            self._file.mistake(values["hosts"], f"hosts: nobody is at the veth ports {', '.join(sorted(free))}")
        return Configuration(switches or [], mtu), hosts

    def _veth_ports(self, switches):
        """SWITCH/PORT of all ports of type veth; what is wrong with them is for weft-switch to say."""
        found = []
        for switch in switches:
            fields = fields_of(switch)
            for port in getattr(fields.get("ports"), "value", []):
                port_fields = fields_of(port)
                words = [getattr(field, "value", "") for field in
                         (port_fields.get("type"), fields.get("name"), port_fields.get("name"))]
                if words[0] == "veth":
                    found.append(f"{words[1]}/{words[2]}")
        return found

    def _host(self, node, ports):
        values = self._file.mapping(node, "host", ("name", "port", "address"), ("gateway",))
        name = self._file.text(values["name"], "host: name", NAME, _NAME_MEANING) if "name" in values else None
        port = self._file.choice(values["port"], "host: port", ports) if "port" in values else None
        address = self._address(values["address"], ipaddress.ip_interface) if "address" in values else None
        gateway = self._address(values["gateway"], ipaddress.ip_address) if "gateway" in values else None
        if address is not None and address.ip + 2 not in address.network:
            self._file.mistake(values["address"], "host: address: a host takes three addresses in a row, which must "
                                                  "fit into the subnet")
        if None in (name, port, address):
            return None
        return Host(name, port, address, str(gateway) if gateway else None)

    def _address(self, node, parse):
        text = self._file.text(node, "address")
        try:
            return parse(text) if text is not None else None
        except ValueError:
            wanted = "an address with the length of its subnet, as in 10.0.1.2/24"
            self._file.mistake(node, f"expected {wanted if parse is ipaddress.ip_interface else 'an IP address'}, "
                                     f"found '{text}'")
        return None

    def _unique(self, hosts, node):
        for what, values in (("name", [host.name for host in hosts]), ("port", [host.port for host in hosts])):
            for value in sorted({value for value in values if values.count(value) > 1}):
                self._file.mistake(node, f"hosts: two have the {what} {value}")
        taken = [host.address.ip + number for host in hosts for number in range(3)]
        if len(set(taken)) < len(taken):
            self._file.mistake(node, "hosts: addresses overlap; a host takes three in a row")

    # --- nic, workload, timing ---------------------------------------------------------------------------------------

    def _nic(self, node, base, what):
        f = self._file
        own_kind = ("kind",) if what == "nic" else ()
        values = f.mapping(node, what, optional=(*own_kind, "transport", "renack", "mtu", "window", "window_below_bdp",
                                                 "reorder_window", "nack_is_cnp", "cc", "cm"))
        cc = f.mapping(values["cc"], f"{what}: cc", optional=("kind", "preset", "rate_gbps", "constants")) \
            if "cc" in values else {}
        changes = {
            "kind": self._choice(values, "kind", what, ("weft_rnic", "soft_roce"), base.kind),
            "transport": self._choice(values, "transport", what, TRANSPORTS, base.transport),
            "renack": self._choice(values, "renack", what, ("lazy", "eager"), base.renack),
            "mtu": int(self._choice(values, "mtu", what, MTUS, str(base.mtu))),
            "window": self._number(values, "window", what, 1, 16384, base.window),
            "reorder_window": self._number(values, "reorder_window", what, 64, 4096, base.reorder_window),
            "cc": self._choice(cc, "kind", f"{what}: cc", tuple(CONSTANTS), base.cc),
            "preset": self._choice(cc, "preset", f"{what}: cc", PRESETS, base.preset),
            "rate_gbps": self._number(cc, "rate_gbps", f"{what}: cc", 0.001, 400, base.rate_gbps, integer=False),
        }
        changes["constants"] = self._constants(cc, changes["cc"], base, f"{what}: cc")
        if "preset" in cc and changes["cc"] != "dcqcn":
            f.mistake(cc["preset"], f"{what}: cc: preset is for kind dcqcn")
        for key in {"nack_is_cnp", "window_below_bdp", "cm"} & set(values):
            changes[key] = f.boolean(values[key], f"{what}: {key}")
        if "cm" in values and changes["kind"] != "soft_roce":
            f.mistake(values["cm"], f"{what}: cm is for Soft-RoCE")
        if changes["kind"] == "soft_roce":
            changes["transport"] = "gbn"
            for key in values:
                if key not in ("kind", "mtu", "window", "window_below_bdp", "cm"):
                    f.mistake(values[key], f"{what}: '{key}' is not ours to choose with Soft-RoCE")
        if changes["reorder_window"] & (changes["reorder_window"] - 1):
            f.mistake(values["reorder_window"], f"{what}: reorder_window is a power of two")
        return dataclasses.replace(base, **changes)

    def _check_windows(self, topology, variants, nodes, nic_of_all):
        for variant, node in zip(variants, nodes):
            if wrong := long_links.mistake(topology, variant.nic):
                self._file.mistake(fields_of(node).get("nic", nic_of_all), f"nic: {wrong}")

    def _constants(self, cc, kind, base, what):
        """Those of the base go on where the kind is the same."""
        found = dict(base.constants) if kind == base.cc else {}
        values = fields_of(cc["constants"]) if "constants" in cc and self._file.kind(
            cc["constants"], yaml.MappingNode, f"{what}: constants") else {}
        for key, value in values.items():
            if key not in CONSTANTS[kind]:
                known = ", ".join(CONSTANTS[kind]) or "none"
                self._file.mistake(value, f"{what}: constants: {kind} has no '{key}', but: {known}")
            elif self._file.number(value, f"{what}: constants: {key}", 0, 1e7, integer=False) is not None:
                found[key] = value.value
        return found

    def _workload(self, node, hosts):
        if getattr(fields_of(node).get("kind"), "value", None) == "inc":
            return self._collectives(node, hosts)
        if getattr(fields_of(node).get("kind"), "value", None) == "mpi":
            return self._mpi(node)
        values = self._file.mapping(node, "workload", ("kind",), ("bytes", "duration_s", "order", "flows",
                                                                  "message_bytes", "limit_s"))
        if ("bytes" in values) == ("duration_s" in values):
            self._file.mistake(node, "workload: either 'bytes' or 'duration_s'")
        kind = self._choice(values, "kind", "workload", ("ring", "flows", "inc", "mpi"), None)
        names = [host.name for host in hosts]
        flows = []
        if kind == "ring":
            self._refuse(values, "flows", kind)
            flows = self._ring(values, hosts, names)
        elif kind == "flows":
            self._refuse(values, "order", kind)
            if "flows" not in values:
                self._file.mistake(node, "workload: kind flows needs 'flows'")
            else:
                items = self._file.items(values["flows"], "workload: flows", least=1)
                flows = [self._flow(item, names) for item in items]
                self._one_flow_per_sender(flows, items)
        total = self._number(values, "bytes", "workload", 1, 10**12)
        message = self._number(values, "message_bytes", "workload", 1, 1 << 20, 65536)
        if total is not None and total < message:
            self._file.mistake(values["bytes"], f"workload: bytes are less than a message ({message})")
        duration = self._number(values, "duration_s", "workload", 1, 600)
        return Workload(flows, total, duration, message, self._number(values, "limit_s", "workload", 1, 600, 60))

    def _collectives(self, node, hosts):
        values = self._file.mapping(node, "workload", ("kind", "operation"), ("sizes", "times", "window",
                                                                              "message_packets", "limit_s"))
        operations = self._operations(values)
        sizes = [0]
        if operations == ["barrier"]:
            self._refuse(values, "sizes", "inc with a barrier")
        elif "sizes" not in values:
            self._file.mistake(node, "workload: kind inc needs 'sizes'")
        else:
            items = self._file.items(values["sizes"], "workload: sizes", least=1)
            sizes = [self._file.number(item, "workload: sizes", 4, 1 << 30) for item in items]
            least = 4 * len(hosts) if set(operations) & set(SCATTERED) else 4
            for item, size in zip(items, sizes):
                if size is not None and size % least:
                    why = ", 4 for each rank's fragment" if least > 4 else ""
                    self._file.mistake(item, f"workload: sizes: {size} is no multiple of {least}{why}")
        for host in hosts:
            if host.gateway is None:
                self._file.mistake(node, f"workload: kind inc needs a gateway of {host.name}: the switch's endpoint")
        return Collectives(operations, sizes, self._number(values, "times", "workload", 1, 100_000, 10),
                           self._number(values, "window", "workload", 1, 4096, 4),
                           self._number(values, "message_packets", "workload", 1, 4096, 4),
                           self._number(values, "limit_s", "workload", 1, 600, 60))

    def _operations(self, values):
        """One, or a list of several."""
        if "operation" not in values:
            return []
        several = isinstance(values["operation"], yaml.SequenceNode)
        items = self._file.items(values["operation"], "workload: operation", least=1) if several \
            else [values["operation"]]
        found = [self._file.choice(item, "workload: operation", OPERATIONS) for item in items]
        for number, name in enumerate(found):
            if name is not None and name in found[:number]:
                self._file.mistake(items[number], f"workload: operation: {name} is there already")
        return found

    def _mpi(self, node):
        values = self._file.mapping(node, "workload", ("kind", "manager", "program"), ("arguments", "limit_s"))
        paths = [self._beside(values[key], f"workload: {key}") if key in values else None
                 for key in ("manager", "program")]
        items = self._file.items(values["arguments"], "workload: arguments") if "arguments" in values else []
        return Mpi(*paths, [self._file.text(item, "workload: arguments") for item in items],
                   self._number(values, "limit_s", "workload", 1, 600, 120))

    def _beside(self, node, what):
        """The path of a file that is there, from the folder of the lab's."""
        name = self._file.text(node, what)
        path = os.path.normpath(os.path.join(os.path.dirname(self._path), name or ""))
        if name is not None and not os.path.isfile(path):
            self._file.mistake(node, f"{what}: there is no file {path}")
        return path

    def _host_name(self, node, what, names):
        return self._file.choice(node, what, names) if self._hosts_known else self._file.text(node, what)

    def _refuse(self, values, key, kind):
        if key in values:
            self._file.mistake(values[key], f"workload: '{key}' does not belong to kind {kind}")

    def _ring(self, values, hosts, names):
        if "order" in values:
            items = self._file.items(values["order"], "workload: order", least=2)
            order = [self._host_name(item, "workload: order", names) for item in items]
            for item, name in zip(items, order):
                if name is not None and order.count(name) > 1:
                    self._file.mistake(item, f"workload: order has {name} twice")
        else:
            order = across_racks(hosts)
        return [Flow(source, target) for source, target in zip(order, order[1:] + order[:1])]

    def _flow(self, node, names):
        values = self._file.mapping(node, "flow", ("from", "to"), ("name",))
        ends = [self._host_name(values[key], f"flow: {key}", names) if key in values else None
                for key in ("from", "to")]
        if ends[0] is not None and ends[0] == ends[1]:
            self._file.mistake(node, f"flow: {ends[0]} sends to itself")
        name = self._file.text(values["name"], "flow: name", r"[^\n]{1,40}", "up to 40 characters") \
            if "name" in values else None
        return Flow(*ends, name)

    def _one_flow_per_sender(self, flows, items):
        for number, flow in enumerate(flows):
            if flow.source and flow.source in [earlier.source for earlier in flows[:number]]:
                self._file.mistake(items[number], f"flow: {flow.source} sends already; a host sends one flow")

    def _timing(self, node):
        values = self._file.mapping(node, "timing", optional=("probes", "guard_us", "rto_us"))
        return Timing(self._number(values, "probes", "timing", 10, 100_000, 300),
                      self._number(values, "guard_us", "timing", 1, 10_000_000),
                      self._number(values, "rto_us", "timing", 1, 10_000_000))

    def _variants(self, node, nic, topology, workload):
        variants = []
        for item in self._file.items(node, "variants", least=1):
            values = self._file.mapping(item, "variant", ("name",), ("lb", "nack_filter", "loss", "nic", "group", "mpi",
                                                                 "ranks_per_host", "stages", "workers",
                                                                 *_OF_LEAF_SPINE))
            name = self._file.text(values["name"], "variant: name", r"[^/\n]{1,40}", "up to 40 characters without /") \
                if "name" in values else None
            for key in ("lb", "nack_filter", *_OF_LEAF_SPINE):
                if key in values:
                    self._file.kind(values[key], yaml.MappingNode, f"variant: {key}")
            for key in _OF_LEAF_SPINE:
                if key in values and isinstance(topology, Configuration):
                    self._file.mistake(values[key], f"variant: {key} is for kind leaf_spine; a file has stages")
            if name in [variant.name for variant in variants]:
                self._file.mistake(item, f"variants: two are called {name}")
            own = self._nic(values["nic"], nic, "variant: nic") if "nic" in values else nic
            loss = self._number(values, "loss", "variant", 0, 0.5, 0.0, integer=False)
            collectives = isinstance(workload, Collectives)
            group = self._words(values["group"], "group") if "group" in values else {}
            mpi = self._words(values["mpi"], "mpi") if "mpi" in values else {}
            for key in ("mpi", "ranks_per_host"):
                if key in values and not isinstance(workload, Mpi):
                    self._file.mistake(values[key], f"variant: {key} is for workloads of kind mpi")
            each = self._number(values, "ranks_per_host", "variant", 1, 16, 1)
            if "group" in values and not collectives:
                self._file.mistake(values["group"], "variant: group is for workloads of kind inc")
            if "loss" in values and isinstance(topology, Configuration) and not collectives:
                self._file.mistake(values["loss"], "variant: loss is for kind leaf_spine; a configuration has impair")
            stages = self._stages(values["stages"], topology) if "stages" in values else {}
            workers = self._number(values, "workers", "variant", 1, len(os.sched_getaffinity(0)), 1)
            variants.append(Variant(name, values.get("lb"), values.get("nack_filter"), loss, own, group, stages, mpi,
                                    each, *map(values.get, _OF_LEAF_SPINE), workers))
        return variants

    def _stages(self, node, topology):
        """`off`, or options that weft-switch judges, by the name of a stage that a switch of the configuration has."""
        if not self._file.kind(node, yaml.MappingNode, "variant: stages"):
            return {}
        if not isinstance(topology, Configuration):
            self._file.mistake(node, "variant: stages is for kind config")
            return {}
        for key, value in fields_of(node).items():
            if isinstance(value, yaml.ScalarNode) and value.value != "off":
                self._file.mistake(value, f"variant: stages: {key}: expected off, or options, found '{value.value}'")
            elif isinstance(value, yaml.SequenceNode):
                self._file.mistake(value, f"variant: stages: {key}: expected off, or options, found a list")
        return dict(fields_of(node))

    def _words(self, node, what):
        """Words and numbers that somebody else judges: `weftctl inc create`, or mpirun."""
        out = {}
        values = fields_of(node) if self._file.kind(node, yaml.MappingNode, f"variant: {what}") else {}
        for key, value in values.items():
            if not self._file.kind(value, yaml.ScalarNode, f"variant: {what}: {key}"):
                continue
            text = value.value
            number = not value.style and text.isdigit()
            out[key] = int(text) if number else {"true": True, "false": False}.get(text, text)
        return out


def fields_of(node):
    """The values of a mapping node by key; nothing when it is none."""
    return Fields(node)


def across_racks(hosts):
    """The names of hosts, those of all racks in turn, so that neighbours are in different racks where that can be."""
    racks = {}
    for host in hosts:
        racks.setdefault(host.rack, []).append(host.name)
    deepest = max(map(len, racks.values()), default=0)
    return [rack[place] for place in range(deepest) for rack in racks.values() if place < len(rack)]
