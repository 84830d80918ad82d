"""From a file to the input of a packed network: images and clips prepared as they were for evaluation; no torch.

An image is read as RGB or grey, as the network has 3 channels or 1; its shorter side is resized to `resize` pixels
(bilinear, antialiased) and the centre is cut out. A clip is resampled, set in the middle of silence, and turned into
log-mel codes or scaled. Bytes count as 0..1; then each channel has its mean subtracted and is divided by its std.
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
MAX_SAMPLES = 1 << 24  # of a clip as it is read, or of all its windows together


@dataclass(frozen=True)
class Audio:
    """The recipe of a clip: sampling rate, length, windows and mel filters.

    Args:
        rate: Hz, 1..192000.
        samples: length at that rate to which every clip is padded.
        window: samples of a Hann window; like the five that follow, of log-mel spectra only.
        hop: samples from window to window.
        frames: windows of a clip.
        mels: mel filters.
        top_hz: upper end of the highest filter.
        floor_db: what lies further below the clip's maximum counts as that; codes 0..255 span it.
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
        """Refuse numbers that would be meaningless or expensive."""
        for name, high in (("rate", 192_000), ("samples", 1 << 22), ("window", 1 << 16), ("hop", 1 << 16)):
            _within(name, getattr(self, name), int, 1, high)
        _within("frames", self.frames, int, 1, 1 << 12)
        _within("mels", self.mels, int, 1, 1 << 10)
        _within("top_hz", self.top_hz, float, 1.0, 1e6)
        _within("floor_db", self.floor_db, float, 1.0, 1e3)
        if max(self.frames, self.mels) * self.window > MAX_SAMPLES:
            raise ValueError(
                f"preprocessing: {self.frames} windows of {self.window} samples, {self.mels} mels: too many"
            )
        if not 0 <= self.margin <= self.window:
            raise ValueError(f"{self.frames} windows, {self.hop} apart, do not span {self.samples} samples")

    @property
    def margin(self) -> int:
        """Zeros on either side of the clip, so that the windows end where it ends."""
        return ((self.frames - 1) * self.hop + self.window - self.samples) // 2


@dataclass(frozen=True)
class Preprocessing:
    """How an input is made.

    Args:
        kind: what of: "image", "logmel" or "wave" (clips), or "array" (arrays of numbers only).
        mean: one value for all channels, or one for each; bytes count as 0..1.
        std: likewise, above 0.
        resize: images: pixels of the shorter side before the centre is cut out.
        audio: clips: the recipe.
    """

    kind: str
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)
    resize: int | None = None
    audio: Audio | None = None

    @classmethod
    def from_json(cls, value: Any) -> Preprocessing | None:
        """From what `to_json` gave; unknown or mistyped fields are refused."""
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
        """The fields that are set, as JSON holds them."""
        return {key: value for key, value in asdict(self).items() if value is not None}

    def check(self, input_size: Sequence[int]) -> None:
        """Refuse what does not fit a network's input, or no input at all."""
        if self.kind not in KINDS:
            raise ValueError(f"preprocessing: kind must be one of {', '.join(KINDS)}")
        for name, values, low in (("mean", self.mean, -1e6), ("std", self.std, 1e-6)):
            if len(values) not in {1, input_size[0]}:
                raise ValueError(f"preprocessing: {name} has {len(values)} values; give 1 or {input_size[0]}")
            for value in values:
                _within(name, value, float, low, 1e6)
        wanted = {"image": (True, False), "logmel": (False, True), "wave": (False, True), "array": (False, False)}
        if (self.resize is not None, self.audio is not None) != wanted[self.kind]:
            raise ValueError("preprocessing: images need resize (and no audio), clips need audio (and no resize)")
        if self.resize is not None:
            if len(input_size) != 3 or input_size[0] not in {1, 3}:
                raise ValueError(f"preprocessing: an image has 1 or 3 channels and two sides, not {tuple(input_size)}")
            _within("resize", self.resize, int, max(input_size[1:]), MAX_SIDE)
        if self.audio is not None:
            self.audio.check()
            made = (self.audio.samples,) if self.kind == "wave" else (self.audio.mels, self.audio.frames)
            if tuple(input_size) not in {made, (1, *made)}:
                raise ValueError(f"preprocessing: the recipe gives {made}, the network takes {tuple(input_size)}")

    def normalised(self, x: np.ndarray) -> np.ndarray:
        """(x - mean) / std of a batch (N, C, ...) as float32; uint8 counts as 0..1.

        In the order of operations of training, so that the result is the same to the bit.
        """
        unit = np.float32(255.0 if x.dtype == np.uint8 else 1.0)
        mean, std = np.array(self.mean, dtype=np.float32), np.array(self.std, dtype=np.float32)
        scale, shift = np.float32(1) / (unit * std), -mean / std
        ends = (1,) * (x.ndim - 2)
        return x.astype(np.float32) * scale.reshape(-1, *ends) + shift.reshape(-1, *ends)


