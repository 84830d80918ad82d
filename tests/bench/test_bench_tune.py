"""The benchmark of searches: its arithmetic, and one small run."""

from __future__ import annotations

import dataclasses

import pytest

from zerocross.bench.tune import ONE, TWO, TuneTimes, measure
from zerocross.train import recipes
from zerocross.train.config import ModelConfig
from zerocross.train.variants import with_epochs


def small():
    config = with_epochs(recipes.get("digits").config, 1)
    return dataclasses.replace(config, model=ModelConfig("digits_net", {"width": 4}), compile="off")


def test_gains_are_ratios_of_medians():
    times = TuneTimes(5, {ONE: [10.0, 30.0, 12.0], TWO: [18.0, 24.0, 1.0]}, {})
    assert times.rate(ONE) == 12.0
    assert times.gain(TWO) == pytest.approx(1.5)
    assert times.as_dict()["gain"] == {"1 worker, 1 thread each": 1.0, "2 workers, 1 thread each": pytest.approx(1.5)}


def test_a_search_is_timed():
    messages: list[str] = []
    times = measure(small(), trials=2, rounds=1, setups=(ONE,), samplers=("random",), say=messages.append)
    assert times.rate(ONE) > 0
    assert times.suggestions["random"].keys() == {"filter", "latent"}
    assert messages[0] == "round 1 of 1, 1 worker, 1 thread each: 2 trials"


@pytest.mark.slow
def test_two_workers_do_all_trials():
    assert measure(small(), trials=4, rounds=1, setups=(ONE, TWO), samplers=()).rate(TWO) > 0
