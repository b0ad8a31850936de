# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""Links as long as between data centres, and the windows that they need: with a smaller one a lab would show how long
RNICs wait for acknowledgements, whatever it is about."""
import dataclasses
import math

from tools.lab.emitter import Fields

LONG_LINK_NS = 100_000  # 20 km; weft-sim has the same


@dataclasses.dataclass(frozen=True)
class RoundTrip:
    """What is under way when a flow alone uses a path with a long link."""

    ns: int
    mbps: float

    @property
    def bytes(self):
        return self.ns * self.mbps / 8000


def _of_leaf_spine(topology):
    """From leaf to leaf and back there are four links."""
    return [RoundTrip(4 * delay, gbps * 1000) for delay, gbps in zip(topology.delay_ns, topology.link_gbps)
            if delay >= LONG_LINK_NS]


def _of_switches(switches):
    """Which links a flow takes is not known: counted are one long one and the least rate of all, so that a flow may
    need more, but none less. What is wrong with a port is for weft-switch to say."""
    links = []
    for switch in switches:
        for port in getattr(Fields(switch).get("ports"), "value", []):
            fields = Fields(port)
            kind, delay, rate = (str(getattr(fields.get(key), "value", ""))
                                 for key in ("type", "delay_ns", "rate_mbps"))
            if kind == "link" and delay.isdigit() and rate.isdigit():
                links.append((int(delay), int(rate)))
    return [RoundTrip(2 * delay, min(rate for _, rate in links)) for delay, _ in links if delay >= LONG_LINK_NS]


def largest(topology, nic):
    """The round trip with the most bytes, at the rate that RNICs have at most; None: no link is long."""
    trips = _of_switches(topology.switches) if hasattr(topology, "switches") else _of_leaf_spine(topology)
    if nic.rate_gbps:
        trips = [RoundTrip(trip.ns, min(trip.mbps, nic.rate_gbps * 1000)) for trip in trips]
    return max(trips, key=lambda trip: trip.bytes, default=None)


def mistake(topology, nic):
    """What is wrong with the window of an RNIC, or None."""
    trip, window = largest(topology, nic), nic.window * nic.mtu
    if trip is None or nic.window_below_bdp or window >= trip.bytes:
        return None
    least = math.ceil(trip.bytes / nic.mtu)
    return (f"window: a round trip over the longest link takes {trip.ns / 1e6:g} ms, and {trip.mbps:g} Mbit/s carry "
            f"{round(trip.bytes)} bytes meanwhile: a window of {window} bytes would be all that is measured; give at "
            f"least {least} packets of {nic.mtu} bytes, or say window_below_bdp: true")
