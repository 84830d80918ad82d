"""Which parameters of a model are binary, and which real: split once, each exactly once."""

from __future__ import annotations

from typing import NamedTuple

from torch import nn


class ParamSplit(NamedTuple):
    """A model's trainable parameters, each exactly once.

    Examples:
        >>> import zerocross
        >>> zerocross.split_params(zerocross.nn.BinaryLinear(8, 2)).real
        []
    """

    binary: list[nn.Parameter]
    real: list[nn.Parameter]
    real_no_decay: list[nn.Parameter]


def split_params(model: nn.Module) -> ParamSplit:
    """Split a model's trainable parameters into (binary, real, real_no_decay).

    binary: weights that their layers declare binary (`binary_kinds`: theta or latent). real_no_decay: vectors, that is
    biases, batch-norm parameters, scales, shifts and slopes, which should not be decayed. Frozen parameters
    (requires_grad=False) are left out; tied parameters appear once.

    Examples:
        >>> import torch
        >>> import zerocross
        >>> model = torch.nn.Sequential(torch.nn.Linear(8, 8), zerocross.nn.BinaryLinear(8, 2))
        >>> binary, real, no_decay = zerocross.split_params(model)
        >>> [tuple(parameter.shape) for parameter in (*binary, *real, *no_decay)]
        [(2, 8), (8, 8), (8,)]
    """
    kinds = binary_kinds(model)
    split = ParamSplit([], [], [])
    for param in model.parameters():
        if not param.requires_grad:
            continue
        if id(param) in kinds:
            split.binary.append(param)
        elif sum(size > 1 for size in param.shape) <= 1:
            split.real_no_decay.append(param)
        else:
            split.real.append(param)
    return split


def binary_kinds(model: nn.Module) -> dict[int, str]:
    """Map id(parameter) to "theta" or "latent", as its layer declares.

    It is a property of the layer since attributes of a Parameter do not survive deepcopy.

    Examples:
        >>> import zerocross
        >>> model = zerocross.nn.BinaryLinear(8, 2, weights="latent")
        >>> zerocross.optim.binary_kinds(model)[id(model.weight)]
        'latent'
    """
    kinds: dict[int, str] = {}
    for name, module in model.named_modules():
        for attribute, kind in getattr(module, "binary_kinds", {}).items():
            param = getattr(module, attribute)
            if kinds.setdefault(id(param), kind) != kind:
                raise ValueError(
                    f"{name}.{attribute} is tied to a weight of another kind: one is theta, the other latent"
                )
    return kinds
