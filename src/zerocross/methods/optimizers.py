"""Build the optimizer of a method's binary weights: (parameters, hyperparameters, ff_every) -> optimizer."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from zerocross.nn.binarizers.siman import centre_and_clamp_magnitudes_
from zerocross.nn.binarizers.xnor_net import centre_and_clamp_
from zerocross.optim import (
    BOLD,
    BayesBiNN,
    Bop,
    Bop2ndOrder,
    CascadeFilter,
    GradientFilter,
    LatentSGD,
    OvSW,
    clip_after_step,
    keep_after_step,
    project_after_step,
)


def second_order(params: list[nn.Parameter], h: Mapping[str, Any], ff_every: int) -> Optimizer:
    """The second-order filter."""
    return GradientFilter(params, alpha=h["alpha"], gamma=h["gamma"], warm_start=h["warm_start"], ff_every=ff_every)


def flip(params: list[nn.Parameter], h: Mapping[str, Any], ff_every: int) -> Optimizer:
    """The second-order filter by its flip rate."""
    names = ("flip_rate", "gamma", "control", "warm_start")
    normalize = None if h["normalize"] == "none" else h["normalize"]
    return GradientFilter(params, **{name: h[name] for name in names}, normalize=normalize, ff_every=ff_every)


def first_order(params: list[nn.Parameter], h: Mapping[str, Any], ff_every: int) -> Optimizer:
    """The first-order filter."""
    return CascadeFilter(params, alpha=h["alpha"], gammas=(), ff_every=ff_every)


def cascade(params: list[nn.Parameter], h: Mapping[str, Any], ff_every: int) -> Optimizer:
    """The filter of any order."""
    order = h["order"]
    if order < 1 or order != int(order):
        raise ValueError(f"optimizer.order is {order}; it must be a positive integer")
    return CascadeFilter(params, alpha=h["alpha"], gammas=(h["gamma"],) * (int(order) - 1), ff_every=ff_every)


def latent_sgd(params: list[nn.Parameter], h: Mapping[str, Any], ff_every: int) -> Optimizer:
    """The paper's latent SGD."""
    names = ("lr", "gamma", "weight_decay", "clip", "clip_gradient", "start")
    return LatentSGD(params, **{name: h[name] for name in names}, ff_every=ff_every)


def bop(params: list[nn.Parameter], h: Mapping[str, Any], ff_every: int) -> Optimizer:
    """Bop."""
    return Bop(params, gamma=h["gamma"], tau=h["tau"], ff_every=ff_every)


def bop2ndorder(params: list[nn.Parameter], h: Mapping[str, Any], ff_every: int) -> Optimizer:
    """Bop2ndOrder."""
    return Bop2ndOrder(params, gamma=h["gamma"], sigma=h["sigma"], tau=h["tau"], ff_every=ff_every)


def ovsw(params: list[nn.Parameter], h: Mapping[str, Any], ff_every: int) -> Optimizer:
    """OvSW's SGD."""
    names = ("lr", "gamma", "weight_decay", "delta", "dampen")
    return OvSW(params, **{name: h[name] for name in names}, ff_every=ff_every)


def bayesbinn(params: list[nn.Parameter], h: Mapping[str, Any], ff_every: int) -> Optimizer:
    """BayesBiNN."""
    return BayesBiNN(params, lr=h["lr"], gamma=h["gamma"], ff_every=ff_every)


def bold(params: list[nn.Parameter], h: Mapping[str, Any], ff_every: int) -> Optimizer:
    """BOLD."""
    return BOLD(params, lr=h["lr"], ff_every=ff_every)


# HybridOptimizer counts flips for torch's optimizers.


def sgd(params: list[nn.Parameter], h: Mapping[str, Any], ff_every: int) -> Optimizer:
    """torch's SGD."""
    del ff_every
    return torch.optim.SGD(params, lr=h["lr"], momentum=h["momentum"], weight_decay=h["weight_decay"])


def adam(params: list[nn.Parameter], h: Mapping[str, Any], ff_every: int) -> Optimizer:
    """torch's Adam."""
    del ff_every
    return torch.optim.Adam(params, lr=h["lr"], weight_decay=h["weight_decay"])


def binarynet(params: list[nn.Parameter], h: Mapping[str, Any], ff_every: int) -> Optimizer:
    """Adam with Glorot's coefficient of each layer, clipped."""
    del ff_every
    groups = []
    for param in params:  # the update of each weight is multiplied by Glorot's coefficient of its layer
        scale = math.sqrt((param.shape[0] + param.shape[1]) * param[0, 0].numel() / 1.5)
        groups.append({"params": [param], "lr": h["lr"] * scale, "lr_scale": scale})
    return clip_after_step(torch.optim.Adam(groups), h["clip"])


def xnor_net(params: list[nn.Parameter], h: Mapping[str, Any], ff_every: int) -> Optimizer:
    """Adam, then weights centred and clamped."""
    return project_after_step(adam(params, h, ff_every), centre_and_clamp_)


def siman(params: list[nn.Parameter], h: Mapping[str, Any], ff_every: int) -> Optimizer:
    """SGD, then weights centred and their magnitudes clamped, at a percentile that changes over the run."""
    percent = float(h["percent"])
    if not 0 <= percent <= 50:
        raise ValueError(f"optimizer.percent is {percent}; it must lie in [0, 50]")
    optimizer = sgd(params, h, ff_every)
    for group in optimizer.param_groups:
        group["percent"] = percent
    _clamp_magnitudes(optimizer)
    return keep_after_step(optimizer, _clamp_magnitudes)


@torch.no_grad()
def _clamp_magnitudes(optimizer: Optimizer, *_: Any) -> None:
    for group in optimizer.param_groups:
        centre_and_clamp_magnitudes_(group["params"], group["percent"])
