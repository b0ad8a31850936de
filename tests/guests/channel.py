# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""The host's end of a guest's command channel. agent.pl describes the frames."""
import collections
import socket
import struct
import threading
import time

HEADER = struct.Struct(">IIc")
TIMED_OUT = 124
# The guest ends a command that takes too long; so long after it is asked why the command goes on.
GRACE_S = 15
# An emulated guest on a busy machine answers within seconds. What does not answer or take anything for so long is dead.
ANSWER_S = 30
CHUNK = 32768

Result = collections.namedtuple("Result", "code out")


class ChannelClosed(Exception):
    """The guest is gone: its QEMU ended or was ended, or it answers nothing."""


class CommandHangs(AssertionError):
    """The guest answers, but a command in it cannot be ended, not even by SIGKILL: its processes wait in the kernel
    (state D). The text has what the guest says about them."""


class Job:
    """A command that runs in a guest."""

    def __init__(self, channel, number, command, timeout):
        self.channel = channel
        self.number = number
        self.command = command
        self.deadline = time.monotonic() + timeout + GRACE_S
        self.code = None
        self.chunks = []

    def _text(self, kinds):
        return b"".join(chunk for kind, chunk in self.chunks if kind in kinds)

    @property
    def stdout(self):
        """Bytes that the command wrote to its standard output so far."""
        return self._text(b"O")

    @property
    def stderr(self):
        return self._text(b"S")

    @property
    def out(self):
        """Text of both outputs so far, in the order in which it arrived."""
        return self._text(b"OS").decode(errors="replace")

    def running(self):
        return self.code is None

    def ended(self, timeout):
        """Waits for the end for so many seconds; whether it has come."""
        return self.channel.wait(lambda: not self.running(), timeout)

    def kill(self):
        """Ends the command and its children; wait() then returns 137."""
        if self.running():
            self.channel.send(self.number, b"K")

    def write(self, data, end=False):
        """Gives the command input; `end` closes it."""
        for start in range(0, len(data), CHUNK):
            self.channel.send(self.number, b"I", data[start:start + CHUNK])
        if end:
            self.channel.send(self.number, b"E")

    def wait(self):
        """Waits for the end; returns (code, out). The code is 124 when the time limit ended it. Raises CommandHangs
        when the limit could not, and ChannelClosed when the guest is gone."""
        if not self.channel.wait(lambda: not self.running(), self.deadline - time.monotonic()):
            processes = self.channel.ask(self.number)
            if processes is None:
                raise ChannelClosed(f"the guest has not answered for {ANSWER_S} s, after {self.command}\n{self.out}")
            if self.running():
                raise CommandHangs(f"the guest answers, but this does not end: {self.command}\n{processes}{self.out}")
        return Result(self.code, self.out)

    def wait_for(self, text, timeout=30):
        """Waits until the outputs contain a text; raises when the command ends or the time is over before that."""
        self.channel.wait(lambda: text in self.out or not self.running(), timeout)
        if text not in self.out:
            raise AssertionError(f"no {text!r} within {timeout} s:\n{self.out}")
        return self


class Channel:
    """Runs commands in a guest over a connected stream socket, many at a time."""

    def __init__(self, connection):
        # Only sending has a limit: a guest that is dead takes no more than fits into the socket.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("@ll", ANSWER_S, 0))
        self.connection = connection
        self.jobs = {}
        self.answers = {}  # job -> what the guest said about it last
        self.next_number = 1
        self.ready = False
        self.closed = False
        self.changed = threading.Condition()
        self.sending = threading.Lock()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def run(self, command, timeout, data=b"", end=True):
        """`end`: the data is all of the command's input; otherwise Job.write() has more."""
        with self.changed:
            number = self.next_number
            self.next_number += 1
            job = self.jobs[number] = Job(self, number, command, timeout)
        self.send(number, b"R", struct.pack(">I", int(timeout + 0.999)) + command.encode())
        job.write(data, end)
        return job

    def wait(self, condition, timeout):
        """Waits until the condition holds; False when the time was over first."""
        with self.changed:
            self.changed.wait_for(lambda: condition() or self.closed, max(timeout, 0))
            if condition():
                return True
            if self.closed:
                raise ChannelClosed("the guest is gone")
            return False

    def ask(self, number=0, timeout=ANSWER_S):
        """What the guest says about a job: text, empty when it has none of that number. None: it does not answer."""
        with self.changed:
            self.answers.pop(number, None)
        self.send(number, b"Q")
        answered = self.wait(lambda: number in self.answers, timeout)
        return self.answers.get(number) if answered else None

    def send(self, number, kind, payload=b""):
        try:
            with self.sending:
                self.connection.sendall(HEADER.pack(len(payload), number, kind) + payload)
        except BlockingIOError as error:
            raise ChannelClosed(f"the guest has taken nothing for {ANSWER_S} s") from error
        except OSError as error:
            raise ChannelClosed("the guest is gone") from error

    def close(self):
        try:
            self.connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.reader.join()
        self.connection.close()

    def _read(self):
        buffer = b""
        while True:
            try:
                data = self.connection.recv(1 << 16)
            except OSError:
                data = b""
            with self.changed:
                buffer = self._take_frames(buffer + data)
                self.closed = not data
                self.changed.notify_all()
                if self.closed:
                    return

    def _take_frames(self, buffer):
        while len(buffer) >= HEADER.size:
            length, number, kind = HEADER.unpack_from(buffer)
            if len(buffer) < HEADER.size + length:
                break
            payload = buffer[HEADER.size:HEADER.size + length]
            buffer = buffer[HEADER.size + length:]
            if kind == b"H":
                self.ready = True
            elif kind == b"A":
                self.answers[number] = payload.decode(errors="replace")
            elif kind == b"X":
                self.jobs.pop(number).code = struct.unpack(">I", payload)[0]
            else:
                self.jobs[number].chunks.append((kind, payload))
        return buffer
