"""CIFAR-10 from both official layouts; pickled batches are read without trusting them."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reference import python2_pickle
from zerocross.data import Dataset, Split, cifar10, load
from zerocross.data.layout import CIFAR10_TEST, CIFAR10_TRAIN
from zerocross.data.restricted_pickle import read_batch

IMAGES = 20


@pytest.fixture
def batches(monkeypatch: pytest.MonkeyPatch) -> dict[str, tuple[np.ndarray, list[int]]]:
    monkeypatch.setattr(cifar10, "IMAGES_PER_FILE", IMAGES)
    rng = np.random.default_rng(0)
    names = (*CIFAR10_TRAIN, CIFAR10_TEST)
    return {n: (rng.integers(0, 256, (IMAGES, 3072), dtype=np.uint8), [i % 10 for i in range(IMAGES)]) for n in names}


def write_binary(folder: Path, batches: dict[str, tuple[np.ndarray, list[int]]]) -> Path:
    folder.mkdir(parents=True)
    for name, (pixels, labels) in batches.items():
        rows = np.concatenate([np.array(labels, dtype=np.uint8)[:, None], pixels], axis=1)
        (folder / f"{name}.bin").write_bytes(rows.tobytes())
    return folder


def write_python(folder: Path, batches: dict[str, tuple[np.ndarray, list[int]]], how: str) -> Path:
    folder.mkdir(parents=True)
    for name, (pixels, labels) in batches.items():
        data = np.asfortranarray(pixels) if name == "data_batch_4" else pixels
        content = {"batch_label": b"a batch", "labels": labels, "data": data, "filenames": [b"a.png"] * IMAGES}
        if how == "python2":
            written = python2_pickle.dumps({key.encode(): value for key, value in content.items()})
        else:
            written = pickle.dumps(content, protocol=2)
        (folder / name).write_bytes(written)
    return folder


def inputs(dataset: Dataset) -> tuple[np.ndarray, np.ndarray]:
    assert isinstance(dataset.train, Split)
    assert isinstance(dataset.evaluation, Split)
    return dataset.train.inputs.numpy(), dataset.evaluation.inputs.numpy()


@pytest.mark.parametrize("depth", ["", "..", "../.."])
@pytest.mark.parametrize("layout", ["binary", "python2", "python3"])
def test_layouts_agree_and_three_folder_levels_are_accepted(
    tmp_path: Path, batches: dict[str, tuple[np.ndarray, list[int]]], layout: str, depth: str
) -> None:
    home = tmp_path / "cifar10"
    if layout == "binary":
        folder = write_binary(home / "cifar-10-batches-bin", batches)
    else:
        folder = write_python(home / "cifar-10-batches-py", batches, layout)
    dataset = load("cifar10", (folder / depth).resolve())
    train, test = inputs(dataset)
    np.testing.assert_array_equal(train.reshape(-1, 3072), np.concatenate([batches[n][0] for n in CIFAR10_TRAIN]))
    np.testing.assert_array_equal(test.reshape(-1, 3072), batches[CIFAR10_TEST][0])
    assert dataset.train.targets.tolist() == batches["data_batch_1"][1] * 5
    assert (dataset.class_names[3], dataset.augment, dataset.num_classes) == ("cat", "crop-flip", 10)
    assert layout.rstrip("23") in dataset.source


def test_validation_does_not_open_the_test_file(tmp_path: Path, batches: dict) -> None:
    folder = write_binary(tmp_path / "cifar-10-batches-bin", batches)
    (folder / "test_batch.bin").unlink()
    dataset = load("cifar10", tmp_path, validate=True)
    assert (len(dataset.train), len(dataset.evaluation), dataset.evaluated_on) == (90, 10, "validation")
    assert dataset.evaluation.targets.bincount().tolist() == [1] * 10
    with pytest.raises(FileNotFoundError, match=r"test_batch\.bin is missing"):
        load("cifar10", tmp_path)


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda data: data[:-1], "has 61459 bytes, CIFAR-10's files have 61460"),
        (lambda data: b"\x0a" + data[1:], r"labels 0\.\.10; CIFAR-10 has 0\.\.9"),
    ],
)
def test_damaged_binary_files_are_named(tmp_path: Path, batches: dict, damage: Any, words: str) -> None:
    folder = write_binary(tmp_path / "cifar-10-batches-bin", batches)
    path = folder / "data_batch_3.bin"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ValueError, match=rf"data_batch_3\.bin.*{words}"):
        load("cifar10", tmp_path)


def test_damaged_python_files_are_named(tmp_path: Path, batches: dict) -> None:
    folder = write_python(tmp_path / "cifar-10-batches-py", batches, "python3")
    path, good = folder / "data_batch_2", (folder / "data_batch_2").read_bytes()
    pixels, labels = batches["data_batch_2"]
    for content, words in (
        (good[: len(good) // 2], "is not a CIFAR-10 python batch"),
        (b"", "is not a CIFAR-10 python batch"),
        (pickle.dumps([1, 2], protocol=2), "is not a CIFAR-10 python batch"),
        (pickle.dumps({"data": pixels}, protocol=2), "'labels'"),
        (pickle.dumps({"data": pixels[:, :9], "labels": labels}, protocol=2), "contains pixels"),
        (pickle.dumps({"data": pixels, "labels": labels[1:]}, protocol=2), "contains pixels"),
        (pickle.dumps({"data": pixels, "labels": [*labels[1:], 11]}, protocol=2), r"0\.\.11"),
        (pickle.dumps({"data": pixels.astype(np.int16), "labels": labels}, protocol=2), "not plain uint8"),
        (pickle.dumps({"data": pixels.astype(object), "labels": labels}, protocol=2), "not plain uint8"),
        (pickle.dumps({"data": pixels, "labels": [*labels[1:], 0.5]}, protocol=2), "float64"),
    ):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=rf"(?s)data_batch_2.*{words}"):
            load("cifar10", tmp_path)


class Call:
    """Pickles as a call of any function with any arguments."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = (function, arguments)

    def __reduce__(self) -> Any:
        return self.call


