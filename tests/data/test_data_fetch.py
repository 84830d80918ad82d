"""Downloads from a server that may fail, lie or attack: a clear error each time, and no partial files."""

from __future__ import annotations

import hashlib
import io
import socket
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from reference.loopback import Site, serving
from zerocross.data import fetch

FILES = {f"part_{i}.bin": bytes([i]) * 3000 + hashlib.sha256(bytes([i])).digest() * 200 for i in range(3)}
SUMS = {name: hashlib.sha256(data).hexdigest() for name, data in FILES.items()}


def archive(files: dict[str, bytes], extra: tarfile.TarInfo | None = None) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
        if extra is not None:
            tar.addfile(extra, io.BytesIO(b"x" * extra.size))
    return out.getvalue()


GOOD = archive({f"batches/{name}": data for name, data in FILES.items()})


@pytest.fixture
def site() -> Iterator[Site]:
    with serving(Site(GOOD)) as running:
        yield running


def get(site: Site, home: Path, progress: fetch.Progress | None = None) -> Path | None:
    return fetch.fetch_archive(site.address, home / "set", "batches", SUMS, progress)


def contents(home: Path) -> list[str]:
    """Return every file and folder below `home`."""
    return sorted(str(path.relative_to(home)) for path in home.rglob("*"))


WHOLE = ["set", "set/batches", *(f"set/batches/{name}" for name in FILES)]
PART = "set/batches.tar.gz.part"


def test_a_valid_archive_is_unpacked(site: Site, tmp_path: Path) -> None:
    messages: list[tuple[int, int | None]] = []
    assert get(site, tmp_path, lambda done, total: messages.append((done, total))) == tmp_path / "set" / "batches"
    assert contents(tmp_path) == WHOLE
    assert {name: (tmp_path / "set" / "batches" / name).read_bytes() for name in FILES} == FILES
    assert messages[-1] == (len(GOOD), len(GOOD))


def test_existing_data_are_not_changed(site: Site, tmp_path: Path) -> None:
    get(site, tmp_path)
    assert get(site, tmp_path) is None
    assert len(site.requests) == 1
    (tmp_path / "set" / "batches" / "part_1.bin").write_bytes(b"mine")
    with pytest.raises(FileExistsError, match=r"incomplete \(part_1\.bin\): move it away"):
        get(site, tmp_path)
    assert (tmp_path / "set" / "batches" / "part_1.bin").read_bytes() == b"mine"
    assert len(site.requests) == 1


@pytest.mark.parametrize("ranges", [True, False])
def test_an_interrupted_download_is_continued(site: Site, tmp_path: Path, ranges: bool) -> None:
    site.dies_after, half = len(GOOD) // 2, len(GOOD) // 2
    with pytest.raises(ValueError, match=f"stopped after {half} of {len(GOOD)} bytes, kept in .*: fetch again"):
        get(site, tmp_path)
    assert contents(tmp_path) == ["set", PART]
    assert (tmp_path / PART).read_bytes() == GOOD[:half]
    site.dies_after, site.ranges = None, ranges
    messages: list[tuple[int, int | None]] = []
    get(site, tmp_path, lambda done, total: messages.append((done, total)))
    assert messages[-1] == (len(GOOD), len(GOOD))
    assert site.requests == [None, f"bytes={half}-"]
    assert contents(tmp_path) == WHOLE


def test_a_download_may_be_interrupted_many_times(site: Site, tmp_path: Path) -> None:
    site.dies_after = len(GOOD) // 4 + 1
    for _ in range(3):
        with pytest.raises(ValueError, match="stopped after"):
            get(site, tmp_path)
    get(site, tmp_path)
    assert contents(tmp_path) == WHOLE


def test_a_complete_download_is_not_repeated(site: Site, tmp_path: Path) -> None:
    (tmp_path / "set").mkdir()
    (tmp_path / PART).write_bytes(GOOD)
    get(site, tmp_path)
    assert site.requests == [f"bytes={len(GOOD)}-"]
    assert contents(tmp_path) == WHOLE


def test_a_partial_file_of_another_download(site: Site, tmp_path: Path) -> None:
    (tmp_path / "set").mkdir()
    (tmp_path / PART).write_bytes(GOOD + b"more")
    with pytest.raises(ValueError, match=r"did not belong to .*, and was removed"):
        get(site, tmp_path)
    assert contents(tmp_path) == ["set"]
    (tmp_path / PART).write_bytes(b"#" * 100)
    with pytest.raises(ValueError, match="bad archive, now removed"):
        get(site, tmp_path)
    assert contents(tmp_path) == ["set"]
    get(site, tmp_path)
    assert contents(tmp_path) == WHOLE


