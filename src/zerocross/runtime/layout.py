"""Memory layout of weights and parameters, in the order in which the kernels read them.

A panel is a block of sixteen output channels; all arrays are stored panel by panel.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from zerocross.runtime.kernels.steps import LANES

Pair = tuple[int, int]


def round_up(number: int, multiple: int) -> int:
    """Round a number up to the next multiple."""
    return -(-number // multiple) * multiple


def bits_pitch(channels: int) -> int:
    """Return the bytes per pixel of packed bits: two per panel, so that narrow layers waste no space."""
    return LANES // 8 * -(-channels // LANES)


def by_panel(vectors: Sequence[np.ndarray], fill: Sequence[float] | None = None) -> np.ndarray:
    """Interleave vectors as float32, panel by panel: 16 numbers of the first vector, 16 of the second, and so on.

    Args:
        vectors: Vectors of equal length, with one number per channel.
        fill: Padding value of each vector for channels beyond the last; 0 by default.
    """
    size = round_up(len(vectors[0]), LANES)
    table = np.empty((len(vectors), size), np.float32)
    for row, vector, rest in zip(table, vectors, fill or [0.0] * len(vectors), strict=True):
        row[: len(vector)], row[len(vector) :] = vector, rest
    return np.ascontiguousarray(table.reshape(len(vectors), -1, LANES).transpose(1, 0, 2))


def binary_panels(signs: np.ndarray, groups: int = 1, *, parities: bool = True) -> np.ndarray:
    """Pack weights into words, uint32 of shape (panels, words, 16).

    The words of an output contain its taps in pixel order.
    With `parities`, the last word, and every second word before it, is a parity; see `with_parities`.

    With groups, the words are stored twice, with 0 and with 1 for the channels of other groups: whatever the bits of
    those channels are, the two copies together count each of them exactly once.

    Args:
        signs: int8 of shape (outputs, inputs / groups, height, width), -1 and +1.
        groups: Groups of the convolution.
        parities: False for rows that tiles read in place; without groups.
    """
    if groups == 1:
        words = _words(signs > 0)
        return row_panels(with_parities(words) if parities else words)
    copies = [_words(spread(signs, groups, rest) > 0) for rest in (-1, 1)]
    return row_panels(with_parities(np.concatenate(copies, axis=1)))


def with_parities(words: np.ndarray) -> np.ndarray:
    """Replace the last word of each row, and every second word before it, by the xor of all words up to that one."""
    result = words.copy()
    result[:, ::-1][:, ::2] = np.bitwise_xor.accumulate(words, axis=1)[:, ::-1][:, ::2]
    return result


def spread(weight: np.ndarray, groups: int, rest: int = 0) -> np.ndarray:
    """Expand the weight of a grouped convolution to all channels, with `rest` for the channels of other groups."""
    outputs, inputs, *kernel = weight.shape
    dense = np.full((groups, outputs // groups, groups, inputs, *kernel), rest, weight.dtype)
    each = np.arange(groups)
    dense[each, :, each] = weight.reshape(groups, outputs // groups, inputs, *kernel)
    return dense.reshape(outputs, groups * inputs, *kernel)


def _words(bits: np.ndarray) -> np.ndarray:
    """Pack bools of shape (outputs, channels, height, width) into (outputs, words), `bits_pitch` bytes per pixel."""
    outputs, channels, height, width = bits.shape
    pitch = bits_pitch(channels)
    taps = np.zeros((outputs, height * width, 8 * pitch), bool)
    taps[:, :, :channels] = bits.reshape(outputs, channels, -1).transpose(0, 2, 1)
    packed = np.packbits(taps.reshape(outputs, -1), axis=1, bitorder="little")
    padded = np.zeros((outputs, round_up(packed.shape[1], 4)), np.uint8)
    padded[:, : packed.shape[1]] = packed
    return padded.view(np.uint32)


def row_panels(rows: np.ndarray) -> np.ndarray:
    """Rearrange weights of shape (outputs, terms) to (panels, terms, 16)."""
    outputs, terms = rows.shape
    padded = np.zeros((round_up(outputs, LANES), terms), rows.dtype)
    padded[:outputs] = rows
    return np.ascontiguousarray(padded.reshape(-1, LANES, terms).transpose(0, 2, 1))


def real_panels(weight: np.ndarray, pitch: int) -> np.ndarray:
    """Return real weights as float32 of shape (panels, terms, 16); a pixel of the input has `pitch` numbers."""
    outputs, channels, *kernel = weight.shape
    taps = np.zeros((outputs, int(np.prod(kernel)), pitch), np.float32)
    taps[:, :, :channels] = weight.reshape(outputs, channels, -1).transpose(0, 2, 1)
    return row_panels(taps.reshape(outputs, -1))


def byte_panels(weight: np.ndarray, pitch: int, *, in_lines: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Return 8-bit weights as int8 of shape (panels, terms / 4, 16, 4), and 128 times their sums as int32.

    Args:
        weight: int8 of shape (outputs, inputs, height, width).
        pitch: Bytes per pixel of the input, including padding after the last channel.
        in_lines: For rows that tiles read in place: whole words of every line of taps, then the bytes left over.
    """
    outputs, channels, *kernel = weight.shape
    taps = np.zeros((outputs, int(np.prod(kernel)), pitch), np.int8)
    taps[:, :, :channels] = weight.reshape(outputs, channels, -1).transpose(0, 2, 1)
    rows = np.zeros((outputs, round_up(taps[0].size, 4)), np.int8)
    if in_lines:
        lines = taps.reshape(outputs, kernel[0], -1)
        whole = lines.shape[2] // 4 * 4
        parts = [part.reshape(outputs, -1) for part in (lines[..., :whole], lines[..., whole:])]
        rows[:, : taps[0].size] = np.concatenate(parts, axis=1)
    else:
        rows[:, : taps[0].size] = taps.reshape(outputs, -1)
    offsets = np.zeros(round_up(outputs, LANES), np.int32)
    offsets[:outputs] = 128 * rows.sum(axis=1, dtype=np.int32)
    return row_panels(rows.view(np.int32)), offsets


