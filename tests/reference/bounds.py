"""One of two processes that train a network with EWGS' learned bounds on different data, over gloo."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

from zerocross.nn import BinaryLinear, start_from_batch
from zerocross.nn.binarizers.ewgs import EWGSActivation


def work(rank: int, folder: str, ranks: int, begin: Literal["in training", "before it"]) -> None:
    """Train for 8 steps; write to `rank<n>.pt` the bounds of the first batch, those after every step, and the model."""
    torch.set_num_threads(1)
    meeting = (Path(folder) / "meeting").as_uri()
    distributed.init_process_group("gloo", init_method=meeting, rank=rank, world_size=ranks)
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(6, 8), EWGSActivation(), BinaryLinear(8, 8, weights="latent", binarizer="ewgs", init_scale=0.1),
        nn.ReLU(), EWGSActivation(), nn.Linear(8, 3),
    )  # fmt: skip
    network = DistributedDataParallel(model)
    torch.manual_seed(100 + rank)
    data = (1 + 2 * rank) * torch.randn(8, 16, 6)  # of another spread on each rank
    own = nn.functional.linear(data[0], model.get_parameter("0.weight"), model.get_parameter("0.bias")).std()
    if begin == "before it":
        start_from_batch(model, data[0])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    bounds = []
    for x in data:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(network(x), (x[:, 0] > 0).long())
        bounds.append(_bounds(model))  # of the first batch, before an update
        loss.backward()
        optimizer.step()
    bounds.append(_bounds(model))
    torch.save(
        {"own": own, "bounds": torch.stack(bounds), "model": model.state_dict()}, Path(folder) / f"rank{rank}.pt"
    )
    distributed.barrier()  # a rank that exits early may abort the other
    distributed.destroy_process_group()


def _bounds(model: nn.Module) -> torch.Tensor:
    return torch.stack([p.detach().clone() for name, p in model.named_parameters() if name.endswith(("low", "high"))])
