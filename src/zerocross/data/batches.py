"""Datasets that fit in memory: a part of one, and its batches, augmented as a whole on the device."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from zerocross.data.augment import AUGMENTS, augmented, normalised
from zerocross.data.order import AUGMENT, Plan, derived_seed, epoch_order


@dataclass(frozen=True)
class Split:
    """One part of a dataset, whole in memory.

    Args:
        inputs: (N, C, H, W), (N, C, L) or (N, F); uint8 (read as 0..1) or float32 (in its own units).
        targets: (N,) int64, the class of each sample.
    """

    inputs: Tensor
    targets: Tensor

    def __len__(self) -> int:
        return len(self.targets)

    def fingerprint(self) -> bytes:
        """The SHA-256 of all values."""
        digest = hashlib.sha256()
        for tensor in (self.inputs, self.targets):
            digest.update(f"{tensor.dtype} {tuple(tensor.shape)}".encode())
            digest.update(tensor.cpu().contiguous().numpy().data)
        return digest.digest()

    def batches(
        self,
        batch_size: int,
        *,
        training: bool,
        seed: int,
        augment: str,
        mean: Sequence[float],
        std: Sequence[float],
        device: str | torch.device,
        rank: int,
        world_size: int,
        channels_last: bool,
    ) -> Batches:
        """Shuffled, augmented, whole batches for training; every sample once, in order and as it is, otherwise."""
        return Batches(
            self,
            batch_size,
            seed=seed,
            augment=augment if training else "none",
            shuffle=training,
            mean=mean,
            std=std,
            device=device,
            rank=rank,
            world_size=world_size,
            drop_last=training,
            channels_last=channels_last,
        )


class Batches:
    """Normalised batches of a `Split`, a pure function of (seed, epoch, rank, batch index).

    Samples are ordered by one permutation per (seed, epoch), shared by all ranks; batches are cut as `Plan` says. Draws
    for augmentation come from a generator seeded anew for each batch, so an epoch entered at batch k continues exactly
    as if it had run from 0.

    Args:
        split: the samples; moved to `device` once, here.
        batch_size: samples per batch over all ranks together.
        seed: 0 or more.
        augment: "none", "crop-flip" (pad 4, crop, mirror) or "shift" (by up to 4 along the last axis).
        shuffle: a new order each epoch; otherwise the order of `split`.
        mean: of each channel, or one for all; uint8 counts as 0..1.
        std: likewise.
        device: where batches are made.
        rank: this process, 0..world_size-1.
        world_size: number of processes.
        drop_last: leave out a last batch that is not whole. If not, ranks may differ in their number of batches by one.
        channels_last: memory format of image batches.
    """

    resumable = True  # epoch(n, start=k) continues exactly, for any k

    def __init__(
        self,
        split: Split,
        batch_size: int,
        *,
        seed: int,
        augment: str = "none",
        shuffle: bool = True,
        mean: Sequence[float],
        std: Sequence[float],
        device: str | torch.device = "cpu",
        rank: int = 0,
        world_size: int = 1,
        drop_last: bool = True,
        channels_last: bool = False,
    ) -> None:
        if augment not in AUGMENTS:
            raise ValueError(f"augment {augment!r} is unknown here; choose one of {', '.join(AUGMENTS)}")
        if augment != "none" and split.inputs.ndim != 4:
            raise ValueError(f"augment {augment!r} needs (N, C, H, W), got inputs of shape {tuple(split.inputs.shape)}")
        self.plan = Plan(len(split), batch_size, rank, world_size, drop_last)
        self.seed, self.augment, self.shuffle = seed, augment, shuffle
        self.mean, self.std = tuple(mean), tuple(std)
        self.inputs, self.targets = split.inputs.to(device), split.targets.to(device)
        self.format = torch.channels_last if channels_last and split.inputs.ndim == 4 else torch.contiguous_format

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
            generator.manual_seed(derived_seed(AUGMENT, self.seed, number, self.plan.rank, index))
            x = augmented(self.inputs.index_select(0, chosen), self.augment, generator)
            x = normalised(x, self.mean, self.std).contiguous(memory_format=self.format)
            yield x, self.targets.index_select(0, chosen)
