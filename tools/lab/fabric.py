# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""The configuration of weft-switch for a variant of a lab."""
import math
import os
import subprocess
import tempfile

import yaml

from tools.lab import emitter, lab_file, reader

_ANY_GUARD_US = 1000  # while a file is checked, before anything is measured
HEADER_BYTES = 100  # of a packet, all that is not payload, preamble and gap included
_MOST_TAG_US = 100_000  # that lb_tag takes for a time of ConWeave
_MOST_REORDER_US = 1_000_000  # that reorder takes for bound_us
_MOST_GEMMA_US = 10_000_000  # that lb_tag and lb take for a time of Gemma
# Gemma's times in round trips between leaves, as its defaults are those of a fabric whose leaves are 4 us apart: of the
# policy, and of what switches report.
_GEMMA_TRIPS = {"guard_us": 2, "new_flow_us": 500}
_GEMMA_REPORT_TRIPS = {"period_us": 1.25, "most_us": 10, "scan_us": 1.25}


def document(lab, variant, socket, guard_us=_ANY_GUARD_US):
    """The configuration as Python values, with nodes of the lab's file where they are taken over."""
    if isinstance(lab.topology, lab_file.LeafSpine):
        switches = _leaf_spine(lab.topology, lab.hosts, variant.loss)
    else:
        switches = [_switch(node, lab.hosts) for node in lab.topology.switches]
    ways = uplinks(lab)
    for switch in switches:
        if isinstance(switch.get("pipeline"), list):
            measured = {"uplinks": ways.get(_name(switch), []), "guard_us": guard_us}
            if variant.reorder is not None:
                measured["bound_us"] = _reorder_bound_us(lab, variant, guard_us)
            switch["pipeline"] = _pipeline(_own_stages(switch["pipeline"], variant), variant, _lb(lab, variant.lb),
                                           measured)
            if variant.lb_tag is not None:
                tag = _lb_tag(lab, _name(switch), variant.lb_tag, ways)
                if "conweave" in tag:
                    tag["conweave"] = _conweave(lab, tag["conweave"], guard_us)
                switch["pipeline"].insert(1, {"lb_tag": tag})
            if isinstance(lab.workload, (lab_file.Collectives, lab_file.Mpi)):
                switch["pipeline"] = _with_groups(switch["pipeline"], variant.loss)
        else:
            switch.setdefault("pipeline", [])
    eal = {"mbufs": 32768}
    if variant.workers > 1:
        eal["workers"] = sorted(os.sched_getaffinity(0))[:variant.workers]
    return {"eal": eal, "control": {"socket": socket}, "switches": switches}


def check(lab, weft_switch):
    """Raises reader.Mistakes with all that weft-switch has to say about the configurations of a lab."""
    found = reader.Reader()
    rest = []
    for variant in lab.variants:
        configuration = document(lab, variant, "/run/weft/weft.sock")
        if not any("lb" in map(_stage_name, switch.get("pipeline", ())) for switch in configuration["switches"]):
            for node in filter(None, (variant.lb, variant.nack_filter, variant.lb_tag, variant.reorder)):
                found.mistake(node, f"variant {variant.name}: no switch has a stage lb, so this would change nothing")
        for name, node in variant.stages.items():
            if name not in _known_stages(lab):
                found.mistake(node, f"variant {variant.name}: stages: no switch has a stage {name}")
        written = emitter.Emitter(configuration)
        with tempfile.TemporaryDirectory(prefix="weft-lab-check-") as folder:
            path = os.path.join(folder, "weft.yaml")
            with open(path, "w", encoding="utf-8") as file:
                file.write(written.text)
            result = subprocess.run([weft_switch, "-c", path, "--check"], capture_output=True, text=True, timeout=60,
                                    check=False)
        if result.returncode == 0:
            continue
        messages = result.stdout + result.stderr
        translated = written.translate(messages)
        for mark, text in translated:
            if mark is None:
                rest.append(f"{lab.path}: variant {variant.name}: {text}")
            else:
                found.mistake(mark, text)
        if not translated:
            rest.append(f"{lab.path}: variant {variant.name}: weft-switch --check: {messages.strip()}")
    try:
        found.finish()
    except reader.Mistakes as mistakes:
        raise reader.Mistakes(mistakes.lines + sorted(set(rest))) from None
    if rest:
        raise reader.Mistakes(sorted(set(rest)))


