"""A packed network as an ONNX model."""

from __future__ import annotations

import json

from onnx import ModelProto, TensorProto, checker, helper, shape_inference

from zerocross import __version__
from zerocross.export.onnx.operators import OPERATORS, OnnxNode
from zerocross.export.onnx.writer import QONNX_DOMAIN, OnnxWriter
from zerocross.runtime.graph import Graph
from zerocross.runtime.infer import check, infer

OPSET, IR_VERSION = 17, 8  # of 2022, which every runtime in use reads


def to_onnx(graph: Graph, *, bipolar: bool = False, batch: int | str = "N") -> ModelProto:
    """An ONNX model of a packed network, from float32 inputs to float32 outputs.

    Args:
        graph: a packed network.
        bipolar: write signs and binary weights as QONNX's BipolarQuant.
        batch: how many samples an input holds; a text leaves it open.
    """
    graph = check(graph)
    values = infer(graph)
    writer = OnnxWriter(bipolar=bipolar, taken=list(values))
    for node in graph.nodes[1:]:
        OPERATORS[node.op](OnnxNode(graph, node, values, writer))
    output = graph.output
    if output == graph.nodes[0].output:
        output = writer.add("Identity", [output], writer.name("output"))
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [batch, *values[value].shape])
        for name, value in ((graph.nodes[0].output, graph.nodes[0].output), (output, graph.output))
    ]
    known = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [batch, *value.shape])
        for name, value in values.items()
        if name not in {graph.nodes[0].output, graph.output}
    ]
    made = helper.make_graph(writer.nodes, "zerocross", ends[:1], ends[1:], writer.initializers, value_info=known)
    opsets = [helper.make_opsetid("", OPSET)] + [helper.make_opsetid(QONNX_DOMAIN, 1)] * bipolar
    model = helper.make_model(
        made, opset_imports=opsets, ir_version=IR_VERSION, producer_name="zerocross", producer_version=__version__
    )
    helper.set_model_props(model, _properties(graph))
    if bipolar:
        return model
    checker.check_model(model, full_check=True)
    return shape_inference.infer_shapes(model, strict_mode=True)


def _properties(graph: Graph) -> dict[str, str]:
    """What a file says of itself, as texts: provenance, classes and preprocessing as JSON."""
    found = {f"provenance.{key}": text for key, text in graph.provenance.items()}
    if graph.classes:
        found["classes"] = json.dumps(graph.classes)
    if graph.preprocessing is not None:
        found["preprocessing"] = json.dumps(graph.preprocessing.to_json())
    return found
