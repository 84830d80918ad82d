"""Datasets of the UCR archive from files in its layout: labels from 0, normalised, no series in both parts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from zerocross.data import Split, load, ucr

SMALL = {
    "ECG5000": ucr.Series(20, 12, 9, 3),
    "Crop": ucr.Series(20, 12, 9, 3, normalised=False),
    "Wafer": ucr.Series(20, 12, 9, 2, signed=True),
}


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    if request.node.get_closest_marker("data") is None:
        monkeypatch.setattr(ucr, "SETS", SMALL)


def write(home: Path, name: str, *, repeated: int = 0) -> dict[str, np.ndarray]:
    """Write random datasets; the first `repeated` training series are also in the test part, with their labels."""
    series, rng = SMALL[name], np.random.default_rng(0)
    rows = {}
    for part, count in (("TRAIN", series.train), ("TEST", series.test)):
        labels = np.resize(series.labels, count)
        rows[part] = np.column_stack([labels, rng.normal(3, 2, (count, series.length)).astype(np.float32)])
    rows["TEST"][:repeated] = rows["TRAIN"][:repeated]
    (home / name).mkdir(parents=True)
    for part, values in rows.items():
        np.savetxt(home / name / f"{name}_{part}.tsv", values, delimiter="\t", fmt="%.9g")
    return rows


def parts(name: str, home: Path, **options: bool) -> tuple[Split, Split]:
    dataset = load("ucr", home, set=name, **options)
    assert isinstance(dataset.train, Split)
    assert isinstance(dataset.evaluation, Split)
    return dataset.train, dataset.evaluation


@pytest.mark.parametrize("home", ["ucr", "UCRArchive_2018"])
@pytest.mark.parametrize("name", ["ECG5000", "Wafer"])
def test_series_and_labels_equal_those_of_the_files(tmp_path: Path, name: str, home: str) -> None:
    rows = write(tmp_path / home, name)
    for split, values in zip(parts(name, tmp_path), rows.values(), strict=True):
        np.testing.assert_array_equal(split.inputs.numpy()[:, 0], values[:, 1:].astype(np.float32))
        expected = {label: index for index, label in enumerate(sorted(set(values[:, 0])))}
        assert split.targets.tolist() == [expected[label] for label in values[:, 0]]
    assert load("ucr", tmp_path, set=name).input_size == (1, 9)


def test_crop_is_normalised_per_series(tmp_path: Path) -> None:
    rows = write(tmp_path / "ucr", "Crop")
    train, _ = parts("Crop", tmp_path)
    for ours, raw in zip(train.inputs.numpy()[:, 0], rows["TRAIN"][:, 1:], strict=True):
        np.testing.assert_allclose(ours, (raw - raw.mean()) / raw.std(), atol=1e-6)
    constant = np.full((1, 9), 7, dtype=np.float32)
    assert not ucr.prepared(constant, "Crop").any()


def test_training_series_are_not_evaluated_on(tmp_path: Path) -> None:
    rows = write(tmp_path / "ucr", "ECG5000", repeated=4)
    train, evaluation = parts("ECG5000", tmp_path)
    assert (len(train), len(evaluation)) == (20, 8)
    np.testing.assert_array_equal(evaluation.inputs.numpy()[:, 0], rows["TEST"][4:, 1:].astype(np.float32))
    assert "evaluated without 4 series that are trained on" in load("ucr", tmp_path, set="ECG5000").source


def test_validation_does_not_open_the_test_file_and_shares_no_series(tmp_path: Path) -> None:
    rows = write(tmp_path / "ucr", "ECG5000")
    (tmp_path / "ucr" / "ECG5000" / "ECG5000_TEST.tsv").unlink()
    train, held = parts("ECG5000", tmp_path, validate=True)
    assert held.targets.bincount().tolist() == [1, 1, 1]
    assert len(train) + len(held) == 20
    rows["TRAIN"][:, 1:] = rows["TRAIN"][0, 1:]  # all equal: none remains for evaluation
    np.savetxt(tmp_path / "ucr/ECG5000/ECG5000_TRAIN.tsv", rows["TRAIN"], delimiter="\t", fmt="%.9g")
    with pytest.raises(ValueError, match="at least one"):
        load("ucr", tmp_path, set="ECG5000", validate=True)
    with pytest.raises(FileNotFoundError, match="ECG5000_TEST"):
        load("ucr", tmp_path, set="ECG5000")


def test_a_part_of_the_training_series_in_proportion(tmp_path: Path) -> None:
    write(tmp_path / "ucr", "ECG5000", repeated=4)
    train, evaluation = parts("ECG5000", tmp_path)
    some, same = (load("ucr", tmp_path, set="ECG5000", train_size=10) for _ in range(2))
    assert isinstance(some.train, Split)
    assert isinstance(same.train, Split)
    assert isinstance(some.evaluation, Split)
    assert np.bincount(train.targets.numpy()).tolist() == [7, 7, 6]
    assert all(3 <= count <= 4 for count in np.bincount(some.train.targets.numpy()))
    whole = {bytes(row) for row in train.inputs.numpy()}
    assert {bytes(row) for row in some.train.inputs.numpy()} < whole
    assert some.train.inputs.equal(same.train.inputs)
    assert some.evaluation.inputs.equal(evaluation.inputs)  # without those of all training series
    assert f"{len(some.train.targets)} training series" in some.source
    with pytest.raises(ValueError, match="train_size is 20; ECG5000 has 20 series to train on, so it must be at least"):
        load("ucr", tmp_path, set="ECG5000", train_size=20)


def test_the_only_series_of_a_class_is_trained_on(tmp_path: Path) -> None:
    rows = write(tmp_path / "ucr", "ECG5000")["TRAIN"]
    rows[:, 0] = [3] + [1, 2] * 9 + [1]
    np.savetxt(tmp_path / "ucr/ECG5000/ECG5000_TRAIN.tsv", rows, delimiter="\t", fmt="%.9g")
    train, held = parts("ECG5000", tmp_path, validate=True)
    assert train.targets.tolist().count(2) == 1
    assert held.targets.bincount().tolist() == [2, 2]


@pytest.mark.parametrize(
    ("text", "words"),
    [("1\t2\n", "has 1 rows of 2 numbers"), ("1\tx\n", "is damaged"), (None, "labels other than 1, 2, 3")],
)
def test_damaged_files_are_named(tmp_path: Path, text: str | None, words: str) -> None:
    rows = write(tmp_path / "ucr", "ECG5000")["TRAIN"]
    path = tmp_path / "ucr" / "ECG5000" / "ECG5000_TRAIN.tsv"
    rows[0, 0] = 4
    np.savetxt(path, rows, delimiter="\t", fmt="%.9g")
    if text is not None:
        path.write_text(text)
    with pytest.raises(ValueError, match=words) as raised:
        load("ucr", tmp_path, set="ECG5000")
    assert str(path) in str(raised.value)


def test_unknown_set_and_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="set 'Coffee' is unknown; choose one of ECG5000, Crop, Wafer"):
        load("ucr", tmp_path, set="Coffee")
    with pytest.raises(FileNotFoundError, match=r"no ucr in .*ECG5000_TRAIN\.tsv"):
        load("ucr", tmp_path, set="ECG5000")


@pytest.mark.data
@pytest.mark.parametrize("name", ucr.SETS)
def test_real_sets(real_data: Path, name: str) -> None:
    if not (real_data / "ucr" / name).is_dir():
        pytest.skip(f"no UCR set {name} in {real_data}")
    dataset, series = load("ucr", real_data, set=name), ucr.SETS[name]
    dropped = {"Crop": 2_753, "ElectricDevices": 208}.get(name, 0)
    assert (len(dataset.train), len(dataset.evaluation)) == (series.train, series.test - dropped)
    assert set(dataset.train.targets.tolist()) == set(range(series.classes))
    inputs = dataset.evaluation.inputs.double()  # type: ignore[attr-defined]
    assert float(inputs.mean(2).abs().max()) < 1e-4
    spread = inputs.std(2, unbiased=True)
    # Population or sample standard deviation, depending on the dataset.
    assert float(((spread - 1).abs() * (spread > 0)).max()) < 0.03
