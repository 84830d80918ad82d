"""The arithmetic of the training benchmark, on given times."""

from __future__ import annotations

import pytest

from zerocross.bench.train import TrainContender, TrainTimes, contenders

UPDATES = {
    "binary, float32, eager": 2.0,
    "binary, float32": 1.0,
    "full-precision twin, float32": 1.2,
    "binary, bfloat16": 0.5,
    "full-precision twin, bfloat16": 0.6,
}
TIMES = TrainTimes(
    model="birealnet20",
    batch_size=100,
    precision="bf16",
    updates=UPDATES,
    loop=0.52,
    input_path=0.01,
    macs=10**6,
    peak_flops={"32": 1e9, "bf16": 2e9},
)


def test_every_contender_has_its_own_time_and_name() -> None:
    assert [each.label for each in contenders("bf16")] == list(UPDATES)
    assert {each.precision for each in contenders("32")} == {"32"}
    assert TIMES.seconds("both", "32", compiled=False) == 2.0
    assert TrainContender("none", "bf16", compiled=True).label == "full-precision twin, bfloat16"


def test_targets_compare_with_the_float32_twin_and_the_bare_step() -> None:
    twin, loop, path = TIMES.targets
    assert (twin.value, twin.met) == (pytest.approx(0.5 / 1.2), True)
    assert (loop.value, loop.met) == (pytest.approx(0.5 / 0.52), False)
    assert (path.value, path.met) == (pytest.approx(0.02), True)


def test_shares_are_of_the_peak_of_the_same_precision() -> None:
    assert TIMES.peak_share(0.5, "bf16") == pytest.approx(6e8 / 0.5 / 2e9)
    assert TIMES.peak_share(1.0, "32") == pytest.approx(0.6)
