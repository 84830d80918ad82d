"""What a data folder holds, and whether it is sound."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from zerocross.data import audiomnist, imagenet, layout
from zerocross.data.fetch import digest
from zerocross.data.image_batches import read_image

SAMPLE = 64  # files of each kind that are opened and decoded
T = TypeVar("T")


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
    for name, find, verify in (
        ("cifar10", layout.cifar10_folder, _cifar10),
        ("audiomnist", layout.audiomnist_folder, _audiomnist),
        ("imagenet", layout.imagenet_folder, _imagenet),
    ):
        folder = find(data_dir)
        findings += (
            [Finding(name, "", "missing", f"see zerocross data fetch {name}")] if folder is None else verify(folder)
        )
    return findings


def _cifar10(folder: Path) -> Iterator[Finding]:
    binary = layout.cifar10_kind(folder) == "binary"
    for name, official in (layout.CIFAR10_SHA256 if binary else layout.CIFAR10_MD5).items():
        kind = "sha256" if binary else "md5"
        found = digest(folder / name, kind)
        detail = f"official {kind}" if found == official else f"wrong {kind}" if found else "file is missing"
        yield Finding("cifar10", name, "ok" if found == official else "damaged", detail)


def _audiomnist(folder: Path) -> Iterator[Finding]:
    if (folder / audiomnist.PACKED).is_file():
        yield _verified("audiomnist", audiomnist.PACKED, lambda: _packed(folder / audiomnist.PACKED))
    if (folder / "data").is_dir():
        yield _verified("audiomnist", "data/NN/*.wav", lambda: _clips(folder))
    yield _verified("audiomnist", "folds", lambda: _folds(folder / "splits.json"))


def _packed(path: Path) -> str:
    codes, digits, speakers = audiomnist.read_packed(path)
    if not (set(digits.tolist()) <= set(range(10)) and set(speakers.tolist()) <= set(range(1, 61))):
        raise ValueError("digits outside 0..9 or speakers outside 1..60")
    return f"{len(codes):,} of 30,000 clips, {len(set(speakers.tolist()))} of 60 speakers"


def _clips(folder: Path) -> str:
    clips = audiomnist.clip_files(folder)
    absent = sorted(set(range(1, 61)) - {speaker for speaker, _, _ in clips})
    if absent:
        raise ValueError(f"no clips of speakers {', '.join(map(str, absent))}")
    sample = _sample(list(clips.values()))
    for path in sample:
        audiomnist.read_clip(path)
    return f"{len(clips):,} of 30,000 clips, 60 of 60 speakers, {len(sample)} of them read"


def _folds(splits: Path) -> str:
    if not splits.is_file():
        return "built in"
    for fold in range(len(audiomnist.SPEAKER_GROUPS)):
        if audiomnist.fold_speakers(fold, splits) != audiomnist.fold_speakers(fold):
            raise ValueError(f"splits.json, fold {fold}, differs from the authors' folds")
    return "splits.json holds the authors' five folds"


def _imagenet(folder: Path) -> Iterator[Finding]:
    for part in ("train", "val"):
        yield _verified("imagenet", f"{folder.name}/{part}", lambda part=part: _images(folder, part))


def _images(folder: Path, part: str) -> str:
    classes = imagenet.class_folders(folder / part)
    unknown = sorted(set(classes) - set(imagenet.class_folders(folder / "train")))
    if unknown:
        raise ValueError(f"class {unknown[0]} is not in train/")
    files, _ = imagenet.list_images(folder / part, classes)
    sample = _sample(files)
    for path in sample:
        read_image(path)
    return f"{len(files):,} images, {len(classes)} classes, {len(sample)} of them decoded"


def _sample(files: list[T]) -> list[T]:
    """At most SAMPLE of the files, evenly spread."""
    return files[:: max(1, -(-len(files) // SAMPLE))]


def _verified(dataset: str, part: str, examine: Callable[[], str]) -> Finding:
    try:
        return Finding(dataset, part, "ok", examine())
    except (ValueError, OSError) as error:
        return Finding(dataset, part, "damaged", str(error))
