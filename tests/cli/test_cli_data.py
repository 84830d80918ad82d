"""`zerocross data` on the command line: output, exit codes, one-line errors."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import subprocess
import sys
import tarfile
import wave
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from reference.loopback import Site, serving
from zerocross.cli.app import run
from zerocross.data import layout


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ZEROCROSS_DATA", raising=False)
    monkeypatch.setenv("COLUMNS", "160")


@pytest.fixture
def small_cifar(monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """Replace CIFAR-10 by six small files, whose checksums count as official."""
    files = {name: hashlib.sha256(name.encode()).digest() * 50 for name in layout.CIFAR10_SHA256}
    for name, data in files.items():
        monkeypatch.setitem(layout.CIFAR10_SHA256, name, hashlib.sha256(data).hexdigest())
    return files


def archive(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for name, data in files.items():
            member = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return out.getvalue()


def test_fetch_cifar10_then_again_then_check(
    tmp_path: Path, small_cifar: dict[str, bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    with serving(Site(archive(small_cifar))) as site:
        arguments = ["data", "fetch", "cifar10", "--data-dir", str(tmp_path), "--url", site.address]
        assert run(arguments) == 0
        assert "all checksums match" in capsys.readouterr().out
        assert run(arguments) == 0
        assert "already complete in" in capsys.readouterr().out
    assert run(["data", "check", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert out.count("official sha256") == 6
    assert out.count("missing") == 7
    (tmp_path / "cifar10" / "cifar-10-batches-bin" / "data_batch_2.bin").unlink()
    (tmp_path / "cifar10" / "cifar-10-batches-bin" / "data_batch_4.bin").write_bytes(b"no")
    assert run(["data", "check", str(tmp_path)]) == 1
    out = capsys.readouterr().out
    assert "file is missing" in out
    assert "wrong sha256" in out


def test_a_wrong_archive_gives_one_line_and_exit_code_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with serving(Site(archive(dict.fromkeys(layout.CIFAR10_SHA256, b"wrong")))) as site:
        assert run(["data", "fetch", "cifar10", "--data-dir", str(tmp_path), "--url", site.address]) == 2
    error = capsys.readouterr().err
    assert error.startswith("zerocross: http://127.0.0.1")
    assert error.count("\n") == 1
    assert "wrong checksum: data_batch_1.bin" in error
    assert [p.name for p in tmp_path.rglob("*")] == ["cifar10"]


@pytest.mark.parametrize("name", ["mnist", "fashion-mnist"])
def test_fetch_four_files_then_check(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server sends the same bytes for each name; their checksum counts as official here."""
    content = hashlib.sha256(b"a file").digest() * 30
    for file in layout.IDX_SHA256[name]:
        monkeypatch.setitem(layout.IDX_SHA256[name], file, hashlib.sha256(content).hexdigest())
    with serving(Site(content)) as site:
        folder_address = site.address.rpartition("/")[0] + "/"
        arguments = ["data", "fetch", name, "--data-dir", str(tmp_path), "--url", folder_address]
        assert run(arguments) == 0
        assert "all checksums match" in capsys.readouterr().out
        assert run(arguments) == 0
        assert "already complete in" in capsys.readouterr().out
        assert len(site.requests) == 4
    assert sorted(path.name for path in (tmp_path / name).iterdir()) == sorted(layout.IDX_SHA256[name])
    assert run(["data", "check", str(tmp_path)]) == 0
    assert capsys.readouterr().out.count("official sha256") == 4
    (tmp_path / name / "t10k-labels-idx1-ubyte.gz").write_bytes(b"mine")
    assert run(arguments) == 2
    assert "has files with other contents (t10k-labels-idx1-ubyte.gz): move them away" in capsys.readouterr().err
    assert run(["data", "check", str(tmp_path)]) == 1


def test_a_file_with_a_wrong_checksum_is_not_put_in_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with serving(Site(b"not MNIST")) as site:
        address = site.address.rpartition("/")[0] + "/"
        assert run(["data", "fetch", "mnist", "--data-dir", str(tmp_path), "--url", address]) == 2
    assert "train-images-idx3-ubyte.gz has a wrong checksum" in capsys.readouterr().err
    assert not list((tmp_path / "mnist").iterdir())


@pytest.mark.parametrize(
    ("name", "address", "file"),
    [
        ("audiomnist", "https://github.com/soerenab/AudioMNIST", "audiomnist/data/01/0_01_0.wav"),
        ("imagenet", "https://www.image-net.org", "imagenet/train/n01440764/"),
        ("ucr", "https://www.cs.ucr.edu/~eamonn/time_series_data_2018/", "ucr/ECG5000/ECG5000_TRAIN.tsv"),
        ("hapt", "https://archive.ics.uci.edu/dataset/341/", "hapt/RawData/acc_exp01_user01.txt"),
        ("imdb", "https://ai.stanford.edu/~amaas/data/sentiment/", "imdb/aclImdb/train/pos/"),
    ],
)
def test_datasets_without_a_download_are_explained(
    tmp_path: Path, name: str, address: str, file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["data", "fetch", name, "--data-dir", str(tmp_path / "d")]) == 0
    out = capsys.readouterr().out
    assert address in out
    assert str(tmp_path / "d" / file) in out
    assert not (tmp_path / "d").exists()


