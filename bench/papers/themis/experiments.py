# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""The runs and columns of each table of this folder, for tables.py."""
import dataclasses

EXAMPLE = "../../../tools/sim/examples/dead_path.yaml"
WHAT = ("Virtual time. Completion: when the last byte of the slowest group arrived. Resent in vain: packets that "
        "arrived twice, of all. False: NACKs that reached a sender for a packet that was not lost.")
NOTES = ["Rows of an older commit than the others are not run each time, because they take minutes to an hour. Before "
         "ccff26d, and again before 11c4736, events of one nanosecond had another order.",
         "Seeds move what is not Themis. At 1e71809 in AlltoAll: ECMP at (55, 4) 3.03 to 5.67 ms over six seeds, "
         "random at (900, 50) 2.73 to 3.42, adaptive at (55, 4) 2.04 to 2.42. Over three tiers ECMP took 4.80 to 6.22 "
         "ms with five."]


@dataclasses.dataclass(frozen=True)
class Run:
    """A run of an experiment file with what is set besides."""

    file: str
    sets: tuple = ()
    seed: int = 1

    @property
    def key(self):
        return " ".join([self.file.rpartition("/")[2] if self.file != EXAMPLE else "examples/dead_path.yaml",
                         f"seed={self.seed}", *self.sets])


@dataclasses.dataclass(frozen=True)
class Table:
    """`rows`: label cells, and runs by role. `columns`: title, and a function of the figures by role that makes a
    cell."""

    name: str
    conditions: str
    labels: tuple
    columns: tuple
    rows: tuple

    def runs(self):
        return [run for _, by_role in self.rows for run in by_role.values()]


def one(function):
    """A column of a table whose rows are one run each. What an older result does not have is left out."""
    def cell(found):
        try:
            return function(found["run"])
        except KeyError:
            return ""
    return cell


def percent(share):
    return "0" if share == 0 else f"{100 * share:#.2g} %" if share < 0.1 else f"{100 * share:.1f} %"


def completion(f):
    return f"{f['completion_ms']:.3f} ms"


def in_vain(f):
    return percent(f["spurious_retransmit_ratio"])


def rows(*pairs):
    return tuple((labels if isinstance(labels, tuple) else (labels,), {"run": run}) for labels, run in pairs)


def timers(t_i, t_d):
    return (f"nic.cc.t_i_us={t_i}", f"nic.cc.t_d_us={t_d}")


COMPLETION = ("completion", one(completion))
IN_VAIN = ("resent in vain", one(in_vain))
RESENT = ("resent", one(lambda f: percent(f["retransmit_ratio"])))
SEEN = ("NACKs seen", one(lambda f: str(f["filter"]["nacks_seen"])))
BLOCKED = ("blocked", one(lambda f: str(f["filter"]["nacks_blocked"])))
SENT = ("NACKs sent", one(lambda f: str(f["nacks_sent"])))
FALSE = ("false", one(lambda f: str(f["nacks_false"])))
COMPENSATED = ("compensations", one(lambda f: str(f["filter"]["compensated_packet"])))
GUARD = ("guard", one(lambda f: str(f["filter"]["compensated_guard"])))
TIMEOUTS = ("timeouts", one(lambda f: str(f["timeouts"])))
LOST = ("lost, ACKs included", one(lambda f: str(f["drops"])))
MARKS = ("ECN marks", one(lambda f: str(f["ecn_marks"])))
RATE = ("mean rate, Gbit/s", one(lambda f: f"{f['mean_rate_gbps']:.1f}"))
GOODPUT = ("goodput, Gbit/s", one(lambda f: f"{f['goodput_gbps']:.1f}"))

# Fig. 1


def _fig1(*sets, mb=100):
    return Run("fig1.yaml", (*sets, *((f"workload.bytes={mb}000000",) if mb != 100 else ())))