def read_input(path: str | Path, preprocessing: Preprocessing | None, input_size: Sequence[int]) -> np.ndarray:
    """Return the network's input for one file, (N, ...) float32: an image or a clip (N = 1), or an array (.npy).

    An array of bytes is normalised, as images are; one of floating-point numbers is taken as the input itself.

    Args:
        path: .png, .jpg and other images; .wav; .npy.
        preprocessing: of the packed network; None takes floating-point arrays only.
        input_size: of the packed network.
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
    """Return the network's input, (N, ...) float32, for a file (see `read_input`), a Pillow image, or an array.

    Args:
        x: a path, an image, or an array of one sample or a batch, see `as_input`; it must hold finite numbers.
        preprocessing: of the packed network.
        input_size: of the packed network.
    """
    size = tuple(input_size)
    if isinstance(x, str | Path):
        return finite(read_input(x, preprocessing, size), str(x))
    if hasattr(x, "getchannel"):  # Pillow is not needed for anything else
        if preprocessing is None or preprocessing.resize is None:
            raise ValueError("an image: this network does not say how it takes images; give it an array")
        return preprocessing.normalised(fitted(x, preprocessing.resize, size, "the image")[None])
    return finite(as_input(_batch(np.asarray(x), size, "the array"), preprocessing, "the array"), "the array")


def as_input(x: np.ndarray, preprocessing: Preprocessing | None, name: str) -> np.ndarray:
    """A batch as float32: floating-point numbers are the network's input itself, bytes are normalised like images."""
    if x.dtype.kind == "f":
        return np.ascontiguousarray(x, np.float32)
    if x.dtype != np.uint8:
        raise ValueError(
            f"{name} holds {x.dtype}: it must hold floating-point numbers (the network's own input) or uint8 (0..255)"
        )
    if preprocessing is None:
        raise ValueError(f"{name} holds bytes, and the network does not say how it normalises them: give float32")
    return preprocessing.normalised(x)


def finite(x: np.ndarray, name: str) -> np.ndarray:
    """Refuse NaN and infinite numbers, which a sign turns into -1 or +1 without a word."""
    if not np.isfinite(x).all():
        raise ValueError(f"{name} holds {np.count_nonzero(~np.isfinite(x))} numbers that are NaN or infinite")
    return x


def _batch(x: np.ndarray, size: tuple[int, ...], name: str) -> np.ndarray:
    if x.shape in (size, series(size)):
        x = x[None]
    x = images(x, size)
    if x.shape[1:] != size or not len(x):
        raise ValueError(f"{name} has shape {x.shape}; the network takes {('N', *size)}".replace("'", ""))
    return x


def series(size: tuple[int, ...]) -> tuple[int, ...] | None:
    """(C, L) of an image (C, 1, L), as which networks of series are packed; None of anything else."""
    return (size[0], size[2]) if len(size) == 3 and size[1] == 1 else None


def images(x: np.ndarray, size: tuple[int, ...]) -> np.ndarray:
    """A batch of series (N, C, L) as images one pixel high, where a network takes those; any other as it is."""
    return x[:, :, None] if x.shape[1:] == series(size) else x


def suffixes(preprocessing: Preprocessing | None) -> tuple[str, ...]:
    """The ends of the names of files that `read_input` reads for a network."""
    kind = "array" if preprocessing is None else preprocessing.kind
    return (*({"image": IMAGES, "array": ()}.get(kind, (".wav",))), ".npy")


