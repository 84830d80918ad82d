"""The models, by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

from torch import nn

from zerocross.checks import check_choice, did_you_mean
from zerocross.models.birealnet import birealnet18, birealnet20, birealnet34, digits_net, mnist_net
from zerocross.models.mlp import audio_mlp
from zerocross.models.reactnet import reactnet_a
from zerocross.models.series import series_net
from zerocross.models.style import Style
from zerocross.models.text import text_mlp


@dataclass(frozen=True)
class Entry:
    """A model of the registry: how to build it, the data it is meant for, and the shape of one input."""

    build: Callable[..., nn.Module]
    data: str
    input_shape: tuple[int, ...]


MODELS = {
    "digits_net": Entry(digits_net, "digits", (1, 8, 8)),
    "mnist_net": Entry(mnist_net, "MNIST, Fashion-MNIST", (1, 28, 28)),
    "series_net": Entry(series_net, "UCR archive, HAPT", (1, 140)),
    "text_mlp": Entry(text_mlp, "IMDB", (4000,)),
    "birealnet20": Entry(birealnet20, "CIFAR-10", (3, 32, 32)),
    "audio_mlp": Entry(audio_mlp, "AudioMNIST", (1, 40, 32)),
    "birealnet18": Entry(birealnet18, "ImageNet", (3, 224, 224)),
    "birealnet34": Entry(birealnet34, "ImageNet", (3, 224, 224)),
    "reactnet_a": Entry(reactnet_a, "ImageNet", (3, 224, 224)),
}


def names() -> list[str]:
    """Return the names of all models.

    Examples:
        >>> import zerocross
        >>> zerocross.models.names()[:3]
        ['digits_net', 'mnist_net', 'series_net']
    """
    return list(MODELS)


def options(name: str) -> dict[str, Any]:
    """Return the keyword arguments that `create` takes for a model, with their defaults.

    Examples:
        >>> import zerocross
        >>> zerocross.models.options("birealnet20")["classes"]
        10
    """
    check_choice("model", name, MODELS)
    own = list(inspect.signature(MODELS[name].build).parameters.values())[1:]
    return {field.name: field.default for field in fields(Style)} | {option.name: option.default for option in own}


def create(name: str, **kwargs: Any) -> nn.Module:
    """Build a model by name.

    Args:
        name: one of `names()`.
        kwargs: the fields of `Style` (`binarize`, `weights`, `scale`, `weight_surrogate`, `binarizer`, `init_scale`,
            `surrogate`), and the model's own, such as `classes`; `options(name)` gives them all with their defaults.

    Examples:
        >>> import torch
        >>> import zerocross
        >>> model = zerocross.models.create("birealnet20", classes=10)
        >>> model(torch.randn(2, 3, 32, 32)).shape
        torch.Size([2, 10])
    """
    known = options(name)
    for key in kwargs:
        if key not in known:
            raise ValueError(f"{name} has no option {key!r}; it has {', '.join(known)}{did_you_mean(key, known)}")
    own = {key: kwargs.pop(key) for key in list(kwargs) if key not in {field.name for field in fields(Style)}}
    model = MODELS[name].build(Style(**kwargs), **own)
    if not hasattr(model, "input_size"):  # for code that runs it once, such as deploy
        model.input_size = MODELS[name].input_shape  # type: ignore[assignment]
    return model
