# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""What the comparison needs from the machine: the TSC rate, hugepages, CPU accounting, and a description of it all."""

import contextlib
import ctypes
import mmap
import os
import platform
import shutil
import socket
import statistics
import subprocess
import time

HUGEPAGE_BYTES = 2 << 20
HUGEPAGE_DIRECTORY = "/sys/kernel/mm/hugepages/hugepages-2048kB"
TICKS_PER_S = os.sysconf("SC_CLK_TCK")

# Other programs above this share of one CPU, taken together, make the machine busy. A worker below the other share did
# not have its core for itself.
BUSY_SHARE = 0.25
# The kernel leaves 5 % of a CPU to others than real-time threads.
WORKER_SHARE_FLOOR = 0.94
WORKER_PRIORITY = 10
# A core that is slower than this share of its fastest has another guest of the host beside it, or a lower clock.
CORE_SPEED_FLOOR = 0.93


class MachineError(Exception):
    """The machine cannot run the comparison. The message says what to change."""


# --- time stamp counter ----------------------------------------------------------------------------------------------


def _machine_code(code):
    """A function without arguments whose body is `code`."""
    page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(code)
    function = ctypes.CFUNCTYPE(ctypes.c_uint64)(ctypes.addressof(ctypes.c_char.from_buffer(page)))
    function.page = page  # lives as long as the function
    return function


def _measure_core(cpu, steps=2_000_000, samples=15):
    """Steps per tick of the TSC that `cpu` does of a loop of one subtraction; the median of some milliseconds."""
    # rdtsc; shl rdx, 32; or rax, rdx; mov r8, rax; mov ecx, steps; next: dec ecx; jnz next;
    # rdtsc; shl rdx, 32; or rax, rdx; sub rax, r8; ret
    ticks = _machine_code(
        b"\x0f\x31\x48\xc1\xe2\x20\x48\x09\xd0\x49\x89\xc0\xb9"
        + steps.to_bytes(4, "little")
        + b"\xff\xc9\x75\xfc\x0f\x31\x48\xc1\xe2\x20\x48\x09\xd0\x4c\x29\xc0\xc3"
    )
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {cpu})
    try:
        return steps / statistics.median(ticks() for _ in range(samples))
    finally:
        os.sched_setaffinity(0, before)


class CoreSpeed:
    """The speed of a CPU beside the fastest that was seen of it. What a virtual machine's host does to it shows here
    and nowhere else."""

    def __init__(self, cpu, measure=_measure_core):
        self._cpu, self._fastest = cpu, 0.0
        self._measure = measure if platform.machine() == "x86_64" else lambda _: 1.0

    def slow(self):
        """"" at CORE_SPEED_FLOOR of the fastest or more, otherwise its share."""
        speed = self._measure(self._cpu)
        self._fastest = max(self._fastest, speed)
        share = speed / self._fastest
        return "" if share >= CORE_SPEED_FLOOR else f"the core ran at {share:.0%} of its fastest"

    def wait(self, limit_s, pause_s=0.5):
        """Wait until it is not slow. Returns "" when it is, after limit_s what slow() says."""
        deadline = time.monotonic() + limit_s
        while (slow := self.slow()) and time.monotonic() < deadline:
            time.sleep(pause_s)
        return slow


def tsc_hz(seconds=0.2):
    """Rate of the time stamp counter, measured against CLOCK_MONOTONIC_RAW. 0 where there is none (not x86-64)."""
    if platform.machine() != "x86_64":
        return 0
    read = _machine_code(b"\x0f\x31\x48\xc1\xe2\x20\x48\x09\xd0\xc3")  # rdtsc; shl rdx, 32; or rax, rdx; ret
    started, first = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW), read()
    time.sleep(seconds)
    stopped, last = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW), read()
    return round((last - first) * 1e9 / (stopped - started))


# --- processes -------------------------------------------------------------------------------------------------------


def _ticks(stat_path):
    """(command, user plus system ticks) of one /proc stat file, or None when the process has ended."""
    try:
        with open(stat_path, "rb") as stat:
            text = stat.read()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The command stands in parentheses and may itself contain spaces and parentheses.
    head, _, tail = text.rpartition(b")")
    fields = tail.split()
    return head.partition(b"(")[2].decode(errors="replace"), int(fields[11]) + int(fields[12])