_NO_CUTS = "nic.nack_is_cnp=false"
_FIG1 = Table(
    "fig1", "fig1.yaml, and with what stands there", ("run",), (IN_VAIN, SENT, FALSE, RATE, GOODPUT, COMPLETION),
    rows(("four spines, DCQCN (900, 4)", _fig1()),
         ("two spines", _fig1("topology.spines=2")),
         ("(T_I, T_D) = (10, 50), 30 MB", _fig1(*timers(10, 50), mb=30)),
         ("(10, 50), two spines, 30 MB", _fig1(*timers(10, 50), "topology.spines=2", mb=30)),
         ("`nic.nack_is_cnp: false`, 20 MB", _fig1(_NO_CUTS, mb=20)),
         ("the same, two spines", _fig1(_NO_CUTS, "topology.spines=2", mb=20)),
         ("`switch.lb: adaptive`, 20 MB", _fig1("switch.lb=adaptive", mb=20)),
         ("`switch.lb: psn`, 20 MB", _fig1("switch.lb=psn", mb=20))))
_FIG1_CHECKS = Table(
    "fig1_checks", "fig1.yaml with switch.lb psn and 20 MB, each check of nack_filter", ("`check`",),
    (IN_VAIN, SEEN, BLOCKED, COMPENSATED, FALSE, RATE, COMPLETION),
    rows(*((f"`{check}`", _fig1("switch.lb=psn", f"switch.nack_filter={{check: {check}}}", mb=20))
           for check in ("ring_first", "ring_scan", "hwm", "gap"))))

# beyond.yaml


def _filter(check, guard=50):
    return (f"switch.nack_filter={{check: {check}, guard_us: {guard}}}",)


def _beyond(*sets, loss=0.0, seed=1):
    return Run("beyond.yaml", (*((f"faults=[{{loss: {loss}}}]",) if loss else ()), *sets), seed)


_CHECKS = Table(
    "checks", "beyond.yaml, nothing lost, guard 50 us; the last two columns with nic.nack_is_cnp false", ("filter",),
    (COMPLETION, IN_VAIN, SENT, FALSE,
     ("without cuts: completion", lambda found: completion(found["free"]) if "free" in found else ""),
     ("resent in vain", lambda found: in_vain(found["free"]) if "free" in found else "")),
    tuple(((title,), {"run": _beyond(*sets), "free": _beyond(_NO_CUTS, *sets)})
          for title, sets in (("none", ()), *((f"`{check}`", _filter(check))
                                             for check in ("ring_first", "ring_scan", "hwm", "gap")))))
_TRANSPORTS = (("NIC-SR", ()), ("NIC-SR, `nack_is_cnp: false`", (_NO_CUTS,)), ("go-back-N", ("nic.transport=gbn",)))
_LOSS = Table(
    "loss", "beyond.yaml with loss on the links of the fabric, no filter and gap with a guard of 50 us",
    ("RNICs", "loss", "filter"), (COMPLETION, RESENT, IN_VAIN, FALSE, TIMEOUTS),
    rows(*(((title, f"{100 * loss:g} %", words), _beyond(*sets, *chosen, loss=loss))
           for title, sets in _TRANSPORTS
           for loss in ((0.0, 0.001, 0.01) if title == "go-back-N" else (0.0001, 0.001, 0.01))
           for words, chosen in (("none", ()), ("`gap`", _filter("gap")))),
         (("go-back-N", "0 %", "`gap`, guard off"), _beyond("nic.transport=gbn", *_filter("gap", 0)))))
_SEEDS = (1, 2, 3)


def _range(role, key):
    def cell(found):
        values = [f[key] for name, f in found.items() if name.startswith(role)]
        return f"{min(values):.2f} to {max(values):.2f}" if len(values) == len(_SEEDS) else ""
    return cell


_TIMER = Table(
    "timer", "beyond.yaml with 0.1 % of loss, least and most of three seeds, ms; gap with a guard of 50 us",
    ("T_I",),
    (("no filter: slowest", _range("none", "completion_ms")), ("`gap`: slowest", _range("gap", "completion_ms")),
     ("no filter: medians", _range("none", "fct_median_ms")), ("`gap`: medians", _range("gap", "fct_median_ms"))),
    tuple(((f"{t_i} us",),
           {f"{name} {seed}": _beyond(*(() if t_i == 900 else (f"nic.cc.t_i_us={t_i}",)), *chosen, loss=0.001,
                                      seed=seed)
            for name, chosen in (("none", ()), ("gap", _filter("gap"))) for seed in _SEEDS})
          for t_i in (900, 300, 55)))

