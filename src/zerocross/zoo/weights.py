"""Store a state dict as a small safetensors file: 1 bit per binary weight, optionally 8 bits per real weight; no torch.

The metadata entry "encoding" lists the encoded tensors: {"name": {"bits": shape}} or {"name": {"int8": name of the
scale per output}}. A file without that entry is a plain state dict.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

ENCODING = "encoding"
MAX_NUMBERS = 1 << 31  # per tensor

Levels = tuple[np.ndarray, np.ndarray]  # int8 levels, and a float32 scale per output


def levels_of(weight: np.ndarray) -> Levels:
    """Round a real weight (O, ...) to 255 levels per output; the largest magnitude becomes 127."""
    largest = np.abs(weight).reshape(len(weight), -1).max(axis=1)
    scale = np.where(largest > 0, largest / 127, 1.0).astype(np.float32)
    return np.clip(np.rint(weight / _along(scale, weight.ndim)), -127, 127).astype(np.int8), scale


def from_levels(levels: Levels) -> np.ndarray:
    """Return the weight that the levels represent."""
    return levels[0].astype(np.float32) * _along(levels[1], levels[0].ndim)


def encoded(state: Mapping[str, np.ndarray], quantised: Mapping[str, Levels]) -> bytes:
    """Return the bytes of the file.

    Args:
        state: Arrays by name; a matrix or kernel that contains only -1 and +1 is stored as bits.
        quantised: Levels by name, for the weights that are stored as int8.
    """
    tensors: dict[str, np.ndarray] = {}
    encoding: dict[str, Any] = {}
    for name, array in state.items():
        if name in quantised:
            tensors[name], tensors[f"{name}:scale"] = quantised[name]
            encoding[name] = {"int8": f"{name}:scale"}
        elif array.ndim >= 2 and (np.abs(array) == 1).all():
            tensors[name] = np.packbits(array.ravel() > 0, bitorder="little")
            encoding[name] = {"bits": list(array.shape)}
        else:
            tensors[name] = np.asarray(array, order="C")
    return save(tensors, metadata={ENCODING: json.dumps(encoding, separators=(",", ":"))})


def read_state(path: Path) -> dict[str, np.ndarray]:
    """Read the state dict of such a file or of a plain safetensors file; raise a ValueError if it is neither."""
    try:
        with safe_open(path, framework="np") as file:
            stored = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
            encoding = json.loads((file.metadata() or {}).get(ENCODING, "{}"))
        return _decoded(stored, encoding)
    except (SafetensorError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"{path} is not a readable state dict: {' '.join(str(error).split())[:160]}") from None


def _decoded(stored: dict[str, np.ndarray], encoding: Mapping[str, Any]) -> dict[str, np.ndarray]:
    state = dict(stored)
    for name, how in encoding.items():
        ((kind, value),) = how.items()
        array = stored[name]
        if kind == "bits":
            count = math.prod(value)
            if array.dtype != np.uint8 or not 0 < count <= MAX_NUMBERS or array.shape != (-(-count // 8),):
                raise ValueError(f"{name} has {array.shape} bytes of bits for the shape {value}")
            bits = np.unpackbits(array, count=count, bitorder="little")
            state[name] = (2 * bits.astype(np.float32) - 1).reshape(value)
        elif kind == "int8":
            scale = state.pop(value)
            if array.dtype != np.int8 or scale.dtype != np.float32 or scale.shape != array.shape[:1]:
                raise ValueError(f"{name} has {array.dtype} levels {array.shape} and scales {scale.shape}")
            state[name] = from_levels((array, scale))
        else:
            raise ValueError(f"{name} has the unknown encoding {kind!r}")
    return state


def _along(scale: np.ndarray, ndim: int) -> np.ndarray:
    return scale.reshape(-1, *(1,) * (ndim - 1))
