# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""An MPI program on the hosts of a lab, with and without the switches: weft-inc-manager, a weft-incd on each host,
Open MPI with weft's component, and what the program measures."""
import contextlib
import dataclasses
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import time

import yaml

from bench.report import charts, page
from tools.lab import collective, experiment, namespaces
from tools.lab.namespaces import LabError

_MEASURED = re.compile(r"^\s*(\d+)\s+([\d.]+)\s*$", re.M)  # as the OSU benchmarks print it: bytes, microseconds
_RAN = re.compile(r"coll:weft: group \d+ ran (\d+) collectives")
_PATIENCE_S = 10


@dataclasses.dataclass(frozen=True)
class Result:
    variant: object
    times: dict  # bytes -> microseconds
    by_switches: int  # collectives of rank 0's communicators that switches ran
    output: str
    wall_s: float


def system_folder():
    """Of the components that Open MPI has of its own."""
    return namespaces.run("ompi_info", "--path", "pkglibdir", "--parsable").strip().split(":")[-1]


def component_folder(programs):
    """Of mca_coll_weft.so: where it was built, or where it is installed."""
    for folder in (os.path.join(programs, "../lib/openmpi"), system_folder()):
        if os.path.exists(os.path.join(folder, "mca_coll_weft.so")):
            return os.path.realpath(folder)
    return None


def manager_document(path, folder, switch_socket):
    """The manager's configuration, with the sockets and the database of the lab."""
    with open(path, encoding="utf-8") as file:
        document = yaml.safe_load(file)
    if not isinstance(document, dict) or not isinstance(document.get("switches"), list):
        raise LabError(f"{path} is no configuration of weft-inc-manager: it has no switches")
    document["control"] = {"socket": os.path.join(folder, "inc-manager.sock")}
    document["store"] = os.path.join(folder, "inc.db")
    for switch in document["switches"]:
        switch["control"] = switch_socket
    return document


def measured(output, hosts):
    """What a program has printed between so many hosts: (microseconds by bytes, collectives by switches)."""
    times = {int(size): float(us) for size, us in _MEASURED.findall(output)}
    return times, sum(int(count) for count in _RAN.findall(output)) // max(1, hosts)


