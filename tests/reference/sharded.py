"""One of two processes that each hold half of every weight (FSDP2) and train together over gloo."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from zerocross.nn import BinaryLinear
from zerocross.optim import GradientFilter, HybridOptimizer, ff_ratio, split_params


def work(rank: int, folder: str, ranks: int) -> None:
    """Train for 3 steps, the second with NaN on rank 1 only; write the flip ratio to `rank<n>.pt`."""
    torch.set_num_threads(1)
    meeting = (Path(folder) / "meeting").as_uri()
    distributed.init_process_group("gloo", init_method=meeting, rank=rank, world_size=ranks)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), BinaryLinear(8, 9), nn.Tanh(), BinaryLinear(9, 8), nn.Linear(8, 3))
    fully_shard(model, mesh=init_device_mesh("cpu", (ranks,)))
    split = split_params(model)
    binary = GradientFilter(split.binary, alpha=0.05, ff_every=1, nonfinite="skip")
    optimizer = HybridOptimizer(binary, torch.optim.SGD([*split.real, *split.real_no_decay], lr=0.05), model)
    torch.manual_seed(100 + rank)
    before = after = {}
    for step in range(3):
        optimizer.zero_grad()
        x = torch.randn(16, 6)
        nn.functional.cross_entropy(model(x), (x[:, 0] > 0).long()).backward()
        if step == 1 and rank == 1:
            split.binary[0].grad.to_local()[0, 0] = float("nan")  # type: ignore[union-attr]
        before = [p.full_tensor().clone() for p in split.binary]  # type: ignore[attr-defined]
        optimizer.step()
        after = [p.full_tensor().clone() for p in split.binary]  # type: ignore[attr-defined]
    flips = sum(int((a != b).sum()) for a, b in zip(before, after, strict=True))
    weights = sum(p.numel() for p in after)
    saved = {"ratio": ff_ratio(optimizer), "by_hand": flips / weights, "skipped": optimizer.skipped_steps}
    torch.save(saved, Path(folder) / f"rank{rank}.pt")
    distributed.barrier()
    distributed.destroy_process_group()
