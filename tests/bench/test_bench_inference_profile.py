"""`zerocross bench inference --profile`: every step, with a share and a limit."""

from __future__ import annotations

import pytest

from zerocross.bench import inference_profile
from zerocross.bench.inference_profile import MachineLimits, StepTime, measure_profile
from zerocross.cli.app import run
from zerocross.runtime.kernels.steps import StepKind

LIMITS = MachineLimits(binary=1000.0, real=50.0, bytes=200.0, memory=1000.0)


def test_a_step_is_compared_with_the_resource_that_limits_it():
    step = StepTime(StepKind.BINARY, "", seconds=4e-6, port=1e-6, memory=2e-6)
    assert (step.limit, step.reached) == ("memory", pytest.approx(0.5))
    step = StepTime(StepKind.REAL, "", seconds=4e-6, port=3e-6, memory=2e-6)
    assert (step.limit, step.reached) == ("FMA", pytest.approx(0.75))


@pytest.mark.parametrize(("real", "kind"), [("float32", StepKind.REAL), ("int8", StepKind.BYTES)])
def test_every_step_of_a_network_is_listed(real: str, kind: StepKind, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(inference_profile, "measure_limits", lambda _: LIMITS)
    result = measure_profile("digits_net", real, rounds=1)
    kinds = [step.kind for step in result.steps]
    assert kinds.count(StepKind.BINARY) == 4
    assert kinds.count(kind) == 2  # the stem and the head
    assert result.seconds == pytest.approx(sum(result.kinds().values()))
    assert result.limit_seconds == pytest.approx(sum(step.reached * step.seconds for step in result.steps))
    assert all(step.seconds > 0 and step.memory > 0 for step in result.steps)
    stem = next(step for step in result.steps if step.kind is kind)
    # Bytes are padded to multiples of four.
    products, rate = (32 * 64 * 9, 50.0) if real == "float32" else (32 * 64 * 12, 200.0)
    assert stem.port == pytest.approx(products / rate / 1e9)


def test_the_first_layer_of_a_resnet_counts_its_products_only_once(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(inference_profile, "measure_limits", lambda _: LIMITS)
    steps = {step.kind: step for step in measure_profile("birealnet18", rounds=1).steps}
    assert steps[StepKind.WINOGRAD].port == pytest.approx(112 * 112 * 64 * 69 / 50.0 / 1e9)  # of 147 taps
    assert steps[StepKind.WINOGRAD].limit == "FMA"
    assert steps[StepKind.TRANSFORM].limit == "memory"


def test_the_profile_is_printed_and_an_unknown_network_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(inference_profile, "measure_limits", lambda _: LIMITS)
    assert run(["bench", "inference", "--profile", "digits_net", "--rounds", "1"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    for words in (
        "32 x 8 x 8 of 288",
        "popcount",
        "bits:",
        "1000 G binary products per second",
        "ms if every step reached its limit",
    ):
        assert words in text
    assert run(["bench", "inference", "--profile", "birealnet21"]) == 2
    assert "birealnet21" in capsys.readouterr().err
