"""MNIST (LeCun et al. 1998): 60,000 + 10,000 handwritten digits of 28 x 28, from the official files."""

from __future__ import annotations

from pathlib import Path

from zerocross.data.dataset import Dataset
from zerocross.data.idx import load_idx
from zerocross.data.layout import mnist_folder, required

CLASSES = tuple(str(digit) for digit in range(10))


def load(data_dir: str | Path | None = None, *, validate: bool = False, train_size: int | None = None) -> Dataset:
    """Load MNIST.

    Args:
        data_dir: the folder with mnist/ (or torchvision's MNIST/raw/), or that folder itself.
        validate: train on nine tenths of the training images and evaluate on the other tenth, stratified, always the
            same; the test files are not opened.
        train_size: train on this number of images only, the same number of each class; a multiple of 10. None: all.
    """
    folder = required("mnist", data_dir, mnist_folder)
    return load_idx("mnist", "MNIST", folder, CLASSES, validate=validate, train_size=train_size)
