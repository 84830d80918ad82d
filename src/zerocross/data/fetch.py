"""Download an archive, resuming an interrupted download; unpack it safely, check it, and put it in place atomically.

Works without torch. Errors are ValueErrors that say what to do next.
"""

from __future__ import annotations

import hashlib
import http.client
import shutil
import tarfile
import tempfile
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath
from typing import IO, Any

from zerocross.data.layout import CIFAR10_ADDRESS, CIFAR10_BINARY, CIFAR10_SHA256, IDX_ADDRESSES, IDX_SHA256

TIMEOUT = 60.0  # seconds without a byte
MAX_DOWNLOAD, MAX_UNPACKED, MAX_MEMBERS = 512 * 2**20, 2**30, 100
BLOCK = 2**18

Progress = Callable[[int, int | None], None]


def fetch_cifar10(data_dir: Path, *, address: str = CIFAR10_ADDRESS, progress: Progress | None = None) -> Path | None:
    """Download CIFAR-10's binary version to data_dir/cifar10; return its folder, or None if it already exists.

    Args:
        data_dir: the folder of all datasets; created if missing.
        address: URL of the archive, http or https.
        progress: called with (bytes so far, total bytes or None).
    """
    return fetch_archive(address, data_dir / "cifar10", CIFAR10_BINARY, CIFAR10_SHA256, progress)


def fetch_idx(
    name: str, data_dir: Path, *, address: str | None = None, progress: Progress | None = None
) -> Path | None:
    """Download the four files of "mnist" or "fashion-mnist" to data_dir/NAME; return it, or None if they exist.

    Each file is checked before it is put in place; existing files with the right checksum are kept.

    Args:
        name: name of the dataset.
        data_dir: the folder of all datasets; created if missing.
        address: URL of the folder of files, http or https, ending in a slash; the official one by default.
        progress: called with (bytes so far, total bytes or None) of each file.
    """
    return fetch_files(address or IDX_ADDRESSES[name], data_dir / name, IDX_SHA256[name], progress)


def fetch_files(address: str, target: Path, sha256: Mapping[str, str], progress: Progress | None = None) -> Path | None:
    """Download files to the folder `target`, each put in place once it matches its checksum.

    Args:
        address: URL of the folder of files, http or https, ending in a slash.
        target: created if missing; an existing file with another checksum is an error.
        sha256: name -> checksum.
        progress: called with (bytes so far, total bytes or None) of each file.
    """
    _check_scheme(address)
    missing = [name for name in sha256 if not (target / name).exists()]
    if different := [name for name in mismatches(target, sha256) if name not in missing]:
        raise FileExistsError(
            f"{target} has files with other contents ({', '.join(different)}): move them away, then fetch again"
        )
    for name in missing:
        part = target / f"{name}.part"
        download(address + name, part, progress)
        if digest(part, "sha256") != sha256[name]:
            part.unlink()
            raise ValueError(f"{address}{name} has a wrong checksum, and was removed: fetch it again")
        part.rename(target / name)
    return target if missing else None


def _check_scheme(address: str) -> None:
    if not address.startswith(("http://", "https://")):
        raise ValueError(f"address {address!r} is neither http:// nor https://")


def fetch_archive(
    address: str, parent: Path, folder: str, sha256: Mapping[str, str], progress: Progress | None = None
) -> Path | None:
    """Download a .tar.gz and put its folder at parent/folder, once its files match their checksums.

    An interrupted download stays at parent/<archive>.part, and the next call continues it; no other files remain.

    Args:
        address: URL of the archive, http or https.
        parent: the parent of `folder`.
        folder: the folder of the archive to extract.
        sha256: checksum of each required file in it.
        progress: called with (bytes so far, total bytes or None).
    """
    target = parent / folder
    if target.exists():
        damaged = mismatches(target, sha256)
        if damaged:
            raise FileExistsError(
                f"{target} exists but is incomplete ({', '.join(damaged)}): move it away, then fetch again"
            )
        return None
    _check_scheme(address)
    part = parent / (PurePosixPath(address).name + ".part")
    download(address, part, progress)
    room = Path(tempfile.mkdtemp(prefix=".unpacking-", dir=parent))
    try:
        try:
            unpack(part, room)
            damaged = mismatches(room / folder, sha256)
            if damaged:
                raise ValueError(f"wrong checksum: {', '.join(damaged)}")
        except (ValueError, EOFError, tarfile.TarError, zlib.error, OSError) as problem:
            if isinstance(problem, OSError) and problem.errno is not None:
                raise ValueError(
                    f"could not unpack {part}: {problem}; it is kept"
                ) from problem  # disk full and the like
            part.unlink()
            raise ValueError(f"{address} gave a bad archive, now removed: {problem}; fetch it again") from problem
        (room / folder).rename(target)
    finally:
        shutil.rmtree(room, ignore_errors=True)
    part.unlink()
    return target


