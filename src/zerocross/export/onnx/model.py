"""Convert a packed network to an ONNX model."""

from __future__ import annotations

import json

from onnx import ModelProto, TensorProto, checker, helper, shape_inference

from zerocross import __version__
from zerocross.export.onnx.operators import OPERATORS, OnnxNode
from zerocross.export.onnx.writer import QONNX_DOMAIN, OnnxWriter
from zerocross.runtime.graph import Graph
from zerocross.runtime.infer import check, infer

OPSET, IR_VERSION = 17, 8  # from 2022, supported by all current runtimes


def to_onnx(graph: Graph, *, bipolar: bool = False, batch: int | str = "N") -> ModelProto:
    """Return an ONNX model of a packed network, from float32 inputs to float32 outputs.

    Args:
        graph: A packed network.
        bipolar: Write signs and binary weights as QONNX's BipolarQuant.
        batch: Batch size; a string makes it a dynamic dimension of this name.
    """
    graph = check(graph)
    values = infer(graph)
    writer = OnnxWriter(bipolar=bipolar, used_names=list(values))
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
    onnx_graph = helper.make_graph(writer.nodes, "zerocross", ends[:1], ends[1:], writer.initializers, value_info=known)
    opsets = [helper.make_opsetid("", OPSET)] + [helper.make_opsetid(QONNX_DOMAIN, 1)] * bipolar
    model = helper.make_model(
        onnx_graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="zerocross", producer_version=__version__
    )
    helper.set_model_props(model, _properties(graph))
    if bipolar:
        return model
    checker.check_model(model, full_check=True)
    return shape_inference.infer_shapes(model, strict_mode=True)


def _properties(graph: Graph) -> dict[str, str]:
    """Return the metadata of a file: provenance, and classes and preprocessing as JSON."""
    properties = {f"provenance.{key}": text for key, text in graph.provenance.items()}
    if graph.classes:
        properties["classes"] = json.dumps(graph.classes)
    if graph.preprocessing is not None:
        properties["preprocessing"] = json.dumps(graph.preprocessing.to_json())
    return properties
