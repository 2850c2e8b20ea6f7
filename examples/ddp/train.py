#!/usr/bin/env python3
# Data-parallel training with PyTorch, on CPUs:
#
#     gorun -hostfile hosts -ppn 2 python3 train.py
#
# gorun tells each rank who it is and where all meet, so that the default init_method, env://,
# needs nothing else. With GPUs use the backend "nccl", and the device LOCAL_RANK of the host.
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

STEPS = 30


def batch(rank, step, size=32):
    """Other data for each rank: inputs, and a linear function of them."""
    g = torch.Generator().manual_seed(1000003 * step + rank)
    x = torch.randn(size, 8, generator=g)
    return x, x @ torch.arange(1.0, 9.0).unsqueeze(1)


def main():
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(rank)  # each starts elsewhere: DDP gives all the parameters of rank 0
    model = DistributedDataParallel(torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for step in range(STEPS):
        x, y = batch(rank, step)
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())

    # The ranks' parameters must be equal to the last bit, and the loss must have fallen.
    mine = torch.cat([p.detach().flatten() for p in model.parameters()])
    first = mine.clone()
    dist.broadcast(first, src=0)
    sums = torch.tensor([losses[0], losses[-1], 0.0 if torch.equal(mine, first) else 1.0])
    dist.all_reduce(sums)
    # What was sent is kept until the group is gone: PyTorch 1.13 may hang where it is not.
    del model, optimizer
    dist.destroy_process_group()
    before, after, differing = sums[0].item() / size, sums[1].item() / size, int(sums[2].item())
    if differing:
        sys.exit(f"the parameters of {differing} ranks differ from rank 0's")
    if not after < before / 2:
        sys.exit(f"the loss was {before:.3f} and is {after:.3f}")
    if rank == 0:
        print(f"{size} ranks: loss {before:.3f} at first, {after:.3f} after {STEPS} steps; parameters are equal")


if __name__ == "__main__":
    main()
