"""scikit-learn's digits: 1,797 scans of handwritten digits, 8 x 8, inside the package (no download)."""

from __future__ import annotations

from pathlib import Path

import torch

from zerocross.data.dataset import Dataset, from_tensors
from zerocross.data.splits import held_out

SHARE = 0.2  # share of the test part in each class, and of the validation part in the rest


def load(data_dir: str | Path | None = None, *, validate: bool = False) -> Dataset:
    """Load the digits: 80 % training data, 20 % test data, stratified, the same on every machine.

    Args:
        data_dir: not needed.
        validate: hold out 20 % of the training data and evaluate on it.
    """
    del data_dir
    try:
        from sklearn.datasets import load_digits
    except ModuleNotFoundError as missing:
        raise ValueError("digits are part of scikit-learn: pip install 'zerocross[train]'") from missing
    scans, labels = load_digits(return_X_y=True)
    x = torch.from_numpy(scans * 255 / 16).round().to(torch.uint8).view(-1, 1, 8, 8)  # scans have values 0..16
    y = torch.from_numpy(labels).long()
    train, evaluation = held_out(y, SHARE)
    if validate:
        kept, held = held_out(y[train], SHARE)
        train, evaluation = train[kept], train[held]
    return from_tensors(
        x[train],
        y[train],
        x[evaluation],
        y[evaluation],
        name="digits",
        class_names=[str(digit) for digit in range(10)],
        evaluated_on="validation" if validate else "test",
        source="scikit-learn digits",
        preprocess={"kind": "image", "resize": 8},
    )
