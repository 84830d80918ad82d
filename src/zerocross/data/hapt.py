"""HAPT (Reyes-Ortiz et al. 2015): activities of 30 people from a smartphone's accelerometer and gyroscope at 50 Hz."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from zerocross.data.dataset import Dataset, from_tensors
from zerocross.data.layout import hapt_folder, required

ACTIVITIES = (
    "walking", "walking upstairs", "walking downstairs", "sitting", "standing", "laying",
    "stand to sit", "sit to stand", "sit to lie", "lie to sit", "stand to lie", "lie to stand",
)  # fmt: skip
TEST_PEOPLE = (2, 4, 9, 10, 12, 13, 18, 20, 24)  # official
VALIDATION_PEOPLE = (3, 8, 16, 22, 29)  # of the other 21
WINDOW, STEP = 128, 64  # samples: 2.56 s, half overlapping
WINDOWS = (7_767, 3_162)  # of the training and of the test people, as published
SENSORS = ("acc", "gyro")


def load(data_dir: str | Path | None = None, *, validate: bool = False) -> Dataset:
    """Load windows (6, 128) of the raw signals, x y z of the accelerometer in g and of the gyroscope in rad/s.

    Windows lie inside the labelled segments, 64 samples apart; with the official test people there are 7,767 + 3,162,
    as published. Training and evaluation people never overlap.

    Args:
        data_dir: the folder with hapt/, that folder, or RawData/ itself.
        validate: train on 16 of the 21 training people and evaluate on the other five, always the same; signals of the
            test people are not read.
    """
    folder = required("hapt", data_dir, hapt_folder)
    x, y, person = windows(folder, skip=TEST_PEOPLE if validate else ())
    held = np.isin(person, VALIDATION_PEOPLE if validate else TEST_PEOPLE)
    if held.all() or not held.any():
        raise ValueError(
            f"{folder} has people {sorted(set(person.tolist()))}: training or evaluation people are missing"
        )
    return from_tensors(
        x[~held],
        y[~held],
        x[held],
        y[held],
        name="hapt",
        class_names=ACTIVITIES,
        evaluated_on="validation" if validate else "test",
        source=f"HAPT, raw signals, {(~held).sum():,} + {held.sum():,} windows of {WINDOW} samples, people apart",
    )


def windows(folder: Path, skip: tuple[int, ...] = ()) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Read windows (N, 6, 128) float32, activities (N,) int64 from 0, and people (N,), in the order of labels.txt.

    Args:
        folder: RawData/.
        skip: people to skip, whose signals are not read.
    """
    x, y, person = [], [], []
    recordings: dict[tuple[int, int], np.ndarray] = {}
    for experiment, user, activity, first, last in segments(folder / "labels.txt"):
        if user in skip:
            continue
        key = experiment, user
        if key not in recordings:
            recordings[key] = recording(folder, *key)
        signal = recordings[key]
        if last >= len(signal):
            raise ValueError(f"{folder}: labels.txt reaches sample {last} of {len(signal)} of experiment {experiment}")
        for start in range(first, last + 2 - WINDOW, STEP):
            x.append(signal[start : start + WINDOW].T)
            y.append(activity - 1)
            person.append(user)
    if not x:
        raise ValueError(f"{folder}: labels.txt has no segment of {WINDOW} samples")
    return np.stack(x), np.array(y, dtype=np.int64), np.array(person, dtype=np.int64)


def segments(path: Path) -> list[tuple[int, int, int, int, int]]:
    """Read the rows of labels.txt: experiment, user, activity 1..12, first and last sample (both included)."""
    try:
        rows = np.loadtxt(path, dtype=np.int64, ndmin=2)
    except ValueError as error:
        raise ValueError(f"{path} is damaged ({error}): unpack it again") from error
    if rows.shape[1] != 5 or (rows < 0).any() or (rows[:, 3] > rows[:, 4]).any():
        raise ValueError(
            f"{path} is damaged: a row must have five numbers: experiment, user, activity, first, last sample"
        )
    if not ((rows[:, 2] >= 1) & (rows[:, 2] <= len(ACTIVITIES))).all():
        raise ValueError(f"{path} contains activities outside 1..{len(ACTIVITIES)}: unpack it again")
    return [tuple(row) for row in rows.tolist()]


def recording(folder: Path, experiment: int, user: int) -> np.ndarray:
    """Read the signals (samples, 6) float32 of one experiment, accelerometer first."""
    parts = []
    for sensor in SENSORS:
        path = folder / f"{sensor}_exp{experiment:02d}_user{user:02d}.txt"
        if not path.is_file():
            raise FileNotFoundError(f"{path}, which labels.txt refers to, is missing: unpack the archive again")
        try:
            signal = np.loadtxt(path, dtype=np.float32, ndmin=2)
        except ValueError as error:
            raise ValueError(f"{path} is damaged ({error}): unpack it again") from error
        if signal.shape[1:] != (3,) or not np.isfinite(signal).all():
            raise ValueError(f"{path} must have rows of three finite numbers, x y z: unpack it again")
        parts.append(signal)
    if len(parts[0]) != len(parts[1]):
        raise ValueError(f"{folder}: experiment {experiment} has {len(parts[0])} acc and {len(parts[1])} gyro samples")
    return np.concatenate(parts, axis=1)
