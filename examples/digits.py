"""The data and the network of the examples: scikit-learn's 8 x 8 scans of digits, and a small binary CNN."""

from __future__ import annotations

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from zerocross.nn import BinaryConv2d

TRAIN = 1437  # of 1,797 scans, as in scikit-learn's own split of 80 %


def load() -> tuple[TensorDataset, tuple[Tensor, Tensor]]:
    """Return the training set, and images and labels of the test set; pixels lie in [-1, 1]."""
    images, labels = load_digits(return_X_y=True)
    x = torch.tensor(images / 8 - 1, dtype=torch.float32).view(-1, 1, 8, 8)
    y = torch.tensor(labels)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
    train, test = order[:TRAIN], order[TRAIN:]
    return TensorDataset(x[train], y[train]), (x[test], y[test])


def network(seed: int = 0) -> nn.Sequential:
    """Return a CNN whose two inner convolutions are binary: weights and inputs are -1 and +1."""
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16),
        BinaryConv2d(16, 32, 3, padding=1, sign_input="polynomial"), nn.MaxPool2d(2), nn.BatchNorm2d(32),
        BinaryConv2d(32, 32, 3, padding=1, sign_input="polynomial"), nn.MaxPool2d(2), nn.BatchNorm2d(32),
        nn.Flatten(), nn.Linear(128, 10),
    )  # fmt: skip
