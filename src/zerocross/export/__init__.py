"""Packed networks for other places: C99, WebAssembly, ONNX and QONNX, each made from the graph of a packed file."""

from __future__ import annotations

from zerocross.extras import named

with named():
    from zerocross.export.targets import TARGETS, Exported, ExportTarget, export

__all__ = ["TARGETS", "Exported", "ExportTarget", "export"]