def _known_stages(lab):
    """The names of all stages of a configuration."""
    pipelines = [lab_file.fields_of(node).get("pipeline") for node in lab.topology.switches]
    return {_stage_name(stage) for pipeline in pipelines for stage in getattr(pipeline, "value", [])}


def racks(lab):
    """HOST -> the switch to which it is attached."""
    return {host.name: host.rack for host in lab.hosts}


def sending_racks(lab):
    """The switches that data enters the fabric through; of the others come acknowledgements only."""
    of_host = racks(lab)
    return {of_host[flow.source] for flow in lab.workload.flows}


def uplinks(lab):
    """SWITCH -> names of its ports among which `lb` chooses: the links of switches that have hosts."""
    leaves = set(racks(lab).values())
    if isinstance(lab.topology, lab_file.LeafSpine):
        return {rack: [f"s{spine}" for spine in range(1, lab.topology.spines + 1)] for rack in sorted(leaves)}
    found = {}
    for node in lab.topology.switches:
        fields = lab_file.fields_of(node)
        name = fields["name"].value
        if name in leaves:
            ports = [lab_file.fields_of(port) for port in fields["ports"].value]
            found[name] = [port["name"].value for port in ports if port["type"].value == "link"]
    return found


def slowest_link_mbps(lab):
    """The rate of the slowest uplink; None when none has a rate."""
    if isinstance(lab.topology, lab_file.LeafSpine):
        return min(lab.topology.link_gbps) * 1000
    ways = uplinks(lab)
    rates = []
    for node in lab.topology.switches:
        fields = lab_file.fields_of(node)
        for port in map(lab_file.fields_of, fields["ports"].value):
            if port["name"].value in ways.get(fields["name"].value, ()) and "rate_mbps" in port:
                rates.append(float(port["rate_mbps"].value))
    return min((rate for rate in rates if rate > 0), default=None)


def backlog_us(lab, nic):
    """How long a path takes to send all that the flows of one rack may have under way."""
    slowest = slowest_link_mbps(lab)
    if slowest is None:
        return 0.0
    of_host = racks(lab)
    sources = [of_host[flow.source] for flow in lab.workload.flows]
    flows = max(map(sources.count, sources))
    return flows * nic.window * (nic.mtu + HEADER_BYTES) * 8 / slowest


def _reorder_bound_us(lab, variant, guard_us):
    """How long packets that overtook may wait: for those in the longest queue that a path can have, and the guard for
    all else."""
    return min(_MOST_REORDER_US, guard_us + math.ceil(backlog_us(lab, variant.nic)))


def host_interface(host):
    """The switch's end of a host's cable, in the namespace of the fabric."""
    return f"to-{host.name}"


# --- switches of a file ----------------------------------------------------------------------------------------------


def _switch(node, hosts):
    """A switch of a file, with the interfaces of this lab at its veth ports."""
    switch = lab_file.fields_of(node)
    name = getattr(switch.get("name"), "value", "")
    at_port = {host.port: host for host in hosts}
    ports = []
    for port in getattr(switch.get("ports"), "value", []):
        fields = lab_file.fields_of(port)
        host = at_port.get(f"{name}/{getattr(fields.get('name'), 'value', '')}")
        if host:
            fields["interface"] = host_interface(host)
        ports.append(fields)
    switch["ports"] = ports
    if isinstance(switch.get("pipeline"), yaml.SequenceNode):
        switch["pipeline"] = list(switch["pipeline"].value)
    return switch


def _name(switch):
    name = switch.get("name")
    return getattr(name, "value", name)