# A dead path
_DEAD_COLUMNS = (LOST, SENT, FALSE, GUARD, TIMEOUTS, IN_VAIN, COMPLETION)


def _convergence(file, time, *sets):
    return Run(file, (f"switch.convergence_us={time}", *sets))


_DEAD = Table(
    "dead_path", "dead_path.yaml", ("convergence",), _DEAD_COLUMNS,
    rows(*((str(time) + (" us" if time not in (0, "never") else ""), _convergence("dead_path.yaml", time))
           for time in (0, 2, 20, 50, "never"))))
_DEAD_ALLTOALL = Table(
    "dead_path_alltoall", "tools/sim/examples/dead_path.yaml", ("convergence",), (*_DEAD_COLUMNS, MARKS),
    rows(*((words, _convergence(EXAMPLE, time, *sets)) for words, time, sets in (
        ("0", 0, ()), ("20 us", 20, ()), ("100 us", 100, ()), ("never", "never", ()),
        ("0, no congestion control", 0, ("nic.cc.kind=none",)),
        ("0, T_I = 55 us", 0, ("nic.cc.t_i_us=55",)),
        ("(no fault)", 0, ("faults=[]",))))))

# Three tiers
_MAP = "switch.lb_options={tiers_above: [{seed: 99, members: 4}]}"
_PATHS = ("switch.lb=psn", _MAP)
_PATH_FILTER = "switch.nack_filter={guard_us: 100, arrival_check: off, paths: 16}"


def _tiers(*sets):
    return Run("three_tiers.yaml", sets)


_THREE = Table(
    "three_tiers", "three_tiers.yaml", ("policy",), (COMPLETION, IN_VAIN, SENT, BLOCKED, FALSE, MARKS),
    rows(("ECMP", _tiers()),
         ("random, in both tiers", _tiers("switch.lb=random", "switch.lb_above=random")),
         ("adaptive, in both tiers", _tiers("switch.lb=adaptive", "switch.lb_above=adaptive")),
         ("Themis over the ToR's uplinks alone", _tiers("switch.lb=psn", "switch.nack_filter={guard_us: 100}")),
         ("Themis over all 16 paths (PathMap)", _tiers(*_PATHS, _PATH_FILTER)),
         ("the same spraying, ideal RNICs", _tiers("nic.transport=ideal", *_PATHS)),
         ("the same spraying, no filter", _tiers(*_PATHS)),
         ("random, `nack_is_cnp: false`", _tiers("switch.lb=random", "switch.lb_above=random", _NO_CUTS)),
         ("adaptive, `nack_is_cnp: false`", _tiers("switch.lb=adaptive", "switch.lb_above=adaptive", _NO_CUTS)),
         ("Themis over all paths, an ACK for 16 packets", _tiers(*_PATHS, _PATH_FILTER, "nic.ack_every=16")),
         ("ideal RNICs, an ACK for 16 packets", _tiers("nic.transport=ideal", *_PATHS, "nic.ack_every=16"))))

# Fig. 5
_THEMIS = ("switch.lb=psn", "switch.nack_filter={guard_us: 100}")
_IDEAL = ("switch.lb=psn", "nic.transport=ideal")
_HASHED = ("switch.lb_options={spray_acks: false}",)
POLICIES = {"ecmp": ("switch.lb=ecmp",), "random": ("switch.lb=random",), "adaptive": (), "themis": _THEMIS,
            "ideal": _IDEAL, "hashed": (*_THEMIS, *_HASHED)}
SETTINGS = ((900, 4), (300, 4), (55, 4), (900, 50), (55, 50), (10, 50))


def _square(side, groups, mb):
    return (f"topology.leaves={side}", f"topology.spines={side}", f"topology.hosts_per_leaf={side}",
            f"workload.groups={groups}", f"workload.bytes={mb}000000")


