"""Which samples a rank sees, and in which order: pure functions of seed, epoch, rank and batch index."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

# One number per use, so that the order of an epoch and the draws of its batches never share a stream.
ORDER, AUGMENT, CROP, PLACE = range(4)


def derived_seed(*numbers: int) -> int:
    """One 63-bit seed from several non-negative numbers, well mixed (numpy's SeedSequence)."""
    if min(numbers) < 0:
        raise ValueError(f"seeds, epochs and ranks are 0 or more, got {numbers}")
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> 1)


def epoch_order(count: int, seed: int, epoch: int) -> Tensor:
    """The permutation of `count` samples in one epoch: the same on every rank and device."""
    generator = torch.Generator().manual_seed(derived_seed(ORDER, seed, epoch))
    return torch.randperm(count, generator=generator)


@dataclass(frozen=True)
class BatchPlan:
    """How `count` samples are cut into batches, and batches into ranks.

    Batch k holds the places [k B, (k + 1) B) of the epoch's order; of its n places rank r of W takes those from r n / W
    up to (r + 1) n / W, rounded down. Over all ranks no place is lost or doubled, whatever n is.

    Args:
        count: samples in the part.
        batch_size: B, samples per batch over all ranks together; a multiple of `world_size`.
        rank: r, this process, 0..W-1.
        world_size: W, number of processes.
        drop_last: leave out a last batch that is not whole (training: ranks stay in step).
    """

    count: int
    batch_size: int
    rank: int = 0
    world_size: int = 1
    drop_last: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.rank < self.world_size:
            raise ValueError(f"rank {self.rank} is outside 0..{self.world_size - 1} (world_size {self.world_size})")
        if self.batch_size < 1 or self.batch_size % self.world_size:
            raise ValueError(
                f"batch_size {self.batch_size} counts all processes together: "
                f"make it a positive multiple of world_size {self.world_size}"
            )
        if self.drop_last and self.count < self.batch_size:
            raise ValueError(
                f"batch_size {self.batch_size} exceeds the {self.count} samples to train on: no batch would be whole"
            )

    def __len__(self) -> int:
        whole = self.count // self.batch_size
        mine = self.places(whole)
        return whole + (not self.drop_last and mine.stop > mine.start)

    def places(self, index: int) -> slice:
        """This rank's places of batch `index` in the epoch's order."""
        first = index * self.batch_size
        n = min(self.batch_size, self.count - first)
        return slice(first + self.rank * n // self.world_size, first + (self.rank + 1) * n // self.world_size)

    def check(self, epoch: int, start: int) -> None:
        """Refuse an epoch or a first batch that do not exist."""
        if epoch < 0 or not 0 <= start <= len(self):
            raise ValueError(f"epoch {epoch}, start {start}: the epoch is 0 or more, start is within 0..{len(self)}")