def download(address: str, part: Path, progress: Progress | None = None) -> None:
    """Download `address` to the file `part`, continuing an existing one (HTTP Range; restarted if not supported)."""
    have = part.stat().st_size if part.exists() else 0
    try:
        with _open(address, have) as response:
            span = response.headers.get("Content-Range", "")  # "bytes 5-9/10", or "bytes */10" for none
            if response.status == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
                if span.endswith(f"/{have}"):
                    return
                part.unlink()
                raise ValueError(f"{part} did not belong to {address}, and was removed: fetch again")
            continued = response.status == http.HTTPStatus.PARTIAL_CONTENT
            if continued and not span.startswith(f"bytes {have}-"):
                raise ValueError(f"{address} did not continue at byte {have}: remove {part} and fetch again")
            have = have if continued else 0
            length = response.headers.get("Content-Length")
            total = None if length is None else have + int(length)
            part.parent.mkdir(parents=True, exist_ok=True)
            with part.open("ab" if continued else "wb") as file:
                have = _copy(response, file, have, total, progress)
    except (OSError, http.client.HTTPException) as error:
        kept = f"the partial download is in {part}, " if part.exists() else ""
        raise ValueError(
            f"could not download {address} ({getattr(error, 'reason', error)}); {kept}fetch again"
        ) from error
    if total is not None and have != total:
        raise ValueError(f"{address} stopped after {have} of {total} bytes, kept in {part}: fetch again to continue")


def _open(address: str, have: int) -> Any:
    headers = {"User-Agent": "zerocross"} | ({"Range": f"bytes={have}-"} if have else {})
    request = urllib.request.Request(address, headers=headers)  # noqa: S310 - the scheme is checked by fetch_archive
    try:
        return urllib.request.urlopen(request, timeout=TIMEOUT)  # noqa: S310
    except urllib.error.HTTPError as answer:
        if answer.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            return answer
        raise


def _copy(response: IO[bytes], file: IO[bytes], have: int, total: int | None, progress: Progress | None) -> int:
    while block := response.read(BLOCK):
        have += len(block)
        if max(have, total or 0) > MAX_DOWNLOAD:
            raise ValueError(f"the download exceeds the expected maximum of {MAX_DOWNLOAD} bytes: check the address")
        file.write(block)
        if progress is not None:
            progress(have, total)
    return have


def unpack(archive: Path, room: Path) -> None:
    """Unpack a .tar.gz into `room`: only plain files and folders with relative names, limited in number and size."""
    unpacked = 0
    with tarfile.open(archive, "r:gz") as tar:
        for count, member in enumerate(tar, start=1):
            path = PurePosixPath(member.name)
            if path.is_absolute() or ".." in path.parts or not (member.isfile() or member.isdir()):
                raise ValueError(f"member {member.name!r} is unsafe (a link, or outside the archive's folder)")
            unpacked += member.size
            if count > MAX_MEMBERS or unpacked > MAX_UNPACKED:
                raise ValueError(f"more than {MAX_MEMBERS} members or {MAX_UNPACKED} bytes")
            tar.extract(member, room, filter="data")


def mismatches(folder: Path, sha256: Mapping[str, str]) -> list[str]:
    """Return the names of files that are missing in `folder` or do not match their checksum."""
    return [name for name, want in sha256.items() if digest(folder / name, "sha256") != want]


def digest(path: Path, algorithm: str) -> str:
    """Return the hexadecimal checksum of a file; empty if the file does not exist."""
    if not path.is_file():
        return ""
    with path.open("rb") as file:
        checksum = hashlib.new(algorithm, usedforsecurity=False)
        while block := file.read(1 << 20):
            checksum.update(block)
    return checksum.hexdigest()
