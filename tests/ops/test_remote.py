#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""The control service over TCP: who has a certificate of the right authority gets in, and nobody else."""
import json
import os
import re
import shutil
import socket
import ssl
import stat
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.dirname(__file__))
from certificates import Authority
from process import SWITCHES, Process, read

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"  # and empty SETTINGS


def frame(kind, flags, stream, payload):
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def greedy_show(table):
    """A request for a table, from a client whose flow control lets everything through."""
    def text(value):
        return bytes([len(value)]) + value
    headers = ((b":method", b"POST"), (b":scheme", b"http"), (b":path", b"/weft.control.v1.Control/Show"),
               (b":authority", b"weft"), (b"content-type", b"application/grpc"), (b"te", b"trailers"))
    request = b"\x0a" + text(table.encode())
    return (PREFACE[:24] + frame(4, 0, 0, b"\0\4\x7f\xff\xff\xff") + frame(8, 0, 0, b"\x7f\xfe\xff\xff")
            + frame(1, 4, 1, b"".join(b"\0" + text(name) + text(value) for name, value in headers))
            + frame(0, 1, 1, b"\0" + len(request).to_bytes(4, "big") + request))


def drain(sock):
    """What is left to read."""
    got = b""
    try:
        while part := sock.recv(65536):
            got += part
    except (ssl.SSLError, ConnectionError):
        pass
    return got


class Certificates(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="weft-certificates-")
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.servers = Authority(cls.folder, "servers")
        cls.clients = Authority(cls.folder, "clients")
        cls.others = Authority(cls.folder, "others")
        cls.server = cls.servers.sign("server", "IP:127.0.0.1,DNS:localhost")
        cls.client = cls.clients.sign("client")
        cls.stranger = cls.others.sign("stranger")

    def tcp(self, certificate=None, key=None, client_ca=None, address="127.0.0.1"):
        return (f", tcp: {{ address: {address}, port: 0, certificate: {certificate or self.server[0]}, "
                f"key: {key or self.server[1]}, client_ca: {client_ca or self.clients.certificate} }}")


