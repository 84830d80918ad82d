"""Larq Compute Engine as a contender: the pipe to its process, tested with a small worker of the same protocol."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from zerocross import models
from zerocross.bench import inference, inference_layer, inference_turns
from zerocross.bench.inference import InferenceTimes, LayerTimes, NetworkTimes, measure_network
from zerocross.bench.inference_lce import NETWORKS, LarqComputeEngine
from zerocross.bench.inference_limit import LimitTimes
from zerocross.bench.inference_process import layers
from zerocross.bench.inference_turns import in_turn, timed
from zerocross.cli.app import run
from zerocross.models.registry import MODELS

SIZE = (3, 32, 32)
HEAD = """
import json, os, sys
def say(answer):
    print(json.dumps(answer), flush=True)
"""
# Encodes the request in the seconds that it returns: a thousand per thread, plus warm-up calls and timed calls.
FAKE = (
    HEAD
    + """
assert os.environ["TF_USE_LEGACY_KERAS"] == "1"
say({"versions": {"larq-compute-engine": "0"}})
threads = []
for line in sys.stdin:
    [(what, arguments)] = json.loads(line).items()
    if what == "build":
        threads.append(arguments["threads"])
        say({"model": len(threads) - 1})
    else:
        say({"seconds": 1000 * threads[arguments["model"]] + arguments["warm_up"] + arguments["calls"]})
