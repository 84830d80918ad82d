"""IMDB film reviews (Maas et al. 2011): 25,000 + 25,000, positive or negative, as bags of words."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import torch

from zerocross.data.dataset import Dataset, from_tensors
from zerocross.data.layout import imdb_folder, required
from zerocross.data.splits import even_part, held_out, not_in

CLASSES = ("bad", "good")
REVIEWS = 25_000  # of each part
VALIDATION_SHARE = 0.2  # of the training reviews
WORD = re.compile(r"[a-z0-9]+(?:'[a-z]+)?|[!?]")  # "didn't" is one word
MARKUP = re.compile(r"<br\s*/?>")


def load(
    data_dir: str | Path | None = None,
    *,
    validate: bool = False,
    words: int = 4000,
    train_size: int | None = None,
) -> Dataset:
    """Load reviews as bags of words: which of the most frequent words occur in a review, (words,) of 0 or 255.

    The vocabulary comes from the training reviews only. Training reviews whose text also occurs in the evaluation
    reviews are left out: the official parts share 123 texts. `source` says how many were left out. Files are sorted by
    class; training shuffles them.

    Args:
        data_dir: the folder with imdb/ (or aclImdb/), or that folder itself.
        validate: train on 80 % of the training reviews and evaluate on the rest, stratified, always the same; the test
            reviews are not read.
        words: size of the vocabulary.
        train_size: train on this number of reviews only, half of each class; even. None: all.
    """
    if not 1 <= words <= 50_000:
        raise ValueError(f"words is {words}; it must lie within 1..50,000")
    folder = required("imdb", data_dir, imdb_folder)
    texts, labels = read(folder, "train")
    if validate:
        kept, held = held_out(torch.from_numpy(labels), VALIDATION_SHARE)
        evaluation = [texts[i] for i in held], labels[held.numpy()]
        texts, labels = [texts[i] for i in kept], labels[kept.numpy()]
    else:
        evaluation = read(folder, "test")
    unseen = not_in(texts, evaluation[0])
    dropped = len(texts) - len(unseen)
    if train_size is not None:
        unseen = unseen[even_part(torch.from_numpy(labels[unseen]), train_size, len(CLASSES)).numpy()]
    bags = [tokens(texts[i]) for i in unseen]
    vocabulary = most_frequent(bags, words)
    return from_tensors(
        bag_of_words(bags, vocabulary),
        labels[unseen],
        bag_of_words([tokens(text) for text in evaluation[0]], vocabulary),
        evaluation[1],
        name="imdb",
        class_names=CLASSES,
        mean=(0.0,),
        std=(1.0,),
        evaluated_on="validation" if validate else "test",
        source=f"IMDB reviews, {len(vocabulary):,} words"
        + (f", without {dropped:,} training reviews that stand in the part to evaluate on" if dropped else "")
        + (f", {train_size:,} training reviews" if train_size is not None else ""),
    )


def tokens(text: str) -> set[str]:
    """Return the distinct words of a text in lower case: letters and digits with an apostrophe inside, and ! and ?."""
    return set(WORD.findall(MARKUP.sub(" ", text.lower())))


def most_frequent(bags: Iterable[set[str]], count: int) -> list[str]:
    """Return the words that occur in most texts, the most frequent first; equally frequent words alphabetically."""
    occurs = Counter(word for bag in bags for word in bag)
    return sorted(occurs, key=lambda word: (-occurs[word], word))[:count]


def bag_of_words(bags: Sequence[set[str]], vocabulary: Sequence[str]) -> np.ndarray:
    """Return (N, words) uint8: 255, which is read as 1, where a word of the vocabulary occurs, and 0 elsewhere."""
    place = {word: index for index, word in enumerate(vocabulary)}
    out = np.zeros((len(bags), len(vocabulary)), dtype=np.uint8)
    for row, bag in zip(out, bags, strict=True):
        row[[place[word] for word in bag if word in place]] = 255
    return out


def read(folder: Path, part: str) -> tuple[list[str], np.ndarray]:
    """Read texts and labels (N,) int64 (0 negative, 1 positive) of "train" or "test", negative reviews first."""
    if (folder / f"{part}.jsonl").is_file():
        texts, labels = _read_lines(folder / f"{part}.jsonl")
    else:
        texts, labels = _read_folders(folder / part)
    counts = np.bincount(labels, minlength=2).tolist()
    if counts != [REVIEWS // 2] * 2:
        raise ValueError(
            f"{folder}: {part} has {counts[0]:,} negative, {counts[1]:,} positive reviews; IMDB has {REVIEWS // 2:,} "
            "of each: see `zerocross data fetch imdb`"
        )
    return texts, labels


def _read_lines(path: Path) -> tuple[list[str], np.ndarray]:
    texts, labels = [], []
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            try:
                review = json.loads(line)
                text, label = review["text"], review["label"]
            except (ValueError, KeyError, TypeError) as error:
                raise ValueError(f"{path}, line {number}: not a review ({error!r})") from error
            if not isinstance(text, str) or label not in (0, 1):
                raise ValueError(f'{path}, line {number}: a review must be {{"text": "...", "label": 0 or 1}}')
            texts.append(text)
            labels.append(int(label))
    return texts, np.array(labels, dtype=np.int64)


def _read_folders(folder: Path) -> tuple[list[str], np.ndarray]:
    texts, labels = [], []
    for label, name in enumerate(("neg", "pos")):
        for path in sorted((folder / name).glob("*.txt")):
            texts.append(path.read_text(encoding="utf-8"))
            labels.append(label)
    return texts, np.array(labels, dtype=np.int64)
