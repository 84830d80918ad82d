"""Methods by name: how binary weights are trained. One row each; `train/` knows none of them by name.

A method is an optimizer of the binary weights with its hyperparameters, the options that its layers need (theta or
latent weights, binarizer, scaling, surrogate gradients), where its authors ask for them its own settings of the real
parameters and its own stages, and, where it changes with time, `on_step(model, step, total)`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from zerocross.nn import set_progress
from zerocross.nn.checks import check_choice, did_you_mean
from zerocross.optim import Bop, Bop2ndOrder, CascadeFilter, GradientFilter, LatentSGD, clip_after_step

Value = float | int | bool | str | None
OnStep = Callable[[nn.Module, int, int], None]
Build = Callable[[list[nn.Parameter], Mapping[str, Any], int], Optimizer]


@dataclass(frozen=True)
class Part:
    """A part of a run that a method splits into stages.

    Args:
        share: Of the epochs, in (0, 1).
        binarize: What is binary meanwhile: "both", "activations" or "none".
        optimizer: Hyperparameters of the method that differ in it.
        real: Settings of the real parameters that differ in it.
    """

    share: float
    binarize: str
    optimizer: Mapping[str, Value] = field(default_factory=dict)
    real: Mapping[str, Value] = field(default_factory=dict)


def tell_progress(model: nn.Module, step: int, total: int) -> None:
    """Tell the layers how far training has come: those that change with time (EDE's t, ReCU's tau) listen."""
    set_progress(model, step / total)


@dataclass(frozen=True)
class Method:
    """One way to train binary weights.

    Args:
        summary: One line for lists.
        source: Whose it is.
        hyperparameters: Name -> published or default value; `optimizer.NAME` in a config.
        tuned: What there is to tune for the binary weights, in words.
        settings: Where the values come from: published, scaled, or assumed.
        build: (parameters, hyperparameters, ff_every) -> the optimizer of the binary weights.
        model_options: What models.create() must be told.
        real: The authors' settings of the real parameters, where they are a part of the method.
        parts: The stages of the method, where it has more than one.
        on_step: Called before each update with (model, step, total), for methods that change with time.
        revision: Of its arithmetic and settings; raised when a change alters its results, so that results of an older
            revision are not taken for those of the present one.
    """

    summary: str
    source: str
    hyperparameters: Mapping[str, Value]
    tuned: tuple[str, ...]
    settings: str
    build: Build
    model_options: Mapping[str, Value] = field(default_factory=dict)
    real: Mapping[str, Value] = field(default_factory=dict)
    parts: tuple[Part, ...] = ()
    on_step: OnStep = tell_progress
    revision: int = 1

    @property
    def kind(self) -> str:
        """What the binary layers hold: "theta" or "latent"."""
        return str(self.model_options["weights"])


# ---- optimizers of the binary weights


def _filter(params: list[nn.Parameter], h: Mapping[str, Any], ff_every: int) -> Optimizer:
    return GradientFilter(params, alpha=h["alpha"], gamma=h["gamma"], warm_start=h["warm_start"], ff_every=ff_every)


def _first_order(params: list[nn.Parameter], h: Mapping[str, Any], ff_every: int) -> Optimizer:
    return CascadeFilter(params, alpha=h["alpha"], gammas=(), ff_every=ff_every)


def _cascade(params: list[nn.Parameter], h: Mapping[str, Any], ff_every: int) -> Optimizer:
    order = h["order"]
    if order < 1 or order != int(order):
        raise ValueError(f"optimizer.order is {order}; it must be a whole number, at least 1")
    return CascadeFilter(params, alpha=h["alpha"], gammas=(h["gamma"],) * (int(order) - 1), ff_every=ff_every)


def _latent_sgd(params: list[nn.Parameter], h: Mapping[str, Any], ff_every: int) -> Optimizer:
    names = ("lr", "gamma", "weight_decay", "clip", "clip_gradient", "start")
    return LatentSGD(params, **{name: h[name] for name in names}, ff_every=ff_every)


def _bop(params: list[nn.Parameter], h: Mapping[str, Any], ff_every: int) -> Optimizer:
    return Bop(params, gamma=h["gamma"], tau=h["tau"], ff_every=ff_every)


def _bop2ndorder(params: list[nn.Parameter], h: Mapping[str, Any], ff_every: int) -> Optimizer:
    return Bop2ndOrder(params, gamma=h["gamma"], sigma=h["sigma"], tau=h["tau"], ff_every=ff_every)


# HybridOptimizer counts flips for torch's optimizers.


def _sgd(params: list[nn.Parameter], h: Mapping[str, Any], ff_every: int) -> Optimizer:
    del ff_every
    return torch.optim.SGD(params, lr=h["lr"], momentum=h["momentum"], weight_decay=h["weight_decay"])


def _adam(params: list[nn.Parameter], h: Mapping[str, Any], ff_every: int) -> Optimizer:
    del ff_every
    return torch.optim.Adam(params, lr=h["lr"], weight_decay=h["weight_decay"])


def _clipped_adam(params: list[nn.Parameter], h: Mapping[str, Any], ff_every: int) -> Optimizer:
    del ff_every
    return clip_after_step(torch.optim.Adam(params, lr=h["lr"]), h["clip"])


# ---- what several rows share

_PAPER = "Quist, Li, van Gemert, Understanding weight-magnitude hyperparameters in training binary networks, ICLR 2023"
_LATENT_TUNED = ("lr", "lr-decay", "start", "momentum", "weight decay", "scaling", "clipping")
_SGD = {"lr": 0.1, "momentum": 0.9, "weight_decay": 1e-4, "schedule": "cosine"}
_START = "latent weights start uniform within +-0.1: assumed"


def _latent(binarizer: str, **more: Value) -> dict[str, Value]:
    return {"weights": "latent", "binarizer": binarizer, "init_scale": 0.1, **more}


METHODS: Mapping[str, Method] = MappingProxyType(
    {
        "filter": Method(
            summary="the paper's optimizer: a second-order filter of the gradient, read by its sign (Eqs. 11-13)",
            source=_PAPER,
            hyperparameters={"alpha": 1e-3, "gamma": 0.1, "schedule": "cosine", "warm_start": 0.0},
            tuned=("alpha", "gamma", "alpha-decay"),
            settings="published, for CIFAR-10",
            build=_filter,
            model_options={"weights": "theta"},
        ),
        "filter-order1": Method(
            summary="the filter of first order: one moving average of the gradient (Eq. 10)",
            source=_PAPER,
            hyperparameters={"alpha": 1e-3, "schedule": "cosine"},
            tuned=("alpha", "alpha-decay"),
            settings="alpha as the second-order filter's",
            build=_first_order,
            model_options={"weights": "theta"},
        ),
        "filter-cascade": Method(
            summary="the filter of any order: `order` moving averages in a row, by default 3 (Eq. 14)",
            source=_PAPER,
            hyperparameters={"alpha": 1e-3, "gamma": 0.1, "order": 3.0, "schedule": "cosine"},
            tuned=("alpha", "gamma", "order", "alpha-decay"),
            settings="alpha and gamma as the second-order filter's; order 3: ours, since the paper stops at 2",
            build=_cascade,
            model_options={"weights": "theta"},
        ),
        "latent-sgd": Method(
            summary="latent weights as the paper writes them: decoupled decay, no clipping, no scaling (Eqs. 1-5)",
            source=_PAPER,
            hyperparameters={
                "lr": 0.1,
                "gamma": 0.1,
                "weight_decay": 1e-4,
                "schedule": "cosine",
                "clip": None,
                "clip_gradient": None,
                "start": None,
            },
            tuned=_LATENT_TUNED,
            settings="published, for CIFAR-10; latent weights start within +-0.001, as in the paper's repository",
            build=_latent_sgd,
            model_options={"weights": "latent"},
        ),
        "torch-sgd": Method(
            summary="latent weights as most code has them: torch's SGD, channel-mean scaling, gradients clipped at 1",
            source="Liu et al., Bi-Real Net, ECCV 2018, and most code since",
            hyperparameters=_SGD,
            tuned=_LATENT_TUNED,
            settings=f"the paper's baseline for CIFAR-10; {_START}",
            build=_sgd,
            model_options={"weights": "latent", "scale": "channel_mean", "weight_surrogate": "clip", "init_scale": 0.1},
        ),
        "bop": Method(
            summary="no latent weights: flip where an average of the gradient passes a threshold",
            source="Helwegen et al., Latent Weights Do Not Exist, NeurIPS 2019",
            hyperparameters={"gamma": 1e-4, "tau": 1e-8, "schedule": "fifths"},
            tuned=("gamma", "gamma-decay", "tau"),
            settings="published, for CIFAR-10: gamma x 0.1 at each fifth of the run, Adam at 0.01 for the rest "
            "(batches of 50 there)",
            build=_bop,
            model_options={"weights": "theta"},
            real={"name": "adam", "lr": 0.01, "weight_decay": 0.0},
        ),
        "bop2ndorder": Method(
            summary="Bop, with the average divided by the gradient's own size (a second moment, not a second order)",
            source="Suarez-Ramirez et al., A Bop and Beyond, CVPR workshops 2021",
            hyperparameters={"gamma": 1e-6, "sigma": 1e-2, "tau": 1e-6, "schedule": "fifths"},
            tuned=("gamma", "gamma-decay", "sigma", "tau"),
            settings="published; decay and the rest of the network as for Bop",
            build=_bop2ndorder,
            model_options={"weights": "theta"},
            real={"name": "adam", "lr": 0.01, "weight_decay": 0.0},
        ),
        "adambnn": Method(
            summary="Adam on latent weights in two stages; weight decay in the first one only",
            source="Liu et al., How Do Adam and Training Strategies Help BNNs Optimization?, ICML 2021",
            hyperparameters={"lr": 1.25e-3, "weight_decay": 0.0, "schedule": "linear"},
            tuned=(*_LATENT_TUNED, "weight decay of the first stage"),
            settings="published, for ImageNet: first binary activations with real weights (decay 5e-6), then both "
            "binary (no decay), half of the epochs each",
            build=_adam,
            model_options={"weights": "latent", "scale": "channel_mean", "weight_surrogate": "clip"},
            real={"name": "adam", "lr": 1.25e-3, "weight_decay": 0.0, "schedule": "linear"},
            parts=(Part(0.5, "activations", real={"weight_decay": 5e-6}), Part(0.5, "both")),
        ),
        "binaryconnect": Method(
            summary="the sign of latent weights that are clipped to +-1 after every update",
            source="Courbariaux et al., BinaryConnect, NeurIPS 2015",
            hyperparameters={"lr": 3e-3, "clip": 1.0, "schedule": "exponential"},
            tuned=("lr", "lr-decay", "start", "clipping"),
            settings="Adam at 3e-3, exponentially to about a thousandth: published, for CIFAR-10, without its "
            f"per-layer lr factors and hinge loss; {_START}. Activations are binary here, which its own are not",
            build=_clipped_adam,
            model_options=_latent("binaryconnect"),
            real={"name": "adam", "lr": 3e-3, "weight_decay": 0.0, "schedule": "exponential"},
        ),
        "xnor-net": Method(
            summary="centred and clamped latent weights, sign times the mean magnitude of each filter",
            source="Rastegari et al., XNOR-Net, ECCV 2016",
            hyperparameters={"lr": 1e-3, "weight_decay": 1e-5, "schedule": "step"},
            tuned=("lr", "lr-decay", "start", "weight decay"),
            settings=f"Adam at 1e-3, decay 1e-5: as for ImageNet; x 0.1 at 1/2 and 3/4 of the run: scaled; {_START}",
            build=_adam,
            model_options=_latent("xnor-net"),
            real={"name": "adam", "lr": 1e-3, "weight_decay": 1e-5, "schedule": "step"},
        ),
        "xnor-net++": Method(
            summary="the sign of latent weights, times a learned scale per filter",
            source="Bulat, Tzimiropoulos, XNOR-Net++, BMVC 2019",
            hyperparameters={"lr": 1e-3, "weight_decay": 1e-5, "schedule": "step"},
            tuned=("lr", "lr-decay", "start", "weight decay", "clipping"),
            settings=f"Adam at 1e-3, decay 1e-5: as for ImageNet; x 0.1 at 1/2 and 3/4 of the run: scaled; {_START}",
            build=_adam,
            model_options=_latent("xnor-net++"),
            real={"name": "adam", "lr": 1e-3, "weight_decay": 1e-5, "schedule": "step"},
        ),
        "dorefa": Method(
            summary="the sign of latent weights, times the mean magnitude of the layer; the gradient passes unchanged",
            source="Zhou et al., DoReFa-Net, 2016",
            hyperparameters=_SGD,
            tuned=("lr", "lr-decay", "start", "momentum", "weight decay"),
            settings=f"the SGD of the paper's other CIFAR-10 rows: assumed, since its own were for AlexNet; {_START}",
            build=_sgd,
            model_options=_latent("dorefa"),
        ),
        "ir-net": Method(
            summary="balanced, standardised latent weights, a power-of-two scale, gradients that sharpen (EDE)",
            source="Qin et al., Forward and Backward Information Retention (IR-Net), CVPR 2020",
            hyperparameters=_SGD,
            tuned=("lr", "lr-decay", "start", "momentum", "weight decay", "first t", "last t"),
            settings="published, for CIFAR-10; t from 1e-3 to 10 over the run, however short; a hard tanh before each "
            f"sign, as in its networks; {_START}",
            build=_sgd,
            model_options=_latent("ir-net", surrogate="ede"),
        ),
        "dsq": Method(
            summary="a soft quantiser of latent weights with learned bounds and sharpness, read by its sign",
            source="Gong et al., Differentiable Soft Quantization, ICCV 2019",
            hyperparameters=_SGD,
            tuned=("lr", "lr-decay", "start", "momentum", "weight decay", "sharpness"),
            settings=f"the SGD of the paper's other CIFAR-10 rows: assumed; sharpness from 0.2: published; {_START}",
            build=_sgd,
            model_options=_latent("dsq"),
        ),
        "recu": Method(
            summary="standardised latent weights whose tails are clamped at a rising quantile, times a learned scale",
            source="Xu et al., ReCU: Reviving the Dead Weights, ICCV 2021",
            hyperparameters={**_SGD, "weight_decay": 5e-4},
            tuned=("lr", "lr-decay", "start", "momentum", "weight decay", "first tau", "last tau"),
            settings=f"published, for CIFAR-10; tau from 0.85 to 0.99 over the run, however short; {_START}",
            build=_sgd,
            model_options=_latent("recu"),
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
