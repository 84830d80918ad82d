"""Weights and parameters in the order in which the tiles read them: panel by panel of sixteen output channels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from zerocross.runtime.kernels.steps import LANES

Pair = tuple[int, int]


def round_up(number: int, multiple: int) -> int:
    """The next multiple."""
    return -(-number // multiple) * multiple


def bits_pitch(channels: int) -> int:
    """Bytes of a pixel's bits: two for every panel, so that narrow layers waste no words."""
    return LANES // 8 * -(-channels // LANES)


def by_panel(vectors: Sequence[np.ndarray], fill: Sequence[float] | None = None) -> np.ndarray:
    """Vectors of one length as float32, panel by panel: 16 numbers of the first, 16 of the second, and so on.

    Args:
        vectors: one number per channel each.
        fill: what stands in for channels beyond the last, for each vector; None is 0.
    """
    size = round_up(len(vectors[0]), LANES)
    table = np.empty((len(vectors), size), np.float32)
    for row, vector, rest in zip(table, vectors, fill or [0.0] * len(vectors), strict=True):
        row[: len(vector)], row[len(vector) :] = vector, rest
    return np.ascontiguousarray(table.reshape(len(vectors), -1, LANES).transpose(1, 0, 2))


def binary_panels(signs: np.ndarray, groups: int = 1) -> np.ndarray:
    """Weights as words: (panels, words, 16) of uint32; the words of an output hold its taps, pixel after pixel.

    The last word and every second one before it are parities, see `with_parities`.

    With groups the words stand there twice, with 0 and with 1 where an output does not look: whatever bits are there,
    both together count each of them once.

    Args:
        signs: int8 of shape (outputs, inputs / groups, height, width), -1 and +1.
        groups: as in a convolution.
    """
    if groups == 1:
        return row_panels(with_parities(_words(signs > 0)))
    outside = [_words(spread(signs, groups, rest) > 0) for rest in (-1, 1)]
    return row_panels(with_parities(np.concatenate(outside, axis=1)))


def with_parities(words: np.ndarray) -> np.ndarray:
    """Rows of words, the last of each and every second one before it replaced by the xor of all words up to there."""
    found = words.copy()
    found[:, ::-1][:, ::2] = np.bitwise_xor.accumulate(words, axis=1)[:, ::-1][:, ::2]
    return found


def spread(weight: np.ndarray, groups: int, rest: int = 0) -> np.ndarray:
    """The weight of a grouped convolution for all channels, with `rest` where an output does not look."""
    outputs, inputs, *kernel = weight.shape
    dense = np.full((groups, outputs // groups, groups, inputs, *kernel), rest, weight.dtype)
    each = np.arange(groups)
    dense[each, :, each] = weight.reshape(groups, outputs // groups, inputs, *kernel)
    return dense.reshape(outputs, groups * inputs, *kernel)


def _words(bits: np.ndarray) -> np.ndarray:
    """(outputs, channels, height, width) of bool to (outputs, words): the taps of a pixel as `bits_pitch` lays them."""
    outputs, channels, height, width = bits.shape
    pitch = bits_pitch(channels)
    taps = np.zeros((outputs, height * width, 8 * pitch), bool)
    taps[:, :, :channels] = bits.reshape(outputs, channels, -1).transpose(0, 2, 1)
    packed = np.packbits(taps.reshape(outputs, -1), axis=1, bitorder="little")
    padded = np.zeros((outputs, round_up(packed.shape[1], 4)), np.uint8)
    padded[:, : packed.shape[1]] = packed
    return padded.view(np.uint32)


def row_panels(rows: np.ndarray) -> np.ndarray:
    """Rows of weights, (outputs, terms), as (panels, terms, 16)."""
    outputs, terms = rows.shape
    padded = np.zeros((round_up(outputs, LANES), terms), rows.dtype)
    padded[:outputs] = rows
    return np.ascontiguousarray(padded.reshape(-1, LANES, terms).transpose(0, 2, 1))


def real_panels(weight: np.ndarray, pitch: int) -> np.ndarray:
    """Real weights: (panels, terms, 16) of float32; a pixel of the input has `pitch` numbers, of which some are 0."""
    outputs, channels, *kernel = weight.shape
    taps = np.zeros((outputs, int(np.prod(kernel)), pitch), np.float32)
    taps[:, :, :channels] = weight.reshape(outputs, channels, -1).transpose(0, 2, 1)
    return row_panels(taps.reshape(outputs, -1))


def byte_panels(weight: np.ndarray, pitch: int) -> tuple[np.ndarray, np.ndarray]:
    """Weights of 8 bits, (panels, fours, 16, 4) of int8, and 128 times their sums, int32 by panel.

    Args:
        weight: int8 of shape (outputs, inputs, height, width).
        pitch: bytes of a pixel of the input, of which some are beyond the last channel.
    """
    outputs, channels, *kernel = weight.shape
    taps = np.zeros((outputs, int(np.prod(kernel)), pitch), np.int8)
    taps[:, :, :channels] = weight.reshape(outputs, channels, -1).transpose(0, 2, 1)
    rows = np.zeros((outputs, round_up(taps[0].size, 4)), np.int8)
    rows[:, : taps[0].size] = taps.reshape(outputs, -1)
    offsets = np.zeros(round_up(outputs, LANES), np.int32)
    offsets[:outputs] = 128 * rows.sum(axis=1, dtype=np.int32)
    return row_panels(rows.view(np.int32)), offsets


def depthwise_panels(weight: np.ndarray) -> np.ndarray:
    """Weights of a depthwise convolution: (height * width, channels filled up to panels) of float32."""
    channels = len(weight)
    taps = np.zeros((weight[0].size, round_up(channels, LANES)), np.float32)
    taps[:, :channels] = weight.reshape(channels, -1).T
    return taps


def border_bases(
    signs: np.ndarray, groups: int, sizes: Pair, outputs: Pair, stride: Pair, padding: Pair, dilation: Pair,
    pad_value: int, border: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
    """What the sums of a binary convolution would be if no bit differed, so that padding with zero is exact.

    The border of the stored bits counts like any other bits; the table takes back what it counts. It holds a row for
    every way in which a window can stick out of the image.

    Args:
        signs: the weights, as in `binary_panels`.
        groups: as there.
        sizes: height and width of the input.
        outputs: height and width of the output.
        stride: of the convolution, like the two that follow.
        padding: see there.
        dilation: see there.
        pad_value: 0 or +1: what the network has beyond the border.
        border: 0 or 1: the bits that are stored there.

    Returns:
        The table (kinds, outputs filled up to panels) of float32; for every line and for every column of the output the
        offset in bytes into it.
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
