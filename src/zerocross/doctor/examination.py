"""Everything `zerocross doctor` looks at, area by area. Heavy packages are imported only where they are installed."""

from __future__ import annotations

import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path

from zerocross import extras
from zerocross.checks import one_line
from zerocross.data import layout
from zerocross.doctor.finding import Diagnosis
from zerocross.doctor.processor import examine_processor, features

OLDEST_PYTHON = (3, 10)
_BASE = ("numpy", "scipy", "safetensors")
_UNKNOWN = "unknown version"
_INSTALL_BASE = "pip install --upgrade zerocross"
FOLDERS = {
    "mnist": layout.mnist_folder,
    "fashion-mnist": layout.fashion_mnist_folder,
    "cifar10": layout.cifar10_folder,
    "audiomnist": layout.audiomnist_folder,
    "ucr": layout.ucr_folder,
    "hapt": layout.hapt_folder,
    "imdb": layout.imdb_folder,
    "imagenet": layout.imagenet_folder,
}
_COMPILER = "apt install g++ (Debian, Ubuntu), dnf install gcc-c++ (Fedora), xcode-select --install (macOS)"
_HEADERS = "apt install python3-dev (Debian, Ubuntu), dnf install python3-devel (Fedora)"


def examine(data_dir: Path | None = None) -> list[Diagnosis]:
    """Look at Python, torch, devices, compiler, processor, packed runtime, extras, datasets and caches.

    Args:
        data_dir: the folder of the datasets; None is "data" in the current folder.
    """
    areas: tuple[Callable[[], Iterator[Diagnosis]], ...] = (
        _python,
        _torch,
        lambda: examine_processor(features()),
        _runtime,
        _extras,
        _outdated,
        lambda: _data(data_dir),
    )
    return [each for area in areas for each in area()]


def _python() -> Iterator[Diagnosis]:
    detail = (
        f"{platform.python_version()} ({platform.python_implementation()}), {platform.system()} {platform.machine()}"
    )
    if sys.version_info[:2] >= OLDEST_PYTHON:
        yield Diagnosis("python", "python", "ok", detail)
    else:
        yield Diagnosis(
            "python", "python", "broken", detail, f"install Python {'.'.join(map(str, OLDEST_PYTHON))} or later"
        )
    for name in _BASE:
        yield _imported("python", name, _INSTALL_BASE)


def _imported(area: str, name: str, fix: str) -> Diagnosis:
    """Whether an installed package can be imported: a damaged one is broken, and says why."""
    if not extras.installed(name):
        return Diagnosis(area, name, "broken", "not installed", fix)
    try:
        __import__(name)
    except Exception as wrong:  # whatever a damaged package raises is the finding
        return Diagnosis(area, name, "broken", f"cannot be imported: {type(wrong).__name__}: {one_line(wrong)}", fix)
    return Diagnosis(area, name, "ok", version(name))


