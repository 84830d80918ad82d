"""Tables of settings: which trainings, and what is read off tables with known answers."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from zerocross.suite.tasks import get
from zerocross.suite.trials import SPACES, random_search, regret, runs, settings_of, table_of, trials_to


@pytest.mark.parametrize("name", SPACES)
def test_settings_fill_the_ranges_and_are_valid(name: str) -> None:
    space, count = SPACES[name]
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
    made = runs(get("Wafer"), name, 8, 2)
    assert len({run.config.hash for run in made}) == 16
    assert all(run.config.data.validate for run in made)


def test_random_search_is_the_mean_over_all_draws() -> None:
    """Against all subsets, one by one."""
    table = np.random.default_rng(0).random((7, 3))
    for k in (1, 2, 4, 7):
        found = []
        for seen in range(3):
            quality = np.delete(table, seen, axis=1).mean(axis=1)
            found += [quality[max(drawn, key=lambda row: table[row, seen])] for drawn in combinations(range(7), k)]
        assert random_search(table)[k - 1] == pytest.approx(np.mean(found))


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
