"""MNIST and Fashion-MNIST from files in their official layout."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from zerocross.data import idx, load

COUNTS = {"train": 200, "t10k": 50}


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    if request.node.get_closest_marker("data") is None:
        monkeypatch.setattr(idx, "IMAGES", COUNTS)


def encoded(array: np.ndarray) -> bytes:
    return struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.tobytes()


def write(folder: Path, *, compressed: bool = True, seed: int = 0) -> dict[str, np.ndarray]:
    folder.mkdir(parents=True)
    rng = np.random.default_rng(seed)
    arrays = {}
    for part, count in COUNTS.items():
        arrays[f"{part}-images-idx3-ubyte"] = rng.integers(0, 256, (count, 28, 28), dtype=np.uint8)
        arrays[f"{part}-labels-idx1-ubyte"] = np.arange(count, dtype=np.uint8) % 10
    for name, array in arrays.items():
        data = encoded(array)
        (folder / (f"{name}.gz" if compressed else name)).write_bytes(gzip.compress(data) if compressed else data)
    return arrays


@pytest.mark.parametrize("compressed", [True, False])
@pytest.mark.parametrize(
    ("name", "folder"),
    [("mnist", "mnist"), ("mnist", "MNIST/raw"), ("fashion-mnist", "fashion-mnist")],
)
def test_images_and_labels_equal_those_of_the_files(tmp_path: Path, name: str, folder: str, compressed: bool) -> None:
    arrays = write(tmp_path / folder, compressed=compressed)
    dataset = load(name, tmp_path)
    for part, key in ((dataset.train, "train"), (dataset.evaluation, "t10k")):
        np.testing.assert_array_equal(part.inputs.numpy()[:, 0], arrays[f"{key}-images-idx3-ubyte"])  # type: ignore[attr-defined]
        np.testing.assert_array_equal(part.targets.numpy(), arrays[f"{key}-labels-idx1-ubyte"])
    assert (dataset.input_size, dataset.num_classes, dataset.evaluated_on) == ((1, 28, 28), 10, "test")
    assert dataset.preprocess == {"kind": "image", "resize": 28}
    assert dataset.mean[0] == pytest.approx(arrays["train-images-idx3-ubyte"].mean() / 255, abs=1e-12)


def test_validation_is_stratified_and_does_not_open_the_test_files(tmp_path: Path) -> None:
    write(tmp_path / "mnist")
    for file in (tmp_path / "mnist").glob("t10k*"):
        file.unlink()
    dataset = load("mnist", tmp_path, validate=True)
    assert dataset.train.targets.bincount().tolist() == [18] * 10
    assert dataset.evaluation.targets.bincount().tolist() == [2] * 10
    with pytest.raises(FileNotFoundError, match=r"t10k-images-idx3-ubyte\.gz is missing: run `zerocross data fetch"):
        load("mnist", tmp_path)


def test_a_part_of_the_training_images_is_balanced(tmp_path: Path) -> None:
    write(tmp_path / "mnist")
    one, other = (load("mnist", tmp_path, train_size=50) for _ in range(2))
    assert one.train.targets.bincount().tolist() == [5] * 10
    assert torch.equal(one.train.inputs, other.train.inputs)  # type: ignore[attr-defined]
    assert "50 training images" in one.source
    for size in (200, 201, 5, 0):
        with pytest.raises(ValueError, match=f"train_size is {size}; it must be a multiple of 10 below the 200"):
            load("mnist", tmp_path, train_size=size)


def test_the_two_datasets_are_distinguished_by_their_folder(tmp_path: Path) -> None:
    """Their files have the same names and sizes, and must never be confused."""
    write(tmp_path / "fashion-mnist")
    assert load("fashion-mnist", tmp_path / "fashion-mnist").name == "fashion-mnist"
    with pytest.raises(FileNotFoundError, match="no mnist in"):
        load("mnist", tmp_path / "fashion-mnist")
    with pytest.raises(FileNotFoundError, match="no mnist in"):
        load("mnist", tmp_path)


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda data: gzip.compress(data)[:-20], "is damaged"),
        (lambda _: b"no gzip at all", "is damaged"),
        (lambda data: gzip.compress(data[:-1]), "is truncated"),
        (lambda data: gzip.compress(data + b"1"), "is too long"),
        (lambda data: gzip.compress(data[:2] + b"\x0d" + data[3:]), "is not an IDX file of bytes 200"),
        (lambda _: gzip.compress(b""), "is not an IDX file of bytes 200"),
        (lambda data: gzip.compress(data[:-1] + b"\x0a"), "labels reach 10"),
    ],
)
def test_damaged_files_are_named(tmp_path: Path, damage: Callable[[bytes], bytes], words: str) -> None:
    arrays = write(tmp_path / "mnist")
    labels = encoded(arrays["train-labels-idx1-ubyte"])
    (tmp_path / "mnist" / "train-labels-idx1-ubyte.gz").write_bytes(damage(labels))
    with pytest.raises(ValueError, match=words) as raised:
        load("mnist", tmp_path)
    assert "mnist" in str(raised.value)


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "mean", "std"), [("mnist", 0.1307, 0.3081), ("fashion-mnist", 0.2860, 0.3530)], ids=["mnist", "fashion"]
)
def test_real_files(real_data: Path, name: str, mean: float, std: float) -> None:
    """Mean and standard deviation are the commonly quoted ones."""
    if not (real_data / name).is_dir():
        pytest.skip(f"no {name} in {real_data}")
    dataset = load(name, real_data)
    assert (len(dataset.train), len(dataset.evaluation)) == (60_000, 10_000)
    assert (round(dataset.mean[0], 4), round(dataset.std[0], 4)) == (mean, std)
