"""IDX files, the layout of MNIST and Fashion-MNIST: 28 x 28 grey images and their labels, compressed or not."""

from __future__ import annotations

import gzip
import struct
import zlib
from pathlib import Path

import numpy as np
import torch

from zerocross.data.dataset import Dataset, from_tensors
from zerocross.data.splits import even_part, held_out

SIDE = 28
TRAIN, TEST = "train", "t10k"
IMAGES = {TRAIN: 60_000, TEST: 10_000}
UNSIGNED_BYTE = 8  # the only type of values in these files
VALIDATION_SHARE = 0.1  # of the training images: 6,000


def load_idx(
    name: str, title: str, folder: Path, classes: tuple[str, ...], *, validate: bool, train_size: int | None
) -> Dataset:
    """Load a dataset from the four files of MNIST.

    Args:
        name: name of the dataset.
        title: its usual spelling.
        folder: folder of the files.
        classes: names of the classes, by label.
        validate: hold out a tenth of each class of the training images, and evaluate on it; test files are not opened.
        train_size: train on this number of images only, the same number of each class, always the same. None: all.
    """
    x, y = read_part(folder, TRAIN, name)
    if validate:
        kept, held = held_out(y, VALIDATION_SHARE)
        train, evaluation = (x[kept], y[kept]), (x[held], y[held])
    else:
        train, evaluation = (x, y), read_part(folder, TEST, name)
    if train_size is not None:
        chosen = even_part(train[1], train_size, len(classes))
        train = train[0][chosen], train[1][chosen]
    return from_tensors(
        *train,
        *evaluation,
        name=name,
        class_names=classes,
        evaluated_on="validation" if validate else "test",
        source=title + (f", {train_size:,} training images" if train_size is not None else ""),
        preprocess={"kind": "image", "resize": SIDE},
    )


def read_part(folder: Path, part: str, name: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Read images (N, 1, 28, 28) uint8 and labels (N,) int64 of "train" or "t10k"."""
    count = IMAGES[part]
    images = read(_file(folder, f"{part}-images-idx3-ubyte", name), (count, SIDE, SIDE), name)
    labels = read(_file(folder, f"{part}-labels-idx1-ubyte", name), (count,), name)
    if labels.max() > 9:
        raise ValueError(f"{folder}: {part} labels reach {labels.max()}; {name} has 0..9: fetch it again")
    return torch.from_numpy(images[:, None]), torch.from_numpy(labels.astype(np.int64))


def read(path: Path, shape: tuple[int, ...], name: str) -> np.ndarray:
    """Read the uint8 array of an IDX file, which must have this shape."""
    header = struct.Struct(f">HBB{len(shape)}I")  # zero, type, number of dimensions, dimensions
    wanted = header.size + int(np.prod(shape))
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            data = file.read(wanted + 1)  # no more, even if a compressed file is larger
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{path} is damaged ({error}): {_again(path, name)}") from error
    expected = (0, UNSIGNED_BYTE, len(shape), *shape)
    if len(data) < header.size or header.unpack_from(data) != expected:
        raise ValueError(f"{path} is not an IDX file of bytes {' x '.join(map(str, shape))}: {_again(path, name)}")
    if len(data) != wanted:
        state = "is truncated" if len(data) < wanted else "is too long"
        raise ValueError(f"{path} {state}: {name}'s file has {wanted:,} bytes uncompressed: {_again(path, name)}")
    return np.frombuffer(data, np.uint8, offset=header.size).reshape(shape).copy()


def _file(folder: Path, stem: str, name: str) -> Path:
    for path in (folder / f"{stem}.gz", folder / stem):
        if path.is_file():
            return path
    raise FileNotFoundError(f"{folder / stem}.gz is missing: run `zerocross data fetch {name}`")


def _again(path: Path, name: str) -> str:
    return f"move {path.name} away and run `zerocross data fetch {name}`"
