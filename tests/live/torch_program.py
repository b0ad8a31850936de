#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""A rank of test_inc_torch.py: a program for PyTorch, which finds the others as torchrun tells programs (MASTER_ADDR,
MASTER_PORT, RANK, WORLD_SIZE). Its last line is JSON.

    collectives        every collective, operation and type of the backend "weft", and what it does not have
    train BACKEND      DistributedDataParallel of a small network: the losses, and who ran the collectives"""
import datetime
import json
import logging
import random
import sys
import time

import torch
import torch.distributed as dist
import weft_torch

STEPS, BATCH, INPUTS, HIDDEN, CLASSES = 12, 16, 48, 96, 10
INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
OPERATIONS = {"SUM": torch.add, "PRODUCT": torch.mul, "MIN": torch.minimum, "MAX": torch.maximum}
BITWISE = {"BAND": torch.bitwise_and, "BOR": torch.bitwise_or, "BXOR": torch.bitwise_xor}


def expect(right, what):
    if not right:
        raise AssertionError(f"rank {dist.get_rank()}: {what} is wrong")


def refused(call, words):
    """The error that a call must end with."""
    try:
        call()
    except RuntimeError as error:
        expect(words in str(error), f"'{error}' for '{words}'")
        return
    raise AssertionError(f"no error, but there should be: {words}")


def value(rank, count, dtype):
    """Small numbers, whose sums and products over the ranks are exact in all types."""
    return (1 + (torch.arange(count) + rank) % 3).to(dtype)


def reduced(function, count, dtype, first=0):
    out = value(0, count, dtype)
    for rank in range(1, dist.get_world_size()):
        out = function(out, value(rank, count, dtype))
    return out[first:]


def check_type(dtype, count):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    operations = OPERATIONS if dtype in FLOATS else {**OPERATIONS, **BITWISE}
    for name, function in operations.items():
        op = getattr(dist.ReduceOp, name)
        tensor = value(rank, count, dtype)
        dist.all_reduce(tensor, op)
        expect(tensor.equal(reduced(function, count, dtype)), f"all_reduce {name} of {count} {dtype}")
    root = count % ranks
    tensor = value(rank, count, dtype)
    dist.reduce(tensor, root)
    expect(tensor.equal(reduced(torch.add, count, dtype) if rank == root else value(rank, count, dtype)),
           f"reduce of {count} {dtype}")
    tensor = value(rank, count, dtype)
    dist.broadcast(tensor, root)
    expect(tensor.equal(value(root, count, dtype)), f"broadcast of {count} {dtype}")
    blocks = [torch.zeros(count, dtype=dtype) for _ in range(ranks)]
    dist.all_gather(blocks, value(rank, count, dtype))
    expect(all(block.equal(value(r, count, dtype)) for r, block in enumerate(blocks)), f"all_gather of {count} {dtype}")
    flat = torch.zeros(ranks * count, dtype=dtype)
    dist.all_gather_into_tensor(flat, value(rank, count, dtype))
    expect(flat.equal(torch.cat(blocks)), f"all_gather_into_tensor of {count} {dtype}")
    mine, sums = torch.zeros(count, dtype=dtype), reduced(torch.add, ranks * count, dtype)
    block = slice(rank * count, (rank + 1) * count)
    dist.reduce_scatter(mine, list(value(rank, ranks * count, dtype).chunk(ranks)))
    expect(mine.equal(sums[block]), f"reduce_scatter of {count} {dtype}")
    mine = torch.zeros(count, dtype=dtype)
    dist.reduce_scatter_tensor(mine, value(rank, ranks * count, dtype))
    expect(mine.equal(sums[block]), f"reduce_scatter_tensor of {count} {dtype}")


def check_shapes():
    """Tensors that are not one row of memory, bools, complex numbers, objects, and parameters."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    columns = value(rank, 600, torch.float32).view(20, 30).t()
    dist.all_reduce(columns)
    expect(columns.equal(reduced(torch.add, 600, torch.float32).view(20, 30).t()), "all_reduce of columns")
    every_other = value(rank, 600, torch.int32)[::2]
    dist.broadcast(every_other, 1)
    expect(every_other.equal(value(1, 600, torch.int32)[::2]), "broadcast of every other element")
    for op, result in ((dist.ReduceOp.SUM, [False, True, True]), (dist.ReduceOp.PRODUCT, [False, False, True])):
        some = torch.tensor([False, rank == 1, True])
        dist.all_reduce(some, op)
        expect(some.tolist() == result, "all_reduce of bools")
    turned = torch.full((5,), 1 + rank * 1j, dtype=torch.complex64)
    dist.all_reduce(turned)
    expect(turned.equal(torch.full((5,), ranks + 6j, dtype=torch.complex64)), "all_reduce of complex numbers")
    said = [None] * ranks
    dist.all_gather_object(said, {"rank": rank, "long": "x" * (10 * rank)})
    expect([one["rank"] for one in said] == list(range(ranks)), "all_gather_object")
    parameter = torch.nn.Parameter(torch.full((4, 4), float(rank)).t())
    dist.broadcast(parameter, 3)
    expect(parameter.detach().equal(torch.full((4, 4), 3.0)), "broadcast of a parameter")
    nothing = torch.zeros(0)
    dist.all_reduce(nothing)


