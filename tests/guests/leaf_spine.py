# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""Guests on the leaf-spine fabrics of conf/, and what a transfer over one of them did to hosts and switch."""
import copy
import os
from dataclasses import dataclass

import yaml

import judge
import rdma_tools
from guest import Guest, live

CONF = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../conf")
# Both files have four hosts: h1 and h2 in the first rack, h3 and h4 in the second.
SPRAYING, HASHING = "leaf-spine-psn.yaml", "leaf-spine.yaml"
HOSTS = ("h1", "h2", "h3", "h4")


def boot(lab, names=("h1", "h3"), **options):
    """Boots guests that are hosts of these files; the dictionary of them by name. `options` are those of Guest."""
    guests = {}
    for name in names:
        number = HOSTS.index(name) + 1
        guests[name] = Guest(lab, name, "tap", [f"10.0.{number}.2/24"], judge.MTU, **options)
    return guests


def wait_up(guests):
    """Waits until all guests take commands, and gives them their gateways."""
    for name, each in guests.items():
        number = HOSTS.index(name) + 1
        each.wait_up().configure([f"10.0.{number}.2/24"], [f"10.0.{number}.1"])


def switches(guests, file=SPRAYING, links=None, stages=None, drop_stages=()):
    """The `switches:` of a file of conf/ as text, with the guests in the place of its hosts; hosts that are not among
    them go.

    links   {spine: {option: value}}: options of all links to a spine, such as {"spine2": {"delay_ns": 500000}}.
    stages  {stage: {option: value}}: options of a stage of the leaves, such as {"lb": {"accept": "inferred"}}; they
            are added to those of the file.
    drop_stages  stages that the leaves do without.
    """
    with open(os.path.join(CONF, file), encoding="utf-8") as text:
        fabric = copy.deepcopy(yaml.safe_load(text)["switches"])
    for switch in fabric:
        gone = {port["name"] for port in switch["ports"] if port["name"] in HOSTS and port["name"] not in guests}
        switch["ports"] = [_port(port, guests, switch["name"], links or {}) for port in switch["ports"]
                           if port["name"] not in gone]
        switch["addresses"] = [each for each in switch["addresses"] if each["port"] not in gone]
        if switch["name"].startswith("leaf"):
            switch["pipeline"] = [_stage(each, stages or {}) for each in switch["pipeline"]
                                  if _stage_name(each) not in drop_stages]
    return yaml.safe_dump(fabric, sort_keys=False, default_flow_style=None)


def _port(port, guests, switch, links):
    if port["name"] in guests:
        return yaml.safe_load(guests[port["name"]].port)
    spine = switch if switch.startswith("spine") else port.get("peer", "").split("/")[0]
    return {**port, **links.get(spine, {})}


def _stage_name(stage):
    return next(iter(stage)) if isinstance(stage, dict) else stage


def _stage(stage, options):
    name = _stage_name(stage)
    if name not in options:
        return stage
    return {name: {**(stage[name] if isinstance(stage, dict) else {}), **options[name]}}


@dataclass(frozen=True)
class Measured:
    """What transfers that ran side by side did.

    megabytes_per_second  of each transfer, in the order in which they were given
    counters    {host: {name: gained}} of rdma_rxe, for all guests
    filter      {name: gained} of the stage nack_filter, summed over the leaves; empty without such a stage
    drops       {reason: packets}, gained, those of severity `info` left out
    queue_pairs rows of `show qps` afterwards
    """
    megabytes_per_second: list
    counters: dict
    filter: dict
    drops: dict
    queue_pairs: list


def measure(lab, guests, pairs, program="ib_write_bw", options="-D 4 -f 0 -s 16384 -m 1024"):
    """Runs a program of perftest between pairs of hosts, (client, server) by name, side by side."""
    before = _state(lab, guests)
    runs = [rdma_tools.PerftestRun(program, guests[client], guests[server], options,
                                   port=rdma_tools.PERFTEST_PORT + number)
            for number, (client, server) in enumerate(pairs)]
    rates = [run.wait().megabytes_per_second for run in runs]
    after = _state(lab, guests)
    gained = [{key: new[key] - old.get(key, 0) for key in new} for old, new in zip(before[1:], after[1:])]
    return Measured(rates, judge.difference(before[0], after[0]), gained[0], {k: v for k, v in gained[1].items() if v},
                    lab.show("qps"))


def _state(lab, guests):
    rows = [row for row in lab.show("counters") if row["stage"] == "nack_filter"]
    counted = {name: sum(row["value"] for row in rows if row["counter"] == name) for name in
               dict.fromkeys(row["counter"] for row in rows)}
    drops = {}
    for row in lab.show("drops"):
        if row["severity"] != "info":
            drops[row["reason"]] = drops.get(row["reason"], 0) + row["packets"]
    return judge.counters_of(guests.values()), counted, drops


__all__ = ["live"]  # for the tests, which import it from here
