"""The samples of each rank and their order, as pure functions of seed, epoch, rank and batch index."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

# One number per use, so that the order of an epoch and the random draws of its batches never share a stream.
ORDER, AUGMENT, CROP, PLACE = range(4)


def derived_seed(*numbers: int) -> int:
    """Mix several non-negative numbers into one 63-bit seed (numpy's SeedSequence)."""
    if min(numbers) < 0:
        raise ValueError(f"seeds, epochs and ranks must be 0 or more, got {numbers}")
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> 1)


def epoch_order(count: int, seed: int, epoch: int) -> Tensor:
    """Return the permutation of `count` samples in one epoch, the same on every rank and device."""
    generator = torch.Generator().manual_seed(derived_seed(ORDER, seed, epoch))
    return torch.randperm(count, generator=generator)


@dataclass(frozen=True)
class BatchPlan:
    """How `count` samples are divided into batches, and batches among ranks.

    Batch k has the positions [k B, (k + 1) B) in the order of the epoch; of its n positions, rank r of W takes those
    from r n / W up to (r + 1) n / W, rounded down. Over all ranks every position occurs exactly once, for any n.

    Args:
        count: samples in the split.
        batch_size: B, samples per batch over all ranks together; a multiple of `world_size`.
        rank: r, this process, 0..W-1.
        world_size: W, number of processes.
        drop_last: leave out a last partial batch (in training, so that ranks have equally many).
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
                f"batch_size {self.batch_size} exceeds the {self.count} training samples: there would be no full batch"
            )

    def __len__(self) -> int:
        full = self.count // self.batch_size
        mine = self.places(full)
        return full + (not self.drop_last and mine.stop > mine.start)

    def places(self, index: int) -> slice:
        """Return the positions of batch `index` on this rank in the order of the epoch."""
        first = index * self.batch_size
        n = min(self.batch_size, self.count - first)
        return slice(first + self.rank * n // self.world_size, first + (self.rank + 1) * n // self.world_size)

    def check(self, epoch: int, start: int) -> None:
        """Raise ValueError if an epoch or a first batch does not exist."""
        if epoch < 0 or not 0 <= start <= len(self):
            raise ValueError(
                f"epoch {epoch}, start {start}: the epoch must be 0 or more, start must lie within 0..{len(self)}"
            )