def check_asynchronous():
    """More at once than the library takes, waited for in another order; futures; and groups beside each other."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    tensors = [torch.full((1 + 300 * (n % 5),), float(n + rank)) for n in range(100)]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    doubled = works[7].get_future().then(lambda future: future.value()[0] * 2)
    for work in reversed(works):
        work.wait()
    expect(all(work.is_completed() and work.is_success() for work in works), "asynchronous works")
    expect(all(tensor.eq(ranks * n + 6).all() for n, tensor in enumerate(tensors)), "asynchronous sums")
    expect(doubled.wait().equal(tensors[7] * 2), "a future")
    pairs = [dist.new_group(ranks=[first, first + 1]) for first in range(0, ranks, 2)]
    mine = torch.tensor([rank])
    dist.all_reduce(mine, group=pairs[rank // 2])
    expect(mine.item() == 4 * (rank // 2) + 1, "all_reduce of a pair")
    calls = pairs[rank // 2].info()["calls"]
    expect(sum(calls.values()) == 1, f"the pair's calls: {calls}")
    dist.barrier()


def check_refusals():
    """What nobody has raises at the call, and the group goes on."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    tensor, some = torch.zeros(4), [torch.zeros(4) for _ in range(ranks)]
    refused(lambda: dist.send(tensor, (rank + 1) % ranks), "weft does not support send")
    refused(lambda: dist.recv(tensor, (rank + 1) % ranks), "weft does not support recv")
    refused(lambda: dist.all_to_all(some, some), "weft does not support alltoall")
    refused(lambda: dist.all_to_all_single(tensor, tensor.clone()), "weft does not support alltoall_base")
    refused(lambda: dist.gather(tensor, some if rank == 0 else None), "weft does not support gather")
    refused(lambda: dist.scatter(tensor, some if rank == 0 else None), "weft does not support scatter")
    refused(lambda: dist.all_reduce(tensor, dist.ReduceOp.AVG), "no other operations")
    refused(lambda: dist.all_reduce(tensor, dist.ReduceOp.BXOR), "are for integers")
    refused(lambda: dist.all_reduce(tensor.to_sparse()), "has to be dense")
    refused(lambda: dist.all_gather(some[1:], tensor), "one list of")
    refused(lambda: dist.reduce_scatter(tensor, [torch.zeros(3)] * ranks), "number of elements of the output")
    dist.barrier()


def check_timeout():
    """A collective that not all ranks call ends when its time is over, and its group with it."""
    alone = dist.new_group()
    if dist.get_rank() == 0:
        options = dist.AllreduceOptions()
        options.timeout = datetime.timedelta(seconds=1)
        refused(lambda: alone.allreduce([torch.zeros(4)], options).wait(), "the time is over")
        refused(lambda: dist.barrier(group=alone), "the process group has failed")
    dist.barrier()


def collectives():
    dist.init_process_group("weft")
    for count in (1, 777):
        for dtype in (*INTEGERS, *FLOATS):
            check_type(dtype, count)
    check_type(torch.float32, 100_000)
    check_shapes()
    check_asynchronous()
    check_refusals()
    check_timeout()
    return {}


def train(backend):
    """Each rank has data of its own. Ranks come to the collectives in another order in each run."""
    dist.init_process_group(backend)
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(INPUTS, HIDDEN), torch.nn.Tanh(), torch.nn.Linear(HIDDEN, CLASSES))
    model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
    data = torch.Generator().manual_seed(100 + dist.get_rank())
    waits = random.Random()
    losses = []
    for _ in range(STEPS):
        inputs = torch.randn(BATCH, INPUTS, generator=data)
        labels = inputs[:, :CLASSES].argmax(1)
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(inputs), labels)
        time.sleep(waits.uniform(0, 0.01))
        loss.backward()
        optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        losses.append(mean.item() / dist.get_world_size())
    parameters = torch.cat([p.detach().flatten() for p in model.parameters()])
    digest = parameters.view(torch.int32).to(torch.int64).sum().item()
    return {"losses": [loss.hex() for loss in losses], "parameters": digest}


def main():
    logging.basicConfig(level=logging.INFO, format="%(name)s: %(message)s")
    torch.set_num_threads(1)
    said = collectives() if sys.argv[1] == "collectives" else train(sys.argv[2])
    group = dist.distributed_c10d._get_default_group()
    if isinstance(group, weft_torch.ProcessGroupWeft):
        said["group"] = group.info()
    del group
    dist.barrier()
    dist.destroy_process_group()
    print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main()
