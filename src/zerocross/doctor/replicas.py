"""A small network trained by two processes and by one, for the checklist: gloo on CPUs, nccl on GPUs."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, distributed, nn
from torch.multiprocessing.spawn import start_processes
from torch.nn.parallel import DistributedDataParallel

from zerocross.nn import BinaryLinear
from zerocross.optim import GradientFilter, HybridOptimizer, split_params

UPDATES = 20


def two_replicas(device: str, folder: Path) -> list[tuple[Tensor, Tensor]]:
    """(theta, g) of both ranks, and of one process with the whole batch; `folder` is for their files."""
    start_processes(_replica, (2, device, str(folder)), nprocs=2, start_method="spawn")
    _replica(0, 1, device, str(folder))
    names = ("2-0", "2-1", "1-0")
    return [tuple(torch.load(folder / f"{name}.pt", weights_only=True)) for name in names]  # type: ignore[misc]


def _replica(rank: int, ranks: int, kind: str, folder: str) -> None:
    device = f"cuda:{rank}" if kind == "cuda" else kind
    if kind == "cuda":
        torch.cuda.set_device(rank)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 64), nn.Hardtanh(), BinaryLinear(64, 64), nn.Linear(64, 4)).to(device)
    binary, decayed, rest = split_params(model)
    optimizer = HybridOptimizer(GradientFilter(binary, alpha=1e-2), torch.optim.SGD([*decayed, *rest], lr=1e-3), model)
    network: nn.Module = model
    if ranks > 1:
        meeting = f"file://{folder}/meeting"
        backend = "nccl" if kind == "cuda" else "gloo"
        distributed.init_process_group(backend, init_method=meeting, rank=rank, world_size=ranks)
        network = DistributedDataParallel(model, device_ids=[rank] if kind == "cuda" else None)
    generator = torch.Generator().manual_seed(3)
    for _ in range(UPDATES):
        x, target = torch.randn(64, 32, generator=generator), torch.randint(0, 4, (64,), generator=generator)
        loss = nn.functional.cross_entropy(network(x[rank::ranks].to(device)), target[rank::ranks].to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    [weight] = binary
    torch.save([weight.detach().cpu(), optimizer.binary.state[weight]["g"].cpu()], f"{folder}/{ranks}-{rank}.pt")
    if ranks > 1:
        distributed.destroy_process_group()
