"""Subsets of labelled samples: stratified hold-out, limited size, without duplicates; always the same samples."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

import numpy as np
from torch import Tensor

HOLD_OUT_SEED = 20210


def held_out(targets: Tensor, share: float, seed: int = HOLD_OUT_SEED) -> tuple[Tensor, Tensor]:
    """Return ascending indices (kept, held), with round(share * n) of the n samples of each class held, at least one.

    A class with a single sample keeps it.

    Args:
        targets: (N,) int64 classes.
        share: in (0, 1).
        seed: seed of the draw; fixed, so that the held-out samples are the same everywhere.
    """
    labels = targets.numpy()
    rng = np.random.default_rng(seed)
    held = np.zeros(len(labels), dtype=bool)
    for label in np.unique(labels):
        members = rng.permutation(np.flatnonzero(labels == label))
        held[members[: min(len(members) - 1, max(1, round(share * len(members))))]] = True
    return targets.new_tensor(np.flatnonzero(~held)), targets.new_tensor(np.flatnonzero(held))


def even_part(targets: Tensor, size: int, classes: int, seed: int = HOLD_OUT_SEED) -> Tensor:
    """Return ascending indices of `size` samples, the same number of each class.

    Args:
        targets: (N,) int64 classes.
        size: number of samples; a multiple of `classes`, below N, and within the size of the smallest class.
        classes: number of classes.
        seed: seed of the draw.
    """
    labels = targets.numpy()
    most = int(np.bincount(labels, minlength=classes).min()) * classes
    if not classes <= size <= most or size == len(labels) or size % classes:
        raise ValueError(
            f"train_size is {size}; it must be a multiple of {classes} below the {len(labels):,} samples available, "
            f"and at most {most:,}, with the same number of each class"
        )
    rng = np.random.default_rng(seed)
    chosen = [rng.permutation(np.flatnonzero(labels == label))[: size // classes] for label in range(classes)]
    return targets.new_tensor(np.sort(np.concatenate(chosen)))


def not_in(samples: Iterable[Hashable], others: Iterable[Hashable]) -> np.ndarray:
    """Return ascending indices of the samples that do not occur among the others."""
    seen = set(others)
    return np.array([index for index, sample in enumerate(samples) if sample not in seen], dtype=np.int64)
