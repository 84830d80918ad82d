"""Export targets of packed networks, and the function that exports to them."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from zerocross.files import write_whole
from zerocross.runtime.graph import OPS, Graph
from zerocross.runtime.infer import check


@dataclass(frozen=True)
class Exported:
    """Result of an export: files by name, and notes for the user.

    Examples:
        >>> from zerocross.export import Exported
        >>> list(Exported({"model.c": b"..."}).files)
        ['model.c']
    """

    files: Mapping[str, bytes]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class ExportTarget:
    """A target of exports.

    Args:
        about: Description in one line.
        make: "module:function" with arguments (graph, name, **options) that creates the files; imported when needed.
        unsupported: Unsupported ops, each with the reason.
        options: Names of the options of that function.

    Examples:
        >>> from zerocross.export import TARGETS
        >>> "binary_conv2d" in TARGETS["c"].ops
        True
    """

    about: str
    make: str
    unsupported: Mapping[str, str] = field(default_factory=dict)
    options: tuple[str, ...] = ()

    @property
    def ops(self) -> tuple[str, ...]:
        """The supported ops."""
        return tuple(op for op in OPS if op not in self.unsupported)

    def check(self, graph: Graph) -> None:
        """Raise a ValueError that names the node if a graph contains an unsupported op."""
        for node in graph.nodes:
            if node.op in self.unsupported:
                raise ValueError(f"node {node.output!r} ({node.op}) cannot be exported: {self.unsupported[node.op]}")


TARGETS: dict[str, ExportTarget] = {
    "c": ExportTarget("NAME.c and NAME.h: C99, static memory only", "zerocross.export.c.files:make", options=("cc",)),
    "wasm": ExportTarget(
        "NAME.wasm, NAME.simd.wasm, NAME.json: WebAssembly, by clang",
        "zerocross.export.web.wasm:make",
        options=("clang",),
    ),
    "onnx": ExportTarget("NAME.onnx: ONNX, opset 17, standard operators", "zerocross.export.onnx.files:make"),
    "qonnx": ExportTarget(
        "NAME.qonnx.onnx: QONNX, signs and binary weights as BipolarQuant", "zerocross.export.onnx.files:make_qonnx"
    ),
}
"""Name -> what a packed network can be exported to.

Examples:
    >>> from zerocross.export import TARGETS
    >>> list(TARGETS)
    ['c', 'wasm', 'onnx', 'qonnx']
"""


def export(
    graph: Graph, to: str, folder: str | Path, *, name: str = "model", force: bool = False, **options: Any
) -> Exported:
    """Export a packed network and write its files.

    Args:
        graph: A packed network, as returned by `zerocross.runtime.format.read`.
        to: One of `TARGETS`.
        folder: Folder for the files; created if it does not exist.
        name: Name of the files, and prefix of names in C.
        force: Replace existing files.
        options: Options of the target, see `ExportTarget.options`.

    Examples:
        >>> from tempfile import TemporaryDirectory
        >>> from zerocross import zoo
        >>> from zerocross.export import export
        >>> from zerocross.runtime.format import read
        >>> with TemporaryDirectory() as folder:
        ...     exported = export(read(zoo.located("zoo:digits")), "c", folder, name="digits")
        ...
        >>> sorted(exported.files)
        ['digits.c', 'digits.h']
    """
    if to not in TARGETS:
        near = difflib.get_close_matches(to, TARGETS, 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise ValueError(f"to = {to!r}: it must be one of {', '.join(TARGETS)}{hint}")
    target, folder = TARGETS[to], Path(folder)
    graph = check(graph)
    target.check(graph)
    if unknown := [key for key in options if key not in target.options]:
        known = ", ".join(target.options) or "none"
        raise ValueError(f"{to} has no option {unknown[0]!r}; its options are: {known}")
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(f"{folder} is a file; choose a folder")
    module, _, function = target.make.partition(":")
    make: Callable[..., Exported] = getattr(importlib.import_module(module), function)
    exported = make(graph, name, **options)
    if not force and (existing := [folder / each for each in exported.files if (folder / each).exists()]):
        raise FileExistsError(
            f"{existing[0]} already exists: choose another folder or name, or replace it (force=True, --force)"
        )
    for each, data in exported.files.items():
        write_whole(folder / each, lambda file, data=data: file.write(data))
    return exported
