"""Exported ONNX and QONNX files give the outputs of packed networks."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from export.harness import Case, difference, near_ties, random_case
from reference.packed_graph import every_op
from zerocross.cli.app import run as command
from zerocross.runtime.format import write
from zerocross.runtime.graph import OPS, Graph
from zerocross.runtime.infer import check

onnx = pytest.importorskip("onnx", reason="no onnx: pip install 'zerocross[export]'")
runtime = pytest.importorskip("onnxruntime", reason="no onnxruntime: pip install 'zerocross[export]'")

from zerocross.export.onnx.model import OPSET, to_onnx  # noqa: E402
from zerocross.export.onnx.operators import OPERATORS  # noqa: E402


def by_onnx_runtime(graph: Graph, x: np.ndarray) -> np.ndarray:
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    model = to_onnx(graph).SerializeToString()
    session = runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return session.run(None, {session.get_inputs()[0].name: x})[0]


def by_qonnx(graph: Graph, x: np.ndarray) -> np.ndarray:
    """Run the model with qonnx's own executor, sample by sample, after its clean-up."""
    wrapper = pytest.importorskip("qonnx.core.modelwrapper", reason="no qonnx: pip install 'zerocross[export]'")
    from qonnx.core.onnx_exec import execute_onnx
    from qonnx.util.cleanup import cleanup_model

    model = cleanup_model(wrapper.ModelWrapper(to_onnx(graph, bipolar=True, batch=1)))
    ends = model.graph.input[0].name, model.graph.output[0].name
    return np.concatenate([execute_onnx(model, {ends[0]: each[None]})[ends[1]] for each in x])


def agree(case: Case, y: np.ndarray) -> int:
    """Return the number of samples that differ, and check that all of them are ties.

    Infinite outputs (a maximum over no pixel) are left out: runtimes return -3e38 instead.
    """
    reference = case.expected[case.graph.output]
    assert y.shape == reference.shape
    assert y.dtype == np.float32
    if not np.isfinite(reference).all():
        return 0
    far = difference(y, reference) > 1e-4
    assert not far.any() or not (far & ~near_ties(case)).any(), [node.op for node in case.graph.nodes]
    return int(far.sum())


def test_random_graphs_by_onnx_runtime():
    assert sum(agree(case, by_onnx_runtime(case.graph, case.x)) for case in map(random_case, range(40))) <= 1


def test_random_graphs_by_qonnx():
    cases = [random_case(seed, samples=1) for seed in range(8)]
    assert sum(agree(case, by_qonnx(case.graph, case.x)) for case in cases) <= 1


@pytest.mark.slow
@pytest.mark.parametrize("execute", [by_onnx_runtime, by_qonnx])
def test_two_hundred_random_graphs(execute):
    cases = [random_case(seed, samples=1) for seed in range(200)]
    assert {node.op for case in cases for node in case.graph.nodes} == set(OPS)
    assert sum(agree(case, execute(case.graph, case.x)) for case in cases) <= 2


@pytest.mark.parametrize("execute", [by_onnx_runtime, by_qonnx])
def test_a_graph_of_every_op(execute):
    graph = check(every_op())
    assert {node.op for node in graph.nodes} == set(OPS) == {"input", *OPERATORS}
    x = np.random.default_rng(0).standard_normal((2, *graph.input_size)).astype(np.float32)
    assert agree(Case(graph, x), execute(graph, x)) == 0


def test_the_sign_of_zero_is_plus_one():
    from reference.runtime_graphs import Builder

    b = Builder(3, 2, 2)
    graph = b.graph(b.sign("x"))
    zeros = np.array([0.0, -0.0, 1e-30], np.float32).reshape(1, 3, 1, 1) * np.ones((1, 1, 2, 2), np.float32)
    for execute in (by_onnx_runtime, by_qonnx):
        assert (execute(graph, zeros) == 1).all()
        assert (execute(graph, zeros - 1) == -1).all()


def test_only_standard_operators_of_a_stated_opset():
    model = to_onnx(every_op())
    assert [(each.domain, each.version) for each in model.opset_import] == [("", OPSET)]
    assert {node.domain for node in model.graph.node} == {""}
    kinds = {node.op_type for node in to_onnx(every_op(), bipolar=True).graph.node}
    assert "BipolarQuant" in kinds
    assert not kinds & {"Where", "Sign", "Cast"}


def test_the_file_keeps_names_and_preprocessing(tmp_path: Path):
    write(tmp_path / "every.zcb", every_op())
    assert command(["export", str(tmp_path / "every.zcb"), "--to", "onnx", "-o", str(tmp_path)]) == 0
    model = onnx.load(tmp_path / "model.onnx")
    properties = {each.key: each.value for each in model.metadata_props}
    assert json.loads(properties["classes"]) == list(every_op().classes)
    assert json.loads(properties["preprocessing"])["kind"] == "image"


def test_binary_weights_take_one_byte_each():
    bits = sum(np.prod(node.attrs["shape"]) for node in every_op().nodes if node.op.startswith("binary_"))
    stored = [each for each in to_onnx(every_op()).graph.initializer if each.data_type == onnx.TensorProto.INT8]
    assert sum(np.prod(each.dims) for each in stored) == bits
