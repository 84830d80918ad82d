"""Search spaces: invalid spaces, suggestions, and the two spaces of the paper."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zerocross import tune
from zerocross.train import RECIPES, changed
from zerocross.tune import SPACES, Parameter, SearchSpace, space, spaces


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"low": 1, "high": 1}, "the range 1..1 is empty; high must be above low"),
        ({"low": 2, "high": 1}, "the range 2..1 is inverted; high must be above low"),
        ({"low": 0, "high": 1, "log": True}, "low is 0; on a log scale it must be above 0"),
        ({"low": 1}, "x has no high"),
        ({"high": 1}, "x has no low"),
        ({}, "x has no low; give low and high, or choices"),
        ({"low": "a", "high": 1}, "low is 'a'; it must be a finite number"),
        ({"low": 0, "high": math.inf}, "high is inf; it must be a finite number"),
        ({"low": False, "high": True}, "low is False"),
        ({"low": 0, "high": 1, "log": 1}, "log is 1; it must be true or false"),
        ({"choices": [1]}, "at least two different ones"),
        ({"choices": ["a", "a"]}, "at least two different ones"),
        ({"choices": "ab"}, "choices is 'ab'; it must be a list"),
        ({"choices": [1, [2]]}, "[2] cannot be a choice"),
        ({"choices": [1, 2], "low": 1}, "has choices and a range"),
        ({"low": 0, "high": 1, "step": 1}, "parameter x has no 'step'; it has name, low, high, log, choices"),
        ({"name": "", "low": 0, "high": 1}, "a parameter's name is ''"),
    ],
)
def test_invalid_parameters_are_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)) as wrong:
        space.from_dict({"parameters": [{"name": "x", **values}]})
    assert "\n" not in str(wrong.value)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([], "a search space is"),
        ({}, "a search space is"),
        ({"parameters": []}, "needs at least one parameter"),
        ({"parameters": [3]}, "a parameter is 3"),
        ({"parameters": [{"low": 1, "high": 2}]}, "a parameter is"),
        ({"parameters": [{"name": "x", "low": 1, "high": 2}] * 2}, "x appears twice"),
        ({"parameters": [{"name": "x", "low": 1, "high": 2}], "fixed": {"x": 1}}, "x is both searched and fixed"),
        ({"parameters": [{"name": "x", "low": 1, "high": 2}], "fixed": {"y": [1]}}, "y is fixed at [1]"),
        ({"parameters": [{"name": "x", "low": 1, "high": 2}], "fixed": 3}, "fixed is 3"),
        ({"parameters": [{"name": "x", "low": 1, "high": 2}], "method": "filter"}, "has no 'method'"),
    ],
)
def test_invalid_spaces_are_refused(values: Any, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        space.from_dict(values)


def test_errors_name_the_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.json"
    for text in ("{", '{"parameters": []}'):
        file.write_text(text, encoding="utf-8")
        with pytest.raises(ValueError, match=r"mine\.json: "):
            spaces.get(str(file))
    with pytest.raises(
        ValueError, match=r"space 'none' is neither one of filter, flip, latent, .*, latent-magnitude-aware nor a file"
    ):
        spaces.get("none")


@pytest.mark.parametrize("name", SPACES)
def test_round_trip_of_a_space(name: str, tmp_path: Path) -> None:
    file = tmp_path / "space.json"
    file.write_text(json.dumps(SPACES[name].to_dict()), encoding="utf-8")
    assert spaces.get(str(file)) == SPACES[name]


def test_the_papers_spaces_have_two_and_six_dimensions() -> None:
    assert SPACES["filter"].names == ["optimizer.alpha", "optimizer.gamma"]
    assert len(SPACES["latent"].parameters) == 6
    # lr * weight_decay, the alpha of latent weights, covers the range of alpha.
    ends = {part.name: part.ends for part in SPACES["latent"].parameters}
    low, high = (a * b for a, b in zip(ends["optimizer.lr"], ends["optimizer.weight_decay"], strict=True))
    alpha = SPACES["filter"].parameters[0].ends
    assert low <= alpha[0]
    assert alpha[1] <= high <= 1  # beyond 1, decay would change signs


@pytest.mark.parametrize("name", SPACES)
def test_the_papers_spaces_refer_to_existing_fields(name: str) -> None:
    probes = SPACES[name].probes()
    for probe in probes:
        texts = {key: "none" if value is None else str(value) for key, value in probe.items()}
        changed(RECIPES["audiomnist-mlp"].config, texts)
    for part in SPACES[name].parameters:
        reached = {probe[part.name] for probe in probes}
        assert reached >= (set(part.choices) or set(part.ends))


@settings(max_examples=25)
@given(
    low=st.floats(1e-6, 1e3), factor=st.floats(1.01, 1e6), log=st.booleans(), seed=st.integers(0, 9),
    choices=st.lists(st.one_of(st.none(), st.booleans(), st.text(max_size=3)), min_size=2, max_size=4, unique=True),
)  # fmt: skip
def test_suggestions_lie_in_the_space(low: float, factor: float, log: bool, seed: int, choices: list[Any]) -> None:
    searched = SearchSpace(
        (Parameter("x", low, low * factor, log=log), Parameter("c", choices=tuple(choices))), fixed={"k": 3}
    )
    seen: list[Any] = []

    def objective(chosen: Any, report: Any) -> float:
        seen.append(chosen)
        return 0.0

    tune.search(objective, searched, 2, "random", seed)
    for chosen in seen:
        assert chosen["k"] == 3
        assert low <= chosen["x"] <= low * factor * (1 + 1e-12)
        assert chosen["c"] in choices
