"""Methods by name: how binary weights are trained. One row each; `train/` knows none of them by name.

A method is an optimizer of the binary weights with its hyperparameters, the options that its layers need (theta or
latent weights, scaling, surrogate gradients), and, where it changes with time, `on_step(model, step, total)`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from zerocross.nn.checks import check_choice, did_you_mean
from zerocross.optim import GradientFilter, LatentSGD

Value = float | int | bool | str | None
OnStep = Callable[[nn.Module, int, int], None]


@dataclass(frozen=True)
class Method:
    """One way to train binary weights.

    Args:
        summary: One line for lists.
        hyperparameters: Name -> published or default value; `optimizer.NAME` in a config.
        build: (parameters, hyperparameters, ff_every) -> the optimizer of the binary weights.
        model_options: What models.create() must be told.
        on_step: Called before each update with (model, step, total), for methods that change with time.
    """

    summary: str
    hyperparameters: Mapping[str, Value]
    build: Callable[[list[nn.Parameter], Mapping[str, Any], int], Optimizer]
    model_options: Mapping[str, Value] = field(default_factory=dict)
    on_step: OnStep | None = None


def _filter(params: list[nn.Parameter], h: Mapping[str, Any], ff_every: int) -> Optimizer:
    return GradientFilter(params, alpha=h["alpha"], gamma=h["gamma"], warm_start=h["warm_start"], ff_every=ff_every)


def _latent_sgd(params: list[nn.Parameter], h: Mapping[str, Any], ff_every: int) -> Optimizer:
    names = ("lr", "gamma", "weight_decay", "clip", "clip_gradient", "start")
    return LatentSGD(params, **{name: h[name] for name in names}, ff_every=ff_every)


def _torch_sgd(params: list[nn.Parameter], h: Mapping[str, Any], ff_every: int) -> Optimizer:
    del ff_every  # HybridOptimizer counts for torch's optimizers
    return torch.optim.SGD(params, lr=h["lr"], momentum=h["momentum"], weight_decay=h["weight_decay"])


METHODS: Mapping[str, Method] = MappingProxyType(
    {
        "filter": Method(
            summary="the paper's optimizer: a second-order filter of the gradient, read by its sign (Eqs. 11-13)",
            hyperparameters={"alpha": 1e-3, "gamma": 0.1, "schedule": "cosine", "warm_start": 0.0},
            build=_filter,
            model_options={"weights": "theta"},
        ),
        "latent-sgd": Method(
            summary="latent weights as the paper writes them: decoupled decay, no clipping, no scaling (Eqs. 1-5)",
            hyperparameters={
                "lr": 0.1,
                "gamma": 0.1,
                "weight_decay": 1e-4,
                "schedule": "cosine",
                "clip": None,
                "clip_gradient": None,
                "start": None,
            },
            build=_latent_sgd,
            model_options={"weights": "latent"},
        ),
        "torch-sgd": Method(
            summary="latent weights as most code has them: torch's SGD, channel-mean scaling, gradients clipped at 1",
            hyperparameters={"lr": 0.1, "momentum": 0.9, "weight_decay": 1e-4, "schedule": "cosine"},
            build=_torch_sgd,
            model_options={"weights": "latent", "scale": "channel_mean", "weight_surrogate": "clip", "init_scale": 0.1},
        ),
    }
)


def get(name: str) -> Method:
    """The method of that name, or an error that lists the names."""
    check_choice("method", name, METHODS)
    return METHODS[name]


def hyperparameters(name: str, chosen: Mapping[str, Value]) -> dict[str, Value]:
    """A method's hyperparameters with those chosen in place of its defaults.

    An unknown name and a value of another type than the default's are refused; where the default is None, a number or
    None is meant.
    """
    defaults = get(name).hyperparameters
    for key, value in chosen.items():
        if key not in defaults:
            raise ValueError(
                f"method {name!r} has no hyperparameter {key!r}; it has {', '.join(defaults)}"
                f"{did_you_mean(key, defaults)}"
            )
        if isinstance(defaults[key], str):
            fits, wanted = isinstance(value, str), "text"
        else:
            fits = isinstance(value, (int, float)) and not isinstance(value, bool)
            fits, wanted = fits or value is defaults[key] is None, "a number" + " or none" * (defaults[key] is None)
        if not fits:
            raise ValueError(f"optimizer.{key} is {value!r}; it can be {wanted}")
    numbers = {key: float(value) for key, value in chosen.items() if isinstance(value, int)}
    return {**defaults, **chosen, **numbers}
