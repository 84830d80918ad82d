"""Table 1: the hyperparameters of latent weights and of the filter, counted as settings that change a training."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from zerocross import data as datasets
from zerocross import methods
from zerocross.figures import pictures
from zerocross.figures.panel import Table
from zerocross.optim import split_params
from zerocross.paper import scales
from zerocross.paper.artefact import Artefact, Claim, Content, Measured, Scale, Setting, Verdict, no_configs
from zerocross.paper.session import Session
from zerocross.train import assign, fit
from zerocross.train.config import Config, resolved

# Network options that are settings of the binary weights; all others describe the network itself.
OF_WEIGHTS = ("scale", "weight_surrogate", "init_scale")
# Another value to try, by field; numbers that are not listed are halved.
OTHER = {
    "optimizer.schedule": "linear",
    "model.options.scale": {"channel_mean": "none"},
    "model.options.weight_surrogate": {"clip": "identity", "identity": "clip"},
}
# For pretrained weights only; 0 when training from scratch.
NOT_FROM_SCRATCH = {"filter": ("optimizer.warm_start",)}
# Latent weights so large that clipping has an effect in a training of seconds.
LATENT_BASE = {"optimizer.lr": "2", "model.options.init_scale": "0.8", "optimizer.weight_decay": "0.01"}
# The paper's name of each field.
WORDS = {
    "optimizer.lr": "learning rate",
    "optimizer.schedule": "decay",
    "optimizer.momentum": "momentum",
    "optimizer.weight_decay": "weight decay",
    "optimizer.alpha": "alpha",
    "optimizer.gamma": "gamma",
    "model.options.scale": "scaling",
    "model.options.weight_surrogate": "gradient clipping",
    "model.options.init_scale": "start",
}


def candidates(config: Config) -> dict[str, str]:
    """Return another value for each setting of a run that concerns its binary weights, by field."""
    values = {f"optimizer.{name}": value for name, value in config.optimizer.items()}
    values |= {f"model.options.{name}": config.model.options[name] for name in OF_WEIGHTS}
    other = {}
    for field, value in values.items():
        if field in NOT_FROM_SCRATCH.get(config.method, ()):
            continue
        change = OTHER.get(field)
        if isinstance(change, dict):
            change = change.get(str(value))
        if change is None and isinstance(value, float):
            change = str(value / 2)
        if change is not None:
            other[field] = change
    return other


def _base(method: str) -> Config:
    config = scales.varied(scales.base("smoke"), method)
    if methods.get(method).kind == "latent":
        config = assign.changed(config, LATENT_BASE)
    return resolved(assign.changed(config, {"model.options.width": "4", "stages.0.epochs": "1"}))


def _signs(config: Config) -> np.ndarray:
    """Return the signs of all binary weights after a short training."""
    fitted = fit(config, datasets.load("digits"), show=False)
    return torch.cat([weight.detach().flatten() < 0 for weight in split_params(fitted.model).binary]).numpy()


def counted(method: str) -> dict[str, int]:
    """Return the number of weights that end with another sign if a setting is changed, by field."""
    config = _base(method)
    reference = _signs(config)
    changes = {}
    for field, value in candidates(config).items():
        changes[field] = int((_signs(assign.changed(config, {field: value})) != reference).sum())
    return changes


def run(scale: Scale, session: Session) -> Content:
    """Train a small network with default settings, and with each setting changed."""
    del scale
    names = ("torch-sgd", "filter")
    about = {name: {"config": _base(name).hash, "changes": candidates(_base(name))} for name in names}
    changed = session.once("table1", about, lambda: {name: counted(name) for name in names})
    return Content(
        tables=[
            Table(
                title="Settings of the binary weights, and the number of signs that change with each",
                columns=["method", "setting", "config field", "signs that change"],
                rows=[
                    [name, WORDS.get(field, field), field, count]
                    for name in names
                    for field, count in changed[name].items()
                ],
                notes=[
                    "optimizer.warm_start of the filter is for pretrained weights; it is 0 when training from scratch"
                ],
            ),
            Table(
                title="All methods of this package",
                columns=["method", "number", "hyperparameters"],
                rows=[[name, len(each.tuned), ", ".join(each.tuned)] for name, each in methods.METHODS.items()],
                notes=["Hyperparameters that the authors of each method tune."],
            ),
        ],
        measured={"changed": changed},
        runs=[],
    )


def _seven_to_three(measured: Measured) -> Verdict:
    changed: dict[str, dict[str, int]] = measured["changed"]
    count = {name: [WORDS.get(field, field) for field, n in each.items() if n] for name, each in changed.items()}
    return Verdict(
        {name: len(words) for name, words in count.items()} == {"torch-sgd": 7, "filter": 3},
        "; ".join(f"{name}: {len(words)} ({', '.join(words)})" for name, words in count.items()),
    )


def _no_effect(measured: Measured) -> Verdict:
    """Check that settings of magnitude change no sign of the filter's weights."""
    changed: dict[str, Any] = measured["changed"]["filter"]
    counts = {field: changed[field] for field in ("model.options.weight_surrogate", "model.options.init_scale")}
    return Verdict(
        not any(counts.values()), "; ".join(f"{field}: {count} signs change" for field, count in counts.items())
    )


def settings(scale: Scale) -> list[Setting]:
    """Return the settings of this artefact."""
    del scale
    return [
        scales.setting("training", "digits, a small network, one epoch, each setting changed in turn", "our choice"),
        scales.setting(
            "latent weights",
            "torch-sgd at lr 2, weight decay 0.01, start within +-0.8",
            "large, so that every setting has an effect within seconds",
        ),
    ]


ARTEFACT = Artefact(
    name="table1",
    title="Table 1: hyperparameters to tune",
    caption="Latent weights have seven hyperparameters. The filter does not need four of them: lr only scales a value "
    "of which the sign is taken, scaling and clipping act on a magnitude that does not exist, and the start is zero. A "
    "setting counts if changing it changes a training.",
    claims=(
        Claim("The filter has 3 hyperparameters where latent weights have 7", _seven_to_three, paper="7 and 3"),
        Claim("Clipping and the scale of the initial weights change no weight of the filter", _no_effect),
    ),
    settings=settings,
    configs=no_configs,
    run=run,
    plot=pictures.draw,
    paper={"latent": 7, "filter": 3},
)
