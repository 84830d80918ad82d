"""Stages after a step's source, and common sequences of them that the kernels compute in one."""

from __future__ import annotations

from typing import Any

import numpy as np

from zerocross.runtime.kernels.steps import EpilogueOp

Stage = tuple[EpilogueOp, list[np.ndarray], Any, int]  # kind, parameters, offset and pitch of what is added
_MERGED = {
    (EpilogueOp.AFFINE, EpilogueOp.ADD): EpilogueOp.AFFINE_ADD,
    (EpilogueOp.PRELU, EpilogueOp.AFFINE): EpilogueOp.PRELU_AFFINE,
    (EpilogueOp.AFFINE_ADD, EpilogueOp.PRELU_AFFINE): EpilogueOp.AFFINE_ADD_PRELU_AFFINE,
    (EpilogueOp.ADD, EpilogueOp.PRELU_AFFINE): EpilogueOp.ADD_PRELU_AFFINE,
}


def merge_stages(stages: list[Stage]) -> list[Stage]:
    """Return the stages with common sequences merged into one stage each."""
    merged: list[Stage] = []
    for stage in stages:
        merged.append(stage)
        while len(merged) > 1 and (both := _MERGED.get((merged[-2][0], merged[-1][0]))) is not None:
            (_, vectors, *place), (_, more, *other) = merged[-2:]
            merged[-2:] = [(both, vectors + more, *(other if other[1] else place))]  # at most one adds a buffer
    return merged
