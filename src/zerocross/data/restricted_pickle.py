"""Read CIFAR-10's python batches safely: no name of a pickle is imported or called.

A pickle may name any function and have it called. This reader knows only the three names that a numpy array needs, and
maps them to the inert classes below, not to numpy; any other name raises an error before it is looked up.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np


class _Array:
    """Receives the state of a pickled numpy array; accepts only plain uint8."""

    value: np.ndarray | None = None

    def __setstate__(self, state: Any) -> None:
        _, shape, dtype, fortran_order, data = state
        if not isinstance(dtype, _DType) or dtype.code != "u1" or not isinstance(data, bytes):
            raise pickle.UnpicklingError("an array that is not plain uint8")
        flat = np.frombuffer(data, dtype=np.uint8)
        self.value = flat.reshape([int(n) for n in shape], order="F" if fortran_order else "C").copy(order="C")


class _DType:
    """Stores the code of a pickled numpy dtype and ignores its state (the byte order, irrelevant for one byte)."""

    def __init__(self, code: Any, *_: Any) -> None:
        self.code = code.decode("ascii") if isinstance(code, bytes) else code

    def __setstate__(self, state: Any) -> None:
        pass


def _empty_array(*_: Any) -> _Array:
    return _Array()


def _latin1(text: str, encoding: Any) -> bytes:
    """Decode bytes as Python 3 pickles them at protocol 2: codecs.encode(text, "latin1"); no other codec."""
    if encoding not in {"latin1", b"latin1"}:
        raise pickle.UnpicklingError(f"codec {encoding!r}")
    return text.encode("latin1")


_STAND_INS = {
    ("numpy.core.multiarray", "_reconstruct"): _empty_array,
    ("numpy._core.multiarray", "_reconstruct"): _empty_array,
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _DType,
    ("_codecs", "encode"): _latin1,
}


class _Restricted(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _STAND_INS:
            raise pickle.UnpicklingError(f"it names {module}.{name}, which is not part of a numpy array")
        return _STAND_INS[module, name]


def read_batch(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Read pixels (N, 3072) uint8 and labels (N,) int64 of one official python batch."""
    try:
        with path.open("rb") as file:
            batch = _Restricted(file, encoding="bytes").load()
        batch = {key.decode() if isinstance(key, bytes) else key: value for key, value in batch.items()}
        pixels, labels = batch["data"].value, np.array(batch["labels"])
        if pixels.ndim != 2 or labels.ndim != 1 or labels.dtype.kind != "i":
            raise ValueError(f"pixels of {pixels.ndim} and labels of {labels.ndim} dimensions ({labels.dtype})")
    except OSError:
        raise
    except Exception as error:  # a damaged pickle can fail in any way
        raise ValueError(
            f"{path} is not a CIFAR-10 python batch ({type(error).__name__}: {error}); none of its code was run"
        ) from error
    return pixels, labels.astype(np.int64)