@pytest.mark.parametrize("protocol", [0, 2, 4, 5])
@pytest.mark.parametrize("function", [os.system, eval, exec, getattr, np.load, Path, os.mkdir])
def test_a_malicious_pickle_is_refused_and_not_run(tmp_path: Path, function: Any, protocol: int) -> None:
    trap, path = tmp_path / "trap", tmp_path / "data_batch_1"
    argument = {
        os.system: f"touch {trap}",
        eval: f"open({str(trap)!r}, 'w')",
        exec: f"open({str(trap)!r}, 'w')",
        os.mkdir: str(trap),
    }.get(function, "x")
    path.write_bytes(pickle.dumps({"data": Call(function, argument), "labels": [0]}, protocol=protocol))
    with pytest.raises(ValueError, match=r"it names .*, which is not part of a numpy array.*none of its code was run"):
        read_batch(path)
    assert not trap.exists()


def test_allowed_names_cannot_be_misused(tmp_path: Path) -> None:
    """A pickle that misuses the allowed names gets inert stand-ins: numpy is never called with its arguments."""
    path = tmp_path / "data_batch_1"
    huge = np.empty((1, 1), dtype=np.uint8).__reduce__()
    state = (1, (10**6, 10**6), np.dtype("u1"), False, b"\0")

    class Huge:
        def __reduce__(self) -> Any:
            return huge[0], (np.ndarray, (10**15,), b"b"), state

    path.write_bytes(pickle.dumps({"data": Huge(), "labels": [0]}, protocol=2))
    with pytest.raises(ValueError, match="cannot reshape"):
        read_batch(path)


@pytest.mark.data
def test_real_cifar10(real_data: Path) -> None:
    dataset = load("cifar10", real_data)
    assert (len(dataset.train), len(dataset.evaluation)) == (50_000, 10_000)
    assert dataset.train.targets[:10].tolist() == [6, 9, 9, 4, 1, 1, 2, 7, 8, 3]
    assert dataset.train.targets.bincount().tolist() == [5000] * 10
    assert isinstance(dataset.train, Split)
    from zerocross.data.dataset import statistics

    mean, std = statistics(dataset.train.inputs)
    np.testing.assert_allclose(mean, cifar10.MEAN, atol=6e-5)
    np.testing.assert_allclose(std, cifar10.STD, atol=6e-5)
    searched = load("cifar10", real_data, validate=True)
    assert (len(searched.train), len(searched.evaluation)) == (45_000, 5_000)
    assert searched.evaluation.targets.bincount().tolist() == [500] * 10
