"""`zerocross bench inference`: printed tables, stored figures, and invalid options."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from zerocross.bench import inference
from zerocross.bench.inference import InferenceTimes, LayerTimes, NetworkTimes
from zerocross.bench.inference_footprint import Footprint, Footprints
from zerocross.bench.inference_limit import LimitTimes, measure_limit
from zerocross.cli.app import run

SMALL = ((8, 16, 128),)


@pytest.fixture(autouse=True)
def _temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")


def make_times() -> InferenceTimes:
    def network(threads: int, ours: float) -> NetworkTimes:
        seconds = {"zerocross": [ours] * 3, "compiled": [0.04] * 3, "twin-compiled": [0.03] * 3}
        if threads > 1:
            seconds["zerocross-1"] = [0.005] * 3
        return NetworkTimes("birealnet18", 1, threads, seconds, 1e-6)

    footprints = Footprints(
        "birealnet18", Footprint(0.5, 80, 100, 120), Footprint(2.0, 200, 300, 300), Footprint(2.0, 200, 260, 300)
    )
    layer, limit = LayerTimes(1e-4, 1e-3), LimitTimes(1000.0, {(8, 16, 128): 800.0, (4, 16, 64): 900.0})
    return InferenceTimes(3, (0.0, 0.0), limit, layer, [network(1, 0.005), network(2, 0.004)], footprints)


def test_the_quick_run_prints_all_measurements(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(inference, "measure_limit", lambda rounds: measure_limit(rounds, SMALL))
    assert run(["bench", "inference", "--quick", "--rounds", "1", "--threads", "1", "--out", "found.json"]) == 0
    text = capsys.readouterr().out
    for words in ("limit", "PyTorch's float convolution alone", "birealnet20, batch 1, 1 thread", "zerocross, packed"):
        assert words in text
    assert "compiled" not in text.replace("compiled float", "")
    figures = json.loads(Path("found.json").read_text())
    assert figures["networks"][0]["difference"] < 1e-3
    assert set(figures["networks"][0]["median_ms"]) == {"zerocross", "zerocross-int8", "eager", "twin-eager"}
    assert figures["footprints"] is None
    assert figures["provenance"]["machine"]["cpu"]


def test_claims_compare_with_the_faster_rival():
    result = {claim.text: (claim.value, claim.met) for claim in make_times().claims()}
    assert result == {
        "product of bit matrices, share of the popcount limit": (pytest.approx(0.8), True),
        "256 -> 256 layer, x PyTorch's float convolution": (pytest.approx(10), True),
        "birealnet18, batch 1, one thread, x compiled float PyTorch": (pytest.approx(6), True),
        "birealnet18, batch 1, two threads, x one": (pytest.approx(1.25), False),
        "birealnet18, memory above the imports, x PyTorch's": (pytest.approx(0.2), True),
    }


def test_the_full_run_is_printed_and_stored(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(inference, "measure", lambda *_, **__: make_times())
    assert run(["bench", "inference", "--out", "results/found.json"]) == 0
    text = capsys.readouterr().out
    assert "two threads, x one: 1.25, target at least 1.7: missed" in text
    assert "memory above the imports, x PyTorch's: 0.20, target at most 0.25: met" in text
    assert json.loads(Path("results/found.json").read_text())["claims"][0]["met"] is True
    assert run(["bench", "inference", "--out", "results/found.json"]) == 2
    assert "already exists" in capsys.readouterr().err


def test_more_threads_than_processors_are_refused(capsys: pytest.CaptureFixture[str]):
    assert run(["bench", "inference", "--quick", "--threads", "100000"]) == 2
    assert "--threads 100000: this machine has" in capsys.readouterr().err
