"""AudioMNIST (Becker et al. 2018): spoken digits of 60 speakers, 50 repeats each, in speaker-disjoint folds."""

from __future__ import annotations

import json
import re
import wave
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from zerocross.data import sound
from zerocross.data.dataset import Dataset, from_tensors
from zerocross.data.layout import audiomnist_folder, required
from zerocross.data.order import PLACE, derived_seed

# The authors' five groups of speakers: fold k validates on group k, tests on the next, trains on the other three.
SPEAKER_GROUPS = (
    (4, 11, 12, 15, 21, 27, 31, 41, 44, 47, 50, 59),
    (5, 13, 18, 22, 26, 32, 33, 42, 45, 51, 52, 60),
    (1, 6, 7, 16, 19, 23, 28, 34, 35, 46, 53, 56),
    (2, 8, 9, 17, 24, 29, 36, 37, 39, 48, 54, 57),
    (3, 10, 14, 20, 25, 30, 38, 40, 43, 49, 55, 58),
)
FEATURES = ("logmel", "wave")
PACKED = "logmel40x32.npz"
CHUNK = 256  # clips transformed at once: about 100 MB of frames

Clip = tuple[int, int, int]  # speaker, digit, repeat
Progress = Callable[[int, int], None]


def load(
    data_dir: str | Path | None = None,
    *,
    validate: bool = False,
    fold: int = 0,
    features: str = "logmel",
    progress: Progress | None = None,
) -> Dataset:
    """Load one fold; training, validation and test speakers never overlap.

    Training always uses the fold's 36 training speakers, as published; the validation speakers serve only for
    `validate=True`, so settings are chosen without the test speakers.

    Args:
        data_dir: the folder with data/NN/*.wav (or logmel40x32.npz), or a folder with audiomnist/ or AudioMNIST/.
        validate: evaluate on the fold's validation speakers; clips of the test speakers are not used.
        fold: 0..4.
        features: "logmel", (1, 40, 32) uint8, from logmel40x32.npz if it exists, otherwise from the waveforms; or
            "wave", (8000,) float32, padded at a random place (always the same for a clip) and scaled.
        progress: called with (clips read, total clips) while waveforms are read.
    """
    if features not in FEATURES:
        raise ValueError(f"features {features!r} is unknown; choose one of {', '.join(FEATURES)}")
    folder = required("audiomnist", data_dir, audiomnist_folder)
    speakers = fold_speakers(fold, folder / "splits.json")
    trained, evaluated = speakers["train"], speakers["validate" if validate else "test"]
    if features == "logmel" and (folder / PACKED).is_file():
        x, digit, speaker = read_packed(folder / PACKED)
        source = f"AudioMNIST, {PACKED}"
    else:
        clips = {clip: path for clip, path in clip_files(folder).items() if clip[0] in {*trained, *evaluated}}
        x = _from_waveforms(clips, features, progress)
        speaker, digit, _ = np.array(list(clips), dtype=np.int64).reshape(-1, 3).T
        source = f"AudioMNIST, {features} of the waveforms"
    train, evaluation = (_chosen(folder, speaker, part) for part in (trained, evaluated))
    return from_tensors(
        x[train],
        digit[train],
        x[evaluation],
        digit[evaluation],
        name="audiomnist",
        class_names=[str(digit) for digit in range(10)],
        evaluated_on="validation" if validate else "test",
        source=f"{source}, fold {fold}, {len(train) + len(evaluation)} clips",
        preprocess=preprocess(features),
    )


def preprocess(features: str) -> dict[str, Any]:
    """Return how a clip becomes an input (see `Dataset`): centred in one second, as log-mel codes or scaled.

    For waveforms, evaluation places each clip at a random position instead.
    """
    audio: dict[str, Any] = {"rate": sound.RATE, "samples": sound.SAMPLES}
    if features == "logmel":
        audio |= {"window": sound.WINDOW, "hop": sound.HOP, "frames": sound.FRAMES}
        audio |= {"mels": sound.MELS, "top_hz": sound.TOP_HZ, "floor_db": sound.FLOOR_DB}
    return {"kind": features, "audio": audio}


def fold_speakers(fold: int, splits: Path | None = None) -> dict[str, tuple[int, ...]]:
    """Return the "train", "validate" and "test" speakers, from the authors' splits.json if it exists.

    Args:
        fold: 0..4.
        splits: a file {"digit": {"train": [[speaker, ...], ...], "validate": ..., "test": ...}}, a list per fold.
    """
    if fold not in range(len(SPEAKER_GROUPS)):
        raise ValueError(f"fold {fold} is outside 0..{len(SPEAKER_GROUPS) - 1}")
    if splits is not None and splits.is_file():
        try:
            lists = json.loads(splits.read_text())["digit"]
            parts = {name: tuple(int(s) for s in lists[name][fold]) for name in ("train", "validate", "test")}
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise ValueError(
                f"{splits} has no fold {fold} of task digit ({error!r}); remove it to use the built-in folds"
            ) from error
    else:
        groups = SPEAKER_GROUPS[fold:] + SPEAKER_GROUPS[:fold]
        parts = {"train": tuple(sorted(sum(groups[2:], ()))), "validate": groups[0], "test": groups[1]}
    if len(set().union(*parts.values())) != sum(map(len, parts.values())):
        raise ValueError(f"{splits}, fold {fold}: a speaker is in more than one split")
    return parts


