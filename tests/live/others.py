# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""How much of the machine's CPUs somebody else takes, for tests that measure rates."""
import os
import resource
import time

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
# Rates mean nothing where others take the CPUs away: a test of rates that fails is tried again where they used more.
OTHERS_CPUS, ATTEMPTS = 0.3, 3


class OthersCpu:
    """From its construction on: the CPU time of everything but this process and what it has started."""

    def __init__(self):
        self.began = time.monotonic()
        self.before = busy_s() - own_s()

    def cpus(self):
        """As many CPUs, on average, as others have used."""
        return max(0.0, (busy_s() - own_s() - self.before) / (time.monotonic() - self.began))


def judged_with_cpu_to_spare(test, measure):
    """Runs `measure`; when it fails while others take the CPUs, tries again, for then a rate says nothing. When they do
    so each time, `test`, a TestCase, is skipped."""
    for _ in range(ATTEMPTS):
        others = OthersCpu()
        try:
            return measure()
        except AssertionError as error:
            if (used := others.cpus()) < OTHERS_CPUS:
                raise
            print(f"others used {used:.1f} CPUs meanwhile, so this says nothing: {error}", flush=True)
    test.skipTest(f"the machine is too busy: in {ATTEMPTS} attempts others used more than {OTHERS_CPUS} CPUs")


def busy_s():
    """CPU time of the whole machine in user space and kernel, and what its host gave to other machines. Interrupts are
    left out: they belong to nobody."""
    with open("/proc/stat", encoding="ascii") as file:
        user, nice, system, _, _, _, _, steal = (int(field) for field in file.readline().split()[1:9])
    return (user + nice + system + steal) / TICKS_PER_S


def own_s():
    """CPU time of this process, of its descendants, and of those of them that have ended and were waited for."""
    parents, ticks = {}, {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8") as file:
                # The name of a program may hold anything but ends at the last bracket.
                fields = file.read().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        parents[int(name)] = int(fields[1])
        # utime, stime, and those of children that were waited for.
        ticks[int(name)] = sum(int(field) for field in fields[11:15])
    me = os.getpid()
    own = 0
    for pid in parents:
        ancestor = pid
        while ancestor not in (0, 1, me):
            ancestor = parents.get(ancestor, 0)
        own += ticks[pid] if ancestor == me and pid != me else 0
    itself, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own / TICKS_PER_S + sum(u.ru_utime + u.ru_stime for u in (itself, children))