def depthwise_panels(weight: np.ndarray) -> np.ndarray:
    """Return the weights of a depthwise convolution as float32 of shape (height * width, channels padded to panels)."""
    channels = len(weight)
    taps = np.zeros((weight[0].size, round_up(channels, LANES)), np.float32)
    taps[:, :channels] = weight.reshape(channels, -1).T
    return taps


def border_bases(
    signs: np.ndarray, groups: int, sizes: Pair, outputs: Pair, stride: Pair, padding: Pair, dilation: Pair,
    pad_value: int, border: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
    """Return the sums of a binary convolution if no bit differed, corrected so that zero padding is exact.

    The kernels count the stored border bits like all others; the table compensates for them. It has one row for every
    way in which a window can overlap the border of the image.

    Args:
        signs: The weights, as in `binary_panels`.
        groups: Groups of the convolution.
        sizes: Height and width of the input.
        outputs: Height and width of the output.
        stride: Stride of the convolution.
        padding: Padding of the convolution.
        dilation: Dilation of the convolution.
        pad_value: Value of the padding in the network, 0 or +1.
        border: The stored border bits, 0 or 1.

    Returns:
        The table, float32 of shape (kinds, outputs padded to panels), and the offset into it in bytes, for every line
        and for every column of the output.
    """
    kernel = signs.shape[2:]
    insides, kinds = [], []
    for axis in range(2):
        taps = np.arange(outputs[axis])[:, None] * stride[axis] - padding[axis]
        taps = taps + np.arange(kernel[axis]) * dilation[axis]
        rows, kind = np.unique((taps >= 0) & (taps < sizes[axis]) | (pad_value == 1), axis=0, return_inverse=True)
        insides.append(rows)
        kinds.append(kind.ravel())
    inside = insides[0][:, None, :, None] & insides[1][None, :, None, :]
    outputs_all, channels = len(signs), signs.shape[1] * groups
    if groups == 1:
        differing = ((signs > 0) != (border == 1)).sum(1, dtype=np.int64)  # bits that a tap in the border counts
        factor = 2
    else:
        differing = 2 * ((signs > 0) != (border == 1)).sum(1, dtype=np.int64) + (channels - signs.shape[1])
        factor = 1
    sums = inside.sum((2, 3))[..., None] * channels
    sums = sums + factor * np.einsum("abyx,oyx->abo", (~inside).astype(np.int64), differing)
    table = np.zeros((inside.shape[0] * inside.shape[1], round_up(outputs_all, LANES)), np.float32)
    table[:, :outputs_all] = sums.reshape(len(table), -1)
    row = 4 * table.shape[1]
    return table, kinds[0].astype(np.int64) * row * inside.shape[1], kinds[1].astype(np.int64) * row
