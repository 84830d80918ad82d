"""Methods by name: how binary weights are trained. One row each; `train/` knows none of them by name.

A method is an optimizer of the binary weights with its hyperparameters, the options that its layers need (theta or
latent weights, binarizer, scaling, start, surrogate gradients), where its authors ask for them its own settings of the
real parameters, of the run and of the network, its own stages, and, where it changes with time, `on_step(model, step,
total)`.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from zerocross.nn import set_progress
from zerocross.nn.binarizers.xnor_net import centre_and_clamp_
from zerocross.nn.checks import check_choice, did_you_mean
from zerocross.optim import (
    Bop,
    Bop2ndOrder,
    CascadeFilter,
    GradientFilter,
    LatentSGD,
    Ramp,
    clip_after_step,
    project_after_step,
)

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
        hyperparameters: Name -> published or default value; `optimizer.NAME` in a config. A number may be a ramp over
            the run: "1e-2->1e-5".
        tuned: What there is to tune for the binary weights, in words.
        settings: Where the values come from: published, scaled, or assumed.
        build: (parameters, hyperparameters, ff_every) -> the optimizer of the binary weights.
        model_options: What models.create() must be told.
        real: The authors' settings of the real parameters, where they are a part of the method.
        parts: The stages of the method, where it has more than one.
        on_step: Called before each update with (model, step, total), for methods that change with time.
        run: What its authors published about the run: "warmup", a share of it, and "batch_size".
        network: The options of birealnet20 that make it the authors' own network; empty where they published none of
            this kind, or the common one.
        lr_name: The hyperparameter that the optimizer holds as a param group's `lr`.
        golden: The file in tests/reference/golden with numbers of published code, or None.
        revision: Raised when its arithmetic changes in a way that no setting of a run tells, so that results of before
            are not taken for results of now.
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
    run: Mapping[str, float] = field(default_factory=dict)
    network: Mapping[str, Value] = field(default_factory=dict)
    lr_name: str = "lr"
    golden: str | None = None
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


def _binarynet(params: list[nn.Parameter], h: Mapping[str, Any], ff_every: int) -> Optimizer:
    del ff_every
    groups = []
    for param in params:  # the update of each weight is multiplied by Glorot's coefficient of its layer
        scale = math.sqrt((param.shape[0] + param.shape[1]) * param[0, 0].numel() / 1.5)
        groups.append({"params": [param], "lr": h["lr"] * scale, "lr_scale": scale})
    return clip_after_step(torch.optim.Adam(groups), h["clip"])


def _xnor_net(params: list[nn.Parameter], h: Mapping[str, Any], ff_every: int) -> Optimizer:
    return project_after_step(_adam(params, h, ff_every), centre_and_clamp_)


# ---- what several rows share

_PAPER = "Quist, Li, van Gemert, Understanding weight-magnitude hyperparameters in training binary networks, ICLR 2023"
_LATENT_TUNED = ("lr", "lr-decay", "start", "momentum", "weight decay", "scaling", "clipping")
_SGD = {"lr": 0.1, "momentum": 0.9, "weight_decay": 1e-4, "schedule": "cosine"}
_START = "latent weights start uniform within +-0.1: assumed"


def _latent(binarizer: str, **more: Value) -> dict[str, Value]:
    return {"weights": "latent", "binarizer": binarizer, **more}


def _same(optimizer: str, hyperparameters: Mapping[str, Value], **more: Value) -> dict[str, Value]:
    """Settings of the real parameters where the authors train all parameters with one optimizer."""
    return {"name": optimizer, **hyperparameters, **more}


_IR_NET = _SGD
_RECU = {**_SGD, "weight_decay": 5e-4}
_BINARYNET = {"lr": 1e-3, "schedule": "exponential:3e-4"}
_XNOR = {"lr": 0.01, "weight_decay": 1e-5, "schedule": "step:0.375,0.625,0.75,0.875"}
_XNOR_PP = {"lr": 1e-3, "weight_decay": 0.0, "schedule": "step:0.4444,0.7778,0.8889"}
_DOREFA = {"lr": 1e-3, "weight_decay": 0.0, "schedule": "step:0.5*0.5"}


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
            lr_name="alpha",
            golden="quist_filter",
        ),
        "filter-order1": Method(
            summary="the filter of first order: one moving average of the gradient (Eq. 10)",
            source=_PAPER,
            hyperparameters={"alpha": 1e-3, "schedule": "cosine"},
            tuned=("alpha", "alpha-decay"),
            settings="alpha as the second-order filter's",
            build=_first_order,
            model_options={"weights": "theta"},
            lr_name="alpha",
        ),
        "filter-cascade": Method(
            summary="the filter of any order: `order` moving averages in a row, by default 3 (Eq. 14)",
            source=_PAPER,
            hyperparameters={"alpha": 1e-3, "gamma": 0.1, "order": 3.0, "schedule": "cosine"},
            tuned=("alpha", "gamma", "order", "alpha-decay"),
            settings="alpha and gamma as the second-order filter's; order 3: ours, since the paper stops at 2",
            build=_cascade,
            model_options={"weights": "theta"},
            lr_name="alpha",
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
            settings="the paper's baseline for CIFAR-10; latent weights start uniform within +-0.1: assumed, since "
            "from within +-0.001, as in ReActNet's code, the first update at lr 0.1 throws weights to magnitude 1, "
            "where the clipped gradient is zero: 38.4 % and hardly a flip afterwards (CIFAR-10, validation data, 5 "
            "epochs, bf16, seed 0)",
            build=_sgd,
            model_options={"weights": "latent", "scale": "channel_mean", "weight_surrogate": "clip", "init_scale": 0.1},
            golden="birealnet",
        ),
        "bop": Method(
            summary="no latent weights: flip where an average of the gradient passes a threshold",
            source="Helwegen et al., Latent Weights Do Not Exist, NeurIPS 2019",
            hyperparameters={"gamma": 1e-4, "tau": 1e-8, "schedule": "fifths"},
            tuned=("gamma", "gamma-decay", "tau"),
            settings="published, for CIFAR-10: gamma x 0.1 at each fifth of the run, Adam at a constant 0.01 for the "
            "rest; activations' gradients stopped beyond 1",
            build=_bop,
            model_options={"weights": "theta", "surrogate": "clip"},
            real={"name": "adam", "lr": 0.01, "weight_decay": 0.0, "schedule": "constant"},
            run={"batch_size": 50},
            lr_name="gamma",
            golden="bop",
        ),
        "bop2ndorder": Method(
            summary="Bop, with the average divided by the gradient's own size (a second moment, not a second order)",
            source="Suarez-Ramirez et al., A Bop and Beyond, CVPR workshops 2021",
            hyperparameters={
                "gamma": "1e-2->1e-5",
                "sigma": "1e-7->1e-2",
                "tau": "1e-5->1e-8",
                "schedule": "constant",
            },
            tuned=("first gamma", "last gamma", "first sigma", "last sigma", "first tau", "last tau"),
            settings="published, for CIFAR-10: all linear over the run, Adam from 0.01 to 0.001 for the rest; "
            "activations' gradients stopped beyond 1",
            build=_bop2ndorder,
            model_options={"weights": "theta", "surrogate": "clip"},
            real={"name": "adam", "lr": 0.01, "weight_decay": 0.0, "schedule": "linear:0.1"},
            run={"batch_size": 50},
            lr_name="gamma",
            golden="bop2ndorder",
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
            run={"batch_size": 256},
            golden="reactnet",
        ),
        "binarynet": Method(
            summary="the sign of latent weights that are clipped to +-1, updates multiplied by Glorot's coefficient",
            source="Courbariaux et al., Binarized Neural Networks (BinaryNet), 2016, after BinaryConnect, NeurIPS 2015",
            hyperparameters={**_BINARYNET, "clip": 1.0},
            tuned=("lr", "lr-decay", "start", "clipping"),
            settings="published, for CIFAR-10: Adam at 1e-3, exponentially to 3e-7; weights start uniform within +-1; "
            "activations' gradients stopped beyond 1; without its squared hinge loss",
            build=_binarynet,
            model_options=_latent("binaryconnect", init_scale=1.0, surrogate="clip"),
            real=_same("adam", _BINARYNET, weight_decay=0.0),
            run={"batch_size": 50},
            golden="binaryconnect",
            revision=2,
        ),
        "xnor-net": Method(
            summary="latent weights centred and clamped after each update, sign times each filter's mean magnitude",
            source="Rastegari et al., XNOR-Net, ECCV 2016",
            hyperparameters=_XNOR,
            tuned=("lr", "lr-decay", "start", "weight decay"),
            settings="for CIFAR-10, as in Yu's PyTorch code: Adam at 0.01, decay 1e-5 on all parameters, x 0.1 at 3/8, "
            "5/8, 6/8 and 7/8 of the run; start normal, 0.05; activations' gradients stopped beyond 1; without its "
            "dropout",
            build=_xnor_net,
            model_options=_latent("xnor-net", init="normal", init_scale=0.05, surrogate="clip"),
            real=_same("adam", _XNOR, decay="all"),
            run={"batch_size": 128},
            golden="xnornet",
            revision=2,
        ),
        "xnor-net++": Method(
            summary="the sign of latent weights, times a learned scale per filter",
            source="Bulat, Tzimiropoulos, XNOR-Net++, BMVC 2019",
            hyperparameters=_XNOR_PP,
            tuned=("lr", "lr-decay", "start", "weight decay", "clipping"),
            settings="an author's code for ImageNet: Adam at 1e-3 without decay, x 0.1 at 4/9, 7/9 and 8/9 of the run; "
            "start Kaiming normal (outputs), scales from 1; activations' gradients stopped beyond 1",
            build=_adam,
            model_options=_latent("xnor-net++", init="kaiming_fan_out", surrogate="clip"),
            real=_same("adam", _XNOR_PP),
            run={"batch_size": 256},
            golden="xnornetpp",
            revision=2,
        ),
        "dorefa": Method(
            summary="the sign of latent weights, times the mean magnitude of the layer; the gradient passes unchanged",
            source="Zhou et al., DoReFa-Net, 2016",
            hyperparameters=_DOREFA,
            tuned=("lr", "lr-decay", "start", "weight decay"),
            settings="the authors' code for SVHN: Adam at 1e-3, halved at half of the run; start Kaiming normal; "
            "without its Adam's epsilon of 1e-5 and its decay of 1e-7 in the last layer. Activations are -1 and +1 "
            "here, with the gradient stopped beyond 1; its own are 0 and 1",
            build=_adam,
            model_options=_latent("dorefa", init="kaiming_normal", surrogate="clip"),
            real=_same("adam", _DOREFA),
            run={"batch_size": 128},
            golden="dorefa",
        ),
        "ir-net": Method(
            summary="balanced, standardised latent weights, a power-of-two scale, gradients that sharpen (EDE)",
            source="Qin et al., Forward and Backward Information Retention (IR-Net), CVPR 2020",
            hyperparameters=_IR_NET,
            tuned=("lr", "lr-decay", "start", "momentum", "weight decay", "first t", "last t"),
            settings="published, for CIFAR-10; t from 1e-3 to 10 over the run, however short; a hard tanh before each "
            "sign, as in its networks; start Kaiming normal; weight decay on all parameters",
            build=_sgd,
            model_options=_latent("ir-net", init="kaiming_normal", surrogate="ede"),
            real=_same("sgd", _IR_NET, decay="all"),
            run={"batch_size": 128},
            network={"activation": "hardtanh", "shortcut": "subsample"},
            golden="irnet",
        ),
        "dsq": Method(
            summary="a soft quantiser of latent weights with learned bounds and sharpness, read by its sign",
            source="Gong et al., Differentiable Soft Quantization, ICCV 2019",
            hyperparameters=_SGD,
            tuned=("lr", "lr-decay", "start", "momentum", "weight decay", "sharpness"),
            settings=f"the SGD of the paper's other CIFAR-10 rows: assumed; sharpness from 0.2: published; {_START}",
            build=_sgd,
            model_options=_latent("dsq", init_scale=0.1),
            golden="dsq",
        ),
        "recu": Method(
            summary="standardised latent weights whose tails are clamped at a rising quantile, times a learned scale",
            source="Xu et al., ReCU: Reviving the Dead Weights, ICCV 2021",
            hyperparameters=_RECU,
            tuned=("lr", "lr-decay", "start", "momentum", "weight decay", "first tau", "last tau", "warm-up"),
            settings="published, for CIFAR-10; tau from 0.85 to 0.99 over the run, however short; in training a sign's "
            "input is divided by its sample's standard deviation; start Kaiming normal; weight decay on all; "
            "warm-up over 5 epochs of 600",
            build=_sgd,
            model_options=_latent("recu", init="kaiming_normal", standardize="scale"),
            real=_same("sgd", _RECU, decay="all"),
            run={"batch_size": 256, "warmup": 5 / 600},
            network={"activation": "hardtanh", "shortcut": "pool"},
            golden="recu",
            revision=2,
        ),
    }
)


_RENAMED = {"binaryconnect": "binarynet"}


def current_name(name: str) -> str:
    """The name of today for one that a method had before, with a warning; any other name as it is."""
    if name not in _RENAMED:
        return name
    warnings.warn(
        f"method {name!r} is called {_RENAMED[name]!r} now, with the recipe of that paper",
        DeprecationWarning,
        stacklevel=3,
    )
    return _RENAMED[name]


def get(name: str) -> Method:
    """The method of that name, or an error that lists the names."""
    name = current_name(name)
    check_choice("method", name, METHODS)
    return METHODS[name]


def hyperparameters(name: str, chosen: Mapping[str, Value]) -> dict[str, Value]:
    """A method's hyperparameters with those chosen in place of its defaults.

    An unknown name and a value of another type than the default's are refused; where the default is None, a number or
    None is meant. A number may be a ramp, "1e-2->1e-5", whose ends must be values that the optimizer takes.
    """
    defaults = get(name).hyperparameters
    result = dict(defaults)
    for key, value in chosen.items():
        if key not in defaults:
            raise ValueError(
                f"method {name!r} has no hyperparameter {key!r}; it has {', '.join(defaults)}"
                f"{did_you_mean(key, defaults)}"
            )
        result[key] = _checked(key, value, defaults[key])
    if any(map(_is_ramp, result.values())):
        _check_ramps(name, result)
    return result


def _is_ramp(value: Value) -> bool:
    return isinstance(value, str) and "->" in value


def _checked(key: str, value: Value, default: Value) -> Value:
    if isinstance(default, str) and not _is_ramp(default):
        if isinstance(value, str):
            return value
        raise ValueError(f"optimizer.{key} is {value!r}; it can be text")
    if value is default is None or _is_ramp(value):
        return value
    if isinstance(value, str) and _is_ramp(default):  # --set leaves text where text was
        with suppress(ValueError):
            return float(value)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    wanted = "a number or none" if default is None else "a number"
    raise ValueError(f"optimizer.{key} is {value!r}; it can be {wanted}, or a ramp over the run such as 1e-2->1e-5")


def _check_ramps(name: str, values: Mapping[str, Value]) -> None:
    method = get(name)
    for end in ("first", "last"):
        optimizer = method.build([nn.Parameter(torch.ones(2, 2))], _at(end, values), 1)  # refuses what is out of range
        for key in filter(lambda key: _is_ramp(values[key]), values):
            if _field(method, key) not in optimizer.param_groups[0]:
                raise ValueError(
                    f"optimizer.{key} is {values[key]!r}; {name} reads it once, at its start: give a number"
                )
    if _is_ramp(values[method.lr_name]) and values["schedule"] != "constant":
        raise ValueError(
            f"optimizer.{method.lr_name} is {values[method.lr_name]!r} with optimizer.schedule {values['schedule']!r}: "
            "a ramp is a schedule of its own; set optimizer.schedule to constant"
        )


def _at(end: str, values: Mapping[str, Value]) -> dict[str, Value]:
    return {key: getattr(Ramp.parse(str(v)), end) if _is_ramp(v) else v for key, v in values.items()}


def first_values(values: Mapping[str, Value]) -> dict[str, Value]:
    """Hyperparameters as they are at the first update: ramps at their start."""
    return _at("first", values)


def ramps(name: str, values: Mapping[str, Value]) -> dict[str, Ramp]:
    """Param-group field -> ramp, of those hyperparameters that have one."""
    method = get(name)
    return {_field(method, key): Ramp.parse(str(v)) for key, v in values.items() if _is_ramp(v)}


def _field(method: Method, key: str) -> str:
    return "lr" if key == method.lr_name else key
