"""Compute the input of a packed network from a file, preprocessed as for evaluation, without torch.

An image is read as RGB (networks with 3 channels) or grey (1 channel); its shorter side is resized to `resize` pixels
(bilinear, antialiased), and the centre is cropped. An audio clip is resampled, padded with silence on both sides, and
converted to log-mel codes or scaled. Bytes are mapped to 0..1; then each channel is normalised by its mean and std.
"""

from __future__ import annotations

import math
import wave
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from zerocross.runtime.images import MAX_SIDE, fitted, image_pixels

KINDS = ("image", "logmel", "wave", "array")
IMAGES = (".png", ".jpg", ".jpeg", ".bmp", ".webp", ".tif", ".tiff", ".ppm", ".pgm")
MAX_SAMPLES = 1 << 24  # in a clip as read, or in all its windows together


@dataclass(frozen=True)
class Audio:
    """Preprocessing of an audio clip: sampling rate, length, windows and mel filters.

    `window` and the fields after it apply to log-mel spectra only.

    Args:
        rate: Sampling rate in Hz, 1..192000.
        samples: Length in samples at that rate, to which every clip is padded.
        window: Length of the Hann window in samples.
        hop: Distance between windows in samples.
        frames: Number of windows per clip.
        mels: Number of mel filters.
        top_hz: Upper end of the highest filter in Hz.
        floor_db: Range below the clip's maximum in dB; lower values are clipped. Codes 0..255 span the range.
    """

    rate: int
    samples: int
    window: int = 512
    hop: int = 250
    frames: int = 32
    mels: int = 40
    top_hz: float = 4000.0
    floor_db: float = 80.0

    def check(self) -> None:
        """Raise a ValueError for values that are meaningless or expensive."""
        for name, high in (("rate", 192_000), ("samples", 1 << 22), ("window", 1 << 16), ("hop", 1 << 16)):
            _within(name, getattr(self, name), int, 1, high)
        _within("frames", self.frames, int, 1, 1 << 12)
        _within("mels", self.mels, int, 1, 1 << 10)
        _within("top_hz", self.top_hz, float, 1.0, 1e6)
        _within("floor_db", self.floor_db, float, 1.0, 1e3)
        if max(self.frames, self.mels) * self.window > MAX_SAMPLES:
            raise ValueError(
                f"preprocessing: {self.frames} windows of {self.window} samples and {self.mels} mels are too many"
            )
        if not 0 <= self.margin <= self.window:
            raise ValueError(
                f"preprocessing: {self.frames} windows, {self.hop} samples apart, do not span {self.samples} samples"
            )

    @property
    def margin(self) -> int:
        """Number of zeros on either side of the clip, so that the last window ends with them."""
        return ((self.frames - 1) * self.hop + self.window - self.samples) // 2


