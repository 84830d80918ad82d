"""Export packed networks to C99, WebAssembly, ONNX and QONNX."""

from __future__ import annotations

from zerocross.extras import named

with named():
    from zerocross.export.targets import TARGETS, Exported, ExportTarget, export

__all__ = ["TARGETS", "Exported", "ExportTarget", "export"]
