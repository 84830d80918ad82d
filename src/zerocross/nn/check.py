"""Check that the layers of a model that are declared binary really are."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class NotBinaryError(ValueError):
    """A layer that is declared binary does not compute with binary weights.

    Examples:
        >>> import zerocross
        >>> issubclass(zerocross.nn.NotBinaryError, ValueError)
        True
    """


def check(model: nn.Module) -> None:
    """Raise `NotBinaryError`, naming each layer and its problem, if a layer that is declared binary is not.

    Theta weights must be exactly -1 and +1: Adam, SGD, weight averaging and manual assignments silently turn them into
    real weights, and accuracy looks fine. Latent weights must not be NaN, which has no sign. A binary layer must not be
    bypassed by one of torch's fast paths. `summary` reports the same without raising; `train.evaluate`, `deploy.pack`
    and the end of training call this function.

    Args:
        model: any model; its layers declare binary weights in `binary_kinds`. Weights on the meta device are skipped;
            of sharded weights, each rank checks its own shard.

    Examples:
        >>> import zerocross
        >>> layer = zerocross.nn.BinaryLinear(4, 2)
        >>> zerocross.check(layer)
        >>> layer.weight.data *= 0.5
        >>> try:
        ...     zerocross.check(layer)
        ... except zerocross.nn.NotBinaryError:
        ...     print("not binary")
        ...
        not binary
    """
    if problems := strays(model):
        listed = "; ".join(f"{name or '(the model itself)'}: {what}" for name, what in problems.items())
        raise NotBinaryError(
            f"{len(problems)} of the binary layers are not binary: {listed}. Train theta weights with GradientFilter "
            "(not Adam or SGD) and average them with zerocross.nn.AveragedModel; deploy.pack(resign=True) packs signs"
        )


def strays(model: nn.Module) -> dict[str, str]:
    """Return the layers that are declared binary but are not: name -> problem."""
    problems: dict[str, str] = {}
    for name, module in model.named_modules():
        for attribute, kind in getattr(module, "binary_kinds", {}).items():
            weight = getattr(module, attribute)
            if kind == "theta" and (count := not_signs(weight)):
                problems[name] = f"{count:,} of {weight.numel():,} weights are not -1 or +1"
            elif kind == "latent" and _readable(weight) and bool(_local(weight).isnan().any()):
                problems[name] = "latent weights are NaN"
        if takes_fast_path(module):
            problems[name] = (
                "in evaluation, torch's fast path reads the weights of its binary layers and bypasses the layers: "
                "set activation_relu_or_gelu = 0 on it, as zerocross.binarize does"
            )
    return problems


def not_signs(weight: Tensor) -> int:
    """Return the number of elements that are neither -1 nor +1; 0 if the values cannot be read."""
    if not _readable(weight):
        return 0
    local = _local(weight)
    return local.numel() - int((local.abs() == 1).count_nonzero())


def takes_fast_path(module: nn.Module) -> bool:
    """Return True if a module is a TransformerEncoderLayer whose fast path would bypass its binary layers."""
    if not isinstance(module, nn.TransformerEncoderLayer) or not module.activation_relu_or_gelu:
        return False
    return any(getattr(layer, "binary_kinds", None) for layer in (module.linear1, module.linear2))


def _readable(weight: Tensor) -> bool:
    return not weight.is_meta and not isinstance(weight, nn.parameter.UninitializedParameter)


@torch.no_grad()
def _local(weight: Tensor) -> Tensor:
    weight = weight.detach()
    return weight.to_local() if hasattr(weight, "to_local") else weight  # type: ignore[operator]
