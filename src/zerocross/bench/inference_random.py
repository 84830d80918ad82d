"""Random parameters as of a trained network: of a fresh one, packers and compilers leave out what it does not need."""

from __future__ import annotations

import torch
from torch import nn

from zerocross.nn import RPReLU, RSign


@torch.no_grad()
def randomize(network: nn.Module, size: tuple[int, ...], images: int = 2) -> nn.Module:
    """Give batch norms, shifts and slopes random values, and batch norms the statistics of random images.

    A fresh network has shifts of 0 and slopes of one value; folded away, they would cost nothing.

    Args:
        network: changed in place, and returned in evaluation mode.
        size: (C, H, W) of an image.
        images: how many the statistics come from, at least 2.
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
