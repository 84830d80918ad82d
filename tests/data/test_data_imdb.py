"""IMDB reviews from both layouts: words, a vocabulary from the training part only, no text in both parts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from zerocross.data import Split, imdb, load

GOOD = ["A fine, FINE film!", "I loved it.<br /><br />Didn't you?", "great acting", "both parts have this one"]
BAD = ["awful film", "bad bad acting", "I slept", "rubbish"]
TEST_GOOD = ["great film", "fine acting", "both parts have this one", "loved it"]
TEST_BAD = ["unseen words only", "awful", "bad", "I slept badly"]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    if request.node.get_closest_marker("data") is None:
        monkeypatch.setattr(imdb, "REVIEWS", 8)


def write_lines(home: Path) -> None:
    home.mkdir(parents=True)
    for name, bad, good in (("train", BAD, GOOD), ("test", TEST_BAD, TEST_GOOD)):
        rows = [{"text": t, "label": 0} for t in bad] + [{"text": t, "label": 1} for t in good]
        (home / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def write_folders(home: Path) -> None:
    for name, bad, good in (("train", BAD, GOOD), ("test", TEST_BAD, TEST_GOOD)):
        for label, texts in (("neg", bad), ("pos", good)):
            (home / "aclImdb" / name / label).mkdir(parents=True)
            for index, text in enumerate(texts):
                (home / "aclImdb" / name / label / f"{index}_5.txt").write_text(text, encoding="utf-8")


def splits(home: Path, **options: Any) -> tuple[Split, Split]:
    dataset = load("imdb", home, **options)
    assert isinstance(dataset.train, Split)
    assert isinstance(dataset.evaluation, Split)
    return dataset.train, dataset.evaluation


def test_tokens() -> None:
    assert imdb.tokens(GOOD[0]) == {"a", "fine", "film", "!"}
    assert imdb.tokens(GOOD[1]) == {"i", "loved", "it", "didn't", "you", "?"}
    assert imdb.tokens("10/10 'quoted' <br/>") == {"10", "quoted"}


@pytest.mark.parametrize("write", [write_lines, write_folders])
def test_bags_of_words_equal_those_of_the_texts(tmp_path: Path, write: object) -> None:
    write(tmp_path / "imdb")  # type: ignore[operator]
    train, test = splits(tmp_path)
    trained = BAD + GOOD[:3]  # the fourth is also in the test part
    vocabulary = imdb.most_frequent([imdb.tokens(text) for text in trained], 100)
    assert vocabulary[:4] == ["acting", "film", "i", "!"]  # twice each, then once each, in alphabetical order
    for split, texts in ((train, trained), (test, TEST_BAD + TEST_GOOD)):
        for row, text in zip(split.inputs, texts, strict=True):
            present = {vocabulary[i] for i in row.nonzero().flatten().tolist()}
            assert present == imdb.tokens(text) & set(vocabulary)
            assert set(row.tolist()) <= {0, 255}
    assert train.targets.tolist() == [0] * 4 + [1] * 3
    assert test.targets.tolist() == [0] * 4 + [1] * 4
    assert "without 1 training reviews" in load("imdb", tmp_path).source


def test_the_vocabulary_comes_from_the_training_part_only(tmp_path: Path) -> None:
    """A frequent word that occurs only in test reviews is not in the vocabulary."""
    write_lines(tmp_path / "imdb")
    before, _ = splits(tmp_path)
    test = [{"text": f"zebra zoo {i}", "label": int(i > 3)} for i in range(8)]
    (tmp_path / "imdb" / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in test))
    after, evaluation = splits(tmp_path)
    assert not evaluation.inputs.any()
    assert after.inputs.shape[1] == before.inputs.shape[1] + 5  # "both parts have this one" is now in the training part


def test_validation_does_not_read_the_test_part(tmp_path: Path) -> None:
    write_lines(tmp_path / "imdb")
    (tmp_path / "imdb" / "test.jsonl").unlink()
    train, held = splits(tmp_path, validate=True)
    assert train.targets.bincount().tolist() == [3, 3]
    assert held.targets.bincount().tolist() == [1, 1]
    assert not (train.inputs == 0).all(dim=0).any()  # each word of the vocabulary occurs in training


def test_options(tmp_path: Path) -> None:
    write_lines(tmp_path / "imdb")
    train, test = splits(tmp_path, words=3, train_size=4)
    assert train.inputs.shape == (4, 3)
    assert test.inputs.shape == (8, 3)
    assert train.targets.bincount().tolist() == [2, 2]
    with pytest.raises(ValueError, match=r"words is 0; it must lie within 1\.\.50,000"):
        load("imdb", tmp_path, words=0)
    with pytest.raises(ValueError, match="train_size is 3"):
        load("imdb", tmp_path, train_size=3)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('{"text": "x"', "line 9: not a review"),
        ('{"text": "x"}', "line 9: not a review"),
        ("3", "line 9: not a review"),
        ('{"text": "x", "label": 2}', "line 9: a review must be"),
        ('{"text": 5, "label": 1}', "line 9: a review must be"),
        ('{"text": "x", "label": 1}', "4 negative, 5 positive reviews; IMDB has 4 of each"),
    ],
)
def test_damaged_files_are_reported(tmp_path: Path, line: str, words: str) -> None:
    write_lines(tmp_path / "imdb")
    with (tmp_path / "imdb" / "train.jsonl").open("a") as file:
        file.write(line + "\n")
    with pytest.raises(ValueError, match=words):
        load("imdb", tmp_path)


@pytest.mark.data
def test_real_reviews(real_data: Path) -> None:
    if not (real_data / "imdb").is_dir():
        pytest.skip(f"no imdb in {real_data}")
    dataset = load("imdb", real_data, words=50)
    assert (len(dataset.train), len(dataset.evaluation)) == (24_877, 25_000)
    assert "without 123 training reviews" in dataset.source
