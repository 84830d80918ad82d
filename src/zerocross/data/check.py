"""Check the datasets in a folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from zerocross.data import audiomnist, hapt, idx, imagenet, imdb, layout, splits, ucr
from zerocross.data.fetch import digest
from zerocross.data.image_batches import read_image

SAMPLE = 64  # number of files of each kind that are decoded
T = TypeVar("T")


@dataclass(frozen=True)
class Finding:
    """One line of the check: `state` is "ok", "missing" (not found) or "damaged"."""

    dataset: str
    part: str
    state: str
    detail: str


def check(data_dir: Path) -> list[Finding]:
    """Find the datasets in `data_dir` and verify them."""
    if not data_dir.is_dir():
        raise FileNotFoundError(f"{data_dir} is not a folder")
    findings = []
    for name, find, verify in (
        ("mnist", layout.mnist_folder, lambda folder: _idx("mnist", folder)),
        ("fashion-mnist", layout.fashion_mnist_folder, lambda folder: _idx("fashion-mnist", folder)),
        ("cifar10", layout.cifar10_folder, _cifar10),
        ("audiomnist", layout.audiomnist_folder, _audiomnist),
        ("ucr", layout.ucr_folder, _ucr),
        ("hapt", layout.hapt_folder, _hapt),
        ("imdb", layout.imdb_folder, _imdb),
        ("imagenet", layout.imagenet_folder, _imagenet),
    ):
        folder = find(data_dir)
        findings += (
            [Finding(name, "", "missing", f"see zerocross data fetch {name}")] if folder is None else verify(folder)
        )
    return findings


def _idx(name: str, folder: Path) -> Iterator[Finding]:
    for file, official in layout.IDX_SHA256[name].items():
        plain = folder / file.removesuffix(".gz")
        if plain.is_file() and not (folder / file).is_file():
            yield _verified(name, plain.name, lambda plain=plain: _uncompressed(plain, name))
        else:
            yield _sum(name, folder / file, "sha256", official)


def _uncompressed(path: Path, name: str) -> str:
    """Check shape and size; no checksum is published for these files."""
    sides = (idx.SIDE, idx.SIDE) if "images" in path.name else ()
    return f"{len(idx.read(path, (idx.IMAGES[path.name.split('-')[0]], *sides), name)):,} items"


def _cifar10(folder: Path) -> Iterator[Finding]:
    binary = layout.cifar10_kind(folder) == "binary"
    for name, official in (layout.CIFAR10_SHA256 if binary else layout.CIFAR10_MD5).items():
        yield _sum("cifar10", folder / name, "sha256" if binary else "md5", official)


def _sum(dataset: str, path: Path, kind: str, official: str) -> Finding:
    actual = digest(path, kind)
    detail = f"official {kind}" if actual == official else f"wrong {kind}" if actual else "file is missing"
    return Finding(dataset, path.name, "ok" if actual == official else "damaged", detail)


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
    return "splits.json contains the authors' five folds"


def _ucr(folder: Path) -> Iterator[Finding]:
    for name in ucr.SETS:
        if (folder / name).is_dir():
            yield _verified("ucr", name, lambda name=name: _series(folder, name))
        else:
            yield Finding("ucr", name, "missing", "see zerocross data fetch ucr")


def _series(folder: Path, name: str) -> str:
    (train, _), (test, _) = (ucr.read(folder, name, part) for part in ("TRAIN", "TEST"))
    both = len(test) - len(splits.not_in(map(bytes, test), map(bytes, train)))
    return f"{len(train):,} + {len(test):,} series" + (f", {both:,} of test also in training" if both else "")


def _hapt(folder: Path) -> Iterator[Finding]:
    yield _verified("hapt", "RawData", lambda: _windows(folder))


def _windows(folder: Path) -> str:
    _, _, person = hapt.windows(folder)
    test = sum(person.tolist().count(one) for one in hapt.TEST_PEOPLE)
    counts = len(person) - test, test
    if counts != hapt.WINDOWS:
        raise ValueError(f"{counts[0]:,} + {counts[1]:,} windows; the authors have 7,767 + 3,162: unpack it again")
    return f"{counts[0]:,} + {counts[1]:,} windows, {len(set(person.tolist()))} people"


def _imdb(folder: Path) -> Iterator[Finding]:
    for part in ("train", "test"):
        yield _verified("imdb", part, lambda part=part: f"{len(imdb.read(folder, part)[0]):,} reviews")


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
    """Return at most SAMPLE of the files, evenly spread."""
    return files[:: max(1, -(-len(files) // SAMPLE))]


def _verified(dataset: str, part: str, examine: Callable[[], str]) -> Finding:
    try:
        return Finding(dataset, part, "ok", examine())
    except (ValueError, OSError) as error:
        return Finding(dataset, part, "damaged", str(error))