"""
)
READY = HEAD + 'say({"versions": {}})\n'


@pytest.fixture
def fake(tmp_path: Path):
    """Yield a function that starts an engine with a worker of the given code."""
    engines: list[LarqComputeEngine] = []

    def start(code: str = FAKE) -> LarqComputeEngine:
        worker = tmp_path / "worker.py"
        worker.write_text(code)
        engines.append(LarqComputeEngine(sys.executable, worker))
        return engines[-1]

    yield start
    for engine in engines:
        engine.close()


def build(engine: LarqComputeEngine, threads: int = 1):
    return engine.build("birealnet20", models.create("birealnet20").eval(), SIZE, threads)


def test_contenders_of_one_worker_are_independent(fake):
    engine = fake()
    one, two = build(engine, 1), build(engine, 2)
    assert engine.versions == {"larq-compute-engine": "0"}
    assert [two(2, 1), one(0, 1), two(0, 1)] == [2003, 1001, 2001]


def test_the_worker_receives_the_layers_and_the_parameters(fake):
    engine = fake(READY + 'say({"error": sys.stdin.readline()})')
    with pytest.raises(ValueError, match=r"Larq Compute Engine: \{") as refused:
        build(engine)
    request = json.loads(str(refused.value).partition("Engine: ")[2])["build"]
    network = models.create("birealnet20")
    assert request["parameters"] == sum(parameter.numel() for parameter in network.parameters())
    binary = [layer for layer in request["layers"] if layer[0]]
    assert len(binary) == 18
    assert sum(inputs * outputs * kernel**2 for _, inputs, outputs, kernel, _, _ in binary) == 267_264


def test_layers_are_listed_in_order_with_their_shapes():
    result = layers(models.create("birealnet20").eval(), SIZE)
    assert result[0] == [False, 3, 16, 3, 1, 32]
    assert result[7] == [True, 16, 32, 3, 2, 16]  # the first of the second group
    assert result[-1] == [False, 64, 10, 1, 1, 1]


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ('raise SystemExit("no space left")', "has ended .exit code 1: no space left"),
        ('print("Hello from TensorFlow", flush=True)', "expected 'versions' from the worker, not 'Hello from Tensor"),
        (HEAD + "say([1, 2])", "expected 'versions' from the worker"),
        (HEAD + 'say({"error": "it cannot be imported (No module named x)"})', "Engine: it cannot be imported .No mod"),
    ],
)
def test_a_worker_that_does_not_start_is_reported(code: str, words: str, fake):
    with pytest.raises(ValueError, match=words):
        fake(code)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("sys.stdin.readline(); os.kill(os.getpid(), 9)", "has ended .exit code -9"),
        ("", "has ended .exit code 0"),
        ('sys.stdin.readline(); say({"model": 0}); sys.stdin.readline(); raise ValueError("heap")', "ValueError: heap"),
        ('sys.stdin.readline(); say({"model": 0}); print("}{", flush=True)', "expected 'seconds' from the worker, not"),
        ('sys.stdin.readline(); say({"model": 0}); say({"model": 0})', "expected 'seconds' from the worker, not"),
    ],
)
def test_a_worker_that_fails_later_is_reported(code: str, words: str, fake):
    engine = fake(READY + code)
    with pytest.raises(ValueError, match=words):
        build(engine)(0, 1)


def test_the_worker_ends_with_the_block_and_leaves_no_file(tmp_path: Path):
    worker, note = tmp_path / "worker.py", tmp_path / "note"
    worker.write_text(
        f"import os, tempfile, time\nname = tempfile.mkstemp()[1]\nopen({str(note)!r}, 'w').write(name)\n"
        + READY
        + "time.sleep(600)"
    )
    with LarqComputeEngine(sys.executable, worker) as engine:
        process, left = engine._rival.process, Path(note.read_text())
        assert process.poll() is None
        assert left.exists()
    assert process.poll() is not None
    assert not left.exists()


def test_the_command_refuses_a_python_that_does_not_exist_or_lacks_larq(capsys: pytest.CaptureFixture[str]):
    assert run(["bench", "inference", "--quick", "--lce", "/nowhere/bin/python"]) == 2
    assert "/nowhere/bin/python: no such Python interpreter; pass one" in " ".join(capsys.readouterr().err.split())
    assert run(["bench", "inference", "--quick", "--lce", sys.executable]) == 2  # our own has no TensorFlow
    output = " ".join(capsys.readouterr().err.split())
    assert "Larq Compute Engine: it cannot be imported (No module named" in output


def test_lce_is_timed_with_one_image_and_at_most_two_threads(fake, monkeypatch: pytest.MonkeyPatch):
    # Packed networks take seconds to prepare and are not needed here.
    monkeypatch.setattr(inference, "pack", lambda *_, **__: SimpleNamespace(graph=None))
    monkeypatch.setattr(inference, "Model", lambda *_: lambda array: np.zeros((len(array), 10), np.float32))
    engine = fake()
    alone = measure_network("birealnet20", 1, 1, 2, compile_=False, c_file=False, lce=engine)
    assert list(alone.seconds) == ["zerocross", "zerocross-int8", "lce", "eager", "twin-eager"]
    assert alone.seconds["lce"] == [1003, 1003]  # two warm-up calls and a timed one
    assert "lce" not in measure_network("birealnet20", 2, 1, 1, compile_=False, c_file=False, lce=engine).seconds
    assert "lce" not in measure_network("birealnet20", 1, 3, 1, compile_=False, c_file=False, lce=engine).seconds
    assert "lce" not in measure_network("digits_net", 1, 1, 1, compile_=False, c_file=False, lce=engine).seconds


def test_the_cost_of_a_layer_is_that_of_one_more_layer():
    assert inference_layer._layer_of(lambda depth: lambda *_: 0.5 + 0.25 * depth, 2) == pytest.approx(0.25)


def test_the_number_of_warm_up_and_timed_calls_depends_on_the_speed():
    requests: list[tuple[str, int, int]] = []

    def contender(name: str, seconds: float):
        def turn(warm_up: int, calls: int) -> float:
            requests.append((name, warm_up, calls))
            return seconds

        return turn

    result = in_turn({"slow": contender("slow", 1.0), "fast": contender("fast", 0.004)}, 2)
    # At least two warm-up calls, and for 50 ms; then at least one timed call, and for 10 ms.
    assert requests == [("slow", 2, 1), ("fast", 2, 1), *[("slow", 2, 1), ("fast", 13, 2)] * 2]
    assert result == {"slow": [1.0, 1.0], "fast": [0.004, 0.004]}


def test_a_turn_is_the_median_of_the_timed_calls(monkeypatch: pytest.MonkeyPatch):
    clock, lasting = [0.0], iter([9.0, 9.0, 1.0, 5.0, 2.0])
    monkeypatch.setattr(inference_turns.time, "perf_counter", lambda: clock[0])

    def call() -> None:
        clock[0] += next(lasting)

    assert timed(call)(2, 3) == 2.0


def test_measurements_are_printed_stored_and_compared_with_targets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    seconds = {"zerocross": [0.005] * 3, "zerocross-1": [0.009] * 3, "lce": [0.03] * 3}
    networks = [NetworkTimes("birealnet18", 1, threads, seconds, 0.0) for threads in (1, 2)]
    limit, layer = LimitTimes(1000.0, {(8, 16, 128): 800.0}), LayerTimes(1e-4, 1e-3, 2e-3)
    times = InferenceTimes(3, (0.0, 0.0), limit, layer, networks, None, {"larq": "0.14.0"})
    result = [claim for claim in times.claims() if "Larq" in claim.text]
    assert [claim.text for claim in result] == ["birealnet18, batch 1, one thread, x Larq Compute Engine"]
    assert result[0].value == pytest.approx(6)
    assert result[0].limit == 4
    monkeypatch.setattr(inference, "measure", lambda *_, **__: times)
    assert run(["bench", "inference", "--out", str(tmp_path / "found.json")]) == 0
    captured = capsys.readouterr()
    assert "Larq Compute Engine is left out" in captured.err
    assert "Larq Compute Engine's layer 2.000 ms" in captured.out
    figures = json.loads((tmp_path / "found.json").read_text())
    assert figures["layer_ms"]["lce"] == pytest.approx(2)
    assert figures["networks"][0]["median_ms"]["lce"] == pytest.approx(30)
    assert figures["lce"] == {"versions": {"larq": "0.14.0"}, "use_indirect_bgemm": True, "use_xnnpack": True}


@pytest.mark.slow
@pytest.mark.parametrize("name", [*NETWORKS, "layers-2"])
def test_larqs_networks_have_the_same_layers_and_run_on_bits(name: str):
    python = os.environ.get("ZEROCROSS_LCE")
    if not python:
        pytest.skip("no Larq Compute Engine: set ZEROCROSS_LCE to the python that `make lce` sets up")
    ours, size = (
        (inference_layer._Chain(2), (256, 14, 14))
        if name == "layers-2"
        else (models.create(name), MODELS[name].input_shape)
    )
    with LarqComputeEngine(python) as engine:  # its worker refuses other layers, other counts and float convolutions
        assert engine.build(name, ours.eval(), size, 1)(0, 1) > 0
        with pytest.raises(ValueError, match="layers that differ"):
            engine.build("layers-3", inference_layer._Chain(2).eval(), (256, 14, 14), 1)
