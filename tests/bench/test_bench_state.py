"""bfloat16 beside float32 state: the comparison trains both with the same start, and its figures add up."""

from __future__ import annotations

import pytest

from zerocross import data
from zerocross.bench import state
from zerocross.suite import tasks


def test_both_states_are_trained_and_summed_up():
    lines: list[str] = []
    configs = {"digits": [tasks.get("digits").config(seed=seed, epochs=1) for seed in range(2)]}
    results = state.compare(configs, say=lines.append)
    digits = results["digits"]
    assert (digits["seeds"], len(lines)) == (2, 1)
    for kind in state.DTYPES:
        runs = digits["runs"][kind]
        assert digits[kind]["top1_mean"] == pytest.approx(sum(run["top1"] for run in runs) / 2)
        assert all(run["top1"] > 70 and 0 < run["ff_ratio"] < 0.2 for run in runs)
        assert all(0 < run["differing_mean"] < 0.02 for run in runs)  # the state makes a difference, a small one
    assert "on the same gradients" in lines[0]


def test_an_optimizer_without_that_state_is_refused():
    config = tasks.get("digits").config("bop", epochs=1)
    with pytest.raises(TypeError, match="only the filter is compared"):
        state.train(config, data.load("digits"), "bfloat16")