def _milliseconds(role):
    return lambda found: f"{found[role]['completion_ms']:.3f}" if role in found else ""


def _against(role, base):
    def cell(found):
        if role not in found or base not in found:
            return ""
        gain = round(100 * (found[role]["completion_ms"] / found[base]["completion_ms"] - 1), 1)
        return f"{gain:+.1f} %" if gain else "0.0 %"
    return cell


_FIG5_COLUMNS = (("ECMP", _milliseconds("ecmp")), ("random", _milliseconds("random")),
                 ("adaptive", _milliseconds("adaptive")), ("Themis", _milliseconds("themis")),
                 ("against adaptive", _against("themis", "adaptive")),
                 ("ideal RNIC, same spraying", _milliseconds("ideal")),
                 ("Themis against it", _against("themis", "ideal")),
                 ("Themis, ACKs hashed", _milliseconds("hashed")))


def _figure5(name, file, title):
    every_16 = {role: Run(file, (*POLICIES[role], *_square(4, 4, 75), "nic.ack_every=16"))
                for role in ("themis", "ideal", "hashed")}
    return Table(
        name, f"{title}: {file} with 4 leaves, 4 spines, 16 NICs in 4 groups and 75 MB, ms", ("T_I, T_D (us)",),
        _FIG5_COLUMNS,
        (*(((f"{t_i}, {t_d}",),
            {role: Run(file, (*sets, *_square(4, 4, 75), *timers(t_i, t_d))) for role, sets in POLICIES.items()})
           for t_i, t_d in SETTINGS), (("default (900, 4), an ACK for 16 packets",), every_16)))


_SIXTY_FOUR = Table(
    "64_nics", "fig5a.yaml and fig5b.yaml as they are, 64 NICs and 16 MB, ms", ("collective", "T_I, T_D (us)"),
    tuple(column for column in _FIG5_COLUMNS if column[0] not in ("ECMP", "random", "Themis, ACKs hashed")),
    tuple(((title, f"{t_i}, {t_d}"), {role: Run(file, (*POLICIES[role], *timers(t_i, t_d)))
                                      for role in ("adaptive", "themis", "ideal")})
          for file, title in (("fig5a.yaml", "AllReduce"), ("fig5b.yaml", "AlltoAll"))
          for t_i, t_d in ((900, 4), (10, 50))))
_LARGER = Table(
    "larger", "fig5a.yaml with more NICs or bytes, DCQCN (900, 4); millions of packet-hops", ("network", "policy"),
    (COMPLETION, MARKS, ("packet-hops", one(lambda f: f"{f['packet_hops'] / 1e6:.1f} M"))),
    rows(*(((network, title), Run("fig5a.yaml", (*sets, *size)))
           for network, size, wanted in (
               ("64 NICs (8 x 8 x 8), 150 MB", ("workload.bytes=150000000",), None),
               ("256 NICs (16 x 16 x 16), 30 MB", _square(16, 16, 30), ("adaptive", "Themis", "ideal RNIC")),
               ("256 NICs, 300 MB", _square(16, 16, 300), ("Themis", "Themis, ACKs hashed")))
           for title, sets in (("adaptive", ()), ("Themis", _THEMIS), ("ideal RNIC", _IDEAL),
                               ("Themis, ACKs hashed", (*_THEMIS, *_HASHED)),
                               ("ideal RNIC, ACKs hashed", (*_IDEAL, *_HASHED)))
           if wanted is None or title in wanted)))

TABLES = (_DEAD, _DEAD_ALLTOALL, _FIG1_CHECKS, _FIG1, _CHECKS, _LOSS, _TIMER, _THREE,
          _figure5("allreduce", "fig5a.yaml", "AllReduce"), _figure5("alltoall", "fig5b.yaml", "AlltoAll"), _SIXTY_FOUR,
          _LARGER)

# What takes about a second each.
PINNED = (*_DEAD.runs(), *_FIG1_CHECKS.runs(), _CHECKS.rows[-1][1]["run"], _CHECKS.rows[-1][1]["free"])
