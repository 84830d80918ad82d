"""Parts of labelled samples: held out by class, cut to a size, free of duplicates; always the same samples."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

import numpy as np
from torch import Tensor

HOLD_OUT_SEED = 20210


def held_out(targets: Tensor, share: float, seed: int = HOLD_OUT_SEED) -> tuple[Tensor, Tensor]:
    """Indices (kept, held), both ascending, with round(share * n) of each class's n samples held, at least one.

    The only sample of a class is kept.

    Args:
        targets: (N,) int64 classes.
        share: in (0, 1).
        seed: of the draw; fixed, so that a held-out part means the same samples everywhere.
    """
    labels = targets.numpy()
    rng = np.random.default_rng(seed)
    held = np.zeros(len(labels), dtype=bool)
    for label in np.unique(labels):
        members = rng.permutation(np.flatnonzero(labels == label))
        held[members[: min(len(members) - 1, max(1, round(share * len(members))))]] = True
    return targets.new_tensor(np.flatnonzero(~held)), targets.new_tensor(np.flatnonzero(held))


def even_part(targets: Tensor, size: int, classes: int, seed: int = HOLD_OUT_SEED) -> Tensor:
    """Indices, ascending, of `size` samples, as many of each class.

    Args:
        targets: (N,) int64 classes.
        size: how many; a multiple of `classes`, below N, with no more of a class than there are.
        classes: number of classes.
        seed: of the draw.
    """
    labels = targets.numpy()
    most = int(np.bincount(labels, minlength=classes).min()) * classes
    if not classes <= size <= most or size == len(labels) or size % classes:
        raise ValueError(
            f"train_size is {size}; it must be a multiple of {classes} below the {len(labels):,} samples there are, "
            f"and at most {most:,}, with as many of each class"
        )
    rng = np.random.default_rng(seed)
    chosen = [rng.permutation(np.flatnonzero(labels == label))[: size // classes] for label in range(classes)]
    return targets.new_tensor(np.sort(np.concatenate(chosen)))


def not_in(samples: Iterable[Hashable], others: Iterable[Hashable]) -> np.ndarray:
    """Indices, ascending, of the samples that do not stand among the others: none is on both sides then."""
    seen = set(others)
    return np.array([index for index, sample in enumerate(samples) if sample not in seen], dtype=np.int64)
