"""HAPT from files in the official layout: windows lie inside segments, and people are in one part only."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from zerocross.data import Split, hapt, load

# experiment, user, activity, first, last; windows of 128, 64 apart
SEGMENTS = [
    (1, 1, 5, 10, 10 + 127),  # exactly one window
    (1, 1, 7, 138, 138 + 126),  # one sample too short: no window
    (2, 3, 1, 0, 128 + 64 - 1),  # two windows
    (3, 2, 12, 5, 5 + 128 + 63 - 1),  # one sample short of two: one window
]


@pytest.fixture
def recordings(tmp_path: Path) -> dict[tuple[str, int], np.ndarray]:
    rng, signals = np.random.default_rng(0), {}
    folder = tmp_path / "hapt" / "RawData"
    folder.mkdir(parents=True)
    for experiment, user in ((1, 1), (2, 3), (3, 2)):
        for sensor in ("acc", "gyro"):
            signals[sensor, experiment] = rng.normal(size=(300, 3)).astype(np.float32)
            np.savetxt(folder / f"{sensor}_exp{experiment:02d}_user{user:02d}.txt", signals[sensor, experiment], "%.9g")
    np.savetxt(folder / "labels.txt", SEGMENTS, "%d")
    return signals


@pytest.mark.parametrize("depth", ["", "hapt", "hapt/RawData"])
def test_windows_lie_inside_the_segments(
    tmp_path: Path, recordings: dict[tuple[str, int], np.ndarray], depth: str
) -> None:
    dataset = load("hapt", tmp_path / depth)
    assert isinstance(dataset.train, Split)
    assert isinstance(dataset.evaluation, Split)
    both = {e: np.concatenate([recordings["acc", e], recordings["gyro", e]], axis=1) for e in (1, 2, 3)}
    expected = [both[1][10:138].T, both[2][0:128].T, both[2][64:192].T]
    np.testing.assert_array_equal(dataset.train.inputs.numpy(), np.stack(expected))
    assert dataset.train.targets.tolist() == [4, 0, 0]
    # User 2 is in the test part.
    np.testing.assert_array_equal(dataset.evaluation.inputs.numpy(), both[3][5:133].T[None])
    assert dataset.evaluation.targets.tolist() == [11]
    assert (dataset.input_size, dataset.num_classes, len(dataset.mean)) == ((6, 128), 12, 6)


def test_validation_holds_out_people_and_does_not_read_the_test_people(
    tmp_path: Path, recordings: dict[tuple[str, int], np.ndarray]
) -> None:
    del recordings
    for path in (tmp_path / "hapt" / "RawData").glob("*_user02.txt"):
        path.unlink()
    dataset = load("hapt", tmp_path, validate=True)
    assert dataset.train.targets.tolist() == [4]
    assert dataset.evaluation.targets.tolist() == [0, 0]  # user 3
    with pytest.raises(FileNotFoundError, match=r"acc_exp03_user02\.txt, which labels\.txt refers to, is missing"):
        load("hapt", tmp_path)


def test_no_person_is_in_both_parts() -> None:
    assert not set(hapt.VALIDATION_PEOPLE) & set(hapt.TEST_PEOPLE)
    assert set(hapt.VALIDATION_PEOPLE + hapt.TEST_PEOPLE) < set(range(1, 31))


def _text(name: str, text: str) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_text(text)


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (_text("labels.txt", "1 1 5 10\n"), "a row must have five numbers"),
        (_text("labels.txt", "1 1 5 x 9\n"), "is damaged"),
        (_text("labels.txt", "1 1 13 10 200\n"), r"activities outside 1\.\.12"),
        (_text("labels.txt", "1 1 5 10 400\n"), "reaches sample 400 of 300 of experiment 1"),
        (_text("labels.txt", "1 1 5 10 20\n"), "no segment of 128 samples"),
        (_text("labels.txt", "1 1 5 10 200\n"), "training or evaluation people are missing"),
        (_text("gyro_exp01_user01.txt", "1 2\n"), "three finite numbers"),
        (_text("gyro_exp01_user01.txt", "1 2 nan\n"), "three finite numbers"),
        (_text("gyro_exp01_user01.txt", "1 2 3\n"), "300 acc and 1 gyro samples"),
    ],
)
def test_damaged_files_are_reported(
    tmp_path: Path, recordings: dict[tuple[str, int], np.ndarray], damage: Callable[[Path], object], words: str
) -> None:
    del recordings
    damage(tmp_path / "hapt" / "RawData")
    with pytest.raises(ValueError, match=words):
        load("hapt", tmp_path)


@pytest.mark.data
def test_real_recordings_give_the_published_windows(real_data: Path) -> None:
    if not (real_data / "hapt").is_dir():
        pytest.skip(f"no hapt in {real_data}")
    dataset = load("hapt", real_data)
    assert (len(dataset.train), len(dataset.evaluation)) == (7_767, 3_162)
    for part in (dataset.train, dataset.evaluation):
        assert set(part.targets.tolist()) == set(range(12))
    chosen = load("hapt", real_data, validate=True)
    assert (len(chosen.train), len(chosen.evaluation)) == (6_035, 1_732)
    assert set(chosen.evaluation.targets.tolist()) == set(range(12))