@dataclass(frozen=True)
class Preprocessing:
    """Preprocessing of an input.

    Args:
        kind: Kind of input: "image", "logmel" or "wave" (audio clips), or "array" (arrays of numbers only).
        mean: Mean of all channels, or one per channel; bytes are mapped to 0..1 first.
        std: Standard deviation of all channels, or one per channel; positive.
        resize: For images: length of the shorter side in pixels before the centre is cropped.
        audio: For audio clips: rate, length and spectra.
    """

    kind: str
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)
    resize: int | None = None
    audio: Audio | None = None

    @classmethod
    def from_json(cls, value: Any) -> Preprocessing | None:
        """Create from the output of `to_json`; unknown or mistyped fields raise a ValueError."""
        if value is None:
            return None
        values = _fields(cls, value, "preprocessing")
        if values.get("audio") is not None:
            values["audio"] = Audio(**_fields(Audio, values["audio"], "preprocessing: audio"))
        for key in ("mean", "std"):
            numbers = values.get(key, [0.0 if key == "mean" else 1.0])
            if not isinstance(numbers, list | tuple):
                raise ValueError(f"preprocessing: {key} must be a list of numbers")
            values[key] = tuple(numbers)
        return cls(**values)

    def to_json(self) -> dict[str, Any]:
        """Return the fields that are set, in a form that JSON can store."""
        return {key: value for key, value in asdict(self).items() if value is not None}

    def check(self, input_size: Sequence[int]) -> None:
        """Raise a ValueError if the fields are inconsistent or do not match the network's input size."""
        if self.kind not in KINDS:
            raise ValueError(f"preprocessing: kind must be one of {', '.join(KINDS)}")
        for name, values, low in (("mean", self.mean, -1e6), ("std", self.std, 1e-6)):
            if len(values) not in {1, input_size[0]}:
                raise ValueError(f"preprocessing: {name} has {len(values)} values; give 1 or {input_size[0]}")
            for value in values:
                _within(name, value, float, low, 1e6)
        required = {"image": (True, False), "logmel": (False, True), "wave": (False, True), "array": (False, False)}
        if (self.resize is not None, self.audio is not None) != required[self.kind]:
            raise ValueError("preprocessing: images need resize (and no audio), clips need audio (and no resize)")
        if self.resize is not None:
            if len(input_size) != 3 or input_size[0] not in {1, 3}:
                raise ValueError(f"preprocessing: an image has 1 or 3 channels and two sides, not {tuple(input_size)}")
            _within("resize", self.resize, int, max(input_size[1:]), MAX_SIDE)
        if self.audio is not None:
            self.audio.check()
            shape = (self.audio.samples,) if self.kind == "wave" else (self.audio.mels, self.audio.frames)
            if tuple(input_size) not in {shape, (1, *shape)}:
                raise ValueError(
                    f"preprocessing: clips become arrays of shape {shape}, but the network takes {tuple(input_size)}"
                )

    def normalised(self, x: np.ndarray) -> np.ndarray:
        """Return (x - mean) / std of a batch (N, C, ...) as float32; uint8 is mapped to 0..1 first.

        The operations have the same order as in training, so that the result is bit-identical.
        """
        unit = np.float32(255.0 if x.dtype == np.uint8 else 1.0)
        mean, std = np.array(self.mean, dtype=np.float32), np.array(self.std, dtype=np.float32)
        scale, shift = np.float32(1) / (unit * std), -mean / std
        ends = (1,) * (x.ndim - 2)
        return x.astype(np.float32) * scale.reshape(-1, *ends) + shift.reshape(-1, *ends)


def read_input(path: str | Path, preprocessing: Preprocessing | None, input_size: Sequence[int]) -> np.ndarray:
    """Return the network's input for one file, float32 of shape (N, ...): an image or clip (N = 1), or an array (.npy).

    An array of bytes is normalised like an image; an array of floating-point numbers is used unchanged.

    Args:
        path: .png, .jpg and other images; .wav; .npy.
        preprocessing: Preprocessing of the packed network; None accepts only floating-point arrays.
        input_size: Input size of the packed network.
    """
    path, size = Path(path), tuple(input_size)
    if path.suffix.lower() not in suffixes(preprocessing):
        raise ValueError(f"{path}: this network takes {', '.join(suffixes(preprocessing))}")
    if preprocessing is None or path.suffix.lower() == ".npy":
        return _array(path, preprocessing, size)
    if preprocessing.audio is None:
        x = image_pixels(path, preprocessing.resize or 0, size)
    else:
        clip = read_clip(path, preprocessing.audio)
        x = (log_mel(clip, preprocessing.audio) if preprocessing.kind == "logmel" else scaled(clip)).reshape(size)
    return preprocessing.normalised(x[None])


def prepare(x: Any, preprocessing: Preprocessing | None, input_size: Sequence[int]) -> np.ndarray:
    """Return the network's input, float32 of shape (N, ...), for a file (see `read_input`), a Pillow image or an array.

    Args:
        x: A path, an image, or an array of one sample or a batch (see `as_input`) with finite numbers.
        preprocessing: Preprocessing of the packed network.
        input_size: Input size of the packed network.
    """
    size = tuple(input_size)
    if isinstance(x, str | Path):
        return finite(read_input(x, preprocessing, size), str(x))
    if hasattr(x, "getchannel"):  # a Pillow image, recognised without importing Pillow
        if preprocessing is None or preprocessing.resize is None:
            raise ValueError("this network has no preprocessing for images; pass an array instead of an image")
        return preprocessing.normalised(fitted(x, preprocessing.resize, size, "the image")[None])
    return finite(as_input(_batch(np.asarray(x), size, "the array"), preprocessing, "the array"), "the array")