def _pipeline(stages, variant, lb, measured):
    """The stages of a switch, with what a variant says about `lb` and `nack_filter` where there is an `lb`. What it
    leaves open about the filter is what the lab knows.

    lb  options of `lb`; None: those of the stage stay"""
    if "lb" not in map(_stage_name, stages):
        return stages
    out = []
    for stage in stages:
        name = _stage_name(stage)
        if name == "nack_filter":
            continue
        if name in ("l2", "l3") and variant.reorder is not None:
            options = lab_file.fields_of(variant.reorder)
            options.setdefault("uplinks", measured["uplinks"])
            options.setdefault("bound_us", measured["bound_us"])
            out.append({"reorder": options})
        if name in ("l2", "l3") and variant.nack_filter is not None:
            options = lab_file.fields_of(variant.nack_filter)
            for key in ("uplinks", "guard_us"):
                options.setdefault(key, measured[key])
            out.append({"nack_filter": options})
        out.append({"lb": lb} if name == "lb" and lb is not None else stage)
    return out


def _lb_tag(lab, switch, node, ways):
    """The options of lb_tag at a switch of a leaf-spine: what a variant says, where leaves are, and Gemma's times."""
    options = lab_file.fields_of(node)
    if "gemma" in options:
        options["gemma"] = _in_trips(lab, options["gemma"], _GEMMA_REPORT_TRIPS)
    leaves = [f"leaf{leaf}" for leaf in range(1, lab.topology.leaves + 1)]
    if switch in leaves:
        prefixes = {leaf: [str(host.address.network) for host in lab.hosts if host.rack == leaf] for leaf in leaves}
        options.setdefault("leaf", leaves.index(switch) + 1)
        options.setdefault("uplinks", ways[switch])
        options.setdefault("leaves", [{"id": leaf, "prefixes": prefixes[name]} for leaf, name in enumerate(leaves, 1)])
        return options
    options.pop("conweave", None)  # spines have no edge
    if "gemma" in options:
        options["gemma"].setdefault(
            "downlinks", [{"port": f"l{leaf}", "leaves": [leaf]} for leaf, _ in enumerate(leaves, 1)])
    return options


def round_trip_us(lab):
    """From a leaf to another one and back on the slowest path of a leaf-spine, without queues."""
    return max(4 * delay / 1000 + 2 * (lab.nic.mtu + HEADER_BYTES) * 8 / (gbps * 1000)
               for delay, gbps in zip(lab.topology.delay_ns, lab.topology.link_gbps))


def _in_trips(lab, node, trips):
    """Options of a node with times, in microseconds, that are so many round trips where the file has none."""
    options = lab_file.fields_of(node)
    for name, count in trips.items():
        options.setdefault(name, min(_MOST_GEMMA_US, max(1, math.ceil(count * round_trip_us(lab)))))
    return options


def _lb(lab, node):
    """Options of `lb` that a variant asks for, with Gemma's times."""
    if node is None or not isinstance(lab.topology, lab_file.LeafSpine):
        return node
    options = lab_file.fields_of(node)
    if getattr(options.get("policy"), "value", None) != "gemma":
        return node
    options["gemma"] = _in_trips(lab, options.get("gemma"), _GEMMA_TRIPS)
    return options


