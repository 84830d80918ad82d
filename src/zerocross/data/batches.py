"""Datasets in memory: one split, and its batches, which are augmented on the device."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from zerocross.data.augment import AUGMENTS, augmented, scale_and_shift, scaled
from zerocross.data.options import BatchOptions
from zerocross.data.order import AUGMENT, BatchPlan, derived_seed, epoch_order


@dataclass(frozen=True)
class Split:
    """One split of a dataset, in memory.

    Args:
        inputs: (N, C, H, W), (N, C, L) or (N, F); uint8 (read as 0..1) or float32 (in any unit).
        targets: (N,) int64, the class of each sample.

    Examples:
        >>> from zerocross import data
        >>> split = data.load("digits").train
        >>> len(split), split.inputs.dtype
        (1438, torch.uint8)
    """

    inputs: Tensor
    targets: Tensor

    def __len__(self) -> int:
        return len(self.targets)

    def fingerprint(self) -> bytes:
        """Return the SHA-256 of all values."""
        digest = hashlib.sha256()
        for tensor in (self.inputs, self.targets):
            digest.update(f"{tensor.dtype} {tuple(tensor.shape)}".encode())
            digest.update(tensor.cpu().contiguous().numpy().data)
        return digest.digest()

    def batches(self, options: BatchOptions) -> Batches:
        """Return the batches of these samples."""
        return Batches(self, options)


class Batches:
    """Normalised batches of a `Split`, a pure function of (seed, epoch, rank, batch index).

    Samples are ordered by one permutation per (seed, epoch), shared by all ranks; `BatchPlan` cuts it into batches. The
    generator for augmentation is reseeded for each batch, so that an epoch started at batch k has exactly the same
    batches from there on.

    Args:
        split: The samples; moved to the device once, at construction.
        options: See `BatchOptions`.

    Examples:
        >>> from zerocross import data
        >>> batches = data.load("digits").train_batches(64, seed=0)
        >>> first, again = (next(batches.epoch(3, start=5))[1] for _ in range(2))
        >>> bool((first == again).all())  # a pure function of seed, epoch and index
        True
    """

    resumable = True  # epoch(n, start=k) is exact for any k

    def __init__(self, split: Split, options: BatchOptions) -> None:
        if options.augment not in AUGMENTS:
            raise ValueError(f"augment {options.augment!r} is unknown; choose one of {', '.join(AUGMENTS)}")
        augment = options.augment if options.training else "none"
        if augment != "none" and split.inputs.ndim != 4:
            raise ValueError(f"augment {augment!r} needs (N, C, H, W), got inputs of shape {tuple(split.inputs.shape)}")
        self.plan = BatchPlan(
            len(split), options.batch_size, options.rank, options.world_size, drop_last=options.training
        )
        self.seed, self.augment, self.shuffle = options.seed, augment, options.training
        self.inputs, self.targets = split.inputs.to(options.device), split.targets.to(options.device)
        self.scale, self.shift = scale_and_shift(self.inputs, options.mean, options.std)
        channels_last = options.channels_last and split.inputs.ndim == 4
        self.format = torch.channels_last if channels_last else torch.contiguous_format

    def __len__(self) -> int:
        return len(self.plan)

    def epoch(self, number: int = 0, start: int = 0) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield (inputs float32, targets) of epoch `number` from batch `start` on."""
        self.plan.check(number, start)
        return self._epoch(number, start)

    def _epoch(self, number: int, start: int) -> Iterator[tuple[Tensor, Tensor]]:
        count, device = len(self.targets), self.inputs.device
        order = epoch_order(count, self.seed, number) if self.shuffle else torch.arange(count)
        order = order.to(device)
        generator = torch.Generator(device)
        for index in range(start, len(self)):
            chosen = order[self.plan.places(index)]
            x = self.inputs.index_select(0, chosen)
            if self.augment != "none":
                generator.manual_seed(derived_seed(AUGMENT, self.seed, number, self.plan.rank, index))
                x = augmented(x, self.augment, generator)
            x = scaled(x, self.scale, self.shift).contiguous(memory_format=self.format)
            yield x, self.targets.index_select(0, chosen)
