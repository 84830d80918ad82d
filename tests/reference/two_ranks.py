"""Naive data-parallel training of two ranks in one process: two half-batches, and the mean of their gradients."""

from __future__ import annotations

import copy
import math

import torch
from torch import nn
from torch.nn import functional as F

from zerocross import methods
from zerocross.data.dataset import Dataset
from zerocross.nn import start_epoch
from zerocross.optim import HybridOptimizer
from zerocross.train.build import build_model, build_optimizer
from zerocross.train.config import Config


def factor(schedule: str, t: float) -> float:
    """Return the factor at a fraction t of the run, for the schedules of the methods."""
    shape, _, argument = schedule.partition(":")
    if shape == "step":
        milestones, _, drop = (argument or "0.5,0.75").partition("*")
        return float(drop or 0.1) ** sum(t >= float(milestone) for milestone in milestones.split(","))
    return {
        "cosine": (1 + math.cos(math.pi * t)) / 2,
        "linear": 1 - t * (1 - float(argument or 0)),
        "constant": 1.0,
        "fifths": 0.1 ** math.floor(5 * t),
        "exponential": float(argument or 1e-3) ** t,
    }[shape]


def train_as_two_ranks(config: Config, dataset: Dataset, updates: int) -> tuple[nn.Module, list[float]]:
    """Return the network after some updates, and the loss of each; running statistics are those of the first half."""
    stage = config.stages[0]
    model = build_model(config, stage, dataset)
    model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimizer = build_optimizer(model, config, stage)
    assert isinstance(optimizer, HybridOptimizer)
    binary, real = optimizer.binary.param_groups, optimizer.real.param_groups
    shapes = [config.optimizer["schedule"]] * len(binary) + [config.real.schedule] * len(real)
    first = [group["lr"] for group in optimizer.param_groups]
    halves = [
        dataset.train_batches(config.batch_size, seed=config.seed, rank=rank, world_size=2, channels_last=True)
        for rank in (0, 1)
    ]
    total = stage.epochs * len(halves[0])
    losses = []
    model.train()
    for epoch in range(stage.epochs):
        start_epoch(model)
        for (x0, y0), (x1, y1) in zip(halves[0].epoch(epoch), halves[1].epoch(epoch), strict=True):
            step = len(losses)
            if step == updates:
                return model, losses
            for group, lr, shape in zip(optimizer.param_groups, first, shapes, strict=True):
                group["lr"] = lr * factor(str(shape), step / total)
            for field, ramp in methods.ramps(config.method, config.optimizer).items():
                for group in binary:
                    group[field] = ramp.last + (ramp.first - ramp.last) * (1 - step / total)
            methods.get(config.method).on_step(model, step, total)
            other = copy.deepcopy(model)  # the second rank: the same weights, but its own batch statistics
            loss0, loss1 = F.cross_entropy(model(x0), y0), F.cross_entropy(other(x1), y1)
            loss0.backward()
            loss1.backward()
            for mine, theirs in zip(model.parameters(), other.parameters(), strict=True):
                assert mine.grad is not None
                assert theirs.grad is not None
                mine.grad = (mine.grad + theirs.grad) / 2
            optimizer.step()
            optimizer.zero_grad()
            losses.append(float((loss0 + loss1).detach() / 2))
    return model, losses