class Remote(Certificates):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.process = Process()
        cls.addClassCleanup(cls.process.__exit__, None, None, None)
        agents = ", ".join(f"{{ host: {name}, addresses: [10.{n}.0.0/16] }}" for n, name in enumerate(("client", "h2")))
        cls.process.start(cls.process.write(control=cls.tcp(cls), switches=SWITCHES.replace(
            "[parse, rdma_track, l2]", f"[parse, rdma_track: {{ agents: [{agents}] }}, l2]")))
        cls.port = int(re.search(r"control on 127\.0\.0\.1 port (\d+)", read(cls.process.log_path)).group(1))

    def ask(self, pair, ca, host="127.0.0.1"):
        return self.process.ctl("--address", f"{host}:{self.port}", "--cert", pair[0], "--key", pair[1], "--ca", ca,
                                "show", "ports", socket=False)

    def assert_still_works(self):
        status, out, err = self.ask(self.client, self.servers.certificate)
        self.assertEqual((status, err), (0, ""))
        self.assertIn("tor1", out)

    def test_the_right_client_gets_in(self):
        self.assert_still_works()

    def test_a_name_works_where_the_certificate_has_it(self):
        status, _, err = self.ask(self.client, self.servers.certificate, host="localhost")
        self.assertEqual((status, err), (0, ""))

    def test_the_unix_socket_works_beside_it_and_is_private(self):
        self.assertEqual(self.process.ctl("show", "ports")[0], 0)
        mode = os.stat(self.process.socket).st_mode
        self.assertTrue(stat.S_ISSOCK(mode))
        self.assertEqual(stat.S_IMODE(mode), 0o600)

    def test_an_agent_speaks_for_the_host_that_its_certificate_names(self):
        def report(host, *more):
            return self.process.ctl("--address", f"127.0.0.1:{self.port}", "--cert", self.client[0], "--key",
                                    self.client[1], "--ca", self.servers.certificate, *words, f"host={host}", *more,
                                    socket=False)

        words = ("command", "rdma_track", "agent", "session=5", "sequence=1", "begin=true")
        self.assertEqual(report("client")[::2], (0, ""))
        for more in ((), ("peer=h2",)):
            status, _, err = report("h2", *more)
            self.assertEqual(status, 1, err)
            self.assertIn("the certificate does not name 'h2', but: client,nobody.example", err)
        status, _, err = self.process.ctl(*words, "host=h2")
        self.assertEqual((status, err), (0, ""), "whoever may open the socket speaks for all")

    def test_a_certificate_of_another_authority_is_refused(self):
        status, out, err = self.ask(self.stranger, self.servers.certificate)
        self.assertEqual((status, out), (3, ""))
        self.assertIn(f"cannot use 127.0.0.1:{self.port}", err)

    def test_the_log_says_why_a_certificate_was_refused(self):
        def logged():
            # No more than a line a second: one that falls into the second of another test's is asked for again.
            self.assertEqual(self.ask(self.stranger, self.servers.certificate)[0], 3)
            return re.search(r"warning: control over TCP: a client is refused.*: certificate verify failed$",
                             read(self.process.log_path), re.M)
        self.process.wait_for(logged, "a line in the log")

    def test_the_port_may_be_left_out(self):
        for address, whole in (("127.0.0.1", "127.0.0.1:9796"), ("::1", "[::1]:9796"), ("[::1]", "[::1]:9796"),
                               ("localhost", "localhost:9796"), ("[::1]:1", "[::1]:1"), ("127.0.0.1:1", "127.0.0.1:1")):
            with self.subTest(address):
                status, _, err = self.process.ctl("--address", address, "--cert", self.stranger[0], "--key",
                                                  self.stranger[1], "--ca", self.servers.certificate, "about",
                                                  socket=False)
                self.assertEqual(status, 3, err)
                self.assertIn(f"cannot use {whole}: ", err)

    def test_a_certificate_of_the_servers_authority_is_no_clients(self):
        status, out, _ = self.ask(self.server, self.servers.certificate)
        self.assertEqual((status, out), (3, ""))

    def test_the_client_refuses_a_server_of_another_authority(self):
        status, out, err = self.ask(self.client, self.others.certificate)
        self.assertEqual((status, out), (3, ""))
        self.assertRegex(err, "(?i)certificate.verify.failed|handshake")

    def answer(self, sock):
        """What comes back for HTTP/2's opening, until the other side is silent or gone."""
        got = b""
        try:
            sock.sendall(PREFACE)
            while True:
                part = sock.recv(4096)
                if not part:
                    return got
                got += part
        except (ssl.SSLError, ConnectionError):
            return got

    def test_no_certificate_no_answer(self):
        context = ssl.create_default_context(cafile=self.servers.certificate)
        context.set_alpn_protocols(["h2"])
        with socket.create_connection(("127.0.0.1", self.port), timeout=20) as raw:
            try:
                with context.wrap_socket(raw, server_hostname="localhost") as sock:
                    self.assertEqual(self.answer(sock), b"")
            except (ssl.SSLError, ConnectionError):
                pass
        # With a certificate the same opening is answered: the test can fail.
        context.load_cert_chain(*self.client)
        with socket.create_connection(("127.0.0.1", self.port), timeout=2) as raw:
            with context.wrap_socket(raw, server_hostname="localhost") as sock:
                sock.sendall(PREFACE)
                self.assertNotEqual(sock.recv(4096), b"")

    def test_plaintext_is_refused(self):
        with socket.create_connection(("127.0.0.1", self.port), timeout=20) as raw:
            got = self.answer(raw)
        # At most a TLS alert; a frame of HTTP/2 would begin with its length.
        self.assertTrue(got == b"" or got[:2] == b"\x15\x03", got)
        self.assert_still_works()

    def test_connections_without_a_handshake_end_and_keep_nobody_out(self):
        idle = [socket.create_connection(("127.0.0.1", self.port), timeout=20) for _ in range(50)]
        half = [socket.create_connection(("127.0.0.1", self.port), timeout=20) for _ in range(20)]
        for sock in half:
            sock.sendall(b"\x16\x03\x01\x02\x00\x01\x00")
        self.assert_still_works()
        started = time.monotonic()
        self.assertEqual(idle[0].recv(100), b"")
        self.assertLess(time.monotonic() - started, 15)
        for sock in idle + half:
            sock.close()

    def test_garbage_keeps_nobody_out(self):
        for garbage in (os.urandom(100_000), b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\xff\xff" + b"\0" * 70000):
            with socket.create_connection(("127.0.0.1", self.port), timeout=20) as raw:
                try:
                    raw.sendall(garbage)
                except ConnectionError:
                    pass
        self.assert_still_works()

    def test_weftctl_wants_all_of_its_files(self):
        for arguments in (["--address", "127.0.0.1:1"], ["--cert", self.client[0]],
                          ["--address", "127.0.0.1:1", "--cert", self.client[0], "--key", self.client[1]],
                          ["--address", "127.0.0.1:1", "--socket", "/s", "--cert", "a", "--key", "b", "--ca", "c"]):
            status, _, err = self.process.ctl(*arguments, "about", socket=False)
            self.assertEqual(status, 2, err)
        status, _, err = self.process.ctl("--address", "127.0.0.1:1", "--cert", "/nonexistent", "--key",
                                          self.client[1], "--ca", self.servers.certificate, "about", socket=False)
        self.assertEqual(status, 3)
        self.assertIn("/nonexistent", err)


class Operators(Certificates):
    """What certificates may do when the configuration names those of operators."""

    def ctl(self, process, pair, *words):
        port = re.search(r"control on 127\.0\.0\.1 port (\d+)", read(process.log_path)).group(1)
        return process.ctl("--address", f"127.0.0.1:{port}", "--cert", pair[0], "--key", pair[1], "--ca",
                           self.servers.certificate, *words, socket=False)

    def test_the_certificate_of_an_agent_is_good_for_its_reports_only(self):
        agent = self.clients.sign("h1", "DNS:h1")
        both = self.clients.sign("h2", "DNS:h2,DNS:client")
        nobody = self.clients.sign("nobody", "DNS:nobody,DNS:cli*,DNS:clients")
        switches = SWITCHES.replace("[parse, rdma_track, l2]", "[parse, rdma_track: { agents: [ "
                                    "{ host: h1, addresses: [10.1.0.0/16] } ] }, l2]")
        report = ("command", "rdma_track", "agent", "session=5", "sequence=1", "begin=true")
        with Process() as process:
            process.start(process.write(control=self.tcp().replace(" }", ", operators: [client] }"),
                                        switches=switches))
            self.assertEqual(self.ctl(process, agent, *report, "host=h1")[::2], (0, ""))
            for words in (("show", "ports"), ("about",), ("diff", "/etc/hostname"), ("reload",), ("clear", "ports"),
                          ("set", "log-level", "debug"), ("set", "impair", "off"), ("trace", "--count", "1"),
                          ("record", "-w", "/dev/null"),
                          ("capture", "-w", "/dev/null", "--count", "1")):
                for pair, names in ((agent, "h1,h1"), (nobody, "nobody,nobody,cli*,clients")):
                    status, out, err = self.ctl(process, pair, *words)
                    self.assertEqual((status, out), (1, ""), (words, err))
                    self.assertIn(f"the certificate names {names}, and none of control: tcp: operators", err, words)
            status, out, err = self.ctl(process, agent, "--json", "commands")
            self.assertEqual((status, err), (0, ""))
            self.assertEqual([(row["stage"], row["verb"]) for row in json.loads(out)], [("rdma_track", "agent")])
            status, _, err = self.ctl(process, nobody, *report, "host=h1")
            self.assertEqual(status, 1)
            self.assertIn("the certificate does not name 'h1'", err)
            for pair in (self.client, both):
                self.assertEqual(self.ctl(process, pair, "show", "ports")[::2], (0, ""))
            self.assertEqual(process.ctl("show", "ports")[0], 0, "the unix socket asks for no certificate")
            self.assertEqual(process.ctl("set", "log-level", "debug")[0], 0)

    def test_a_certificate_without_a_name_is_nobodys(self):
        unnamed = self.clients.sign("unnamed", "", subject="/O=weft")
        report = ("command", "rdma_track", "agent", "session=5", "sequence=1", "begin=true", "host=h1")
        switches = SWITCHES.replace("[parse, rdma_track, l2]", "[parse, rdma_track: { agents: [ "
                                    "{ host: h1, addresses: [10.1.0.0/16] } ] }, l2]")
        with Process() as process:
            process.start(process.write(control=self.tcp(), switches=switches))
            status, _, err = self.ctl(process, unnamed, *report)
            self.assertEqual(status, 1)
            self.assertIn("the certificate does not name 'h1', but: (nobody)", err)


class Start(Certificates):
    def test_without_a_unix_socket_tcp_alone_serves_and_the_process_stops_at_once(self):
        with Process() as process:
            path = process.write(control=self.tcp())
            with open(path) as file:
                text = file.read().replace(process.socket, '""')
            with open(path, "w") as file:
                file.write(text)
            process.start(path)
            port = re.search(r"control on 127\.0\.0\.1 port (\d+)", read(process.log_path)).group(1)
            status, _, err = process.ctl("--address", "127.0.0.1:" + port, "--cert", self.client[0], "--key",
                                         self.client[1], "--ca", self.servers.certificate, "about", socket=False)
            self.assertEqual((status, err), (0, ""))
            held = socket.create_connection(("127.0.0.1", int(port)))
            started = time.monotonic()
            self.assertEqual(process.stop(), 0)
            self.assertLess(time.monotonic() - started, 10)
            held.close()

    def test_a_client_that_never_reads_does_not_hold_up_the_end(self):
        switches = """
  - name: tor1
    ports:
      - { name: in, type: generator, qps: 30000, source_mac: "02:00:00:00:00:aa", destination_mac: "02:00:00:00:00:bb",
          source: 10.1.0.9, destination: 10.2.0.9, payload_bytes: 64, mtu_bytes: 1500 }
      - { name: out, type: "null", mtu_bytes: 1500 }
    pipeline: [parse, rdma_track, l2]
"""
        with Process() as process:
            process.start(process.write(control=self.tcp(), switches=switches))
            port = int(re.search(r"port (\d+), with certificates", read(process.log_path)).group(1))

            def tracked():
                return [row["value"] for row in process.show("counters") if row["counter"] == "qps_active"][0]
            process.wait_for(lambda: tracked() >= 30000, "queue pairs")
            context = ssl.create_default_context(cafile=self.servers.certificate)
            context.set_alpn_protocols(["h2"])
            context.load_cert_chain(*self.client)
            raw = socket.socket()
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            raw.connect(("127.0.0.1", port))
            with context.wrap_socket(raw, server_hostname="localhost") as sock:
                sock.sendall(greedy_show("qps"))
                got = b""
                while len(got) < 50_000:
                    got += sock.recv(4096)
                self.assertIn(b'"switch":"tor1"', got)
                # Until the answer, which is far larger, fills what lies between.
                time.sleep(1)
                self.assertEqual(process.ctl("about")[0], 0)
                started = time.monotonic()
                self.assertEqual(process.stop(), 0)
                self.assertLess(time.monotonic() - started, 12)
                # The answer was cut: most of it never came.
                self.assertLess(len(drain(sock)), 5_000_000)

    def test_new_certificates_are_used_without_a_restart(self):
        with Process() as process:
            own = [process.path(name) for name in ("own.crt", "own.key", "clients.crt")]

            def install(*files):
                # Each appears at once, as a tool that renews certificates does it.
                for source, path in zip(files, own):
                    shutil.copy(source, path + ".new")
                    os.rename(path + ".new", path)
            install(*self.server, self.clients.certificate)
            process.start(process.write(control=self.tcp(*own)))
            port = int(re.search(r"control on 127\.0\.0\.1 port (\d+)", read(process.log_path)).group(1))

            def ask(pair, ca):
                return process.ctl("--address", f"127.0.0.1:{port}", "--cert", pair[0], "--key", pair[1], "--ca", ca,
                                   "show", "ports", socket=False)[0]
            self.assertEqual(ask(self.client, self.servers.certificate), 0)
            self.assertEqual(ask(self.stranger, self.servers.certificate), 3)

            # Another server certificate by another authority, and other clients.
            install(*self.others.sign("renewed", "IP:127.0.0.1"), self.others.certificate)
            deadline = time.monotonic() + 30
            while ask(self.stranger, self.others.certificate) != 0:
                self.assertLess(time.monotonic(), deadline, "the new certificates are not in use")
                time.sleep(0.2)
            self.assertEqual(ask(self.client, self.others.certificate), 3)
            self.assertEqual(ask(self.stranger, self.servers.certificate), 3)
            process.stop()

    def test_a_port_in_use_is_an_error(self):
        with Process() as process, socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            path = process.write(control=self.tcp().replace("port: 0", f"port: {port}"))
            with self.assertRaises(AssertionError):
                process.start(path)
            self.assertEqual(process.switch.returncode, 3)
            self.assertIn(f"cannot listen on 127.0.0.1:{port}", read(process.log_path))

    def test_check_refuses_what_is_missing_or_does_not_fit(self):
        with Process() as process:
            garbage = process.path("garbage.pem")
            with open(garbage, "w") as file:
                file.write("-----BEGIN CERTIFICATE-----\nnot base64\n-----END CERTIFICATE-----\n")
            fifo = process.path("fifo")
            os.mkfifo(fifo)
            whole = self.tcp()
            for control, mistake in (
                    (whole.replace(self.server[0], "/nonexistent.crt"), "certificate: cannot read /nonexistent.crt"),
                    (whole.replace(self.server[1], "/nonexistent.key"), "key: cannot read /nonexistent.key"),
                    (whole.replace(self.clients.certificate, "/nonexistent"), "client_ca: cannot read /nonexistent"),
                    (whole.replace(self.server[1], self.client[1]), "is not the key of"),
                    (whole.replace(self.server[0], garbage), "holds no certificate"),
                    (whole.replace(self.server[1], garbage), "holds no private key"),
                    (whole.replace(self.clients.certificate, self.client[1]), "holds no certificate"),
                    (whole.replace(self.clients.certificate, fifo), "is not a regular file"),
                    (whole.replace(self.clients.certificate, process.directory), "is not a regular file"),
                    (re.sub(r", client_ca: \S+", "", whole), "client_ca"),
                    (re.sub(r" key: \S+,", "", whole), "key"),
                    (whole.replace("address: 127.0.0.1, ", ""), "address")):
                status, messages = process.check(process.write(control=control))
                self.assertEqual(status, 2, control)
                self.assertIn(mistake, messages)
                self.assertIn("weft.yaml:2:", messages)
            self.assertEqual(process.check(process.write(control=whole))[0], 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
