"""OpenVINO as a contender: requests to its worker, errors, and that the real one gives the same outputs."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from zerocross import models
from zerocross.bench import inference
from zerocross.bench.inference import InferenceTimes, LayerTimes, NetworkTimes
from zerocross.bench.inference_limit import LimitTimes
from zerocross.bench.inference_openvino import OpenVINO
from zerocross.bench.inference_random import randomize
from zerocross.cli.app import run
from zerocross.deploy import pack
from zerocross.models.registry import MODELS
from zerocross.runtime.model import Model

SIZE = (1, 8, 8)
READY = """
import json, sys
def say(answer):
    print(json.dumps(answer), flush=True)
say({"versions": {"openvino": "0"}})
"""


@pytest.fixture
def fake(tmp_path: Path):
    """Yield a function that starts an engine with a worker of the given code."""
    engines: list[OpenVINO] = []

    def start(code: str) -> OpenVINO:
        worker = tmp_path / "worker.py"
        worker.write_text(READY + code)
        engines.append(OpenVINO(sys.executable, worker))
        return engines[-1]

    yield start
    for engine in engines:
        engine.close()


def build(engine: OpenVINO, name: str = "digits_net", batch: int = 2, threads: int = 1):
    torch.manual_seed(0)
    size = MODELS[name].input_shape
    network = randomize(models.create(name), size)
    graph = pack(network, size).graph
    return graph, network, engine.build(graph, network, batch, threads)


def test_the_worker_receives_the_same_weights_layers_and_setting(fake, tmp_path: Path):
    received = tmp_path / "request.json"
    engine = fake(
        f"open({str(received)!r}, 'w').write(sys.stdin.readline()); say({{'model': 0}}); sys.stdin.readline()"
    )
    graph, network, _ = build(engine, batch=3, threads=2)
    request = json.loads(received.read_text())["build"]
    assert [node[0] for node in request["nodes"]] == [node.op for node in graph.nodes]
    assert [request["batch"], request["output"], request["setting"]["INFERENCE_NUM_THREADS"]] == [3, graph.output, "2"]
    assert request["setting"]["INFERENCE_PRECISION_HINT"] == "f32"
    binary = [layer for layer in request["layers"] if layer[0]]
    assert len(binary) == sum(node.op == "binary_conv2d" for node in graph.nodes) == 4
    with np.load(request["arrays"]) as arrays:
        assert list(arrays["input_size"]) == list(SIZE)
        stem = next(node for node in graph.nodes if node.op == "conv2d")
        assert arrays[stem.tensors["weight"]].shape == network.stem[0].weight.shape  # type: ignore[index]
        bits = arrays[next(node for node in graph.nodes if node.op == "binary_conv2d").tensors["weight"]]
    signs = np.unpackbits(bits, bitorder="little").reshape(network.blocks[0].conv.weight.shape)  # type: ignore[index]
    assert ((signs == 1) == (network.blocks[0].conv.weight > 0).numpy()).all()  # type: ignore[index]


def test_errors_of_the_worker_are_reported(fake):
    engine = fake('sys.stdin.readline(); say({"error": "not the same network"}); sys.stdin.readline()')
    with pytest.raises(ValueError, match="OpenVINO: not the same network"):
        build(engine)


def test_the_command_refuses_a_python_that_does_not_exist(capsys: pytest.CaptureFixture[str]):
    assert run(["bench", "inference", "--quick", "--openvino", "/nowhere/bin/python"]) == 2
    assert "no such Python interpreter; pass one whose environment has openvino" in " ".join(
        capsys.readouterr().err.split()
    )


def test_measurements_are_printed_stored_and_compared_with_targets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    seconds = {"zerocross": [0.004] * 3, "openvino": [0.007] * 3}
    networks = [NetworkTimes("birealnet18", 1, 1, seconds, 0.0, 2e-6)]
    limit, layer = LimitTimes(1000.0, {(8, 16, 128): 800.0}), LayerTimes(1e-4, 1e-3, openvino=2e-4)
    times = InferenceTimes(3, (0.0, 0.0), limit, layer, networks, None, None, {"openvino": "2026.4.1"})
    result = [claim for claim in times.claims() if "OpenVINO" in claim.text]
    assert [(claim.text, claim.value) for claim in result] == [
        ("birealnet18, batch 1, one thread, float32, x OpenVINO", pytest.approx(1.75))
    ]
    monkeypatch.setattr(inference, "measure", lambda *_, **__: times)
    assert run(["bench", "inference", "--out", str(tmp_path / "found.json")]) == 0
    captured = capsys.readouterr()
    assert "OpenVINO is left out" in captured.err
    assert "OpenVINO's layer 0.200 ms" in captured.out
    assert "from OpenVINO's: 2.0e-06" in " ".join(captured.out.split())
    figures = json.loads((tmp_path / "found.json").read_text())
    assert figures["networks"][0]["openvino_difference"] == 2e-6
    assert figures["openvino"]["versions"] == {"openvino": "2026.4.1"}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "batch"), [("birealnet20", 2), ("birealnet18", 1), ("reactnet_a", 1)])
def test_openvinos_networks_give_the_same_outputs_and_run_on_bits(name: str, batch: int):
    python = os.environ.get("ZEROCROSS_OPENVINO")
    if not python:
        pytest.skip("no OpenVINO: set ZEROCROSS_OPENVINO to the python that `make openvino` sets up")
    with OpenVINO(python) as engine:  # its worker refuses other layers, and convolutions that do not run on bits
        graph, _, rival = build(engine, name, batch)
        x = np.random.default_rng(1).standard_normal((batch, *graph.input_size), np.float32)
        np.testing.assert_allclose(rival(x), Model(graph)(x), rtol=0, atol=1e-3)
        assert rival.contender(0, 1) > 0
        with pytest.raises(ValueError, match="not the same network: layers that differ"):
            engine.build(graph, torch.nn.Conv2d(3, 4, 1), batch, 1)
