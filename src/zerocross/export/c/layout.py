"""Memory layout of weights, in the order in which the kernels of a C file read them."""

from __future__ import annotations

import numpy as np

BIT_LANES, REAL_LANES = 8, 16  # outputs per block


def bit_words(signs: np.ndarray, tap_bits: int) -> np.ndarray:
    """Pack weights of -1 and +1 into uint64 of shape (outputs, words); each tap starts at a multiple of `tap_bits`."""
    outputs, inputs, *kernel = signs.shape
    taps = np.zeros((outputs, int(np.prod(kernel)), tap_bits), bool)
    taps[:, :, :inputs] = (signs > 0).reshape(outputs, inputs, -1).transpose(0, 2, 1)
    packed = np.packbits(taps.reshape(outputs, -1), axis=1, bitorder="little")
    words = np.zeros((outputs, -(-packed.shape[1] // 8) * 8), np.uint8)
    words[:, : packed.shape[1]] = packed
    return words.view("<u8").astype(np.uint64)


def bit_blocks(rows: np.ndarray) -> np.ndarray:
    """Arrange rows of words in blocks of eight outputs, word by word; the remaining outputs follow one by one."""
    whole = len(rows) // BIT_LANES * BIT_LANES
    blocks = rows[:whole].reshape(-1, BIT_LANES, rows.shape[1]).transpose(0, 2, 1)
    return np.concatenate([blocks.reshape(-1), rows[whole:].reshape(-1)])


def real_blocks(weight: np.ndarray) -> np.ndarray:
    """Arrange weights (outputs, inputs, height, width) in blocks of 16 outputs, tap by tap and input by input."""
    rows = weight.transpose(0, 2, 3, 1).reshape(len(weight), -1)
    whole = len(rows) // REAL_LANES * REAL_LANES
    blocks = rows[:whole].reshape(-1, REAL_LANES, rows.shape[1]).transpose(0, 2, 1)
    return np.concatenate([blocks.reshape(-1), rows[whole:].T.reshape(-1)])


def sign_bytes(signs: np.ndarray) -> np.ndarray:
    """Pack weights of -1 and +1 for real inputs: for every tap and input, the bits of all outputs as bytes."""
    columns = signs.transpose(2, 3, 1, 0).reshape(-1, len(signs)) > 0
    return np.packbits(columns, axis=1, bitorder="little").reshape(-1)


def depthwise_taps(weight: np.ndarray) -> np.ndarray:
    """Arrange weights (channels, 1, height, width) tap by tap."""
    return weight.reshape(len(weight), -1).T.reshape(-1)
