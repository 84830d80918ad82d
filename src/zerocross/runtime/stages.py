"""Stages after a step's source, and common sequences of them that the kernels compute in one."""

from __future__ import annotations

from typing import Any

import numpy as np

from zerocross.runtime.kernels.steps import MERGED_OPS, EpilogueOp

Stage = tuple[EpilogueOp, list[np.ndarray], Any, int]  # kind, parameters, offset and pitch of the added value
_MERGED = {pair: both for both, pair in MERGED_OPS.items()} | {
    (EpilogueOp.AFFINE_ADD_PRELU, EpilogueOp.AFFINE): EpilogueOp.AFFINE_ADD_PRELU_AFFINE
}


def merge_stages(stages: list[Stage]) -> list[Stage]:
    """Return the stages with common sequences merged into one stage each."""
    merged: list[Stage] = []
    for stage in stages:
        merged.append(stage)
        while len(merged) > 1 and (both := _MERGED.get((merged[-2][0], merged[-1][0]))) is not None:
            (_, vectors, offset, pitch), (_, more, other_offset, other_pitch) = merged[-2:]
            added = (other_offset, other_pitch) if other_pitch else (offset, pitch)  # at most one of them adds a buffer
            merged[-2:] = [(both, vectors + more, *added)]
    return merged
