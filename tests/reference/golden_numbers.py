"""Numbers of published code, read from tests/reference/golden, and the shapes for which methods are tested."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

FOLDER = Path(__file__).parent / "golden"
TRACE_STEPS, FILTERS = 50, 16  # of the traces; only the first two filters are stored
Array = NDArray[np.float32]


@functools.cache
def load(name: str) -> Mapping[str, Array]:
    """Return all arrays of a file."""
    with np.load(FOLDER / f"{name}.npz", allow_pickle=False) as file:
        return {key: file[key] for key in file.files}


def trace_inputs() -> tuple[Array, Array]:
    """Return the gradients of all traces, step by step, and the initial binary weights."""
    return load("shared")["gradients"], load("shared")["theta0"]


def with_rest_of_the_layer(part: Array) -> Array:
    """Append the other filters of the layer, which are zero, to the stored ones: filters are independent."""
    return np.concatenate([part, np.zeros((FILTERS - len(part), *part.shape[1:]), part.dtype)])
