"""Recipes: the runs that have a name, and for each value where it comes from."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from zerocross.checks import check_choice
from zerocross.train.config import Config, DataConfig, ModelConfig, RealConfig, Stage, TaskConfig, from_dict


@dataclass(frozen=True)
class Recipe:
    """A named config.

    Args:
        summary: One line for lists.
        config: The run.
        stated: Dotted fields whose values the paper states.
        assumed: Dotted fields that it leaves open, each with the reason for our value.
    """

    summary: str
    config: Config
    stated: Mapping[str, str]
    assumed: Mapping[str, str]


_DIGITS = Recipe(
    summary="scikit-learn's 8 x 8 digits, embedded: a small binary convolutional network in seconds",
    config=Config(
        recipe="digits",
        data=DataConfig("digits"),
        model=ModelConfig("digits_net"),
        optimizer={"alpha": 3e-3},
        real=RealConfig(lr=0.05),
        stages=(Stage(epochs=20),),
        batch_size=64,
    ),
    stated={"optimizer.gamma": "0.1, as in all of the paper's runs", "optimizer.schedule": "cosine alpha-decay"},
    assumed={
        "data.name, model.name": "not in the paper: four binary convolutions, enough for 8 x 8 images",
        "optimizer.alpha": "3e-3: a run of 440 updates wants a shorter window than one of 78,000",
        "real.lr": "0.05, for batches of 64",
        "epochs": "20, between 15 and 25, which did equally well on a validation part of the training data (3 seeds)",
        "batch_size": "64, not searched",
    },
)

_CIFAR10 = Recipe(
    summary="CIFAR-10, Bi-RealNet-20, one stage, the filter: the paper's Table 2",
    config=Config(
        recipe="cifar10-birealnet20",
        data=DataConfig("cifar10"),
        model=ModelConfig("birealnet20"),
        optimizer={"alpha": 1e-3, "gamma": 0.1},
        real=RealConfig(lr=0.1, momentum=0.9, weight_decay=1e-4),
        stages=(Stage(epochs=400),),
        batch_size=256,
        precision="auto",
    ),
    stated={
        "data.name, model.name, method": "CIFAR-10, Bi-RealNet-20, the filter",
        "optimizer.alpha": "1e-3",
        "optimizer.gamma": "0.1",
        "optimizer.schedule": "cosine",
        "real": "SGD, lr 0.1 cosine, momentum 0.9, weight decay 1e-4 on non-BN parameters",
        "epochs": "400",
        "augmentation": "pad 4, crop 32, flip",
        "batch_size": "256, in its analyses",
    },
    assumed={
        "model.shortcut, model.activation": "unsaid; pool and prelu, chosen on validation data",
        "weight decay of biases": "none: ten numbers in the last layer",
        "precision": "auto: bfloat16 where the device computes in it, at 0.58 of float32's time and equal accuracy",
    },
)

_AUDIO = Recipe(
    summary="AudioMNIST, spoken digits by unseen speakers, a binary MLP on log-mel features: the paper's Fig. 8",
    config=Config(
        recipe="audiomnist-mlp",
        data=DataConfig("audiomnist"),
        model=ModelConfig("audio_mlp"),
        optimizer={"alpha": 1e-3, "gamma": 0.1},
        real=RealConfig(name="adam", lr=1e-3, weight_decay=0.0),
        stages=(Stage(epochs=10),),
        batch_size=256,
    ),
    stated={"data.name, model.name": "AudioMNIST, four linear layers with batch norm, the first one real"},
    assumed={
        "model.width": "256: unsaid",
        "data.features": "unsaid: 40 x 32 log-mel, fold 0 of Becker et al., speakers disjoint",
        "optimizer, real, epochs, batch_size": "unsaid: the CIFAR-10 settings of the filter, Adam for the rest",
    },
)

_IMAGENET = Recipe(
    summary="ImageNet, ReActNet-A, one stage, distilled from a ResNet-34: the paper's Table 3 (GPUs)",
    config=Config(
        recipe="imagenet-reactnet-a",
        data=DataConfig("imagenet"),
        model=ModelConfig("reactnet_a"),
        task=TaskConfig("distillation", teacher="torchvision.models:resnet34"),
        optimizer={"alpha": 1e-5, "gamma": 0.1, "schedule": "linear"},
        real=RealConfig(name="adam", lr=2.5e-3, weight_decay=0.0, schedule="linear"),
        stages=(Stage(epochs=239),),
        batch_size=510,
        precision="auto",
        log_every=100,
    ),
    stated={
        "data.name, model.name, method": "ImageNet, ReActNet-A, the filter",
        "optimizer.alpha, optimizer.schedule": "1e-5, linear decay",
        "optimizer.gamma": "0.1",
        "real.name, real.lr, real.schedule": "Adam, lr 2.5e-3, linear decay",
        "batch_size": "510",
        "epochs": "239: 600,000 updates of 510 out of 1,281,167 images",
    },
    assumed={
        "task": "soft cross-entropy to a ResNet-34 at temperature 1, as ReActNet and AdamBNN have it",
        "task.teacher_weights": "to be given: a state dict of the teacher",
        "real.weight_decay": "0: unsaid",
    },
)

RECIPES: Mapping[str, Recipe] = MappingProxyType(
    {recipe.config.recipe: recipe for recipe in (_DIGITS, _CIFAR10, _AUDIO, _IMAGENET)}
)


def get(name: str) -> Recipe:
    """The recipe of that name, or that of a .json file; or an error that lists the names."""
    if name.endswith(".json"):
        return read(Path(name))
    check_choice("recipe", name, RECIPES)
    return RECIPES[name]


def read(path: Path) -> Recipe:
    """The recipe in a file, which is a config as JSON: what `zerocross tune` writes, or a run folder's config.json."""
    if not path.is_file():
        raise FileNotFoundError(2, "No such recipe file", str(path))
    try:
        config = from_dict(json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, TypeError, AttributeError) as error:  # the last two: a number where a section should stand
        raise ValueError(f"{path} is not a recipe: {error}") from error
    return Recipe(f"read from {path}", config, stated={}, assumed={})