def version(distribution: str) -> str:
    """The version of a distribution, or `_UNKNOWN`."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return _UNKNOWN


def _torch() -> Iterator[Diagnosis]:
    compiler = next((path for name in ("g++", "clang++", "c++") if (path := shutil.which(name))), None)
    fix = _COMPILER
    if not extras.installed("torch"):
        yield Diagnosis(
            "torch", "torch", "missing", "needed to train and to pack, not to run packed networks",
            "pip install 'zerocross[train]'",
        )  # fmt: skip
    else:
        torch = _imported("torch", "torch", "pip install --force-reinstall torch")
        yield torch
        if torch.state == "ok":
            yield from _devices()
            compiler, fix = _torch_compiler()
    if compiler:
        yield Diagnosis("torch", "C++ compiler", "ok", f"{compiler}: torch.compile builds CPU code with it")
    else:
        yield Diagnosis("torch", "C++ compiler", "missing", "training runs without torch.compile, slower", fix)


def _devices() -> Iterator[Diagnosis]:
    import torch

    yield Diagnosis("torch", "cpu", "ok", f"{os.cpu_count()} processors, torch uses {torch.get_num_threads()} of them")
    for index in range(torch.cuda.device_count() if torch.cuda.is_available() else 0):
        name, (major, minor) = torch.cuda.get_device_name(index), torch.cuda.get_device_capability(index)
        bf16 = "bf16" if major >= 8 else "no bf16 arithmetic"
        yield Diagnosis("torch", f"cuda:{index}", "ok", f"{name}, compute capability {major}.{minor}, {bf16}")
    if not torch.cuda.is_available():
        built = torch.version.cuda
        why = (
            f"torch is built for CUDA {built}, but no device or driver answers"
            if built
            else "torch is built for the CPU"
        )
        fix = (
            "check the driver with nvidia-smi"
            if built
            else "on a machine with a GPU: install torch with CUDA, pytorch.org"
        )
        yield Diagnosis("torch", "cuda", "missing", why, fix)


def _torch_compiler() -> tuple[str | None, str]:
    """Return the compiler that torch.compile takes (the environment's CXX, for instance), or what to install."""
    from zerocross import compiler

    if not compiler.available():
        return None, _HEADERS if "Python.h" in compiler.missing() else _COMPILER
    from torch._inductor import cpp_builder

    return str(cpp_builder.get_cpp_compiler()), ""


def _runtime() -> Iterator[Diagnosis]:
    if absent := [name for name in ("numba", "llvmlite") if not extras.installed(name)]:
        yield Diagnosis(
            "packed networks", "kernels", "missing", f"{', '.join(absent)} not installed",
            "pip install 'zerocross[runtime]'",
        )  # fmt: skip
        return
    from zerocross.runtime.kernels import native, target

    level = target.best_level()
    name = native.object_name(level)
    folders = native._folders()
    writable = next((folder for folder in folders if _writable(folder)), None)
    detail = f"level {level.name} of {', '.join(each.name for each in target.LEVELS)}: "
    if native.read_object(native.PREBUILT / name) is not None:
        yield Diagnosis("packed networks", "kernels", "ok", detail + "prebuilt, nothing is compiled")
    elif cached := next((folder for folder in folders if native.read_object(folder / name) is not None), None):
        yield Diagnosis("packed networks", "kernels", "ok", f"{detail}compiled here before, in {cached}")
    else:
        yield Diagnosis("packed networks", "kernels", "ok", detail + "compiled at first use, about ten seconds")
    if writable:
        yield Diagnosis("packed networks", "kernel cache", "ok", str(writable))
    else:
        yield Diagnosis(
            "packed networks", "kernel cache", "missing", f"cannot write {' or '.join(map(str, folders))}",
            "make one of them writable, or pass cache= to zerocross.runtime.load",
        )  # fmt: skip


def _writable(folder: Path) -> bool:
    """Whether a file can be written in a folder, or in the nearest one above it that exists."""
    while not folder.is_dir():
        if folder.exists() or folder == folder.parent:
            return False
        folder = folder.parent
    try:
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def _extras() -> Iterator[Diagnosis]:
    table = {**extras.missing_modules(), "imagenet": [] if extras.installed("nvidia.dali") else ["nvidia.dali"]}
    for extra, absent in table.items():
        if absent:
            detail, fix = f"without {', '.join(absent)}", f"pip install 'zerocross[{extra}]'"
            yield Diagnosis("extras", extra, "missing", detail, fix)
        else:
            yield Diagnosis("extras", extra, "ok", "")


def _outdated() -> Iterator[Diagnosis]:
    """Installed distributions that are older or newer than this package allows; nothing without `packaging`."""
    if not extras.installed("packaging"):
        return
    from packaging.requirements import Requirement

    try:
        project = metadata.metadata("zerocross")
    except metadata.PackageNotFoundError:  # sources without an installation
        return
    chosen = [{"extra": extra} for extra in ("", *(project.get_all("Provides-Extra") or []))]
    for requirement in {Requirement(line) for line in project.get_all("Requires-Dist") or []}:
        name, marker = requirement.name, requirement.marker
        has = version(name)
        applies = marker is None or any(marker.evaluate(each) for each in chosen)
        if applies and has != _UNKNOWN and not requirement.specifier.contains(has, prereleases=True):
            wanted = f"{name}{requirement.specifier}"
            state = "broken" if name in {*_BASE, "torch"} else "missing"
            yield Diagnosis("extras", name, state, f"{has} is installed, {wanted} is needed", f"pip install '{wanted}'")


def _data(data_dir: Path | None) -> Iterator[Diagnosis]:
    folder = Path("data") if data_dir is None else data_dir
    state = "ok" if folder.is_dir() else "missing"
    fix = "" if folder.is_dir() else "set ZEROCROSS_DATA or --data-dir, or fetch datasets into ./data, as below"
    yield Diagnosis("data", "folder", state, f"{folder}{'' if folder.is_dir() else ' does not exist'}", fix)
    digits = extras.installed("sklearn")
    yield Diagnosis(
        "data", "digits", "ok" if digits else "missing", "part of scikit-learn",
        "" if digits else "pip install 'zerocross[train]'",
    )  # fmt: skip
    for name, find in FOLDERS.items():
        where = find(folder) if folder.is_dir() else None
        if where is None:
            yield Diagnosis("data", name, "missing", "", f"zerocross data fetch {name}")
        else:
            yield Diagnosis("data", name, "ok", str(where))
