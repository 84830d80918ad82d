"""Random parameters like those of a trained network; those of a new network would be optimised away."""

from __future__ import annotations

import torch
from torch import nn

from zerocross.nn import RPReLU, RSign


@torch.no_grad()
def randomize(network: nn.Module, size: tuple[int, ...], images: int = 2) -> nn.Module:
    """Set batch norms, shifts and slopes to random values, and batch-norm statistics to those of random images.

    In a new network, shifts are 0 and all slopes are equal; they would be folded and cost nothing.

    Args:
        network: Modified in place, and returned in evaluation mode.
        size: Shape (C, H, W) of an image.
        images: Number of images for the statistics, at least 2.
    """
    norms = [layer for layer in network.modules() if isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d)]
    for layer in network.modules():
        if isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d):
            layer.weight.uniform_(0.5, 1.5)
            layer.bias.normal_(0, 0.2)
        elif isinstance(layer, nn.PReLU):
            layer.weight.uniform_(0.1, 0.5)
        elif isinstance(layer, RSign):
            layer.shift.normal_(0, 0.2)
        elif isinstance(layer, RPReLU):
            layer.slope.uniform_(0.1, 0.5)
            layer.shift_in.normal_(0, 0.2)
            layer.shift_out.normal_(0, 0.2)
    before = [norm.momentum for norm in norms]
    for norm in norms:
        norm.momentum = 1.0  # the statistics are those of this batch
    network.train()(torch.randn(images, *size))
    for norm, momentum in zip(norms, before, strict=True):
        norm.momentum = momentum
    return network.eval()