def as_input(x: np.ndarray, preprocessing: Preprocessing | None, name: str) -> np.ndarray:
    """Return a batch as float32; floating-point numbers are used unchanged, bytes are normalised like images."""
    if x.dtype.kind == "f":
        return np.ascontiguousarray(x, np.float32)
    if x.dtype != np.uint8:
        raise ValueError(
            f"{name} has dtype {x.dtype}; it must be floating-point (preprocessed input) or uint8 (0..255, normalised "
            "like an image)"
        )
    if preprocessing is None:
        raise ValueError(f"{name} has dtype uint8, but this network has no preprocessing for bytes; pass float32")
    return preprocessing.normalised(x)


def finite(x: np.ndarray, name: str) -> np.ndarray:
    """Raise a ValueError for NaN and infinite numbers, which a sign would silently turn into -1 or +1."""
    if not np.isfinite(x).all():
        raise ValueError(f"{name} contains {np.count_nonzero(~np.isfinite(x))} numbers that are NaN or infinite")
    return x


def _batch(x: np.ndarray, size: tuple[int, ...], name: str) -> np.ndarray:
    if x.shape in (size, series(size)):
        x = x[None]
    x = images(x, size)
    if x.shape[1:] != size or not len(x):
        raise ValueError(f"{name} has shape {x.shape}; the network takes {('N', *size)}".replace("'", ""))
    return x


