# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""A program of mpi4py that knows nothing of weft: collectives on buffers, on objects, on a duplicate of the world and
on halves of it. Rank 0 prints what all ranks have, which is the same whoever adds."""
import array
import hashlib

from mpi4py import MPI

LENGTHS = (1, 17, 5000)


def vector(rank, length):
    # Whole numbers: sums of doubles are exact in any order.
    return array.array("d", ((rank + 1) * (i % 1000 - 500) for i in range(length)))


def on_buffers(comm):
    out = []
    for length in LENGTHS:
        for op in (MPI.SUM, MPI.MAX, MPI.MIN):
            mine, got = vector(comm.rank, length), array.array("d", bytes(8 * length))
            comm.Allreduce([mine, MPI.DOUBLE], [got, MPI.DOUBLE], op=op)
            out.append(got)
            comm.Reduce([mine, MPI.DOUBLE], [got, MPI.DOUBLE] if comm.rank == 0 else None, op=op, root=0)
            out.append(got)
        in_place = vector(comm.rank, length)
        comm.Allreduce(MPI.IN_PLACE, [in_place, MPI.DOUBLE])
        got = vector(7, length) if comm.rank == comm.size - 1 else array.array("d", bytes(8 * length))
        comm.Bcast([got, MPI.DOUBLE], root=comm.size - 1)
        every = array.array("d", bytes(8 * length * comm.size))
        comm.Allgather([vector(comm.rank, length), MPI.DOUBLE], [every, MPI.DOUBLE])
        comm.Barrier()
        out += [in_place, got, every]
    return [hashlib.sha256(found.tobytes()).hexdigest()[:16] for found in out]


def on_objects(comm):
    words = comm.allreduce([f"rank {comm.rank}"])
    return [words, comm.bcast({"from": comm.rank}, root=1), comm.allgather(comm.rank ** 2),
            comm.allreduce(comm.rank, op=MPI.MAX), comm.scatter(list(range(comm.size)) if comm.rank == 0 else None)]


def main():
    world = MPI.COMM_WORLD
    twin = world.Dup()
    half = world.Split(world.rank % 2, world.rank)
    found = world.gather([on_buffers(world), on_objects(world), on_buffers(twin), on_buffers(half)])
    twin.Free()
    half.Free()
    if world.rank == 0:
        for rank, results in enumerate(found):
            print("result", rank, results, flush=True)


main()
