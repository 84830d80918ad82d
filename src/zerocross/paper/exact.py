"""A small training in float64, sign by sign: where two methods are said to be the same, their signs are compared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import nn
from torch.optim import Optimizer

from zerocross import data, models
from zerocross.optim import HybridOptimizer, Schedule, split_params
from zerocross.optim.schedule import Shape
from zerocross.train.build import Schedules, build_real
from zerocross.train.config import RealConfig

Build = Callable[[list[nn.Parameter]], Optimizer]
_DTYPES = {"float32": torch.float32, "float64": torch.float64}


@dataclass(frozen=True)
class Small:
    """A small network on scikit-learn's digits: four binary convolutions.

    Args:
        updates: How many.
        width: Channels of the first group.
        batch: Images per update.
        dtype: Of weights, gradients and filters.
        shape: Of the decay of the binary weights' lr or alpha; the real parameters' is always cosine.
        seed: Start and order.
    """

    updates: int
    width: int = 4
    batch: int = 64
    dtype: Literal["float32", "float64"] = "float64"
    shape: Shape = "cosine"
    seed: int = 0


def signs(small: Small, weights: Literal["theta", "latent"], build: Build, **options: Any) -> np.ndarray:
    """Which binary weights are negative after each update: (updates, weights), bool.

    Equal seeds give equal first signs, whatever the kind of the weights.

    Args:
        small: The training.
        weights: What the layers hold.
        build: The optimizer of the binary weights, from their parameters.
        options: More of the network's (init_scale, for one).
    """
    dataset = data.load("digits")
    dtype = _DTYPES[small.dtype]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(small.seed)
        model = models.create("digits_net", weights=weights, width=small.width, **options).to(dtype)
    binary, real, no_decay = split_params(model)
    optimizer = HybridOptimizer(build(binary), build_real(real, no_decay, RealConfig(lr=0.05)), model)
    schedules = Schedules(Schedule(small.shape, small.updates), Schedule("cosine", small.updates))
    batches = dataset.train_batches(small.batch, seed=small.seed)
    seen = np.empty((small.updates, sum(w.numel() for w in binary)), dtype=bool)
    model.train()
    step = 0
    while step < small.updates:
        for x, y in batches.epoch(step // len(batches)):
            if step == small.updates:
                break
            schedules.apply(optimizer, step)
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x.to(dtype)), y).backward()
            optimizer.step()
            seen[step] = torch.cat([w.detach().flatten() < 0 for w in binary]).numpy()
            step += 1
    return seen


def compared(one: np.ndarray, other: np.ndarray) -> dict[str, Any]:
    """How far two trainings agree: signs compared, signs that differ, and the first update with one that does."""
    differs = one != other
    where = np.flatnonzero(differs.any(axis=1))
    return {
        "updates": len(one),
        "signs": differs.size,
        "differ": int(differs.sum()),
        "first": int(where[0]) + 1 if len(where) else None,
        "flips": int((one[1:] != one[:-1]).sum()),
    }


def told(found: dict[str, Any]) -> str:
    """Such a comparison in words."""
    if not found["differ"]:
        return f"all {found['signs']:,} signs equal over {found['updates']} updates with {found['flips']:,} flips"
    return (
        f"{found['differ']:,} of {found['signs']:,} signs differ ({found['differ'] / found['signs']:.2%}), the first "
        f"at update {found['first']}"
    )