class Bench(experiment.Bench):
    """Hosts on which mpirun starts ranks; `ip netns exec` takes the place of ssh."""

    def prepare(self):
        """Hosts and the program; what is missing on this machine is said before anything is made."""
        for name in ("mpirun", "ompi_info", "mpicc"):
            if shutil.which(name) is None:
                raise LabError(f"there is no {name}: apt-get install openmpi-bin libopenmpi-dev")
        self._components = component_folder(self._programs)
        if self._components is None:
            raise LabError("mca_coll_weft.so is not there: it is built where libopenmpi-dev is installed")
        self.make_hosts()
        work = self._lab.workload
        self._program = self._site.path("program")
        namespaces.run("mpicc", "-O2", "-o", self._program, work.program, timeout=120)
        self._write_script("agent", "$1", {str(host.address.ip): f"space={self._site.namespace(host.name)}; "
                                           f"name={host.name}" for host in self._lab.hosts},
                           'shift\nexec ip netns exec $space unshare --uts sh -c "hostname $name; $*"\n')
        # A rank finds the daemon of its host by the host's name.
        self._write_script("rank", "$(hostname)", {host.name: f"WEFT_INC_SOCKET={self._daemon_socket(host)}"
                                                   for host in self._lab.hosts},
                           'export WEFT_INC_SOCKET\nexec "$@"\n')

    def addresses(self, host):
        """One: with several on an interface Open MPI does not know its peers' connections."""
        return host.addresses()[:1]

    def _write_script(self, name, word, cases, rest):
        path = self._site.path(name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(f'#!/bin/sh\ncase "{word}" in\n' + "".join(f"  {case}) {does} ;;\n"
                                                                  for case, does in cases.items()) + f"esac\n{rest}")
        os.chmod(path, 0o755)

    def _daemon_socket(self, host):
        return self._site.path(f"{host.name}.incd.sock")

    def _start_manager(self, stack):
        document = manager_document(self._lab.workload.manager, self._site.folder, self._site.socket)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(document["store"])
        with open(self._site.path("inc-manager.yaml"), "w", encoding="utf-8") as file:
            json.dump(document, file)
        self._start(stack, ["weft-inc-manager", "-c", file.name], "manager", document["control"]["socket"])
        for host in self._lab.hosts:
            socket = self._daemon_socket(host)
            self._start(stack, ["weft-incd", "--socket", socket, "--manager-socket", document["control"]["socket"]],
                        f"{host.name}.incd", socket)

    def _start(self, stack, command, name, socket):
        log = f"{name}.log"
        process = self._site.spawn(self._site.fabric, [self.program(command[0]), *command[1:]], log)
        stack.callback(namespaces.stop, process)
        namespaces.wait_for(lambda: os.path.exists(socket), f"{command[0]} to listen", _PATIENCE_S, process,
                            self._site.path(log))

    def measure(self, variant):
        started = time.monotonic()
        with contextlib.ExitStack() as stack:
            switch = self.start_switch(variant, experiment.MIN_GUARD_US)
            stack.callback(namespaces.stop, switch)
            self._start_manager(stack)
            output = self._mpirun(variant)
        times, ran = measured(output, len(self._lab.hosts))
        if not times:
            raise LabError(f"the program has printed no lines of bytes and microseconds:\n{output[-2000:]}")
        return Result(variant, times, ran, output, time.monotonic() - started)

    def _mpirun(self, variant):
        """All output of the program."""
        hosts, work = self._lab.hosts, self._lab.workload
        settings = {"plm_rsh_agent": self._site.path("agent"), "pml": "ob1", "btl": "tcp,self,vader",
                    "btl_vader_single_copy_mechanism": "none", "btl_tcp_if_include": "eth0",
                    "oob_tcp_if_include": "eth0", "coll_weft_verbose": "1",
                    "mca_base_component_path": f"{self._components}:{system_folder()}", **variant.mpi}
        words = ["mpirun", "--allow-run-as-root", "--oversubscribe"]
        for name, value in settings.items():
            words += ["--mca", name, str(value)]
        each = variant.ranks_per_host
        words += ["--host", ",".join(f"{host.address.ip}:{each}" for host in hosts), "-np", str(each * len(hosts)),
                  self._site.path("rank"), self._program,
                  *map(str, work.arguments)]
        # The first host's name, as the others have theirs.
        process = self._site.spawn(self._site.namespace(hosts[0].name),
                                   ["unshare", "--uts", "sh", "-c", f"hostname {hosts[0].name}; exec "
                                    + shlex.join(words)], "mpirun.log", stdout=subprocess.PIPE, text=True)
        try:
            out, _ = process.communicate(timeout=work.limit_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGTERM)
            raise LabError(f"the MPI program did not end within {work.limit_s} s") from None
        with open(self._site.path("mpirun.log"), encoding="utf-8", errors="replace") as file:
            said = file.read()
        os.truncate(self._site.path("mpirun.log"), 0)
        if process.returncode != 0:
            raise LabError(f"mpirun ended with {process.returncode}\n{(out + said).strip()[-2000:]}")
        return out + said


# --- what was found --------------------------------------------------------------------------------------------------


def header(results):
    return ("vector", *(f"{result.variant.name}, us" for result in results))


def rows(results):
    sizes = sorted({size for result in results for size in result.times})
    return [(collective.size_text(size), *(f"{result.times[size]:.1f}" if size in result.times else "-"
                                           for result in results)) for size in sizes]


def text_table(results):
    by = ("by switches", *(f"{result.by_switches} collectives" for result in results))
    table = [header(results), *rows(results), by]
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths)) for row in table]
    rule = "-" * max(map(len, lines))
    return "\n" + "\n".join([lines[0], rule, *lines[1:-1], rule, lines[-1]])


def html(lab, results, origin):
    made = page.Page(lab.title)
    if lab.about:
        made.paragraph(lab.about)
    made.paragraph(f"Ranks on {len(lab.hosts)} hosts. They share the CPUs of this machine ({os.cpu_count()}) with the "
                   "switches, so the numbers tell variants apart, not switches.")
    lines = [charts.Line(result.variant.name, sorted(result.times.items()), dots=True) for result in results]
    made.figure(charts.line_chart(lines, "bytes of the vector", "us each", x_log=True, y_from_zero=True,
                                  label="Time by size"), "Time of a collective by the bytes of its vector.")
    made.table(header(results), rows(results))
    made.paragraph(origin.text())
    return made.html()


def json_text(lab, results, origin):
    return json.dumps({"lab": lab.name, **dataclasses.asdict(origin), "variants": [
        {"name": result.variant.name, "by_switches": result.by_switches,
         "times_us": {str(size): us for size, us in sorted(result.times.items())}} for result in results]},
        indent=1) + "\n"
