"""What a network asks of memory and time, computed before any of it is taken."""

from __future__ import annotations

import math
from collections.abc import Sequence

from zerocross.runtime.kernels.steps import LANES
from zerocross.runtime.layout import Pair, bits_pitch, round_up

MAX_MEMORY = 1 << 30  # bytes, see `memory_limit`
MAX_WORK = 1 << 36  # for one sample, see `Program.work`: some twenty seconds
MAX_TABLE_WORK = 1 << 32  # additions for the table of a binary layer's border: some seconds
PER_BYTE = 64  # memory for each byte of parameters: a bit is a byte or two while a layer is laid out
PLANNED_STEP_BYTES = 4096  # of a step, before and after it has a place


def memory_limit(max_memory: int | None, parameter_bytes: int) -> int:
    """How many bytes a network may take; None is 1 GiB, and 64 bytes for each byte of its parameters."""
    if max_memory is None:
        return MAX_MEMORY + PER_BYTE * parameter_bytes
    if max_memory < 1:
        raise ValueError(f"max_memory = {max_memory}: it must be a number of bytes above 0")
    return max_memory


def check_memory(needed: int, limit: int, what: str) -> None:
    """Refuse what takes more than the limit."""
    if needed > limit:
        raise ValueError(
            f"{what} needs {needed / 2**20:,.0f} MiB of memory, and {limit / 2**20:,.0f} are allowed for a network "
            "with this many parameters: pass a larger max_memory (bytes) if it is meant to be so large"
        )


def check_work(work: int) -> None:
    """Refuse what would take minutes for one sample."""
    if work > MAX_WORK:
        raise ValueError(
            f"the network takes {work:.2e} vector operations for one sample; at most {MAX_WORK:.2e} are run"
        )


def binary_bytes(shape: Sequence[int], groups: int, outputs: Pair) -> int:
    """Bytes to lay out a binary layer: its weights as words, and the table of its border."""
    channels_out, channels_in, *kernel = shape
    taps, channels = math.prod(kernel), groups * channels_in
    copies = 1 if groups == 1 else 2
    words = copies * 8 * round_up(channels_out, LANES) * -(-taps * bits_pitch(channels) // 8)
    kinds = math.prod(min(count, (size + 1) ** 2) for count, size in zip(outputs, kernel, strict=True))
    if kinds * channels_out * taps > MAX_TABLE_WORK:
        raise ValueError(f"a binary weight of shape {tuple(shape)} sticks out of its input in too many ways")
    windows = sum(count * size for count, size in zip(outputs, kernel, strict=True))
    border = 24 * windows + 9 * kinds * taps + 28 * kinds * round_up(channels_out, LANES)
    return 2 * words + 4 * copies * channels_out * taps * round_up(channels, LANES) + border


def byte_bytes(shape: Sequence[int], pitch: int) -> int:
    """Bytes to lay out a layer of bytes, of which a pixel of the input has `pitch`."""
    channels_out, _, *kernel = shape
    return math.prod(kernel) * 4 * round_up(channels_out, LANES) * pitch + 8 * channels_out


def real_bytes(shape: Sequence[int], groups: int, pitch: int) -> int:
    """Bytes to lay out a real layer, of which a pixel of the input has `pitch` numbers."""
    channels_out, channels_in, *kernel = shape
    return 4 * math.prod(kernel) * (4 * round_up(channels_out, LANES) * pitch + 2 * channels_out * groups * channels_in)
