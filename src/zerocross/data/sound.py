"""Signal processing for spoken digits: resampling, log-mel spectra, padding; numpy and scipy only."""

from __future__ import annotations

import numpy as np

RATE = 8000  # Hz
SAMPLES = 8000  # one second: every clip is padded to it
WINDOW, HOP, FRAMES = 512, 250, 32  # 64 ms windows, 31.25 ms apart
MELS, TOP_HZ, FLOOR_DB = 40, 4000.0, 80.0


def resampled(signal: np.ndarray, rate: int) -> np.ndarray:
    """Resample `signal` to 8 kHz, int16: ceil(n * 8000 / rate) samples by the Fourier method, in float32.

    Args:
        signal: (n,), in the units of 16-bit samples.
        rate: its sampling rate in Hz, above 0.
    """
    if rate != RATE:
        from scipy.signal import resample

        signal = np.asarray(resample(signal.astype(np.float32), -(-len(signal) * RATE // rate)))
    return np.clip(np.rint(signal), -32768, 32767).astype(np.int16)


def centred(clips: list[np.ndarray]) -> np.ndarray:
    """Centre each clip in 8,000 zeros: (N, 8000) int16."""
    return _placed(clips, [(SAMPLES - len(clip)) // 2 for clip in clips])


def scaled(clips: list[np.ndarray], seeds: list[int]) -> np.ndarray:
    """Return Becker et al.'s input of AudioNet: clips at random places in 8,000 zeros, / (95th percentile + 0.001).

    The percentile is that of the padded, signed signal in 16-bit units, as in the authors' program.

    Args:
        clips: int16 signals of at most 8,000 samples.
        seeds: one per clip, for its place.
    """
    places = [
        int(np.random.default_rng(seed).integers(SAMPLES - len(clip) + 1))
        for clip, seed in zip(clips, seeds, strict=True)
    ]
    x = _placed(clips, places).astype(np.float32)
    return x / (np.percentile(x, 95, axis=1, keepdims=True).astype(np.float32) + np.float32(0.001))


def _placed(clips: list[np.ndarray], places: list[int]) -> np.ndarray:
    out = np.zeros((len(clips), SAMPLES), dtype=np.int16)
    for row, clip, place in zip(out, clips, places, strict=True):
        row[place : place + len(clip)] = clip
    return out


def log_mel(signals: np.ndarray) -> np.ndarray:
    """Convert clips to log-mel spectra as bytes: (N, 8000) int16 -> (N, 40, 32) uint8, [mel, frame].

    Power spectra of 32 periodic Hann windows (131 zeros on either side of the second), through 40 Slaney mel filters;
    dB relative to the maximum of the clip, floored at -80; code = round((dB + 80) * 255 / 80).
    """
    margin = ((FRAMES - 1) * HOP + WINDOW - SAMPLES) // 2
    padded = np.pad(signals / 32768.0, ((0, 0), (margin, margin)))
    frames = np.lib.stride_tricks.sliding_window_view(padded, WINDOW, axis=1)[:, ::HOP]
    hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(WINDOW) / WINDOW)
    power = np.square(np.abs(np.fft.rfft(frames * hann, axis=2)))
    mel = mel_filters() @ power.transpose(0, 2, 1)
    loudest = np.maximum(mel.max(axis=(1, 2), keepdims=True), np.finfo(np.float64).tiny)  # silence: all at the floor
    db = 10 * np.log10(np.maximum(mel / loudest, 10 ** (-FLOOR_DB / 10)))
    return np.rint((db + FLOOR_DB) * (255 / FLOOR_DB)).astype(np.uint8)


def mel_filters() -> np.ndarray:
    """Return (40, 257) triangles, equally spaced on Slaney's mel scale over 0..4000 Hz, each with area 1 (in Hz).

    Slaney's scale (Auditory Toolbox, 1998): linear, 3 mel per 200 Hz, up to 1 kHz; above it 27 mel per factor of 6.4.
    """
    knee, step = 15.0, np.log(6.4) / 27
    mels = np.linspace(0, knee + np.log(TOP_HZ / 1000) / step, MELS + 2)
    edges = np.where(mels < knee, mels * 200 / 3, 1000 * np.exp(step * (mels - knee)))
    low, middle, high = edges[:-2, None], edges[1:-1, None], edges[2:, None]
    hz = np.arange(WINDOW // 2 + 1) * RATE / WINDOW
    triangle = np.minimum((hz - low) / (middle - low), (high - hz) / (high - middle))
    return np.maximum(0, triangle) * 2 / (high - low)
