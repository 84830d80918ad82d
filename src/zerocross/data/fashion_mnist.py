"""Fashion-MNIST (Xiao et al. 2017): 60,000 + 10,000 pictures of clothes, 28 x 28 grey, from the official files."""

from __future__ import annotations

from pathlib import Path

from zerocross.data.dataset import Dataset
from zerocross.data.idx import load_idx
from zerocross.data.layout import fashion_mnist_folder, required

CLASSES = (
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
)  # fmt: skip


def load(data_dir: str | Path | None = None, *, validate: bool = False, train_size: int | None = None) -> Dataset:
    """Load Fashion-MNIST.

    Args:
        data_dir: the folder with fashion-mnist/ (or torchvision's FashionMNIST/raw/), or that folder itself.
        validate: train on 54,000 of the training images and evaluate on the other 6,000 (600 per class, always the
            same); the test files are not opened.
        train_size: train on this number of images only, the same number of each class; a multiple of 10. None: all.
    """
    folder = required("fashion-mnist", data_dir, fashion_mnist_folder)
    return load_idx("fashion-mnist", "Fashion-MNIST", folder, CLASSES, validate=validate, train_size=train_size)
