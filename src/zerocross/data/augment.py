"""Augmentation of a batch on its device: crop, flip, lighting, normalisation; pure functions and their random draws."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

AUGMENTS = ("none", "crop-flip", "shift")
CROP_PADDING = (4, 4)  # pad 4, crop back, on both axes (the paper's CIFAR-10 augmentation)
SHIFT_PADDING = (0, 4)  # along the last axis only: time, for spectrograms

# Principal components of ImageNet's RGB values in 0..1 (Krizhevsky et al. 2012, as published with fb.resnet.torch).
EIGENVALUES = (0.2175, 0.0188, 0.0045)
EIGENVECTORS = ((-0.5675, 0.7192, 0.4009), (-0.5808, -0.0045, -0.8140), (-0.5836, -0.6948, 0.4203))


def crop(x: Tensor, top: Tensor, left: Tensor, flip: Tensor, padding: tuple[int, int]) -> Tensor:
    """Zero-pad images, crop them to their old size, and mirror some, in one gather.

    Args:
        x: (N, C, H, W), any dtype.
        top: (N,) int64, first row of the window in the padded image, 0..2 * padding[0].
        left: (N,) int64, first column, 0..2 * padding[1].
        flip: (N,) bool, mirror left and right.
        padding: rows and columns of zeros on each side.
    """
    n, c, h, w = x.shape
    padded = F.pad(x, (padding[1], padding[1], padding[0], padding[0]))
    column = torch.arange(w, device=x.device)
    rows = top[:, None] + torch.arange(h, device=x.device)
    columns = left[:, None] + torch.where(flip[:, None], w - 1 - column, column)
    pixel = rows[:, :, None] * padded.shape[3] + columns[:, None, :]
    return padded.flatten(2).gather(2, pixel.view(n, 1, h * w).expand(n, c, h * w)).view(n, c, h, w)


def augmented(x: Tensor, augment: str, generator: torch.Generator) -> Tensor:
    """Draw and apply one of `AUGMENTS` to a batch."""
    if augment == "none":
        return x
    padding = CROP_PADDING if augment == "crop-flip" else SHIFT_PADDING
    top, left = (torch.randint(0, 2 * width + 1, (len(x),), generator=generator, device=x.device) for width in padding)
    flip = random_flips(len(x), generator) if augment == "crop-flip" else torch.zeros_like(top, dtype=torch.bool)
    return crop(x, top, left, flip, padding)


def random_flips(n: int, generator: torch.Generator) -> Tensor:
    """Draw (N,) bools, each True with probability 1/2."""
    return torch.rand(n, generator=generator, device=generator.device) < 0.5


def lighting(n: int, strength: float, generator: torch.Generator) -> Tensor:
    """Draw one colour offset per image along the principal components: (N, 3), in units of 0..1.

    offset = V (a * lambda), a ~ Normal(0, strength) (AlexNet's colour augmentation; 0.1 in the paper's recipe).
    """
    draws = torch.randn(n, 3, generator=generator, device=generator.device) * strength
    values = torch.tensor(EIGENVALUES, device=generator.device)
    return (draws * values) @ torch.tensor(EIGENVECTORS, device=generator.device).T


def normalised(x: Tensor, mean: Sequence[float], std: Sequence[float], offset: Tensor | None = None) -> Tensor:
    """Return (x - mean) / std as float32, with uint8 read as 0..1; `offset` (N, C) is added to x first (lighting).

    Args:
        x: (N, C, H, W), (N, C, L) or (N, F); uint8, or floating point in any unit.
        mean: one value for all channels (or features), or one for each.
        std: likewise, above 0.
        offset: colour offset per image, in the units of `mean`.
    """
    return scaled(x, *scale_and_shift(x, mean, std, offset))


def scale_and_shift(
    x: Tensor, mean: Sequence[float], std: Sequence[float], offset: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Return the factor and the summand by which `scaled` normalises x, or any batch of its kind if there is no offset.

    Args: see `normalised`.
    """
    unit = 255.0 if x.dtype == torch.uint8 else 1.0
    spread = torch.tensor(std, dtype=torch.float32, device=x.device)
    centre = torch.tensor(mean, dtype=torch.float32, device=x.device)[None]
    if offset is not None:
        centre = centre - offset
    image = (1,) * (x.ndim - 2)
    scale, shift = 1 / (unit * spread), -centre / spread
    return scale.view(-1, *image), shift.view(*shift.shape, *image)


def scaled(x: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    """Return scale * x + shift as float32, in memory of its own."""
    return x.to(torch.float32, copy=True).mul_(scale).add_(shift)
