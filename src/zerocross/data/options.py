"""The options of a stream of batches, shared by all kinds of samples."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class BatchOptions:
    """How samples become batches, and for which rank.

    Args:
        batch_size: Samples per batch, over all ranks together.
        training: True shuffles each epoch, augments, and drops a last partial batch. False yields every sample exactly
            once, in order and unchanged; ranks may then differ in their number of batches by one.
        seed: 0 or more.
        augment: Applied to training batches: "none", "crop-flip" (pad 4, crop, mirror), "shift" (by up to 4 along the
            last axis) or "resized-crop" (image files only).
        mean: One value per channel, or one for all; uint8 is read as 0..1.
        std: Likewise.
        device: Device of the batches.
        rank: This process, 0..world_size-1.
        world_size: Number of processes.
        channels_last: Memory format of image batches.

    Examples:
        >>> from zerocross import data
        >>> options = data.BatchOptions(batch_size=64, training=False)
        >>> len(data.load("digits").evaluation.batches(options))
        6
    """

    batch_size: int
    training: bool = True
    seed: int = 0
    augment: str = "none"
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)
    device: str | torch.device = "cpu"
    rank: int = 0
    world_size: int = 1
    channels_last: bool = False
