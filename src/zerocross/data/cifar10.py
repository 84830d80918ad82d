"""CIFAR-10 (Krizhevsky 2009): 50,000 + 10,000 images of 32 x 32, from the official binary or python version."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from zerocross.data.dataset import Dataset, from_tensors
from zerocross.data.layout import CIFAR10_TEST, CIFAR10_TRAIN, cifar10_folder, cifar10_kind, required
from zerocross.data.restricted_pickle import read_batch
from zerocross.data.splits import even_part, held_out

CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)  # of the 50,000 training images
IMAGES_PER_FILE = 10_000
PIXELS = 3 * 32 * 32
VALIDATION_SHARE = 0.1  # of the training images: 5,000, 500 per class


def load(data_dir: str | Path | None = None, *, validate: bool = False, train_size: int | None = None) -> Dataset:
    """Load CIFAR-10 from its official files.

    Args:
        data_dir: the folder of batches (cifar-10-batches-bin or -py), its parent, or a folder with cifar10/.
        validate: train on 45,000 of the training images and evaluate on the other 5,000 (500 per class, always the
            same); the test file is not opened.
        train_size: train on this number of images only, the same number of each class, always the same images; a
            multiple of 10, less than all. None: train on all.
    """
    folder = required("cifar10", data_dir, cifar10_folder)
    parts = [_read(folder, name) for name in CIFAR10_TRAIN]
    x, y = (torch.from_numpy(np.concatenate(arrays)) for arrays in zip(*parts, strict=True))
    if validate:
        kept, held = held_out(y, VALIDATION_SHARE)
        train, evaluation = (x[kept], y[kept]), (x[held], y[held])
    else:
        test = _read(folder, CIFAR10_TEST)
        train, evaluation = (x, y), (torch.from_numpy(test[0]), torch.from_numpy(test[1]))
    if train_size is not None:
        chosen = even_part(train[1], train_size, len(CLASSES))
        train = train[0][chosen], train[1][chosen]
    return from_tensors(
        *train,
        *evaluation,
        name="cifar10",
        class_names=CLASSES,
        mean=MEAN,
        std=STD,
        augment="crop-flip",
        evaluated_on="validation" if validate else "test",
        source=f"CIFAR-10, {cifar10_kind(folder)} version"
        + (f", {train_size:,} training images" if train_size is not None else ""),
        preprocess={"kind": "image", "resize": 32},
    )


def _read(folder: Path, name: str) -> tuple[np.ndarray, np.ndarray]:
    binary = cifar10_kind(folder) == "binary"
    path = folder / (f"{name}.bin" if binary else name)
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing; move {folder} away and run `zerocross data fetch cifar10`")
    pixels, labels = _read_binary(path) if binary else read_batch(path)
    if pixels.shape != (IMAGES_PER_FILE, PIXELS) or labels.shape != (IMAGES_PER_FILE,):
        raise ValueError(
            f"{path} contains pixels {pixels.shape} and labels {labels.shape}; "
            f"CIFAR-10 has {IMAGES_PER_FILE} images of {PIXELS} bytes per file: fetch it again"
        )
    if not ((labels >= 0) & (labels < len(CLASSES))).all():
        raise ValueError(f"{path} contains labels {labels.min()}..{labels.max()}; CIFAR-10 has 0..9: fetch it again")
    return pixels.reshape(-1, 3, 32, 32), labels


def _read_binary(path: Path) -> tuple[np.ndarray, np.ndarray]:
    wanted = IMAGES_PER_FILE * (1 + PIXELS)  # one label byte, then the red, green and blue planes
    size = path.stat().st_size
    if size != wanted:
        raise ValueError(f"{path} has {size} bytes, CIFAR-10's files have {wanted}: fetch it again")
    rows = np.fromfile(path, dtype=np.uint8).reshape(-1, 1 + PIXELS)
    return np.ascontiguousarray(rows[:, 1:]), rows[:, 0].astype(np.int64)
