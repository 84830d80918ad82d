"""Locations and sources of the datasets' files; without torch, so that `data fetch` starts quickly."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

CIFAR10_ADDRESS = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"
AUDIOMNIST_ADDRESS = "https://github.com/soerenab/AudioMNIST"
IMAGENET_ADDRESS = "https://www.image-net.org/download.php"
UCR_ADDRESS = "https://www.cs.ucr.edu/~eamonn/time_series_data_2018/"
HAPT_ADDRESS = (
    "https://archive.ics.uci.edu/dataset/341/smartphone+based+recognition+of+human+activities+and+postural+transitions"
)
IMDB_ADDRESS = "https://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz"

# Folders of the four files; MNIST's is a mirror, because its authors' own page no longer serves them.
IDX_ADDRESSES = {
    "mnist": "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "fashion-mnist": "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
}
# Addresses of what is not downloaded for the user.
ADDRESSES = {
    "audiomnist": AUDIOMNIST_ADDRESS,
    "imagenet": IMAGENET_ADDRESS,
    "ucr": f"{UCR_ADDRESS} (a zip file; its password stands in the archive's briefing document, on the same page)",
    "hapt": HAPT_ADDRESS,
    "imdb": IMDB_ADDRESS,
}

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

# SHA-256 of the four files of MNIST and of Fashion-MNIST, as their authors publish them.
IDX_SHA256 = {
    "mnist": {
        "train-images-idx3-ubyte.gz": "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
        "train-labels-idx1-ubyte.gz": "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
        "t10k-images-idx3-ubyte.gz": "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
        "t10k-labels-idx1-ubyte.gz": "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
    },
    "fashion-mnist": {
        "train-images-idx3-ubyte.gz": "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
        "train-labels-idx1-ubyte.gz": "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
        "t10k-images-idx3-ubyte.gz": "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
        "t10k-labels-idx1-ubyte.gz": "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
    },
}

LAYOUTS = {
    "mnist": """\
DIR/mnist/train-images-idx3-ubyte.gz, train-labels-idx1-ubyte.gz, t10k-images-idx3-ubyte.gz, t10k-labels-idx1-ubyte.gz
    or the same files uncompressed, without .gz""",
    "fashion-mnist": """\
DIR/fashion-mnist/train-images-idx3-ubyte.gz, train-labels-idx1-ubyte.gz, t10k-images-idx3-ubyte.gz, ...
    or the same files uncompressed, without .gz""",
    "ucr": """\
DIR/ucr/ECG5000/ECG5000_TRAIN.tsv, ECG5000_TEST.tsv ...   one folder per set, as in the archive of 2018
    or DIR/UCRArchive_2018/ECG5000/...""",
    "hapt": """\
DIR/hapt/RawData/acc_exp01_user01.txt, gyro_exp01_user01.txt ... acc_exp61_user30.txt, gyro_exp61_user30.txt
DIR/hapt/RawData/labels.txt""",
    "imdb": """\
DIR/imdb/aclImdb/train/pos/*.txt, train/neg/*.txt, test/pos/*.txt, test/neg/*.txt   as in the archive
    or DIR/imdb/train.jsonl, test.jsonl   one review a line: {"text": "...", "label": 0 or 1}""",
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


def mnist_folder(data_dir: Path) -> Path | None:
    """The folder of MNIST's four files."""
    return _idx_folder(data_dir, ("mnist", "MNIST", "MNIST/raw"))


def fashion_mnist_folder(data_dir: Path) -> Path | None:
    """The folder of Fashion-MNIST's four files."""
    return _idx_folder(data_dir, ("fashion-mnist", "FashionMNIST", "FashionMNIST/raw"))


def _idx_folder(data_dir: Path, names: tuple[str, ...]) -> Path | None:
    """The folder of IDX files below `data_dir`, or that itself if it is called so.

    MNIST's and Fashion-MNIST's files have the same names and sizes: only the folder's name tells which they are.
    """
    homes = [data_dir / name for name in names] + ([data_dir] if data_dir.name in names else [])
    return _first(homes, lambda home: any(home.glob("t*-idx?-ubyte*")))


def ucr_folder(data_dir: Path) -> Path | None:
    """The folder that holds a folder for each set of the UCR archive."""
    homes = (data_dir, data_dir / "ucr", data_dir / "UCRArchive_2018", data_dir / "ucr" / "UCRArchive_2018")
    return _first(homes, lambda home: any(home.glob("*/*_TRAIN.tsv")))


def hapt_folder(data_dir: Path) -> Path | None:
    """The folder of HAPT's raw signals and their labels."""
    homes = (data_dir, data_dir / "RawData", data_dir / "hapt" / "RawData")
    return _first(homes, lambda home: (home / "labels.txt").is_file() and any(home.glob("acc_exp*_user*.txt")))


def imdb_folder(data_dir: Path) -> Path | None:
    """The folder that holds train/ and test/ of the official archive, or train.jsonl and test.jsonl."""
    homes = (data_dir, data_dir / "aclImdb", data_dir / "imdb", data_dir / "imdb" / "aclImdb")
    return _first(homes, lambda home: (home / "train" / "pos").is_dir() or (home / "train.jsonl").is_file())


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