def read_packed(path: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Read log-mel codes (N, 1, 40, 32) uint8, digits and speakers (N,) int64 from a packed file."""
    try:
        with np.load(path, allow_pickle=False) as packed:
            codes, digit, speaker = (packed[name] for name in ("logmel", "digit", "speaker"))
    except Exception as error:  # numpy, zipfile and zlib each have their own errors
        raise ValueError(f"{path} is damaged ({error}); remove it to recompute the features") from error
    shape = (len(codes), sound.MELS, sound.FRAMES)
    if codes.dtype != np.uint8 or codes.shape != shape or digit.shape != shape[:1] or speaker.shape != shape[:1]:
        raise ValueError(
            f"{path} contains {codes.dtype} {codes.shape}, expected uint8 (N, {sound.MELS}, {sound.FRAMES})"
        )
    return codes[:, None], digit.astype(np.int64), speaker.astype(np.int64)


def clip_files(folder: Path) -> dict[Clip, Path]:
    """Return the clips data/NN/D_NN_R.wav by (speaker, digit, repeat), sorted."""
    name = re.compile(r"(\d)_(\d\d)_(\d+)\.wav")
    matches = ((name.fullmatch(path.name), path) for path in (folder / "data").glob("[0-9][0-9]/*.wav"))
    clips = {(int(m[2]), int(m[1]), int(m[3])): path for m, path in matches if m}
    return dict(sorted(clips.items()))


def read_clip(path: Path) -> np.ndarray:
    """Read one clip (any rate, 8 to 32 bit, channels averaged) as int16 at 8 kHz, at most 8,000 samples."""
    try:
        with wave.open(str(path)) as file:
            width, channels, rate = file.getsampwidth(), file.getnchannels(), file.getframerate()
            frames = file.getnframes()
            if rate > 0 and frames * sound.RATE > sound.SAMPLES * rate:  # before it is converted
                raise ValueError(
                    f"{path} lasts {frames / rate:.2f} s at {rate} Hz; AudioMNIST's clips last 1 s at most: remove it"
                )
            data = file.readframes(frames)
    except (wave.Error, EOFError) as error:
        raise ValueError(f"{path} is not a readable PCM wave file ({error}); replace or remove it") from error
    if rate <= 0 or not data or len(data) != frames * width * channels:
        raise ValueError(f"{path} is cut short or empty: its header states {frames} samples; replace or remove it")
    return sound.resampled(_pcm(data, width).reshape(-1, channels).mean(axis=1), rate)


def _pcm(data: bytes, width: int) -> np.ndarray:
    """Convert samples of 1 to 4 bytes to float64, in the units of 16-bit samples."""
    if width == 1:
        return (np.frombuffer(data, dtype=np.uint8) - 128.0) * 256  # 8-bit PCM is unsigned
    high_bytes = np.zeros((len(data) // width, 4), dtype=np.uint8)
    high_bytes[:, 4 - width :] = np.frombuffer(data, dtype=np.uint8).reshape(-1, width)
    return high_bytes.view("<i4")[:, 0] / 65536.0


def _from_waveforms(clips: dict[Clip, Path], features: str, progress: Progress | None) -> np.ndarray:
    keys, shape = list(clips), (1, sound.MELS, sound.FRAMES) if features == "logmel" else (sound.SAMPLES,)
    out = np.empty((len(keys), *shape), dtype=np.uint8 if features == "logmel" else np.float32)
    for first in range(0, len(keys), CHUNK):
        chunk = keys[first : first + CHUNK]
        signals = [read_clip(clips[key]) for key in chunk]
        if features == "logmel":
            x = sound.log_mel(sound.centred(signals))[:, None]
        else:
            x = sound.scaled(signals, [derived_seed(PLACE, *key) for key in chunk])
        out[first : first + len(chunk)] = x
        if progress is not None:
            progress(first + len(chunk), len(keys))
    return out


def _chosen(folder: Path, speaker: np.ndarray, part: Sequence[int]) -> np.ndarray:
    missing = sorted(set(part) - set(speaker.tolist()))
    if missing:
        raise ValueError(f"{folder} has no clips of speakers {', '.join(map(str, missing))}, which this fold needs")
    return np.flatnonzero(np.isin(speaker, part))
