"""Limits on the memory and time that a network needs, checked before any memory is allocated."""

from __future__ import annotations

import math
from collections.abc import Sequence

from zerocross.runtime.kernels.steps import LANES
from zerocross.runtime.layout import Pair, bits_pitch, round_up

MAX_MEMORY = 1 << 30  # bytes, see `memory_limit`
MAX_WORK = 1 << 36  # for one sample, see `Program.work`: about twenty seconds
MAX_TABLE_WORK = 1 << 32  # additions for the table of a binary layer's border: a few seconds
PER_BYTE = 64  # memory per byte of parameters: each bit takes a byte or two while a layer is laid out
PLANNED_STEP_BYTES = 4096  # estimated size of a planned step and of the step assembled from it


def memory_limit(max_memory: int | None, parameter_bytes: int) -> int:
    """Return the number of bytes that a network may use; the default is 1 GiB plus 64 bytes per byte of parameters."""
    if max_memory is None:
        return MAX_MEMORY + PER_BYTE * parameter_bytes
    if max_memory < 1:
        raise ValueError(f"max_memory is {max_memory}; it must be a positive number of bytes")
    return max_memory


def check_memory(needed: int, limit: int, what: str) -> None:
    """Raise a ValueError if more memory is needed than the limit allows."""
    if needed > limit:
        raise ValueError(
            f"{what} needs {needed / 2**20:,.0f} MiB of memory; the limit for a network with this many parameters is "
            f"{limit / 2**20:,.0f} MiB. Pass a larger max_memory (bytes) if the network is meant to be this large"
        )


def check_work(work: int) -> None:
    """Raise a ValueError if one sample would take minutes."""
    if work > MAX_WORK:
        raise ValueError(
            f"the network needs {work:.2e} vector operations for one sample; at most {MAX_WORK:.2e} are supported"
        )


def binary_bytes(shape: Sequence[int], groups: int, outputs: Pair) -> int:
    """Return the bytes needed to lay out a binary layer: its weights as words, and the table of its border."""
    channels_out, channels_in, *kernel = shape
    taps, channels = math.prod(kernel), groups * channels_in
    copies = 1 if groups == 1 else 2
    words = copies * 8 * round_up(channels_out, LANES) * -(-taps * bits_pitch(channels) // 8)
    kinds = math.prod(min(count, (size + 1) ** 2) for count, size in zip(outputs, kernel, strict=True))
    if kinds * channels_out * taps > MAX_TABLE_WORK:
        raise ValueError(f"a binary weight of shape {tuple(shape)} overlaps the border of its input in too many ways")
    windows = sum(count * size for count, size in zip(outputs, kernel, strict=True))
    border = 24 * windows + 9 * kinds * taps + 28 * kinds * round_up(channels_out, LANES)
    return 2 * words + 4 * copies * channels_out * taps * round_up(channels, LANES) + border


def byte_bytes(shape: Sequence[int], pitch: int) -> int:
    """Return the bytes needed to lay out an 8-bit layer whose input has `pitch` bytes per pixel."""
    channels_out, _, *kernel = shape
    return math.prod(kernel) * 4 * round_up(channels_out, LANES) * pitch + 8 * channels_out


def real_bytes(shape: Sequence[int], groups: int, pitch: int) -> int:
    """Return the bytes needed to lay out a real layer whose input has `pitch` numbers per pixel."""
    channels_out, channels_in, *kernel = shape
    return 4 * math.prod(kernel) * (4 * round_up(channels_out, LANES) * pitch + 2 * channels_out * groups * channels_in)
