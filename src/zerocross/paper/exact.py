"""A small training in float64 that records every sign, to check whether two methods are equal."""

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
        updates: Number of updates.
        width: Channels of the first group.
        batch: Images per update.
        dtype: Type of weights, gradients and filters.
        shape: Schedule of the binary weights' lr or alpha; that of the real parameters is always cosine.
        seed: Seed of initial weights and data order.
    """

    updates: int
    width: int = 4
    batch: int = 64
    dtype: Literal["float32", "float64"] = "float64"
    shape: Shape = "cosine"
    seed: int = 0


def signs(small: Small, weights: Literal["theta", "latent"], build: Build, **options: Any) -> np.ndarray:
    """Return which binary weights are negative after each update, as a bool array of shape (updates, weights).

    Equal seeds give equal initial signs for both kinds of weights.

    Args:
        small: The training.
        weights: The kind of weights in the layers.
        build: Builds the optimizer of the binary weights from their parameters.
        options: Further options of the network, such as init_scale.
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
    """Compare two trainings: number of signs, number of different signs, and the first update with a difference."""
    differs = one != other
    where = np.flatnonzero(differs.any(axis=1))
    return {
        "updates": len(one),
        "signs": differs.size,
        "differ": int(differs.sum()),
        "first": int(where[0]) + 1 if len(where) else None,
        "flips": int((one[1:] != one[:-1]).sum()),
    }


def describe(comparison: dict[str, Any]) -> str:
    """Return a comparison in words."""
    differ, signs, updates = (comparison[key] for key in ("differ", "signs", "updates"))
    if not differ:
        return f"all {signs:,} signs equal over {updates} updates with {comparison['flips']:,} flips"
    return f"{differ:,} of {signs:,} signs differ ({differ / signs:.2%}), the first at update {comparison['first']}"
