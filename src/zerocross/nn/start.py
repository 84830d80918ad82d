"""What layers compute at the start: once per epoch from their weights, and once from the first batch."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from zerocross.nn.layers import BinaryConv1d, BinaryConv2d, BinaryLinear


def start_epoch(model: nn.Module) -> None:
    """Fit what binary layers fit to their weights once per epoch (RBNN's rotations); call it before its first batch.

    Args:
        model: any model; layers that fit nothing stay as they are.

    Examples:
        >>> import torch
        >>> from zerocross.nn import BinaryLinear, start_epoch
        >>> layer = BinaryLinear(12, 4, weights="latent", binarizer="rbnn")
        >>> before = layer.binarizer.left.clone()
        >>> start_epoch(layer)
        >>> bool((layer.binarizer.left != before).any())
        True
    """
    for module in model.modules():
        if isinstance(module, BinaryConv1d | BinaryConv2d | BinaryLinear):
            module.refit()


def start_from_batch(model: nn.Module, x: Tensor) -> None:
    """Run a model once, if it has layers that start from a first batch (EWGS' bounds) and have not seen one yet.

    They also start by themselves in training; called before it, this avoids a second compilation after the first batch.

    Args:
        model: any model.
        x: a batch of its inputs.

    Examples:
        >>> import torch
        >>> from zerocross.nn import start_from_batch
        >>> from zerocross.nn.binarizers.ewgs import EWGSActivation
        >>> activation = EWGSActivation()
        >>> start_from_batch(activation, torch.tensor([-1.0, 0.0, 1.0]))
        >>> activation.low.item(), activation.high.item()
        (-3.0, 3.0)
    """
    if any(getattr(module, "waits_for_batch", False) for module in model.modules()):
        with torch.no_grad():
            model.train()(x)