def series(size: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return (C, L) for an input size (C, 1, L), as stored for networks on series; None for any other size."""
    return (size[0], size[2]) if len(size) == 3 and size[1] == 1 else None


def images(x: np.ndarray, size: tuple[int, ...]) -> np.ndarray:
    """Return a batch of series (N, C, L) as images one pixel high if the network takes those, else unchanged."""
    return x[:, :, None] if x.shape[1:] == series(size) else x


def suffixes(preprocessing: Preprocessing | None) -> tuple[str, ...]:
    """Return the file name extensions that `read_input` accepts for a network."""
    kind = "array" if preprocessing is None else preprocessing.kind
    return (*({"image": IMAGES, "array": ()}.get(kind, (".wav",))), ".npy")


def _array(path: Path, preprocessing: Preprocessing | None, size: tuple[int, ...]) -> np.ndarray:
    try:
        x = np.load(path, mmap_mode="r", allow_pickle=False)  # mapped: a header may claim more than the file holds
    except (ValueError, EOFError) as error:
        raise ValueError(f"{path} is not a readable array ({error})") from None
    if not isinstance(x, np.ndarray):
        raise ValueError(f"{path} must contain a single array, saved with numpy.save")
    return as_input(_batch(x, size, str(path)), preprocessing, str(path))


def read_clip(path: str | Path, recipe: Audio) -> np.ndarray:
    """Read a PCM wave file of 8 to 32 bits at any rate; average its channels and centre it in (samples,) int16."""
    try:
        with wave.open(str(path)) as file:
            width, channels, rate, count = (
                file.getsampwidth(), file.getnchannels(), file.getframerate(), file.getnframes(),
            )  # fmt: skip
            if count > MAX_SAMPLES:
                raise ValueError(f"{path} has {count} samples; at most {MAX_SAMPLES} are allowed")
            data = file.readframes(count)
    except (wave.Error, EOFError) as error:
        raise ValueError(f"{path} is not a readable PCM wave file ({error})") from None
    if rate <= 0 or not data or len(data) % (width * channels):
        raise ValueError(f"{path} is truncated or empty")
    signal = _pcm(data, width).reshape(-1, channels).mean(axis=1)
    if rate != recipe.rate:
        signal = _resampled(signal, rate, recipe.rate)
    clip = np.clip(np.rint(signal), -32768, 32767).astype(np.int16)
    if len(clip) > recipe.samples:
        seconds, longest = len(clip) / recipe.rate, recipe.samples / recipe.rate
        raise ValueError(f"{path} lasts {seconds:.2f} s; the network takes clips of at most {longest:g} s: shorten it")
    out = np.zeros(recipe.samples, dtype=np.int16)
    first = (recipe.samples - len(clip)) // 2
    out[first : first + len(clip)] = clip
    return out


def _resampled(signal: np.ndarray, rate: int, target_rate: int) -> np.ndarray:
    try:
        from scipy.signal import resample
    except ModuleNotFoundError as missing:
        raise ValueError(
            f"resampling a clip from {rate} Hz to {target_rate} Hz requires SciPy: pip install scipy"
        ) from missing
    return np.asarray(resample(signal.astype(np.float32), -(-len(signal) * target_rate // rate)))


def _pcm(data: bytes, width: int) -> np.ndarray:
    """Return samples of 1 to 4 bytes as float64, in the units of 16-bit samples."""
    if width == 1:
        return (np.frombuffer(data, dtype=np.uint8) - 128.0) * 256  # 8-bit PCM is unsigned
    high_bytes = np.zeros((len(data) // width, 4), dtype=np.uint8)
    high_bytes[:, 4 - width :] = np.frombuffer(data, dtype=np.uint8).reshape(-1, width)
    return high_bytes.view("<i4")[:, 0] / 65536.0


def scaled(clip: np.ndarray) -> np.ndarray:
    """Return a padded clip divided by (its 95th percentile + 0.001), as float32."""
    x = clip.astype(np.float32)
    return x / (np.percentile(x, 95).astype(np.float32) + np.float32(0.001))


def log_mel(clip: np.ndarray, recipe: Audio) -> np.ndarray:
    """Return log-mel spectra as uint8 of shape (mels, frames): dB below the clip's maximum, clipped at the floor."""
    padded = np.pad(clip / 32768.0, (recipe.margin, recipe.margin))
    frames = np.lib.stride_tricks.sliding_window_view(padded, recipe.window)[:: recipe.hop][: recipe.frames]
    hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(recipe.window) / recipe.window)
    mel = mel_filters(recipe) @ np.square(np.abs(np.fft.rfft(frames * hann, axis=1))).T
    loudest = max(mel.max(), np.finfo(np.float64).tiny)  # silence: all at the floor
    db = 10 * np.log10(np.maximum(mel / loudest, 10 ** (-recipe.floor_db / 10)))
    return np.rint((db + recipe.floor_db) * (255 / recipe.floor_db)).astype(np.uint8)


def mel_filters(recipe: Audio) -> np.ndarray:
    """Return triangular filters of area 1, equally spaced on Slaney's mel scale (linear below 1 kHz).

    The array has shape (mels, window // 2 + 1).
    """
    knee, step = 15.0, math.log(6.4) / 27

    def to_mel(hz: float) -> float:
        return hz * 3 / 200 if hz < 1000 else knee + math.log(hz / 1000) / step

    mels = np.linspace(0, to_mel(recipe.top_hz), recipe.mels + 2)
    edges = np.where(mels < knee, mels * 200 / 3, 1000 * np.exp(step * (mels - knee)))
    low, middle, high = edges[:-2, None], edges[1:-1, None], edges[2:, None]
    hz = np.arange(recipe.window // 2 + 1) * recipe.rate / recipe.window
    triangle = np.minimum((hz - low) / (middle - low), (high - hz) / (high - middle))
    return np.maximum(0, triangle) * 2 / (high - low)


def _fields(cls: type, value: Any, what: str) -> dict[str, Any]:
    known = [field.name for field in fields(cls)]
    if not isinstance(value, dict) or not set(value) <= set(known) or known[0] not in value:
        raise ValueError(f"{what} must be an object with {', '.join(known)}")
    return dict(value)


def _within(name: str, value: Any, kind: type, low: float, high: float) -> None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or (kind is int and not isinstance(value, int)) or not low <= value <= high:
        raise ValueError(f"preprocessing: {name} = {str(value)[:40]} must be within {low}..{high}")
