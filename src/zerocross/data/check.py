"""What a data folder holds, and whether it is sound."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from zerocross.data import audiomnist, imagenet, layout
from zerocross.data.fetch import digest
from zerocross.data.image_batches import read_image

SAMPLE = 64  # files of each kind that are opened and decoded


@dataclass(frozen=True)
class Finding:
    """One line of the check: `state` is "ok", "missing" (the dataset is not there) or "damaged"."""

    dataset: str
    part: str
    state: str
    detail: str


def check(data_dir: Path) -> list[Finding]:
    """Look for each dataset in `data_dir` and verify what is there."""
    if not data_dir.is_dir():
        raise FileNotFoundError(f"{data_dir} is not a folder")
    findings = []
    for name, find, examine in (
        ("cifar10", layout.cifar10_folder, _cifar10),
        ("audiomnist", layout.audiomnist_folder, _audiomnist),
        ("imagenet", layout.imagenet_folder, _imagenet),
    ):
        folder = find(data_dir)
        if folder is None:
            findings.append(Finding(name, "", "missing", f"zerocross data fetch {name}"))
        else:
            findings += [Finding(name, part, "ok" if good else "damaged", text) for part, good, text in examine(folder)]
    return findings


def _cifar10(folder: Path) -> Iterator[tuple[str, bool, str]]:
    binary = layout.cifar10_kind(folder) == "binary"
    for name, want in (layout.CIFAR10_SHA256 if binary else layout.CIFAR10_MD5).items():
        found = digest(folder / name, "sha256" if binary else "md5")
        yield name, found == want, "official checksum" if found == want else "wrong checksum" if found else "not there"


def _audiomnist(folder: Path) -> Iterator[tuple[str, bool, str]]:
    if (folder / audiomnist.PACKED).is_file():
        yield audiomnist.PACKED, *_tried(lambda: _packed(folder / audiomnist.PACKED))
    clips = audiomnist.clip_files(folder)
    if clips:
        speakers = {speaker for speaker, _, _ in clips}
        absent = sorted(set(range(1, 61)) - speakers)
        good, text = _tried(lambda: _waves([clips[key] for key in _spread(list(clips))]))
        counted = f"{len(clips):,} of 30,000 clips, {len(speakers)} of 60 speakers"
        yield "data/NN/*.wav", good and not absent, f"{counted}; {text}"
    yield "folds", *_tried(lambda: _folds(folder / "splits.json"))
