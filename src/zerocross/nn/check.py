"""Whether a model is binary where its layers say that it is."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class NotBinaryError(ValueError):
    """A layer that calls its weights binary computes with something else."""


def check(model: nn.Module) -> None:
    """Raise `NotBinaryError`, with the name of each layer and what is wrong with it, unless a model is as it claims.

    Theta weights must be exactly -1 and +1: Adam or SGD, weight averaging and hand-made assignments turn them real in
    silence, and accuracy looks fine. Latent weights must not be NaN, whose sign is none. A binary layer must not stand
    where torch computes around it. `summary` says the same of each layer without raising; `train.evaluate`,
    `deploy.pack` and the end of training call this.

    Args:
        model: any model; layers say what is binary in `binary_kinds`. Weights on the meta device are passed over, and
            of sharded ones each rank sees its own part.
    """
    if found := strays(model):
        listed = "; ".join(f"{name or '(the model itself)'}: {what}" for name, what in found.items())
        raise NotBinaryError(
            f"{len(found)} of the binary layers are not binary: {listed}. Train theta weights with GradientFilter (not "
            "Adam or SGD), average them with zerocross.nn.AveragedModel; deploy.pack takes signs with resign=True"
        )


def strays(model: nn.Module) -> dict[str, str]:
    """Return the layers of a model that are not as binary as they claim: name -> what is wrong."""
    found: dict[str, str] = {}
    for name, module in model.named_modules():
        for attribute, kind in getattr(module, "binary_kinds", {}).items():
            weight = getattr(module, attribute)
            if kind == "theta" and (wrong := not_signs(weight)):
                found[name] = f"{wrong:,} of {weight.numel():,} weights are not -1 or +1"
            elif kind == "latent" and _readable(weight) and bool(_local(weight).isnan().any()):
                found[name] = "latent weights are NaN"
        if takes_fast_path(module):
            found[name] = (
                "in evaluation torch's fast path reads the weights of its binary layers and leaves out the layers: "
                "set activation_relu_or_gelu = 0 on it, as zerocross.binarize does"
            )
    return found


def not_signs(weight: Tensor) -> int:
    """Return how many elements are neither -1 nor +1; 0 where there is nothing to read."""
    if not _readable(weight):
        return 0
    local = _local(weight)
    return local.numel() - int((local.abs() == 1).count_nonzero())


def takes_fast_path(module: nn.Module) -> bool:
    """Return whether a module is a TransformerEncoderLayer that would compute around its binary layers."""
    if not isinstance(module, nn.TransformerEncoderLayer) or not module.activation_relu_or_gelu:
        return False
    return any(getattr(layer, "binary_kinds", None) for layer in (module.linear1, module.linear2))


def _readable(weight: Tensor) -> bool:
    return not weight.is_meta and not isinstance(weight, nn.parameter.UninitializedParameter)


@torch.no_grad()
def _local(weight: Tensor) -> Tensor:
    weight = weight.detach()
    return weight.to_local() if hasattr(weight, "to_local") else weight  # type: ignore[operator]