def process_ticks():
    """{pid: (command, CPU ticks)} of every process."""
    found = {int(name): _ticks(f"/proc/{name}/stat") for name in os.listdir("/proc") if name.isdigit()}
    return {pid: entry for pid, entry in found.items() if entry}


def thread_ticks(pid):
    """{tid: (name, CPU ticks)} of the threads of a process."""
    try:
        names = os.listdir(f"/proc/{pid}/task")
    except FileNotFoundError:
        return {}
    found = {int(name): _ticks(f"/proc/{pid}/task/{name}/stat") for name in names}
    return {tid: entry for tid, entry in found.items() if entry}


def seconds_without_cpu(pid, name):
    """{tid: seconds} that each thread of a process with `name` in its own has been ready to run and had no CPU."""
    found = {}
    try:
        for tid in os.listdir(f"/proc/{pid}/task"):
            folder = f"/proc/{pid}/task/{tid}/"
            with open(folder + "comm", encoding="utf-8") as comm, open(folder + "schedstat", encoding="utf-8") as stat:
                if name in comm.read():
                    found[int(tid)] = int(stat.read().split()[1]) / 1e9
    except (FileNotFoundError, ProcessLookupError):
        pass  # it is ending
    return found


def _machine_ticks():
    """Ticks that all CPUs spent busy: all columns but idle and iowait, and not the guest ones, which user contains."""
    with open("/proc/stat", encoding="ascii") as stat:
        user, nice, system, _, _, irq, softirq, steal = map(int, stat.readline().split()[1:9])
    return user + nice + system + irq + softirq + steal


def _read_load():
    """(time in s, busy ticks of the machine, ticks of each process)."""
    return time.monotonic(), _machine_ticks(), process_ticks()


class ForeignLoad:
    """What others than our own processes use of the CPUs, from construction or the last call of busy()."""

    def __init__(self, ours, read=_read_load):
        self._ours, self._read, self._last = ours, read, read()

    def busy(self):
        """"" when others used less than BUSY_SHARE of one CPU, otherwise their share and the largest of them.

        The share comes from the machine's total, which also counts the many short processes of a build.
        """
        (last_s, last_total, last_ticks), self._last = self._last, self._read()
        now_s, total, processes = self._last
        ticks_per_cpu = (now_s - last_s) * TICKS_PER_S
        used = [(ticks - last_ticks.get(pid, ("", 0))[1], name, pid) for pid, (name, ticks) in processes.items()]
        ours = sum(ticks for ticks, _, pid in used if pid in self._ours)
        share = (total - last_total - ours) / ticks_per_cpu
        if share <= BUSY_SHARE:
            return ""
        ticks, name, _ = max((entry for entry in used if entry[2] not in self._ours), default=(0, "", 0))
        largest = f", most of it {name}" if ticks > BUSY_SHARE * ticks_per_cpu else ""
        return f"others use {share:.0%} of a CPU{largest}"


def wait_until_idle(limit_s, ours, sample_s=0.5):
    """Wait until others leave the machine alone. Returns "" when they do, after limit_s what they use."""
    load = ForeignLoad(ours)
    deadline = time.monotonic() + limit_s
    while True:
        time.sleep(sample_s)
        busy = load.busy()
        if not busy or time.monotonic() >= deadline:
            return busy


def prefer_workers(pids, cpu, limit_s, running=lambda: True):
    """Give real-time priority to the threads that may run on `cpu` alone, as soon as there is one; waits up to limit_s,
    while what they belong to is running().

    Then nothing else takes the worker's CPU. The kernel keeps 5 % of it for others, which hits all systems alike.
    """
    deadline = time.monotonic() + limit_s
    found = False
    while not found and running() and time.monotonic() < deadline:
        time.sleep(0.02)
        for tid in [tid for pid in pids for tid in thread_ticks(pid)]:
            with contextlib.suppress(ProcessLookupError):
                if os.sched_getaffinity(tid) == {cpu}:
                    os.sched_setscheduler(tid, os.SCHED_FIFO, os.sched_param(WORKER_PRIORITY))
                    found = True


@contextlib.contextmanager
def all_of_their_cpus(path="/proc/sys/kernel/sched_rt_runtime_us", settle_s=0.06):
    """Meanwhile real-time threads have all of their CPUs, where the kernel otherwise stops those that never sleep for
    50 ms of each second: packets are lost then, and none are sent. For seconds only: what else is to run there waits.
    """
    with open(path, encoding="ascii") as file:
        before = file.read()
    _write(path, "-1")
    try:
        time.sleep(settle_s)  # a thread that is stopped right now goes on
        yield
    finally:
        _write(path, before)