def _array(path: Path, preprocessing: Preprocessing | None, size: tuple[int, ...]) -> np.ndarray:
    try:
        x = np.load(path, mmap_mode="r", allow_pickle=False)  # mapped: a header may claim more than the file holds
    except (ValueError, EOFError) as wrong:
        raise ValueError(f"{path} is not a readable array ({wrong})") from None
    if not isinstance(x, np.ndarray):
        raise ValueError(f"{path} must hold one array: save it with numpy.save")
    return as_input(_batch(x, size, str(path)), preprocessing, str(path))


def read_clip(path: str | Path, recipe: Audio) -> np.ndarray:
    """A PCM wave file of 8 to 32 bits at any rate, channels averaged, in the middle of (samples,) int16."""
    try:
        with wave.open(str(path)) as file:
            width, channels, rate, count = (
                file.getsampwidth(), file.getnchannels(), file.getframerate(), file.getnframes(),
            )  # fmt: skip
            if count > MAX_SAMPLES:
                raise ValueError(f"{path} has {count} samples; at most {MAX_SAMPLES} are read")
            data = file.readframes(count)
    except (wave.Error, EOFError) as wrong:
        raise ValueError(f"{path} is not a readable PCM wave file ({wrong})") from None
    if rate <= 0 or not data or len(data) % (width * channels):
        raise ValueError(f"{path} is cut short or empty")
    signal = _pcm(data, width).reshape(-1, channels).mean(axis=1)
    if rate != recipe.rate:
        signal = _resampled(signal, rate, recipe.rate)
    clip = np.clip(np.rint(signal), -32768, 32767).astype(np.int16)
    if len(clip) > recipe.samples:
        seconds, longest = len(clip) / recipe.rate, recipe.samples / recipe.rate
        raise ValueError(f"{path} lasts {seconds:.2f} s; the network takes clips of at most {longest:g} s: cut it")
    out = np.zeros(recipe.samples, dtype=np.int16)
    first = (recipe.samples - len(clip)) // 2
    out[first : first + len(clip)] = clip
    return out


def _resampled(signal: np.ndarray, rate: int, wanted: int) -> np.ndarray:
    try:
        from scipy.signal import resample
    except ModuleNotFoundError as missing:
        raise ValueError(f"a clip at {rate} Hz is resampled to {wanted} Hz with SciPy: pip install scipy") from missing
    return np.asarray(resample(signal.astype(np.float32), -(-len(signal) * wanted // rate)))


def _pcm(data: bytes, width: int) -> np.ndarray:
    """Samples of 1 to 4 bytes as float64, in the units of 16-bit samples."""
    if width == 1:
        return (np.frombuffer(data, dtype=np.uint8) - 128.0) * 256  # 8-bit PCM is unsigned
    high_bytes = np.zeros((len(data) // width, 4), dtype=np.uint8)
    high_bytes[:, 4 - width :] = np.frombuffer(data, dtype=np.uint8).reshape(-1, width)
    return high_bytes.view("<i4")[:, 0] / 65536.0


def scaled(clip: np.ndarray) -> np.ndarray:
    """A padded clip over (95th percentile + 0.001), float32."""
    x = clip.astype(np.float32)
    return x / (np.percentile(x, 95).astype(np.float32) + np.float32(0.001))


def log_mel(clip: np.ndarray, recipe: Audio) -> np.ndarray:
    """Log-mel spectra as bytes: (mels, frames) uint8, dB relative to the clip's own maximum, floored."""
    padded = np.pad(clip / 32768.0, (recipe.margin, recipe.margin))
    frames = np.lib.stride_tricks.sliding_window_view(padded, recipe.window)[:: recipe.hop][: recipe.frames]
    hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(recipe.window) / recipe.window)
    mel = mel_filters(recipe) @ np.square(np.abs(np.fft.rfft(frames * hann, axis=1))).T
    loudest = max(mel.max(), np.finfo(np.float64).tiny)  # silence: all at the floor
    db = 10 * np.log10(np.maximum(mel / loudest, 10 ** (-recipe.floor_db / 10)))
    return np.rint((db + recipe.floor_db) * (255 / recipe.floor_db)).astype(np.uint8)


def mel_filters(recipe: Audio) -> np.ndarray:
    """(mels, window // 2 + 1) triangles of area 1, equally spaced on Slaney's mel scale (linear below 1 kHz)."""
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
