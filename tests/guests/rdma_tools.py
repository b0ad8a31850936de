# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""RDMA programs of Debian's packages between two guests: perftest, rdma-core's tools, qperf.

Every function runs server and client to their end and raises when one of them fails. Servers are known to listen before
clients start. Addresses of IP version 6 give IPv6 GIDs; perftest and qperf exchange their parameters over IPv4 TCP,
which is all they know.
"""
import re
from dataclasses import dataclass

from guest import GuestError

PERFTEST_PORT = 18515
QPERF_PORT = 19765
# 4.096 us * 2^20, 4 s: a guest may not get the CPU for longer than the default of 67 ms, and a retransmission that no
# loss has caused would look like an error of the switch.
QP_TIMEOUT = 20
# The IB transport retries 7 times, that is half a minute.
TIMEOUT_S = 50


@dataclass(frozen=True)
class Side:
    """What perftest says about one end of a queue pair."""
    qpn: int
    psn: int


@dataclass(frozen=True)
class Transfer:
    """A finished perftest run: the client's queue pairs, the server's, and what the client printed."""
    client: tuple
    server: tuple
    out: str

    @property
    def megabytes_per_second(self):
        """Average bandwidth that a *_bw program measured."""
        return float(self.out.strip().splitlines()[-2].split()[3])


def fail(what, *results):
    texts = [f"exit {result.code}:\n{result.out}" for result in results]
    raise GuestError("\n".join([f"{what} failed", *texts]))


def wait_for_listener(guest, job, condition):
    """Waits until a shell condition holds in the guest in which the server `job` runs."""
    if guest.run(f"for i in $(seq 200); do {condition} && exit 0; sleep 0.05; done; exit 1").code != 0:
        job.kill()
        fail("server", job.wait())


def wait_for_tcp_listener(guest, job, port):
    wait_for_listener(guest, job, f"ss -ltnH sport = :{port} | grep -q .")


def wait_for_cm_listener(guest, job):
    wait_for_listener(guest, job, "rdma resource show cm_id | grep -q LISTEN")


def finish(what, server_job, client_result):
    if client_result.code != 0:
        server_job.kill()
    server_result = server_job.wait()
    if client_result.code != 0 or server_result.code != 0:
        fail(what, client_result, server_result)
    return server_result


def sides(out, which):
    return tuple(Side(int(qpn, 16), int(psn, 16))
                 for qpn, psn in re.findall(which + r" address: LID \S+ QPN (0x\w+) PSN (0x\w+)", out))


class PerftestRun:
    """A perftest program under way."""

    def __init__(self, program, client, server, options="", version=4, timeout=TIMEOUT_S, qp_timeout=QP_TIMEOUT,
                 port=PERFTEST_PORT):
        self.what = f"{program} {options} (IPv{version})"
        common = f"{program} -d rxe0 -F --qp-timeout={qp_timeout} -p {port} {options} -x "
        self.server = server.start(common + str(server.gid_index(server.address(version))), timeout)
        if "-R" in options.split():
            wait_for_cm_listener(server, self.server)
        else:
            wait_for_tcp_listener(server, self.server, port)
        self.client = client.start(common + f"{client.gid_index(client.address(version))} {server.address(4)}", timeout)

    def wait(self):
        result = self.client.wait()
        finish(self.what, self.server, result)
        return Transfer(sides(result.out, "local"), sides(result.out, "remote"), result.out)


def perftest(program, client, server, options="", version=4, timeout=TIMEOUT_S, qp_timeout=QP_TIMEOUT):
    """Runs one of perftest's programs, such as ib_send_bw."""
    return PerftestRun(program, client, server, options, version, timeout, qp_timeout).wait()


def rping(client, server, count=10, size=1000, version=4):
    """rping with verification: the server reads and writes the client's memory, and data is compared."""
    options = f"-v -V -C {count} -S {size}"
    address = server.address(version)
    server_job = server.start(f"rping -s -a {address} {options}", TIMEOUT_S)
    wait_for_cm_listener(server, server_job)
    result = client.run(f"rping -c -a {address} {options}", TIMEOUT_S)
    # The server's exit code says nothing: with a count it ends when the client disconnects. Nor does the client's when,
    # all done, it closes its event channel while its other thread reads it.
    server_result = server_job.wait()
    received = server_result.out.count("server ping data: rdma-ping-")
    ended = result.code == 0 or "rdma_get_cm_event: Bad file descriptor" in result.out
    if not ended or received != count or result.out.count("\nping data: ") + result.out.startswith(
            "ping data: ") != count:
        fail(f"rping {options} {address}", result, server_result)


def rdma_cm_pair(program, client, server, options, version):
    address = server.address(version)
    server_job = server.start(f"{program} -b {address} {options}", TIMEOUT_S)
    wait_for_cm_listener(server, server_job)
    result = client.run(f"{program} -s {address} {options}", TIMEOUT_S)
    finish(f"{program} {options} {address}", server_job, result)


def ucmatose(client, server, connections=2, messages=5, size=2000, version=4):
    """Connected queue pairs by CM; messages in both directions."""
    rdma_cm_pair("ucmatose", client, server, f"-c {connections} -C {messages} -S {size}", version)


def udaddy(client, server, connections=2, messages=5, size=500, version=4):
    """Unreliable datagrams; the queue pairs are looked up by CM (SIDR)."""
    rdma_cm_pair("udaddy", client, server, f"-c {connections} -C {messages} -S {size}", version)


def qperf(client, server, tests=("rc_lat", "rc_rdma_read_bw"), seconds=1, attempts=3):
    """qperf's RC tests, with connections by CM over IPv4. On a busy machine its server rejects now and then a client
    that comes before it is ready for the second test: that is tried again."""
    server_job = server.start("qperf", TIMEOUT_S)
    try:
        wait_for_tcp_listener(server, server_job, QPERF_PORT)
        for attempt in range(1, attempts + 1):
            result = client.run(f"qperf -t {seconds} -cm 1 {server.address(4)} {' '.join(tests)}", TIMEOUT_S)
            if result.code == 0:
                return result.out
            if attempt == attempts or "Event rejected" not in result.out:
                break
            print(f"qperf's server was not ready, attempt {attempt} of {attempts}", flush=True)
    finally:
        server_job.kill()
    return fail(f"qperf {tests}", result, server_job.wait())
