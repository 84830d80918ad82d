"""Bi-RealNet-20 on real images: exported files compared with the packed runtime, and the causes of differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from export.harness import build, compiler, cut, difference, run
from zerocross import models
from zerocross.deploy import pack
from zerocross.export.c.model import CModel
from zerocross.runtime.graph import Graph
from zerocross.runtime.model import Model

pytestmark = [pytest.mark.data, pytest.mark.slow]
IMAGES = 1000
Execute = Callable[[Sequence[Graph], np.ndarray], list[np.ndarray]]


@pytest.fixture(scope="module")
def images(real_data: Path) -> np.ndarray:
    """Return CIFAR-10's test images, scaled as for training."""
    rows = np.fromfile(real_data / "cifar10" / "cifar-10-batches-bin" / "test_batch.bin", np.uint8).reshape(-1, 3073)
    return (rows[:, 1:].reshape(-1, 3, 32, 32).astype(np.float32) / 255 - 0.45) / 0.25


@pytest.fixture(scope="module")
def graph(images: np.ndarray) -> Graph:
    """Return Bi-RealNet-20 with random weights and the statistics of real images, so that its signs are balanced."""
    torch.manual_seed(0)
    network = models.create("birealnet20").train()
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.momentum = None
    with torch.no_grad():
        network(torch.from_numpy(images[:128]))
    return pack(network.eval()).graph


def untied(graph: Graph, x: np.ndarray, execute: Execute) -> list[str]:
    """Find the first differing sign of each image; return the images for which its input is not nearly 0.

    Args:
        graph: The network.
        x: Images on which two executions differ.
        execute: The other execution, of several graphs.
    """
    signs = [node for node in graph.nodes if node.op == "sign"]
    before = [cut(graph, node.inputs[0]) for node in signs]
    others = execute(before, x)
    pending, unexplained = set(range(len(x))), []
    for node, part, other in zip(signs, before, others, strict=True):
        shift = graph.tensor(node, "shift")
        term = 0 if shift is None else shift.reshape(-1, *(1,) * (other.ndim - 2))
        ours = Model(part)(x) + term
        for image in sorted(pending):
            flipped = (ours[image] >= 0) != (other[image] + term >= 0)
            if flipped.any():
                pending.discard(image)
                if np.abs(ours[image][flipped]).max() > 1e-5 * np.abs(ours[image]).max():
                    unexplained.append(f"image {image} at {node.output}")
    return unexplained + [f"image {image} has no differing sign" for image in pending]


def test_c_for_this_processor_is_bit_identical(graph: Graph, images: np.ndarray, tmp_path: Path):
    if "fma" not in Path("/proc/cpuinfo").read_text().split():
        pytest.skip("this processor lacks the fused multiply-add that the packed runtime uses")
    model, x = CModel(graph), images[:IMAGES]
    program = build([model], IMAGES, tmp_path, (compiler("gcc"), "-O3", "-march=native", "-DZEROCROSS_FMA"))
    np.testing.assert_array_equal(run(program, [model], [x])[0], Model(graph)(x))


@pytest.mark.parametrize("program", ["gcc", "clang"])
def test_c_for_any_processor_differs_at_ties_only(program: str, graph: Graph, images: np.ndarray, tmp_path: Path):
    x = images[:IMAGES]

    def execute(graphs: Sequence[Graph], x: np.ndarray) -> list[np.ndarray]:
        parts = [CModel(each, f"g{number}") for number, each in enumerate(graphs)]
        executable = build(parts, len(x), tmp_path / str(len(parts)), (compiler(program), "-O3"))
        return run(executable, parts, [x] * len(parts))

    far = difference(execute([graph], x)[0], Model(graph)(x)) > 1e-4
    assert far.sum() <= IMAGES // 100
    assert untied(graph, x[far], execute) == []


def test_onnx_runtime_has_the_same_argmax_up_to_ties(graph: Graph, images: np.ndarray):
    pytest.importorskip("onnxruntime", reason="no onnxruntime: pip install 'zerocross[export]'")
    from export.test_export_onnx import by_onnx_runtime

    expected = Model(graph)(images)
    result = np.concatenate([by_onnx_runtime(graph, part) for part in np.split(images, 20)])
    assert (difference(result, expected) > 1e-4).mean() < 0.02
    other = result.argmax(1) != expected.argmax(1)
    assert other.sum() <= len(images) // 500
    assert untied(graph, images[other], lambda graphs, x: [by_onnx_runtime(each, x) for each in graphs]) == []