def test_a_server_that_continues_at_the_wrong_offset(site: Site, tmp_path: Path) -> None:
    (tmp_path / "set").mkdir()
    (tmp_path / PART).write_bytes(GOOD[:100])
    site.lie = 7
    with pytest.raises(ValueError, match="did not continue at byte 100"):
        get(site, tmp_path)
    assert (tmp_path / PART).read_bytes() == GOOD[:100]


@pytest.mark.parametrize("cut", [3, 40, len(GOOD) // 2])
@pytest.mark.parametrize("says_length", [True, False])
def test_a_truncated_archive(site: Site, tmp_path: Path, cut: int, says_length: bool) -> None:
    site.content, site.says_length = GOOD[:cut], says_length
    with pytest.raises(ValueError, match="gave a bad archive, now removed"):
        get(site, tmp_path)
    assert contents(tmp_path) == ["set"]


def test_wrong_content(site: Site, tmp_path: Path) -> None:
    changed = {f"batches/{name}": data[:-1] + b"!" if name == "part_2.bin" else data for name, data in FILES.items()}
    site.content = archive(changed)
    with pytest.raises(ValueError, match=r"wrong checksum: part_2\.bin; fetch it again"):
        get(site, tmp_path)
    assert contents(tmp_path) == ["set"]


def test_a_file_missing_from_the_archive(site: Site, tmp_path: Path) -> None:
    site.content = archive({"batches/part_0.bin": FILES["part_0.bin"]})
    with pytest.raises(ValueError, match=r"part_1\.bin, part_2\.bin"):
        get(site, tmp_path)
    assert contents(tmp_path) == ["set"]


def unsafe_members() -> Iterator[tarfile.TarInfo]:
    for name in ("../escaped", "batches/../../escaped", "/tmp/zerocross-escaped", "batches/.."):
        member = tarfile.TarInfo(name)
        member.size = 4
        yield member
    for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE):
        member = tarfile.TarInfo("batches/link")
        member.type, member.linkname = kind, "/etc/passwd"
        yield member


@pytest.mark.parametrize("member", list(unsafe_members()), ids=lambda m: f"{m.name}:{m.type.decode()}")
def test_an_archive_that_writes_outside_its_folder(site: Site, tmp_path: Path, member: tarfile.TarInfo) -> None:
    home = tmp_path / "home"
    site.content = archive({f"batches/{name}": data for name, data in FILES.items()}, extra=member)
    with pytest.raises(ValueError, match="is unsafe"):
        get(site, home)
    assert contents(tmp_path) == ["home", "home/set"]
    assert not Path("/tmp/zerocross-escaped").exists()


def test_size_limits(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "MAX_UNPACKED", 10_000)
    with pytest.raises(ValueError, match="more than 100 members or 10000 bytes"):
        get(site, tmp_path)
    monkeypatch.undo()
    site.content = archive({f"batches/{i}": b"" for i in range(101)})
    with pytest.raises(ValueError, match="more than 100 members"):
        get(site, tmp_path)
    monkeypatch.setattr(fetch, "MAX_DOWNLOAD", 100)
    for says_length in (True, False):
        site.content, site.says_length = GOOD, says_length
        with pytest.raises(ValueError, match="exceeds the expected maximum of 100 bytes"):
            get(site, tmp_path)
        assert (tmp_path / PART).stat().st_size <= 100
    assert contents(tmp_path) == ["set", PART]


def test_a_server_that_refuses(site: Site, tmp_path: Path) -> None:
    site.status = 404
    with pytest.raises(ValueError, match=r"could not download http://.* \(Not Found\); fetch again"):
        get(site, tmp_path)
    assert contents(tmp_path) == []


def test_no_server(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        site = Site(address=f"http://127.0.0.1:{free.getsockname()[1]}/batches.tar.gz")
        with pytest.raises(ValueError, match=r"could not download .*refused"):
            get(site, tmp_path)
    assert contents(tmp_path) == []


@pytest.mark.parametrize("address", ["file:///etc/passwd", "ftp://host/a.tar.gz", "a.tar.gz", ""])
def test_other_schemes_are_refused(tmp_path: Path, address: str) -> None:
    with pytest.raises(ValueError, match="neither http:// nor https://"):
        fetch.fetch_archive(address, tmp_path, "batches", SUMS)


def test_a_full_disk_keeps_the_download(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tarfile.TarFile, "extract", full)
    with pytest.raises(ValueError, match=r"could not unpack .*No space left on device; it is kept"):
        get(site, tmp_path)
    assert contents(tmp_path) == ["set", PART]
    monkeypatch.undo()
    get(site, tmp_path)
    assert contents(tmp_path) == WHOLE