def test_the_data_folder_comes_from_the_option_then_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run(["data", "fetch", "imagenet"])
    assert "\n  data/imagenet/train" in capsys.readouterr().out
    monkeypatch.setenv("ZEROCROSS_DATA", str(tmp_path))
    run(["data", "fetch", "imagenet"])
    assert f"{tmp_path}/imagenet/train" in capsys.readouterr().out
    assert run(["data", "check"]) == 2
    assert f"no dataset found in {tmp_path}" in capsys.readouterr().out.replace("\n", "")


def test_invalid_arguments(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["data", "fetch", "mnis"]) == 2
    assert "choose one of cifar10, mnist, fashion-mnist, audiomnist, ucr, hapt, imdb" in capsys.readouterr().err
    assert run(["data", "fetch", "digits"]) == 0
    assert "nothing to fetch" in capsys.readouterr().out
    assert run(["data", "check"]) == 2
    assert "pass DIR or set ZEROCROSS_DATA" in capsys.readouterr().err
    assert run(["data", "check", str(tmp_path / "none")]) == 2
    assert "is not a folder" in capsys.readouterr().err


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Write a small, valid audiomnist and imagenet."""
    for speaker in range(1, 61):
        path = tmp_path / "audiomnist" / "data" / f"{speaker:02d}" / f"7_{speaker:02d}_0.wav"
        path.parent.mkdir(parents=True)
        with wave.open(str(path), "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(8000)
            file.writeframes(bytes(400))
    for part in ("train", "val"):
        for name in ("n1", "n2"):
            path = tmp_path / "imagenet" / part / name / "0.JPEG"
            path.parent.mkdir(parents=True)
            Image.new("RGB", (20, 20)).save(path)
    return tmp_path


def _packed(home: Path) -> None:
    zeros = np.zeros(3, dtype=np.uint8)
    np.savez(
        home / "audiomnist" / "logmel40x32.npz", logmel=np.zeros((3, 40, 32), np.uint8), digit=zeros, speaker=zeros
    )


def _splits(home: Path) -> None:
    folds = {"train": [[1]] * 5, "validate": [[2]] * 5, "test": [[3]] * 5}
    (home / "audiomnist" / "splits.json").write_text(json.dumps({"digit": folds}))


DAMAGE = {
    "a clip": (lambda h: (h / "audiomnist/data/09/7_09_0.wav").write_bytes(b"RIFF"), "7_09_0.wav is not a readable"),
    "a speaker": (lambda h: shutil.rmtree(h / "audiomnist/data/31"), "no clips of speakers 31"),
    "packed": (_packed, "speakers outside 1..60"),
    "folds": (_splits, "differs from the authors' folds"),
    "an image": (lambda h: (h / "imagenet/val/n2/0.JPEG").write_bytes(b"x"), "0.JPEG is not a readable image"),
    "a class": (lambda h: (h / "imagenet/val/n3").mkdir(), "class n3 is not in train/"),
    "all images": (lambda h: [p.unlink() for p in (h / "imagenet/train").rglob("*.JPEG")], "no images"),
}


def test_check_accepts_valid_data(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["data", "check", str(home)]) == 0
    out = capsys.readouterr().out
    assert "60 of 30,000 clips, 60 of 60 speakers, 60 of them read" in out
    assert out.count("2 images, 2 classes, 2 of them decoded") == 2
    assert "built in" in out


@pytest.mark.parametrize("kind", DAMAGE)
def test_check_detects_damage(
    home: Path, kind: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    damage, words = DAMAGE[kind]
    damage(home)
    assert run(["data", "check", str(home)]) == 1
    out = capsys.readouterr().out
    assert words in out
    assert out.count("damaged") == 1


@pytest.mark.data
def test_check_real_data(real_data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["data", "check", str(real_data)]) == 0
    out = capsys.readouterr().out
    assert out.count("official sha256") >= 6
    assert "30,000 of 30,000 clips" in out


def test_fetch_needs_no_torch(tmp_path: Path) -> None:
    """`data fetch` responds quickly: heavy packages are not imported."""
    program = (
        "import sys; from zerocross.cli.app import run; code = run(['data', 'fetch', 'audiomnist']); "
        "heavy = {'torch', 'numpy', 'scipy'} & set(sys.modules); print(heavy); sys.exit(code or bool(heavy))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, check=False, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr
