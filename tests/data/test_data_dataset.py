"""`from_tensors`, `load`, the digits dataset and held-out parts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from zerocross.data import NAMES, Dataset, Split, from_tensors, load
from zerocross.data.dataset import statistics
from zerocross.data.splits import held_out

IMAGES, LABELS = torch.zeros(6, 3, 8, 8, dtype=torch.uint8), torch.tensor([0, 1, 2, 0, 1, 2])


def rows(dataset: Dataset) -> tuple[set[bytes], set[bytes]]:
    assert isinstance(dataset.train, Split)
    assert isinstance(dataset.evaluation, Split)
    return tuple({x.numpy().tobytes() for x in part.inputs} for part in (dataset.train, dataset.evaluation))  # pyright: ignore[reportReturnType]


def test_custom_data_takes_ten_lines() -> None:
    x, y = np.random.default_rng(0).normal(3, 2, (100, 5)), np.arange(100) % 4
    dataset = from_tensors(x[:80], y[:80], x[80:], y[80:])
    assert (dataset.num_classes, dataset.input_size, dataset.class_names) == (4, (5,), ("0", "1", "2", "3"))
    batches = dataset.train_batches(80, seed=0)
    values = next(batches.epoch(0))[0]
    assert abs(float(values.mean())) < 1e-5
    assert abs(float(values.std(correction=0)) - 1) < 1e-5
    assert sum(len(y) for _, y in dataset.eval_batches(7).epoch()) == 20


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"train_x": IMAGES[:, 0]}, r"train_x has shape \(6, 8, 8\)"),
        ({"test_x": IMAGES.int()}, r"test_x is torch.int32; it must be uint8"),
        ({"train_x": IMAGES.float() / 0}, "not finite"),
        ({"train_y": LABELS.float()}, "train_y is torch.float32; it must have integers"),
        ({"test_y": LABELS[:5]}, r"test_y has shape \(5,\) for 6 samples"),
        ({"train_y": LABELS - 1}, "train_y contains label -1"),
        ({"test_x": IMAGES[:, :1]}, "make them the same"),
        ({"test_x": IMAGES.float()}, "make them the same"),
        ({"train_x": IMAGES[:0], "train_y": LABELS[:0]}, "at least one"),
        ({"class_names": ["a", "b"]}, r"label 2 is outside 0\.\.1"),
        ({"mean": (0.5, 0.5)}, "mean and std have 2 and 3 values; they must have 1 or 3"),
        ({"std": (1.0, 0.0, 1.0)}, "must be above 0"),
    ],
)
def test_from_tensors_reports_invalid_arguments(change: dict, words: str) -> None:
    good: dict[str, Any] = {"train_x": IMAGES, "train_y": LABELS, "test_x": IMAGES, "test_y": LABELS}
    with pytest.raises(ValueError, match=words):
        from_tensors(**(good | change))


def test_statistics_are_exact() -> None:
    x = torch.randint(0, 256, (50, 3, 7, 5), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    values = (x.double() / 255).transpose(0, 1).flatten(1)
    mean, std = statistics(x)
    np.testing.assert_allclose(mean, values.mean(1), rtol=1e-12)
    np.testing.assert_allclose(std, values.std(1, correction=0), rtol=1e-12)
    np.testing.assert_allclose(statistics(values.float().T)[0], [values.mean()], rtol=1e-6)
    assert statistics(torch.full((4, 1, 2, 2), 255, dtype=torch.uint8)) == ((1.0,), (1.0,))


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 4), min_size=5, max_size=120), st.floats(0.05, 0.5))
def test_a_held_out_part_has_its_share_of_each_class(labels: list[int], share: float) -> None:
    targets = torch.tensor(labels)
    kept, held = held_out(targets, share)
    assert torch.equal(torch.cat([kept, held]).sort().values, torch.arange(len(labels)))
    for label in set(labels):
        members = labels.count(label)
        # The only sample of a class is kept for training.
        expected = max(1, round(share * members)) if members > 1 else 0
        assert int((targets[held] == label).sum()) == expected
    assert all(torch.equal(a, b) for a, b in zip((kept, held), held_out(targets, share), strict=True))


def test_digits() -> None:
    dataset = load("digits")
    assert (len(dataset.train), len(dataset.evaluation), dataset.evaluated_on) == (1438, 359, "test")
    assert (dataset.input_size, dataset.num_classes, dataset.augment) == ((1, 8, 8), 10, "none")
    train, test = rows(dataset)
    assert not train & test
    assert isinstance(dataset.train, Split)
    assert len(dataset.train.inputs.unique()) == 17  # values 0..16 remain distinct
    assert int(dataset.train.inputs.max()) == 255
    counts = dataset.evaluation.targets.bincount()
    assert int(counts.max() - counts.min()) <= 3
    searched = load("digits", validate=True)
    assert searched.evaluated_on == "validation"
    kept, validation = rows(searched)
    assert kept | validation == train
    assert not (kept | validation) & test
    assert len(searched.train) + len(searched.evaluation) == 1438


def test_load_reports_invalid_arguments() -> None:
    with pytest.raises(ValueError, match=f"'svhn' is unknown; choose one of {', '.join(NAMES)}"):
        load("svhn")
    with pytest.raises(ValueError, match="audiomnist has no option 'folds'; it has fold, features, progress"):
        load("audiomnist", "nowhere", folds=2)
    for name in ("cifar10", "audiomnist", "imagenet"):
        with pytest.raises(ValueError, match="set data_dir"):
            load(name)
        with pytest.raises(FileNotFoundError, match=f"zerocross data fetch {name}"):
            load(name, "/nonexistent")
