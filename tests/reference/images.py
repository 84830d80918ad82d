"""Naive twins of the batch kernels, pixel by pixel."""

from __future__ import annotations

import torch
from torch import Tensor


def crop(x: Tensor, top: list[int], left: list[int], flip: list[bool], padding: tuple[int, int]) -> Tensor:
    n, channels, height, width = x.shape
    out = torch.zeros_like(x)
    for i in range(n):
        for row in range(height):
            for column in range(width):
                source_row = row + top[i] - padding[0]
                source_column = (width - 1 - column if flip[i] else column) + left[i] - padding[1]
                if 0 <= source_row < height and 0 <= source_column < width:
                    for c in range(channels):
                        out[i, c, row, column] = x[i, c, source_row, source_column]
    return out
