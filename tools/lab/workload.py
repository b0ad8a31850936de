# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""What the hosts of a lab do."""
import dataclasses
import os


@dataclasses.dataclass(frozen=True)
class Flow:
    source: str
    target: str
    name: str | None = None

    def text(self):
        return self.name or f"{self.source} to {self.target}"


@dataclasses.dataclass(frozen=True)
class Workload:
    flows: list
    bytes: int | None  # of each flow; or
    duration_s: int | None
    message_bytes: int
    limit_s: int

    def text(self):
        return f"{self.bytes / 1e6:g} MB" if self.bytes else f"{self.duration_s} s"


@dataclasses.dataclass(frozen=True)
class Collectives:
    """Of all hosts, in their order, added up by the switches."""

    operations: list
    sizes: list  # bytes; a barrier has none
    times: int  # of each size
    window: int  # messages
    message_packets: int
    limit_s: int
    flows: tuple = ()

    def text(self):
        sizes = len(self.sizes)
        return f"{', '.join(self.operations)}, {sizes} size{'s' * (sizes > 1)}"


@dataclasses.dataclass(frozen=True)
class Mpi:
    """A program of Open MPI on all hosts, in their order."""

    manager: str  # path of weft-inc-manager's file
    program: str  # path of its source in C
    arguments: list
    limit_s: int
    flows: tuple = ()

    def text(self):
        return os.path.basename(self.program)


OPERATIONS = ("allreduce", "reduce", "broadcast", "barrier", "reducescatter", "allgather")
# A fragment of the vector for each rank.
SCATTERED = ("reducescatter", "allgather")