def _write(path, text):
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


class CpuWatch:
    """CPU use of a process's busiest thread, the worker, and of everybody else from construction to stop()."""

    def __init__(self, pid, ours):
        self._pid = pid
        self._load = ForeignLoad(ours | {pid})
        self._threads, self._started = thread_ticks(pid), time.monotonic()

    def stop(self):
        """(share of a CPU that the worker had, 0 to 1; what others used, "" when little)."""
        threads, seconds = thread_ticks(self._pid), time.monotonic() - self._started
        shares = [
            (ticks - self._threads.get(tid, (name, 0))[1]) / TICKS_PER_S / seconds
            for tid, (name, ticks) in threads.items()
        ]
        return max(shares, default=0.0), self._load.busy()


# --- hugepages -------------------------------------------------------------------------------------------------------


def _hugepages(name):
    with open(f"{HUGEPAGE_DIRECTORY}/{name}", encoding="ascii") as file:
        return int(file.read())


class Hugepages:
    """Context: at least `pages` free 2 MiB hugepages inside, the previous number of pages afterwards."""

    def __init__(self, pages):
        self._pages = pages
        self._previous = None

    def __enter__(self):
        if not os.path.isdir(HUGEPAGE_DIRECTORY):
            raise MachineError("the kernel has no 2 MiB hugepages (CONFIG_HUGETLBFS)")
        missing = self._pages - _hugepages("free_hugepages")
        if missing > 0:
            self._previous = _hugepages("nr_hugepages")
            self._set(self._previous + missing)
        try:
            self.check()
        except MachineError:
            self.__exit__()
            raise
        return self

    def check(self):
        """Raise MachineError when another program has taken the pages."""
        free = _hugepages("free_hugepages")
        if free < self._pages:
            raise MachineError(f"{self._pages} free 2 MiB hugepages are needed, the kernel has {free}")

    def __exit__(self, *_):
        if self._previous is not None:
            self._set(self._previous)
            self._previous = None

    @staticmethod
    def _set(pages):
        with open(f"{HUGEPAGE_DIRECTORY}/nr_hugepages", "w", encoding="ascii") as file:
            file.write(str(pages))


class OnlyRun:
    """Context that at most one program on the machine is in: two runs would measure each other."""

    def __enter__(self):
        # The kernel forgets an abstract name when its owner ends, however it ends.
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            self._socket.bind("\0weft-bench-peers")
        except OSError:
            self._socket.close()
            raise MachineError("another run of this comparison is in progress") from None
        return self

    def __exit__(self, *_):
        self._socket.close()


# --- description -----------------------------------------------------------------------------------------------------


def first_line(command):
    """First line that a command prints, "" when it cannot run."""
    if not shutil.which(command[0]):
        return ""
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    return (done.stdout or done.stderr).partition("\n")[0].strip()


def package_version(package):
    """Version of an installed Debian package, "" when it is not installed."""
    return first_line(["dpkg-query", "-W", "-f", "${Version}", package]) if _installed(package) else ""


def _installed(package):
    command = ["dpkg-query", "-W", "-f", "${db:Status-Abbrev}", package]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.startswith("ii")


def describe(cpus):
    """Facts about this machine that a reader needs to judge the numbers."""
    cpu = {}
    with open("/proc/cpuinfo", encoding="utf-8") as info:
        for line in info:
            key, _, value = line.partition(":")
            cpu.setdefault(key.strip(), value.strip())
    with open("/proc/meminfo", encoding="ascii") as info:
        memory_kb = int(info.readline().split()[1])
    return {
        "cpu": cpu.get("model name", platform.processor()),
        "cpu_family": cpu.get("cpu family", ""),
        "cpu_model": cpu.get("model", ""),
        "cpus": os.cpu_count(),
        "worker_cpu": cpus[-1],
        "virtual": "hypervisor" in cpu.get("flags", "").split(),
        "memory_mb": memory_kb // 1024,
        "kernel": platform.release(),
        "tsc_hz": tsc_hz(),
    }


def in_words(facts):
    """What describe() found out, as a report begins."""
    return f"{facts['cpu']}, kernel {facts['kernel']}, {facts['cpus']} CPUs{', virtual' if facts['virtual'] else ''}."
