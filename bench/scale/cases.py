# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""Configurations of weft-switch with W workers, each of which polls two ports, and traffic that asks more or less of
handing packets from worker to worker."""

import collections
import dataclasses
import functools

PORTS_PER_WORKER = 2
QPS_PER_PORT = 64
FIRST_QPN = 16
PAYLOAD_BYTES = 64
INCAST_DSCP = 24  # traffic class 3 by the default map, which is lossless
_MASK = (1 << 64) - 1
_RSS_ENTRIES = 128


@dataclasses.dataclass(frozen=True)
class Case:
    """spread: "own" keeps each pair of hosts with the worker of its ports, "all" is from every port to all others,
    "one" from all to the first, "racks" over a fabric. rss: ports have a receive queue for each worker."""

    name: str
    title: str
    spread: str
    pipeline: tuple
    steer: str = "ip_pair"
    qos: bool = False
    rss: bool = False


CASES = (
    Case("own", "(a) traffic that stays with its worker", "own", ("parse", "rdma_track", "l2")),
    Case("uniform", "(b) from every port to all others", "all", ("parse", "rdma_track", "l2"), rss=True),
    Case("one-queue", "(b) from ports with one receive queue", "all", ("parse", "rdma_track", "l2")),
    Case("uniform-qp", "(c) b with steer: qp", "all", ("parse", "rdma_track", "l2"), steer="qp", rss=True),
    Case("uniform-qos", "(d) b with qos", "all", ("parse", "rdma_track", "l2"), qos=True, rss=True),
    Case("incast", "(e) from all ports to one, with PFC", "one", ("parse", "rdma_track", "l2"), qos=True),
    Case("spray", "(f) spraying by PSN, with nack_filter", "racks",
         ("parse", "rdma_track", "nack_filter", "l3", "lb"), rss=True),
)


def worker_of(one, other, workers, rss=False):
    """The worker that weft-switch gives the packets between two IPv4 addresses to (switch/wire/hash.h), or with RSS
    (switch/wire/rss.h)."""
    if rss and workers > 1:
        x = int.from_bytes(_bytes(one), "big") ^ int.from_bytes(_bytes(other), "big")
        flow = (x ^ x >> 7 ^ x >> 14 ^ x >> 21 ^ x >> 28 ^ x << 4) % _RSS_ENTRIES
        return _rss_order().index(flow) * workers // _RSS_ENTRIES
    product = int.from_bytes(_bytes(one), "little") * int.from_bytes(_bytes(other), "little") & _MASK
    return _spread(product) * workers >> 32


@functools.cache
def _rss_order():
    return sorted(range(_RSS_ENTRIES), key=lambda flow: _spread(flow + 1))


def _spread(number):
    spread = number * 0x3C6EF372FE94F82B & _MASK
    return (spread ^ spread >> 32) * 0xBB67AE8584CAA73B >> 32 & 0xFFFFFFFF


def _bytes(address):
    return bytes(map(int, address.split(".")))


def _mac(port, host=0):
    return f"02:00:00:{host:02x}:{port >> 8:02x}:{port & 255:02x}"


def _address(port, host=0):
    return f"10.{port}.0.{2 + host}"


def _own_host(port, peer, workers):
    """The first host of `port` whose pair with the first of `peer` is handled by the worker that polls `port`."""
    mine = port % workers
    return next(host for host in range(200) if worker_of(_address(port, host), _address(peer), workers) == mine)


def _even_hosts(ports, workers, rss):
    """A host for each port, so that workers have equal shares of the packets, and the share of those that belong to
    another worker than a port of theirs is nearest to (W-1)/W."""
    pairs = [(port, to) for port in range(ports) for to in range(ports) if to != port]

    def uneven(hosts):
        owners = [worker_of(_address(port, hosts[port]), _address(to, hosts[to]), workers, rss) for port, to in pairs]
        shares = [owners.count(worker) / len(pairs) for worker in range(workers)]
        others = sum(owner != port % workers for owner, (port, _) in zip(owners, pairs)) / len(pairs)
        return max(shares) - min(shares) + abs(others - (workers - 1) / workers)

    choices = ([_spread(seed * ports + port + 1) % 200 for port in range(ports)] for seed in range(100))
    return min(choices, key=uneven)


def _generator(source, destinations, dscp=0, heed_pfc=False, rss=False):
    """source and destinations: (port, host) each."""
    hosts = [{"mac": _mac(*to), "address": _address(*to)} for to in destinations]
    return {
        "type": "generator", "qps": QPS_PER_PORT, "first_qpn": FIRST_QPN, "payload_bytes": PAYLOAD_BYTES,
        "source_mac": _mac(*source), "source": _address(*source),
        "destination_mac": hosts[0]["mac"], "destination": hosts[0]["address"], "more_destinations": hosts[1:],
        "dscp": dscp, "heed_pfc": heed_pfc, "rss": rss,
    }


def _flows(case, ports, workers):
    """Of each port, the (port, host) that sends and those that it sends to. Two generators that face each other send to
    each other, so that each sees what it sends to answer."""
    if case.spread == "own":
        # Ports i and i + workers belong to the same worker.
        half = ports // 2
        pairs = {}
        for low in range(half):
            host = _own_host(low, low + half, workers)
            pairs[low] = ((low, host), [(low + half, 0)])
            pairs[low + half] = ((low + half, 0), [(low, host)])
        return [pairs[port] for port in range(ports)]
    if case.spread == "one":
        return [((0, 0), [(1, 0)])] + [((port, 0), [(0, 0)]) for port in range(1, ports)]
    hosts = list(enumerate(_even_hosts(ports, workers, case.rss)))
    return [(hosts[port], [hosts[to % ports] for to in range(port + 1, port + ports)]) for port in range(ports)]


def _bridge(case, ports, workers):
    flows = _flows(case, ports, workers)
    lossless = case.spread == "one"
    devices = [_generator(*flow, dscp=INCAST_DSCP if lossless else 0, heed_pfc=lossless, rss=case.rss)
               for flow in flows]
    return {
        "static_macs": [{"mac": _mac(*flow[0]), "port": f"p{port}"} for port, flow in enumerate(flows)],
        "ports": [{"name": f"p{port}"} | device for port, device in enumerate(devices)],
    }, flows


def _leaf(ports, workers, rss):
    """The first half of the ports are hosts, the others uplinks. Each host sends to a remote host, which answers
    through an uplink. Workers take turns in owning these pairs of hosts."""
    half = ports // 2

    def remote_of(port):
        return next((128 + port, host) for host in range(200)
                    if worker_of(_address(port), _address(128 + port, host), workers, rss) == port % workers)

    uplinks = [f"p{port}" for port in range(half, ports)]
    switch = {
        "addresses": [{"port": f"p{port}", "address": f"10.{port}.0.1/24"} for port in range(half)]
        + [{"port": f"p{port}", "address": f"192.0.{port}.1/31"} for port in range(half, ports)],
        "neighbours": [{"port": f"p{port}", "address": _address(port), "mac": _mac(port)} for port in range(half)]
        + [{"port": f"p{port}", "address": f"192.0.{port}.0", "mac": _mac(port, 9)} for port in range(half, ports)],
        "routes": [{"prefix": "10.128.0.0/9", "via": [f"192.0.{port}.0" for port in range(half, ports)]}],
    }
    devices, flows = [], []
    for port in range(ports):
        local, remote = (port % half, 0), remote_of(port % half)
        source, to = (local, remote) if port < half else (remote, local)
        device = _generator(source, [to], rss=rss)
        device["destination_mac"] = _router_mac(port)
        devices.append(device)
        flows.append((source, [to]))
    switch["ports"] = [{"name": f"p{port}", "mac": _router_mac(port)} | device for port, device in enumerate(devices)]
    return switch, flows, uplinks


def _router_mac(port):
    return _mac(port, 0xFE)


def _queue_pairs(flows):
    """Which queue pairs belong together: of two hosts that send to each other, the n-th destination QP of the one and
    that of the other. The i-th QP of a port is with the (i mod n)-th of its n destinations."""
    numbers = {}  # (source, destination): destination QPNs
    for source, destinations in flows:
        for index in range(QPS_PER_PORT):
            numbers.setdefault((source, destinations[index % len(destinations)]), []).append(FIRST_QPN + index)
    return [
        {"a": {"address": _address(*a), "qpn": at_a}, "b": {"address": _address(*b), "qpn": at_b}}
        for (a, b), at_bs in numbers.items() if a < b
        for at_a, at_b in zip(numbers.get((b, a), []), at_bs)
    ]


def configuration(case, cpus, mbufs=None, ports_of=None):
    """The configuration for as many workers as there are CPUs, as a dictionary; written as JSON it is also YAML.
    ports_of: for how many workers there are ports, if that is another number."""
    workers = len(cpus)
    ports = PORTS_PER_WORKER * (ports_of or workers)
    uplinks = []
    if case.spread == "racks":
        switch, flows, uplinks = _leaf(ports, workers, case.rss)
    else:
        switch, flows = _bridge(case, ports, workers)
    options = {
        "rdma_track": {"max_qps": 4 * QPS_PER_PORT * ports * PORTS_PER_WORKER, "qps": _queue_pairs(flows)},
        "nack_filter": {"uplinks": uplinks, "check": "gap", "guard_us": 1000},
        "lb": {"policy": "psn"},
    }
    switch["name"] = "tor"
    switch["pipeline"] = [{stage: options[stage]} if stage in options else stage for stage in case.pipeline]
    if case.qos:
        switch["qos"] = {"PORT_QOS_MAP": {"all": {"pfc_enable": [3]}}} if case.spread == "one" else {}
    return {
        "eal": {"workers": list(cpus), "hugepages": "on", "mbufs": mbufs or 16384 * (ports_of or workers),
                "mbuf_data_room_bytes": 2176, "burst": 32},
        "steer": case.steer, "idle": "poll", "control": {"socket": ""}, "log": {"level": "warning"},
        "switches": [switch],
    }


@dataclasses.dataclass(frozen=True)
class Trial:
    """What one run of a case did."""

    workers: int
    pps: float            # sent packets of all ports, a second
    cycles: float         # of busy workers, for a received packet
    handed: float         # times that a received packet was to change its worker, handed over or lost for it
    rings_full: int
    lost: int             # drops that are no answer to a mistake of the traffic
    drops: dict
    waited_s: float = 0   # that workers were ready to run and something else had their CPUs


def read(counters, workers):
    """A Trial from the counters that weft-switch leaves."""
    (switch,) = counters["switches"]
    received = sum(port["rx_packets"] for port in switch["ports"])
    handed_out = sum(row["handed_out"] for row in counters["workers"])
    drops = {reason: packets for reason, packets in switch["drops"].items() if reason != "shutdown"}
    return Trial(
        workers=workers,
        pps=sum(port["tx_packets"] for port in switch["ports"]) / counters["elapsed_s"],
        cycles=counters["tsc_hz"] * counters["elapsed_s"] * workers / max(1, received),
        handed=(handed_out + drops.get("handoff_full", 0)) / max(1, received),
        rings_full=sum(row["rings_full"] for row in counters["workers"]),
        lost=sum(drops.values()),
        drops=drops,
    )


def quiet(trials, trial_s):
    """The trials in which workers had their CPUs to themselves but for a twentieth of the time, if these are two or
    more; else all of them."""
    found = [t for t in trials if t.waited_s < 0.05 * t.workers * trial_s]
    return found if len(found) > 1 else list(trials)


def together(trials):
    """What switches did that ran side by side."""
    total = sum(t.pps for t in trials)
    drops = collections.Counter()
    for t in trials:
        drops.update(t.drops)
    return Trial(
        workers=sum(t.workers for t in trials),
        pps=total,
        # A packet's, so each switch counts by its packets.
        cycles=sum(t.cycles * t.pps for t in trials) / max(1, total),
        handed=sum(t.handed * t.pps for t in trials) / max(1, total),
        rings_full=sum(t.rings_full for t in trials),
        lost=sum(t.lost for t in trials),
        drops=dict(drops),
    )
