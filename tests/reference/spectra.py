"""A naive twin of the log-mel transform: one clip, one frame, one filter at a time."""

from __future__ import annotations

import math

import numpy as np


def _hz(mel: float) -> float:
    return mel * 200 / 3 if mel < 15 else 1000 * 6.4 ** ((mel - 15) / 27)


def log_mel(clip: np.ndarray) -> np.ndarray:
    signal = [0.0] * (31 * 250 + 512)
    first = 131 + (8000 - len(clip)) // 2
    for i, value in enumerate(clip):
        signal[first + i] = float(value) / 32768
    top_mel = 15 + 27 * math.log(4) / math.log(6.4)
    edges = [_hz(top_mel * k / 41) for k in range(42)]
    energy = np.zeros((40, 32))
    for frame in range(32):
        windowed = [signal[frame * 250 + i] * math.sin(math.pi * i / 512) ** 2 for i in range(512)]
        power = np.abs(np.fft.fft(windowed)[:257]) ** 2
        for k in range(40):
            low, middle, high = edges[k : k + 3]
            weights = np.interp(np.arange(257) * 8000 / 512, [low, middle, high], [0, 2 / (high - low), 0])
            energy[k, frame] = weights @ power
    db = 10 * np.log10(np.maximum(energy / energy.max(), 1e-8))
    return np.rint((db + 80) * 255 / 80).astype(np.uint8)
