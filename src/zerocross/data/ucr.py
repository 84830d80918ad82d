"""Time series of the UCR archive (Dau et al. 2019): thirteen of its sets, with the official split."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from zerocross.data.dataset import Dataset, from_tensors
from zerocross.data.layout import required, ucr_folder
from zerocross.data.splits import held_out, not_in

VALIDATION_SHARE = 0.2  # of each class of the training part


@dataclass(frozen=True)
class Series:
    """One set: its samples, their length, and the number of classes."""

    train: int
    test: int
    length: int
    classes: int
    normalised: bool = True  # by the archive: each series has mean 0 and standard deviation 1
    signed: bool = False  # labels are -1 and 1, otherwise 1, 2, ...

    @property
    def labels(self) -> list[int]:
        """The archive's labels, ascending."""
        return [-1, 1] if self.signed else list(range(1, self.classes + 1))


SETS = {
    "Crop": Series(7_200, 16_800, 46, 24, normalised=False),
    "ECG5000": Series(500, 4_500, 140, 5),
    "ElectricDevices": Series(8_926, 7_711, 96, 7),
    "FordA": Series(3_601, 1_320, 500, 2, signed=True),
    "InsectWingbeatSound": Series(220, 1_980, 256, 11),
    "ItalyPowerDemand": Series(67, 1_029, 24, 2),
    "Mallat": Series(55, 2_345, 1024, 8),
    "NonInvasiveFetalECGThorax1": Series(1_800, 1_965, 750, 42),
    "Phoneme": Series(214, 1_896, 1024, 39),
    "StarLightCurves": Series(1_000, 8_236, 1024, 3),
    "TwoPatterns": Series(1_000, 4_000, 128, 4),
    "UWaveGestureLibraryAll": Series(896, 3_582, 945, 8),
    "Wafer": Series(1_000, 6_164, 152, 2, signed=True),
}


def load(
    data_dir: str | Path | None = None,
    *,
    validate: bool = False,
    set: str = "ECG5000",  # noqa: A002
    train_size: int | None = None,
) -> Dataset:
    """Load one set of the archive as series (1, length), each with mean 0 and standard deviation 1.

    The archive normalises all of these sets except Crop, which is normalised here. Labels, which start at 1 or are -1
    and 1 in the archive, become 0, 1, ... in their order.

    Test series that also occur in the training part, bit for bit, are left out: 2,753 of Crop's and 208 of
    ElectricDevices'. (Leaving them out of training instead would remove Crop's last class completely.) `source` says
    how many were left out.

    Args:
        data_dir: the folder with ucr/ or UCRArchive_2018/, or that folder itself.
        validate: train on 80 % of the training part and evaluate on the rest, stratified, always the same; the test
            file is not opened. A class with a single series has none in the evaluation part.
        set: its name, one of `SETS`.
        train_size: train on about this number of series only, each class in proportion, always the same. None: all.
            The evaluation part does not depend on it.
    """
    check_set(set)
    folder = required("ucr", data_dir, ucr_folder)
    x, y = read(folder, set, "TRAIN")
    if validate:
        kept, held = (part.numpy() for part in held_out(torch.from_numpy(y), VALIDATION_SHARE))
        (x, y), evaluation = (x[kept], y[kept]), (x[held], y[held])
    else:
        evaluation = read(folder, set, "TEST")
    unseen = not_in(map(bytes, evaluation[0]), map(bytes, x))
    dropped = len(evaluation[0]) - len(unseen)
    if train_size is not None:
        if not SETS[set].classes <= train_size < len(x):
            raise ValueError(
                f"train_size is {train_size}; {set} has {len(x):,} series to train on, so it must be at least its "
                f"{SETS[set].classes} classes and below {len(x):,}; or leave it out to train on all"
            )
        kept = held_out(torch.from_numpy(y), 1 - train_size / len(x))[0].numpy()
        x, y = x[kept], y[kept]
    return from_tensors(
        prepared(x, set),
        y,
        prepared(evaluation[0][unseen], set),
        evaluation[1][unseen],
        name="ucr",
        class_names=[str(label) for label in range(SETS[set].classes)],
        mean=(0.0,),
        std=(1.0,),
        evaluated_on="validation" if validate else "test",
        source=f"UCR archive 2018, {set}"
        + (f", {len(x):,} training series" if train_size is not None else "")
        + (f", evaluated without {dropped:,} series that are trained on" if dropped else ""),
    )


def check_set(name: str) -> None:
    """Raise a ValueError for a set that is not one of `SETS`."""
    if name not in SETS:
        raise ValueError(f"set {name!r} is unknown; choose one of {', '.join(SETS)}")


def read(folder: Path, name: str, part: str) -> tuple[np.ndarray, np.ndarray]:
    """Read series (N, length) float32 as stored in the archive, and labels (N,) int64 from 0, of "TRAIN" or "TEST"."""
    path = folder / name / f"{name}_{part}.tsv"
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing; see `zerocross data fetch ucr`")
    try:
        rows = np.loadtxt(path, delimiter="\t", ndmin=2)
    except ValueError as error:
        raise ValueError(f"{path} is damaged ({error}): unpack it again") from error
    series = SETS[name]
    shape = (series.train if part == "TRAIN" else series.test, 1 + series.length)
    if rows.shape != shape or not np.isfinite(rows).all():
        raise ValueError(
            f"{path} has {rows.shape[0]:,} rows of {rows.shape[1]:,} numbers, or some that are not finite; "
            f"{name} has {shape[0]:,} of {shape[1]:,}, the label first: unpack it again"
        )
    if not np.isin(rows[:, 0], series.labels).all():
        raise ValueError(f"{path} has labels other than {', '.join(map(str, series.labels))}: unpack it again")
    return rows[:, 1:].astype(np.float32), np.searchsorted(series.labels, rows[:, 0]).astype(np.int64)


def prepared(x: np.ndarray, name: str) -> np.ndarray:
    """Return series (N, 1, length), each with mean 0 and standard deviation 1; a constant series becomes 0."""
    if not SETS[name].normalised:
        x = x.astype(np.float64)
        x = x - x.mean(axis=1, keepdims=True)
        spread = x.std(axis=1, keepdims=True)
        x = (x / np.where(spread > 0, spread, 1)).astype(np.float32)
    return x[:, None]