def _conweave(lab, node, guard_us):
    """ConWeave's times, where the file has none: as many round trips as its authors take in a fabric whose ToRs are
    4 us apart, and for what waits the guard, which holds what was measured under load."""
    options = lab_file.fields_of(node)
    trips = {"reply_us": 2, "notify_us": 2, "pause_us": 4}
    for name, count in trips.items():
        options.setdefault(name, min(_MOST_TAG_US // 2, math.ceil(count * round_trip_us(lab))))
    waits = min(_MOST_TAG_US, max(guard_us, math.ceil(4 * round_trip_us(lab))))
    for name in ("extra_us", "wait_us"):
        options.setdefault(name, waits)
    for name in ("bound_us", "expiry_us"):
        options.setdefault(name, min(_MOST_TAG_US, 2 * waits))
    return options


def _own_stages(stages, variant):
    """The stages of a switch with what a variant says about single ones: without those that are off."""
    out = []
    for stage in stages:
        change = variant.stages.get(_stage_name(stage))
        if change is None:
            out.append(stage)
        elif isinstance(change, yaml.MappingNode):
            written = stage.value[0][1] if isinstance(stage, yaml.MappingNode) else None
            options = lab_file.fields_of(written)
            options.update(lab_file.fields_of(change))
            options.key_marks.update(lab_file.fields_of(change).key_marks)
            out.append({_stage_name(stage): options})
    return out


def _with_groups(stages, loss):
    """The stages of a switch that adds up, and what it loses in front of that."""
    rules = [{"impair": {"rules": [{"name": "loss", "match": {"kind": "roce"}, "loss": loss}]}}] if loss else []
    out = []
    for stage in stages:
        name = _stage_name(stage)
        if name == "inc" or (name in ("l2", "l3") and "inc" not in map(_stage_name, stages)):
            out += rules if name == "inc" else [*rules, "inc"]
        out.append(stage)
    return out


def _stage_name(stage):
    if isinstance(stage, yaml.MappingNode):
        return stage.value[0][0].value if stage.value else ""
    if isinstance(stage, dict):
        return next(iter(stage))
    return stage.value if isinstance(stage, yaml.ScalarNode) else stage


# --- leaf and spine --------------------------------------------------------------------------------------------------


def _leaf_spine(topology, hosts, loss):
    """Host hN is in 10.0.N.0/24; the link of leaf L and spine S is 10.1.S.(2(L-1))/31, the spine's end first."""
    leaves = [_leaf(topology, hosts, leaf) for leaf in range(1, topology.leaves + 1)]
    return leaves + [_spine(topology, hosts, spine, loss) for spine in range(1, topology.spines + 1)]


def _link(topology, leaf, spine, end, name, peer):
    return {"name": name, "type": "link", "peer": peer, "mac": _mac(leaf, spine, end),
            "rate_mbps": round(topology.link_gbps[spine - 1] * 1000), "delay_ns": topology.delay_ns[spine - 1]}


def _mac(leaf, spine, end):
    """Of an end of a link. It is configured as a neighbour, so that no packet waits for ARP within the fabric."""
    return f"02:00:00:{leaf:02x}:{spine:02x}:{end:02x}"


_LEAF_END, _SPINE_END = 1, 2


def _leaf(topology, hosts, leaf):
    own = [host for host in hosts if host.port.startswith(f"leaf{leaf}/")]
    spines = range(1, topology.spines + 1)
    low = 2 * (leaf - 1)
    ports = [{"name": host.name, "type": "veth", "interface": host_interface(host), "mtu_bytes": topology.mtu_bytes}
             for host in own]
    ports += [_link(topology, leaf, spine, _LEAF_END, f"s{spine}", f"spine{spine}/l{leaf}") for spine in spines]
    addresses = [{"port": host.name, "address": f"{host.gateway}/{host.address.network.prefixlen}"} for host in own]
    addresses += [{"port": f"s{spine}", "address": f"10.1.{spine}.{low + 1}/31"} for spine in spines]
    neighbours = [{"port": f"s{spine}", "address": f"10.1.{spine}.{low}", "mac": _mac(leaf, spine, _SPINE_END)}
                  for spine in spines]
    routes = [{"prefix": "10.0.0.0/16", "via": [f"10.1.{spine}.{low}" for spine in spines]}]
    return {"name": f"leaf{leaf}", "ports": ports, "addresses": addresses, "neighbours": neighbours, "routes": routes,
            "pipeline": ["parse", "rdma_track", "l3", "lb"]}


def _spine(topology, hosts, spine, loss):
    leaves = range(1, topology.leaves + 1)
    ports = [_link(topology, leaf, spine, _SPINE_END, f"l{leaf}", f"leaf{leaf}/s{spine}") for leaf in leaves]
    addresses = [{"port": f"l{leaf}", "address": f"10.1.{spine}.{2 * (leaf - 1)}/31"} for leaf in leaves]
    neighbours = [{"port": f"l{leaf}", "address": f"10.1.{spine}.{2 * leaf - 1}", "mac": _mac(leaf, spine, _LEAF_END)}
                  for leaf in leaves]
    impair = [{"impair": {"rules": [{"name": "loss", "match": {"kind": "roce"}, "loss": loss}]}}] if loss else []
    routes = []
    for host in hosts:
        leaf = int(host.rack.removeprefix("leaf"))
        routes.append({"prefix": str(host.address.network), "via": [f"10.1.{spine}.{2 * leaf - 1}"]})
    return {"name": f"spine{spine}", "ports": ports, "addresses": addresses, "neighbours": neighbours, "routes": routes,
            "pipeline": ["parse", *impair, "l3"]}
