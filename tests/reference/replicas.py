"""One of two processes that train the same small network on different data, averaging gradients over gloo."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

from zerocross.nn import BinaryLinear
from zerocross.optim import GradientFilter, HybridOptimizer, split_params


def work(rank: int, folder: str, ranks: int, control: Literal["open", "closed", "layer"] = "open") -> None:
    """Train for 12 steps and write every tensor of model and optimizer to `rank<n>.pt`."""
    torch.set_num_threads(1)
    meeting = (Path(folder) / "meeting").as_uri()
    distributed.init_process_group("gloo", init_method=meeting, rank=rank, world_size=ranks)
    torch.manual_seed(100 + rank)  # ranks draw differently, as for augmentation
    model = nn.Sequential(nn.Linear(6, 8), BinaryLinear(8, 8), nn.Tanh(), BinaryLinear(8, 8), nn.Linear(8, 3))
    for name, p in model.named_parameters():
        # Zeros, whose signs are drawn identically on both.
        torch.nn.init.constant_(p, 0.0 if name == "1.weight" else 0.5)
        if name == "3.weight":
            p.data[:, ::2] = -1.0
    network = DistributedDataParallel(model)
    split = split_params(model)
    how: dict[str, Any] = {"alpha": 0.05} if control == "open" else {"flip_rate": 0.02, "control": control}
    binary = GradientFilter(split.binary, **how, ff_every=1)
    optimizer = HybridOptimizer(binary, torch.optim.SGD([*split.real, *split.real_no_decay], lr=0.05), model)
    drawn = model.get_parameter("1.weight").detach().clone()
    data = torch.randn(12, 16, 6)
    for x in data:
        optimizer.zero_grad()
        nn.functional.cross_entropy(network(x), (x[:, 0] > 0).long()).backward()
        optimizer.step()
    state = {f"{i}.{key}": value for i, s in optimizer.state_dict()["state"].items() for key, value in s.items()}
    saved = {"drawn": drawn, "data": data, "model": model.state_dict(), "state": state}
    torch.save(saved, Path(folder) / f"rank{rank}.pt")
    distributed.barrier()  # a rank that exits early may abort the other
    distributed.destroy_process_group()
