"""Tables of settings: which trainings, and what is read off tables with known answers."""

from __future__ import annotations

import contextlib
from itertools import combinations

import numpy as np
import pytest
import torch

from zerocross.optim import LatentSGD
from zerocross.suite.bayes import INITIAL, bayesian_search
from zerocross.suite.tasks import get
from zerocross.suite.trials import (
    SPACES,
    coordinates,
    is_possible,
    qualities,
    random_search,
    regret,
    runs,
    settings_of,
    table_of,
    trials_to,
)
from zerocross.suite.trials_report import page, panels, report, section_of
from zerocross.tune.spaces import SPACES as SEARCHED


@pytest.mark.parametrize("name", SPACES)
def test_settings_fill_the_ranges_and_are_valid(name: str) -> None:
    space, count = SEARCHED[name], SPACES[name]
    settings = settings_of(space, count)
    assert settings == settings_of(space, count)
    for part in space.parameters:
        values = [each[part.name] for each in settings]
        if part.choices:
            assert [values.count(choice) for choice in part.choices] == [count // 2, count // 2]
        else:
            low, high = part.ends
            middle = sum(float(value or 0) < (low * high) ** 0.5 for value in values)
            assert middle == count // 2  # a Sobol sequence halves every axis
    suite_runs = runs(get("Wafer"), name, 8, 2)
    assert len({run.config.hash for run in suite_runs}) == 2 * sum(map(is_possible, settings[:8]))
    assert all(run.config.data.validate for run in suite_runs)


def test_random_search_is_the_mean_over_all_draws() -> None:
    """Against all subsets, one by one."""
    table = np.random.default_rng(0).random((7, 3))
    for k in (1, 2, 4, 7):
        results = []
        for seen in range(3):
            quality = np.delete(table, seen, axis=1).mean(axis=1)
            results += [quality[max(drawn, key=lambda row: table[row, seen])] for drawn in combinations(range(7), k)]
        assert random_search(table)[k - 1] == pytest.approx(np.mean(results))


def test_luck_is_not_quality() -> None:
    """Where seeds alone differ, more trials find nothing better; without noise they find the best."""
    noise = np.random.default_rng(1).standard_normal((400, 3))
    assert abs(random_search(noise)[99]) < 0.3 < noise[:, 0].max()
    ladder = np.repeat(np.arange(8.0)[:, None], 2, axis=1)
    curve = random_search(ladder)
    assert (curve[0], curve[-1]) == (pytest.approx(3.5), 7.0)
    assert regret(curve, 7.0, (1, 8, 25)) == {1: pytest.approx(3.5), 8: 0.0}
    assert (trials_to(curve, 7.0, 3.5), trials_to(curve, 7.0, 0.0), trials_to(curve, 9.0, 1.0)) == (1, 8, None)
    with pytest.raises(ValueError, match="at least 2 are needed"):
        random_search(ladder[:, :1])


def test_a_table_with_gaps_is_none() -> None:
    task = get("digits")
    assert table_of(task, "filter", 4, 2, lambda run: {"score": float(run.config.seed)}).tolist() == [[0, 1]] * 4  # type: ignore[union-attr]
    assert table_of(task, "filter", 4, 2, lambda run: {"score": 1.0} if run.config.seed else None) is None


def test_settings_that_latent_sgd_refuses_score_0() -> None:
    settings = settings_of(SEARCHED["latent-wide"], 64)
    refused = [index for index, each in enumerate(settings) if not is_possible(each)]
    assert len(refused) == 3
    for index, each in enumerate(settings):
        lr, decay = float(each["optimizer.lr"] or 0), float(each["optimizer.weight_decay"] or 0)
        weight = torch.nn.Parameter(torch.ones(1))
        with pytest.raises(ValueError, match="at most 1") if index in refused else contextlib.nullcontext():
            LatentSGD([weight], lr=lr, weight_decay=decay)
    assert len(runs(get("digits"), "latent-wide", 64, 2)) == 2 * 61
    table = table_of(get("digits"), "latent-wide", 64, 2, lambda _: {"score": 50.0})
    assert table is not None
    assert np.flatnonzero(table.sum(axis=1) == 0).tolist() == refused


def bowl(name: str, count: int, noise: float, seed: int = 0) -> np.ndarray:
    """Scores that fall with the distance from a point of the space's first two axes."""
    x = coordinates(SEARCHED[name], count)
    quality = 90 - 40 * ((x[:, :2] - 0.4) ** 2).sum(axis=1)
    return quality[:, None] + noise * np.random.default_rng(seed).standard_normal((count, 3))


def test_coordinates_are_settings_on_the_unit_cube() -> None:
    x = coordinates(SEARCHED["latent"], 16)
    settings = settings_of(SEARCHED["latent"], 16)
    assert set(x[:, 4]) == {0.0, 1.0}  # one of two choices
    rate = np.array([float(each["optimizer.lr"] or 0) for each in settings])
    assert np.log10(rate) == pytest.approx(-3 + 4 * x[:, 0], abs=1e-3)
    assert [each["model.options.scale"] for each in settings] == ["channel_mean" if one else "none" for one in x[:, 4]]


def test_bayesian_search_begins_at_random_and_then_beats_it() -> None:
    table = bowl("latent", 64, 0.0)
    searches = bayesian_search(coordinates(SEARCHED["latent"], 64), table, 14, repeats=40)
    assert searches.shape == (40, 14)
    assert (np.diff(searches) >= 0).all()  # without noise the best so far is never given up
    result, chance = searches.mean(axis=0), random_search(table)
    assert result[:INITIAL] == pytest.approx(chance[:INITIAL], abs=1.5)  # 40 repeats of the same thing
    assert result[-1] > chance[13] + 0.3
    flat = np.full((8, 2), 50.0)
    assert bayesian_search(coordinates(SEARCHED["flip"], 8), flat, 8, repeats=3)[:, -1].tolist() == [50.0] * 3
    with pytest.raises(ValueError, match="trials is 65; it must be 1 to 64"):
        bayesian_search(coordinates(SEARCHED["latent"], 64), table, 65)


def test_quality_is_the_mean_over_the_other_seeds() -> None:
    table = np.array([[1.0, 2.0, 6.0], [0.0, 3.0, 3.0]])
    assert qualities(table).tolist() == [[4.0, 3.0], [3.5, 1.5], [1.5, 1.5]]


def test_the_report_of_known_tables() -> None:
    """The same scores in both spaces: no trials are saved; fewer good settings: trials are saved."""
    same = {f"task{i}": {"filter": bowl("filter", 64, 0.3, i), "latent": bowl("filter", 64, 0.3, i)} for i in range(3)}
    document = report(same, repeats=0)
    assert [triple[0] for triple in document["overall"]["latent"]["trials_difference"]] == [0, 0, 0]
    harder = {task: {"filter": row["filter"], "latent": row["latent"].copy()} for task, row in same.items()}
    for row in harder.values():
        row["latent"][6:] -= 30.0  # six of 64 settings are any good
    document = report(harder, repeats=0)
    value, low, high = document["overall"]["latent"]["trials_difference"][1]
    assert 0 < low <= value <= high
    text = page(document, "trials.svg")
    assert "**latent** against **filter** (3 tasks)" in text
    assert "takes more trials" in text
    assert "after 10 trials it is worse, +" in text
    assert "; after 25 trials it " in text
    assert [len(panel.curves) for panel in panels(document)] == [2, 2, 2]
    first = document["tasks"]["task0"]
    below = max(row["best"] for row in first.values()) - first["latent"]["random"][0]
    assert panels(document)[0].curves[1].mean[0] == pytest.approx(below)


def test_small_tables_are_compared_after_fewer_trials() -> None:
    tables = {"task": {"filter": bowl("filter", 8, 0.3), "flip": bowl("filter", 4, 0.3)}}
    document = report(tables, repeats=2)
    text = page(document, "x.svg")
    assert "Random search: after 2 trials it" in text
    assert "Bayesian search: after 2 trials it" in text
    assert "## Regret of Bayesian search" in text
    assert len(section_of(document)["data"]["tables"]) == 2
    assert [len(document["tasks"]["task"][space]["bayesian"]) for space in ("filter", "flip")] == [8, 4]
