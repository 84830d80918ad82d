"""The targets "onnx" and "qonnx"."""

from __future__ import annotations

from zerocross.export.targets import Exported
from zerocross.extras import named
from zerocross.runtime.graph import Graph

with named():
    from zerocross.export.onnx.model import OPSET, to_onnx


def make(graph: Graph, name: str) -> Exported:
    """Return NAME.onnx: standard operators, for any batch size."""
    data = to_onnx(graph).SerializeToString()
    return Exported({f"{name}.onnx": data}, (f"ONNX opset {OPSET}; {len(data):,} bytes",))


def make_qonnx(graph: Graph, name: str) -> Exported:
    """Return NAME.qonnx.onnx: standard operators and BipolarQuant, for batches of one sample."""
    data = to_onnx(graph, bipolar=True, batch=1).SerializeToString()
    note = f"QONNX: ONNX opset {OPSET} and qonnx.custom_op.general; {len(data):,} bytes"
    return Exported({f"{name}.qonnx.onnx": data}, (note,))
