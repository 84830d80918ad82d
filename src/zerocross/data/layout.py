"""Locations and sources of the datasets' files; without torch, so that `data fetch` starts quickly."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

CIFAR10_ADDRESS = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"
AUDIOMNIST_ADDRESS = "https://github.com/soerenab/AudioMNIST"
IMAGENET_ADDRESS = "https://www.image-net.org/download.php"

CIFAR10_BINARY, CIFAR10_PYTHON = "cifar-10-batches-bin", "cifar-10-batches-py"
CIFAR10_TRAIN, CIFAR10_TEST = tuple(f"data_batch_{i}" for i in range(1, 6)), "test_batch"

# SHA-256 of the members of cifar-10-binary.tar.gz.
CIFAR10_SHA256 = {
    "data_batch_1.bin": "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
    "data_batch_2.bin": "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
    "data_batch_3.bin": "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
    "data_batch_4.bin": "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
    "data_batch_5.bin": "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
    "test_batch.bin": "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
}
# MD5 of the members of cifar-10-python.tar.gz, the only sums published for them.
CIFAR10_MD5 = {
    "data_batch_1": "c99cafc152244af753f735de768cd75f",
    "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
    "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
    "data_batch_4": "634d18415352ddfa80567beed471001a",
    "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
    "test_batch": "40351d587109b95175f43aff81a1287e",
}

LAYOUTS = {
    "cifar10": """\
DIR/cifar10/cifar-10-batches-bin/data_batch_1.bin ... data_batch_5.bin, test_batch.bin
    or the python version, DIR/cifar10/cifar-10-batches-py/""",
    "audiomnist": """\
DIR/audiomnist/data/01/0_01_0.wav ... data/60/9_60_49.wav   folder: speaker; file: digit_speaker_repeat.wav
DIR/audiomnist/logmel40x32.npz   optional: log-mel features ready made, read instead of the waveforms""",
    "imagenet": """\
DIR/imagenet/train/n01440764/*.JPEG ...   one folder per class
DIR/imagenet/val/n01440764/*.JPEG ...     the same classes (sort the flat validation archive into class folders)""",
}


def cifar10_folder(data_dir: Path) -> Path | None:
    """The folder of batches, binary before python: `data_dir` itself, in it, or in its cifar10/."""
    homes = (data_dir, data_dir / "cifar10")
    folders = (f for name in (".", CIFAR10_BINARY, CIFAR10_PYTHON) for f in (home / name for home in homes))
    return _first(folders, lambda folder: bool(cifar10_kind(folder)))


def cifar10_kind(folder: Path) -> str:
    """Which version of CIFAR-10 a folder holds: "binary", "python", or "" for neither."""
    if any((folder / name).is_file() for name in CIFAR10_SHA256):
        return "binary"
    return "python" if any((folder / name).is_file() for name in CIFAR10_MD5) else ""


def audiomnist_folder(data_dir: Path) -> Path | None:
    """The folder that holds data/01 ... data/60 or the packed features."""
    homes = (data_dir, data_dir / "audiomnist", data_dir / "AudioMNIST")
    return _first(homes, lambda home: (home / "logmel40x32.npz").is_file() or any((home / "data").glob("[0-9][0-9]")))


def imagenet_folder(data_dir: Path) -> Path | None:
    """The folder that holds train/ and val/."""
    homes = (data_dir, data_dir / "imagenet", data_dir / "imagenet-sample")
    return _first(homes, lambda home: (home / "train").is_dir() and (home / "val").is_dir())


def required(name: str, data_dir: str | Path | None, find: Callable[[Path], Path | None]) -> Path:
    """Return the dataset's folder; raise an error that says how to get it if it is missing."""
    if data_dir is None:
        raise ValueError(
            f"{name} is read from a folder: set data_dir (on the command line --data-dir DIR, ZEROCROSS_DATA, or "
            f"./data, where `zerocross data fetch {name}` stores it)"
        )
    folder = find(Path(data_dir))
    if folder is None:
        raise FileNotFoundError(
            f"no {name} in {data_dir}; see `zerocross data fetch {name}` and the expected layout, "
            + " ".join(LAYOUTS[name].split())
        )
    return folder


def _first(folders: Iterable[Path], fits: Callable[[Path], bool]) -> Path | None:
    return next((folder for folder in folders if fits(folder)), None)
