"""The figures of Figure 8 against a manually worked example."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from zerocross import train
from zerocross.figures import focus
from zerocross.paper import fig8, fig8_figures
from zerocross.paper.artefact import NotReady
from zerocross.paper.fig8_figures import estimate, figures, measure, trials_needed
from zerocross.paper.session import Session


def result(seed: int, *values: float, seconds: float = 0.5) -> dict[str, Any]:
    return {
        "hash": f"{seed:016x}",
        "search": {"sampler": "botorch", "seed": seed, "trials": len(values)},
        "outcomes": [{"value": value, "sampler_seconds": seconds} for value in values],
        "seconds": 9.0,
        "provenance": {"commit": "abc"},
    }


# The best of all is 90, by the filter's second run; 88 with seed 0, and 88 with latent weights.
GROUPS = {
    "botorch": {
        "filter": [result(0, 80, 88, 10, 87), result(1, 89.5, 60, 90, 89)],
        "latent": [result(0, 50, 60, 86.9, 88, seconds=1.5), result(1, 40, 70, 80, 85)],
    }
}


def means(results: dict[str, Any]) -> list[float]:
    return [results[key]["mean"] for key in ("filter", "latent", "difference")]


def test_best_so_far_and_trials_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fig8_figures, "AFTER", (1, 3, 25))
    measured = measure(GROUPS)
    assert (measured["sampler"], measured["trials"]) == ("botorch", 4)
    assert measured["best"] == {"all": {"all": 90}, "seed": {"0": 88, "1": 90}, "space": {"filter": 90, "latent": 88}}
    after = measured["after"]["botorch"]
    assert list(after) == ["1", "3", "4"]
    assert means(after["1"]) == [84.75, 45, 39.75]
    assert means(after["3"]) == pytest.approx([89, 83.45, 5.55])
    assert means(after["4"]) == [89, 86.5, 2.5]
    needed = {kind: actual["botorch"] for kind, actual in measured["needed"].items()}
    assert means(needed["all"]) == [3, 5, 2]  # 5 and 1; 5 and 5
    assert [needed["all"][space]["never"] for space in ("filter", "latent")] == [1, 2]
    assert means(needed["seed"]) == [1.5, 4.5, 3]  # 2 and 1; 4 and 5
    assert [needed["seed"][space]["never"] for space in ("filter", "latent")] == [0, 1]
    assert means(needed["space"]) == [3, 4.5, 1.5]  # 5 and 1; 4 and 5
    assert measured["suggestion_seconds"] == {"botorch": {"filter": 0.5, "latent": 1.0}}


def test_trials_needed_counts_from_one_and_is_censored() -> None:
    assert trials_needed([3, 5, 9], 3) == 1
    assert trials_needed([3, 5, 9], 8.9) == 3
    assert trials_needed([3, 5, 9], 10) == 4


def test_interval_of_a_mean() -> None:
    actual = estimate([0.0, 1.0])  # a resampled mean is 0, 1/2 or 1, with 1/4, 1/2, 1/4
    assert (actual["mean"], actual["low"], actual["high"], actual["n"]) == (0.5, 0, 1, 2)
    wide = estimate([float(value) for value in range(100)])
    error = 28.87 / 10  # standard deviation of 0..99, over the root of their number
    assert wide["low"] == pytest.approx(49.5 - 1.96 * error, abs=0.3)
    assert wide["high"] == pytest.approx(49.5 + 1.96 * error, abs=0.3)
    assert estimate([1.0, 2.0, 4.0]) == estimate([1.0, 2.0, 4.0])


def test_interval_of_a_difference_has_the_spread_of_both() -> None:
    values = [float(value) for value in range(100)]
    actual = estimate(values, minus=[value - 3 for value in values])
    assert actual["mean"] == pytest.approx(3)
    error = 28.87 / 10 * 2**0.5
    assert actual["high"] - actual["low"] == pytest.approx(2 * 1.96 * error, rel=0.05)
    assert estimate([5.0, 5.0], minus=[2.0, 2.0]) == {"mean": 3, "low": 3, "high": 3, "n": 2}


def test_panels_tables_and_picture(tmp_path: Path) -> None:
    content = figures({**GROUPS, "random": GROUPS["botorch"]})
    best, trials, other = content.panels
    assert best.curves[0].mean == [84.75, 88.75, 89, 89]
    assert (best.curves[0].low, best.curves[0].high) == ([80, 88, 88, 88], [89.5, 89.5, 90, 90])
    assert trials.curves[1].x == [1, 2, 3, 4, 1, 2, 3, 4]
    assert trials.curves[1].mean == [50, 60, 86.9, 88, 40, 70, 80, 85]
    assert other.title == "Best so far, random"
    assert [run["best"] for run in content.runs] == [88, 90, 88, 85] * 2
    assert all(len(row) == len(table.columns) for table in content.tables for row in table.rows)
    for name in ("one.svg", "two.svg"):
        focus.draw(content.panels, content.tables, tmp_path / name)
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()
    assert "1 of 16 trials lie below" in (tmp_path / "one.svg").read_text()


def test_scales_have_the_requested_number_of_searches() -> None:
    counts = {scale: len(fig8.searches(scale)) for scale in ("smoke", "reduced", "paper")}
    assert counts == {"smoke": 4, "reduced": 2 * (10 + 4 + 4), "paper": 2 * 20}
    for scale in ("reduced", "paper"):
        searches = fig8.searches(scale)
        assert len({search.hash for search in searches}) == len(searches)
        assert {search.trials for search in searches} == {25}
        assert all(search.config.data.validate and search.config.seed == search.seed for search in searches)


def test_missing_optuna_is_reported_with_the_package_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(NotReady, match=r"pip install 'zerocross\[tune\]'"):
        fig8.run("smoke", Session(train.Placement(), tmp_path, tmp_path / "work", show=False))
