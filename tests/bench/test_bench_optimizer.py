"""The benchmark of optimizers: contenders, ratios and memory; nothing that depends on speed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from zerocross.bench import optimizer as bench
from zerocross.optim import GradientFilter

SHAPES = [(4, 3, 3, 3), (5, 7)]


@pytest.fixture(autouse=True)
def _eager(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(bench.BUILDERS, "compiled", GradientFilter)


def times(**seconds: float) -> bench.OptimizerTimes:
    """Return times of 1 second except those given; each contender's fastest step takes half its median."""
    each = {
        key: [value / 2, value, value * 3] for key, value in {**dict.fromkeys(bench.CONTENDERS, 1.0), **seconds}.items()
    }
    nothing = dict.fromkeys(bench.CONTENDERS, 0.0)
    return bench.OptimizerTimes(
        weights=10, rounds=3, threads=2, ff_every=50, load=(0.1, 0.2), seconds=each, state_bytes=nothing,
        temporary_bytes={**nothing, "sgd": None},
    )  # fmt: skip


def test_the_weights_are_those_of_reactnet_a():
    shapes = bench.reactnet_shapes()
    widths = [(32, 64), (64, 128), (128, 128), (128, 256), (256, 256), (256, 512)]
    widths += [(512, 512)] * 5 + [(512, 1024), (1024, 1024)]
    expected = [s for i, o in widths for s in [(i, i, 3, 3), *[(i, i, 1, 1)] * (o // i)]]
    assert sorted(shapes) == sorted(expected)
    assert sum(torch.Size(shape).numel() for shape in shapes) == 28_253_184


def test_every_contender_is_timed_in_every_round(monkeypatch: pytest.MonkeyPatch):
    steps: list[tuple[str, object, object]] = []
    real = bench._step

    def watched(optimizer, contender):
        seconds = real(optimizer, contender)
        steps.append((contender.label, getattr(optimizer, "nonfinite", None), getattr(optimizer, "ff_every", None)))
        return seconds

    monkeypatch.setattr(bench, "_step", watched)
    threads = torch.get_num_threads()
    messages: list[str] = []
    result = bench.measure(SHAPES, rounds=3, threads=1, memory=False, say=messages.append)
    assert torch.get_num_threads() == threads
    assert {key: len(value) for key, value in result.seconds.items()} == dict.fromkeys(bench.CONTENDERS, 3)
    assert len(steps) == (2 + 3) * len(bench.CONTENDERS)
    assert [what for what in steps if what[1:] == ("raise", bench._NEVER)] == [
        ("  nonfinite='raise'", *what[1:]) for what in steps if what[1] == "raise"
    ]
    assert {what[0] for what in steps if what[2] == 1} == {"  counting flips"}
    assert (result.weights, result.ff_every) == (143, 50)
    assert messages[-1] == "timing 3 steps of each, in turn"


def test_state_is_counted_in_bytes_for_each_weight():
    result = bench.measure([(200, 300)], rounds=1, threads=1, memory=False)
    # In addition to m and g, a count of flips per tensor; in addition to Adam's moments, its step.
    rounded = {key: round(value, 2) for key, value in result.state_bytes.items()}
    assert {rounded[key] for key in ("sgd", "sgd-foreach", "sgd-fused")} == {4.0}
    assert {rounded[key] for key in ("adam-fused", "filter", "compiled", "filter-raise")} == {8.0}
    assert rounded["bfloat16"] == 4.0


def test_ratios_and_targets_are_of_medians():
    result = times(**{"compiled": 1.4, "sgd-foreach": 2.0, "filter-counting": 3.5, "compiled-counting": 8.3})
    compiled, bfloat16, default, counting, counting_compiled = result.targets()
    assert (bfloat16.value, bfloat16.limit, bfloat16.met) == (pytest.approx(1.0), 1.05, True)
    assert (compiled.value, compiled.limit, compiled.met) == (pytest.approx(1.4), 1.45, True)
    assert (default.value, default.limit, default.met) == (pytest.approx(0.5), 1.0, True)
    assert (counting.value, counting.limit, counting.met) == (pytest.approx(0.05), 0.10, True)
    assert (counting_compiled.value, counting_compiled.met) == (pytest.approx((8.3 / 1.4 - 1) / 50), True)
    assert not times(compiled=1.46).targets()[0].met
    assert not times(**{"sgd-foreach": 0.9}).targets()[2].met
    assert not times(**{"filter-counting": 6.1}).targets()[3].met
    assert result.targets(max)[2].value == pytest.approx(0.5)
    figures = json.loads(json.dumps(result.as_dict()))
    assert figures["steps"]["compiled"]["median_ms"] == pytest.approx(1400)
    assert figures["steps"]["compiled"]["fastest_ms"] == pytest.approx(700)
    assert figures["steps"]["sgd"]["temporary_bytes_per_weight"] is None
    assert [target["met"] for target in figures["targets"]] == [True] * 5


def test_nothing_is_timed_without_rounds_or_threads():
    with pytest.raises(ValueError, match="0 rounds on 2 threads: both must be at least 1"):
        bench.measure(SHAPES, rounds=0)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="memory is measured on Linux only")
def test_temporary_memory_is_measured():
    """Foreach SGD adds weight decay in a copy of all gradients; a filter needs none; counting needs a byte or two."""
    shapes = [(512, 512, 3, 3)] * 4
    result = {
        key: bench._in_new_process(key, shapes, 4 * 512 * 512 * 9)
        for key in ("sgd-foreach", "filter", "filter-counting")
    }
    assert result["sgd-foreach"] == pytest.approx(4.0, abs=0.5)
    assert result["filter"] == pytest.approx(0.0, abs=0.3)
    assert result["filter-counting"] == pytest.approx(1.5, abs=0.7)
