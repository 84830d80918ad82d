"""Parts held out of labelled samples: the same share of each class, always the same samples."""

from __future__ import annotations

import numpy as np
from torch import Tensor

HOLD_OUT_SEED = 20210


def held_out(targets: Tensor, share: float, seed: int = HOLD_OUT_SEED) -> tuple[Tensor, Tensor]:
    """Indices (kept, held), both ascending, with round(share * n) of each class's n samples held, at least one.

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
        held[members[: max(1, round(share * len(members)))]] = True
    return targets.new_tensor(np.flatnonzero(~held)), targets.new_tensor(np.flatnonzero(held))
