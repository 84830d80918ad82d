"""One of two processes that hold halves of every weight (FSDP2, DTensor) and train together over gloo."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Shard, distribute_tensor

from reference.optimizer_table import OPTIMIZERS, bits, make_grads, make_params
from zerocross.nn import BinaryLinear
from zerocross.optim import BinaryOptimizer, GradientFilter, HybridOptimizer, ff_ratio, split_params

RANKS = 2
FILTERS: dict[str, dict[str, Any]] = {
    "paper": {"alpha": 0.05},
    "warm": {"alpha": 0.05, "warm_start": 0.3},
    "skip": {"alpha": 0.05, "nonfinite": "skip"},
    "layer": {"flip_rate": 0.02, "control": "layer", "normalize": "rms"},
}


def work(rank: int, folder: str, what: str) -> None:
    """Do one of the following as one of the ranks, and leave its result in `rank<n>.pt`."""
    torch.set_num_threads(1)
    meeting = (Path(folder) / "meeting").as_uri()
    distributed.init_process_group("gloo", init_method=meeting, rank=rank, world_size=RANKS)
    jobs: dict[str, Callable[[int, DeviceMesh], Any]] = {"nan": nan_on_one_rank, "signs": same_signs, "rows": all_rows}
    torch.save(jobs[what](rank, init_device_mesh("cpu", (RANKS,))), Path(folder) / f"rank{rank}.pt")
    distributed.barrier()
    distributed.destroy_process_group()


def _network() -> nn.Sequential:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), BinaryLinear(8, 9), nn.Tanh(), BinaryLinear(9, 7), nn.Linear(7, 3))
    with torch.no_grad():
        model.get_parameter("1.weight")[::2] = 0  # signs to be drawn, the same in any shard
    return model


def _optimizer(model: nn.Module, **settings: Any) -> HybridOptimizer:
    split = split_params(model)
    real = torch.optim.SGD([*split.real, *split.real_no_decay], lr=0.05)
    return HybridOptimizer(GradientFilter(split.binary, ff_every=1, **settings), real, model)


def _backward(model: nn.Module, step: int, rank: int) -> None:
    x = torch.randn(16, 6, generator=torch.Generator().manual_seed(10 * step + rank))
    nn.functional.cross_entropy(model(x), (x[:, 0] > 0).long()).backward()


def _full(tensor: Any) -> Tensor:
    return (tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor).detach().clone()


def same_signs(rank: int, mesh: DeviceMesh) -> dict[str, tuple[int, int, bool]]:
    """Filter -> differing weights, flips, whether ratios agree; beside one process that averages both half-batches."""
    found = {}
    for name, settings in FILTERS.items():
        model, twin = _network(), _network()
        fully_shard(model, mesh=mesh)
        optimizer, alone = _optimizer(model, **settings), _optimizer(twin, **settings)
        differing, flips, agree = 0, 0, True
        for step in range(8):
            optimizer.zero_grad()
            alone.zero_grad()
            _backward(model, step, rank)
            for each in range(RANKS):
                _backward(twin, step, each)
            for param in twin.parameters():
                assert param.grad is not None
                param.grad /= RANKS
            before = [_full(p) for p in twin.parameters()]
            optimizer.step()
            alone.step()
            pairs = zip(map(_full, model.parameters()), twin.parameters(), strict=True)
            differing += sum(int((a != b).sum()) for a, b in pairs)
            flips += sum(int((a.sign() != b.sign()).sum()) for a, b in zip(before, twin.parameters(), strict=True))
            agree = agree and ff_ratio(optimizer) == ff_ratio(alone)
        found[name] = (differing, flips, agree)
    return found


def all_rows(rank: int, mesh: DeviceMesh) -> dict[str, int]:
    """Optimizer and sharded dimension -> elements of weights and state that differ from an unsharded run's."""
    del rank
    found = {}
    for name, row in OPTIMIZERS.items():
        for dim in (0, 1) if name != "ovsw" else (0,):  # torch cannot flatten a weight that is sharded within rows
            params = make_params()
            with torch.no_grad():
                for param in params:
                    param.view(-1)[::3] = 0
            shards = [nn.Parameter(_sharded(p.detach(), mesh, dim)) for p in params]
            alone, optimizer = row.build(params, ff_every=1), row.build(shards, ff_every=1)
            found[f"{name} {dim}"] = sum(
                _differing(alone, params, optimizer, shards, step, mesh, dim) for step in range(12)
            )
    return found


def _sharded(full: Tensor, mesh: DeviceMesh, dim: int) -> Tensor:
    return distribute_tensor(full.clone(), mesh, [Shard(dim)], src_data_rank=None)


def _differing(
    alone: BinaryOptimizer,
    params: list[nn.Parameter],
    optimizer: BinaryOptimizer,
    shards: list[nn.Parameter],
    step: int,
    mesh: DeviceMesh,
    dim: int,
) -> int:
    for param, shard, grad in zip(params, shards, make_grads(step, params), strict=True):
        param.grad, shard.grad = grad, _sharded(grad, mesh, dim)
    alone.step()
    optimizer.step()
    assert ff_ratio(alone) == ff_ratio(optimizer)
    pairs = zip(bits(alone, params), bits(optimizer, shards), strict=True)
    return sum(int((value != _full(other)).sum()) for (_, value), (_, other) in pairs)


def nan_on_one_rank(rank: int, mesh: DeviceMesh) -> dict[str, float]:
    """Train for 3 steps, the second with NaN on rank 1 alone: the flip ratio, and the number of skipped steps."""
    model = _network()
    fully_shard(model, mesh=mesh)
    optimizer = _optimizer(model, alpha=0.05, nonfinite="skip")
    binary = split_params(model).binary
    before = after = []
    for step in range(3):
        optimizer.zero_grad()
        _backward(model, step, rank)
        if step == 1 and rank == 1:
            binary[0].grad.to_local()[0, 0] = float("nan")  # type: ignore[union-attr]
        before = [_full(p) for p in binary]
        optimizer.step()
        after = [_full(p) for p in binary]
    flips = sum(int((a != b).sum()) for a, b in zip(before, after, strict=True))
    by_hand = flips / sum(p.numel() for p in after)
    return {"ratio": ff_ratio(optimizer), "by_hand": by_hand, "skipped": optimizer.skipped_steps}
