"""The table of rows of a step that reduces windows: where the window of each pixel of a tile lies inside the image."""

from __future__ import annotations

from typing import Any

import numpy as np

from zerocross.runtime.kernels.gather import bits_address, inner
from zerocross.runtime.kernels.memory import load_int, store_int, store_real
from zerocross.runtime.kernels.steps import LANES, ROW_BYTES, ROWS, RowField, Window

_BITS, _SOURCE, _HEIGHT, _WIDTH, _WEIGHT, _COUNT = (
    8 * RowField[name] for name in ("BITS", "SOURCE", "HEIGHT", "WIDTH", "WEIGHT", "COUNT")
)
_MAX, _MEAN = int(Window.MAX), int(Window.MEAN)


@inner
def overlapping(step: Any, column: int) -> bool:
    """Return True if a tile that starts at a column is one of `window_tile`'s overlapping windows.

    They are those of a ResNet's first pooling, in one line, and none of them reaches beyond the right border.
    """
    if step.mode != _MAX or step.kernel_y != 3 or step.kernel_x != 3 or step.stride_x != 2 or step.dilation_x != 1:
        return False
    right = 2 * (column + ROWS - 1) - step.pad_x + 2
    return step.width % ROWS == 0 and step.pad_x <= 1 and right < step.width_in


@inner
def overlapping_rows(step: Any, image: int, line: int, column: int, arena: int, table: int) -> None:
    """Fill in the fields of the table that overlapping windows need."""
    for row in range(2):
        window_row(step, image, line, column + row, arena, table + row * ROW_BYTES)
    bits, bits_pixel = bits_address(step, arena, image, line, column), step.bits_pixel
    for row in range(ROWS):
        store_int(table + row * ROW_BYTES + _BITS, bits + row * bits_pixel)


@inner
def like_before(step: Any, column: int, entry: int) -> bool:
    """Return True if the windows of a pixel and of the previous one in the line are as wide as the kernel."""
    right = column * step.stride_x - step.pad_x + (step.kernel_x - 1) * step.dilation_x
    return load_int(entry - ROW_BYTES + _WIDTH) == step.kernel_x and right < step.width_in


@inner
def next_row(step: Any, entry: int) -> None:
    """As `_window_row`, for a window that is that of the previous pixel, shifted by one pixel."""
    before = entry - ROW_BYTES
    store_int(entry + _BITS, load_int(before + _BITS) + step.bits_pixel)
    store_int(entry + _SOURCE, load_int(before + _SOURCE) + step.stride_x * step.tap_pixel)
    for place in (_HEIGHT, _WIDTH, _WEIGHT, _COUNT):
        store_int(entry + place, load_int(before + place))


@inner
def alike(table: int) -> int:
    """Return 1 if the windows of a tile have the same size and weights, 2 if only the first one differs, else 0."""
    second = table + ROW_BYTES
    for entry in range(second + ROW_BYTES, table + ROWS * ROW_BYTES, ROW_BYTES):
        if not _same_window(entry, second):
            return 0
    if _same_window(table, second):
        return 1
    return 2 if load_int(table + _HEIGHT) == load_int(second + _HEIGHT) else 0


@inner
def _same_window(entry: int, other: int) -> bool:
    size = load_int(entry + _HEIGHT) == load_int(other + _HEIGHT) and load_int(entry + _WIDTH) == load_int(
        other + _WIDTH
    )
    return size and load_int(entry + _WEIGHT) == load_int(other + _WEIGHT)


@inner
def _inside(first: int, count: int, dilation: int, size: int) -> tuple[int, int]:
    """Return the range of those of `count` taps, starting at `first`, that are within 0..size."""
    skip = 0 if first >= 0 else -(first // dilation)
    end = count
    if first + (count - 1) * dilation >= size:
        end = (size - first + dilation - 1) // dilation
    return skip, max(skip, end)


@inner
def window_row(step: Any, image: int, line: int, column: int, arena: int, entry: int) -> None:
    """Fill in the table entry of a pixel's window: the part of it that is inside the image."""
    top, left = line * step.stride_y - step.pad_y, column * step.stride_x - step.pad_x
    skip_y, end_y = _inside(top, step.kernel_y, step.dilation_y, step.height_in)
    skip_x, end_x = _inside(left, step.kernel_x, step.dilation_x, step.width_in)
    y, x = top + skip_y * step.dilation_y, left + skip_x * step.dilation_x
    store_int(entry + _BITS, bits_address(step, arena, image, line, column))
    store_int(entry + _SOURCE, arena + step.source + image * step.source_image + y * step.tap_line + x * step.tap_pixel)
    store_int(entry + _HEIGHT, end_y - skip_y)
    store_int(entry + _WIDTH, end_x - skip_x)
    store_int(entry + _WEIGHT, step.weight + 4 * LANES * step.panels * (skip_y * step.kernel_x + skip_x))
    count = (end_y - skip_y) * (end_x - skip_x)
    if step.count_pad:
        count_y = min(top + step.kernel_y, step.height_in + step.pad_y) - top
        count_x = min(left + step.kernel_x, step.width_in + step.pad_x) - left
        count = count_y * count_x
    store_real(entry + _COUNT, np.float32(1) / np.float32(count) if step.mode == _MEAN else np.float32(count))
