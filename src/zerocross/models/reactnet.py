"""ReActNet-A: a MobileNet of binary convolutions with learned thresholds (Liu et al., ECCV 2020)."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from zerocross.models.style import Style
from zerocross.nn import RPReLU, RSign

WIDTHS = (32, 64, 128, 128, 256, 256, 512, 512, 512, 512, 512, 512, 1024, 1024)
HALVING = (64, 128, 256, 512)  # widths after which a wider block has stride 2; 32 -> 64 keeps the size


class ReActBlock(nn.Module):
    """A binary 3 x 3 convolution with a shortcut, then binary 1 x 1 convolutions with theirs.

    Where a block doubles the channels, two 1 x 1 convolutions see the same signs, and their sums are concatenated.
    """

    def __init__(self, style: Style, in_channels: int, out_channels: int, stride: int) -> None:
        super().__init__()
        self.stride = stride
        self.sign1 = _sign(style, in_channels)
        self.conv1 = style.conv(in_channels, in_channels, 3, stride)
        self.norm1 = nn.BatchNorm2d(in_channels)
        self.activation1 = RPReLU(in_channels)
        self.sign2 = _sign(style, in_channels)
        branches = out_channels // in_channels
        self.convs2 = nn.ModuleList(style.conv(in_channels, in_channels, 1) for _ in range(branches))
        self.norms2 = nn.ModuleList(nn.BatchNorm2d(in_channels) for _ in range(branches))
        self.activation2 = RPReLU(out_channels)

    def forward(self, x: Tensor) -> Tensor:
        """Return out_channels of the same size, or of half of it at stride 2."""
        shortcut = x if self.stride == 1 else F.avg_pool2d(x, 2, ceil_mode=True)
        x = self.activation1(self.norm1(self.conv1(self.sign1(x))) + shortcut)
        signs = self.sign2(x)
        sums = [norm(conv(signs)) + x for conv, norm in zip(self.convs2, self.norms2, strict=True)]
        return self.activation2(torch.cat(sums, 1) if len(sums) > 1 else sums[0])


class ReActNet(nn.Module):
    """A real 3 x 3 stem of stride 2, thirteen blocks and a real linear head.

    Args:
        style: the style of its binary layers; the full-precision twin has no thresholds before its convolutions.
        classes: outputs of the head.
    """

    def __init__(self, style: Style, classes: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, WIDTHS[0], 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(WIDTHS[0])
        )
        pairs = pairwise(WIDTHS)
        self.blocks = nn.Sequential(
            *(
                ReActBlock(style, narrow, wide, 2 if narrow in HALVING and wide > narrow else 1)
                for narrow, wide in pairs
            )
        )
        self.head = nn.Linear(WIDTHS[-1], classes)

    def forward(self, x: Tensor) -> Tensor:
        """Return one logit per class for images (N, 3, H, W)."""
        return self.head(self.blocks(self.stem(x)).mean((2, 3)))


def _sign(style: Style, channels: int) -> nn.Module:
    if style.binarize == "none":
        return nn.Identity()
    if style.surrogate == "adabin":
        return style.sign(channels)
    return RSign(channels, "polynomial" if style.surrogate == "rsign" else style.surrogate, style.standardize)


def reactnet_a(style: Style, *, classes: int = 1000) -> nn.Module:
    """ReActNet-A for 3 x 224 x 224 images: 13 blocks of 32 to 1024 channels."""
    return ReActNet(style, classes)
