"""Product of two bit matrices: the core of a binary layer, without padding or epilogue."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from zerocross.runtime.kernels.native import load_run
from zerocross.runtime.kernels.steps import ROWS, StepKind
from zerocross.runtime.layout import round_up, row_panels, with_parities
from zerocross.runtime.program import aligned, make_step, new_job


class BitMatrix:
    """A matrix of -1 and +1, stored as bits; the right factor of a product.

    Args:
        words: uint64 array of shape (columns, words). Bit 1 stands for +1, bit 0 for -1; every bit is used.
        say: Callback for a message with the compile time; called only if code had to be compiled.
    """

    def __init__(self, words: np.ndarray, say: Callable[[str], object] = str) -> None:
        self.columns, self.words = words.shape
        self._panels = row_panels(with_parities(_halves(words)))
        self._run = load_run(say)

    def product(self, a: np.ndarray) -> np.ndarray:
        """Return the product of `a`, uint64 of shape (rows, words), and this matrix: integers, (rows, columns)."""
        return self.prepare(a)()

    def prepare(self, a: np.ndarray) -> Callable[[], np.ndarray]:
        """Return a function that computes the product; every call writes to the same memory."""
        if a.dtype != np.uint64 or a.ndim != 2 or a.shape[1] != self.words:
            expected = f"uint64 of shape (rows, {self.words})"
            raise ValueError(f"the matrix is {a.dtype} of shape {a.shape}; it must be {expected}")
        rows, width, row = len(a), len(self._panels) * self._panels.shape[2], 8 * self.words
        left = aligned(a.nbytes + ROWS * row)
        left[: a.nbytes] = with_parities(_halves(a)).reshape(-1).view(np.uint8)
        out = np.empty((round_up(rows, ROWS), width), np.float32)
        base, zeros = np.full(width, 64 * self.words, np.float32), np.zeros(rows, np.int64)
        # Absolute addresses serve as offsets (the base address is 0), so the matrices are not copied.
        step, scratch_bytes = make_step(
            kind=StepKind.BINARY, pixels=rows, width=rows, channels=width, panels=len(self._panels),
            source=left.ctypes.data, source_pixel=row, direct=1, weight=self._panels.ctypes.data, terms=2 * self.words,
            panel=self._panels[0].nbytes, factor=2,
            base=base.ctypes.data, base_line=zeros.ctypes.data, base_column=zeros.ctypes.data,
            real=out.ctypes.data, real_pitch=4 * width,
        )  # fmt: skip
        scratch = aligned(scratch_bytes)
        job = new_job(steps=step.ctypes.data, scratch=scratch.ctypes.data)
        keep_alive = job, step, left, base, zeros, scratch

        def compute() -> np.ndarray:
            self._run(keep_alive[0].ctypes.data, 0, 0, 0)
            return out[:rows, : self.columns]

        return compute


def _halves(words: np.ndarray) -> np.ndarray:
    """Split 64-bit words into 32-bit words, lower half first on every platform."""
    return (
        np.stack([words & np.uint64(0xFFFFFFFF), words >> np.uint64(32)], axis=2)
        .astype(np.uint32)
        .reshape(len(words), -1)
    )
