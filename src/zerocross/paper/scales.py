"""The three scales of the paper's analyses: reduced to seconds (smoke), to minutes (reduced), or in full (paper)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from zerocross.methods import Value
from zerocross.paper.artefact import Scale, Setting
from zerocross.train import recipes
from zerocross.train.config import Config, DataConfig, ModelConfig, RealConfig, Stage
from zerocross.train.variants import with_method

ALPHA = 1e-5  # lr * weight decay of the paper's analyses: 0.1 * 1e-4
START = 0.05  # standard deviation of the initial latent weights, about that of torch's layers in this network
TRAIN_SIZE = 10_000


def base(scale: Scale) -> Config:
    """Return the run that all analyses of Section 4 vary: the filter on Bi-RealNet-20 (smoke: a small network)."""
    recipe = dataclasses.replace(recipes.get("cifar10-birealnet20").config, precision="32")
    if scale == "paper":
        return recipe
    if scale == "reduced":
        return dataclasses.replace(
            recipe,
            data=DataConfig("cifar10", validate=True, options={"train_size": TRAIN_SIZE}),
            stages=(Stage(6),),
            batch_size=128,
            compile="on",
            log_every=2,
        )
    return dataclasses.replace(
        recipe,
        recipe="digits",
        data=DataConfig("digits"),
        model=ModelConfig("digits_net", {"width": 8}),
        real=RealConfig(lr=0.05),
        stages=(Stage(3),),
        batch_size=64,
        compile="off",
        log_every=1,
    )


def varied(
    config: Config,
    method: str | None = None,
    *,
    optimizer: Mapping[str, Value] | None = None,
    model: Mapping[str, Value] | None = None,
) -> Config:
    """Return a run with another method, or with other hyperparameters of the binary weights or network options.

    Real parameters keep their settings, even if the method has its own.
    """
    real = config.real
    if method is not None:
        config = with_method(config, method)
    return dataclasses.replace(
        config,
        optimizer={**config.optimizer, **(optimizer or {})},
        model=dataclasses.replace(config.model, options={**config.model.options, **(model or {})}),
        real=real,
    )


def seeded(config: Config, seeds: int) -> list[Config]:
    """Return the same run with seeds 0 to seeds - 1."""
    return [dataclasses.replace(config, seed=seed) for seed in range(seeds)]


def flat(groups: Mapping[str, Sequence[Config]]) -> list[Config]:
    """Return all runs of all groups, without duplicates."""
    return list({config.hash: config for configs in groups.values() for config in configs}.values())


def shared(scale: Scale) -> list[Setting]:
    """Return the settings that all analyses share."""
    config = base(scale)
    real = config.real
    full = scale == "paper"
    data = {
        "smoke": "scikit-learn's digits, 8 x 8: 1,437 training images; accuracy on the other 360",
        "reduced": f"CIFAR-10, {TRAIN_SIZE:,} of the training images; accuracy on 5,000 held-out training images",
        "paper": "CIFAR-10, 50,000 training images; accuracy on the 10,000 test images",
    }[scale]
    network = {
        "smoke": "digits_net, two groups of 8 and 16 channels",
        "reduced": "Bi-RealNet-20",
        "paper": "Bi-RealNet-20",
    }[scale]
    reduced = "reduced" if scale == "reduced" else "reduced to run in seconds, on data that a package ships"
    epochs = config.stages[0].epochs
    return [
        Setting("data", data, full, "Section 4" if full else reduced),
        Setting("network", network, scale != "smoke", "Section 4" if scale != "smoke" else reduced),
        Setting("shortcut, activation", "pool, prelu", stated=False, why="not stated; chosen on validation data")
        if scale != "smoke"
        else Setting("shortcut, activation", "subsample, hardtanh", stated=False, why="those of digits_net"),
        Setting("epochs", str(epochs), full, "Section 4.1" if full else reduced),
        Setting("batch", str(config.batch_size), full, "Section 4" if full else "smaller, for more updates"),
        Setting(
            "real parameters",
            f"SGD, lr {real.lr} cosine, momentum {real.momentum}, weight decay {real.weight_decay}, not on batch norm",
            scale != "smoke",
            "Sections 4, 4.1" if scale != "smoke" else "lr 0.05 for batches of 64",
        ),
        Setting("gamma", "0.1", stated=True, why="momentum 0.9, Section 4"),
    ]


def setting(name: str, value: Any, why: str, *, stated: bool = False) -> Setting:
    """Return a setting of an artefact; assumed unless `stated`."""
    return Setting(name, str(value), stated, why)
