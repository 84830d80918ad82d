"""The unit of the flip rate, from results with known answers."""

from __future__ import annotations

from typing import Any

import pytest

from zerocross.suite.table import SuiteRun
from zerocross.suite.tasks import get
from zerocross.suite.units import RATES, UNITS, Cell, best, runs, spread

CELLS = [Cell(get("Wafer"), length, 32) for length in (0.5, 1.0, 2.0)]
UPDATES_PER_EPOCH = 25


def answer(run: SuiteRun, ideal: float, *, per_run: bool) -> dict[str, Any]:
    """A loss whose best rate is `ideal`, or, per run, inversely proportional to the number of updates."""
    updates = UPDATES_PER_EPOCH * run.config.stages[0].epochs
    expected = ideal * (800 / updates if per_run else 1.0)
    rate = float(run.settings["optimizer.flip_rate"])
    return {"loss": (rate / expected - 1) ** 2, "score": 90.0 - (rate / expected - 1) ** 2, "updates": updates}


def test_runs_have_their_length_batch_and_rate() -> None:
    suite_runs = runs(CELLS, 2)
    assert len({run.config.hash for run in suite_runs}) == len(suite_runs) == 3 * 2 * len(RATES)
    epochs = get("Wafer").epochs
    assert {run.config.stages[0].epochs for run in suite_runs} == {epochs // 2, epochs, 2 * epochs}
    assert {run.config.optimizer["flip_rate"] for run in suite_runs} == set(RATES)
    assert {run.config.batch_size for run in suite_runs} == {32}
    assert all(run.config.data.validate for run in suite_runs)
    with pytest.raises(ValueError, match="length is 0 and batch size 32"):
        Cell(get("Wafer"), 0, 32).run(1e-2, 0)


@pytest.mark.parametrize("by", ["loss", "score"])
@pytest.mark.parametrize(("per_run", "unit"), [(False, 0), (True, 1)])
def test_the_unit_in_which_best_values_agree_has_no_spread(by: str, per_run: bool, unit: int) -> None:
    rows = best(CELLS, 2, lambda run: answer(run, 1e-2, per_run=per_run), by)
    assert [row["edge"] for row in rows] == [False] * 3
    spreads = spread(rows)
    assert spreads[list(UNITS)[unit]] == pytest.approx(0, abs=1e-9)
    assert min(value for name, value in spreads.items() if name != list(UNITS)[unit]) > 0.3


def test_cells_with_missing_runs_are_left_out() -> None:
    assert best(CELLS, 1, lambda _: None) == []
    with pytest.raises(ValueError, match="at least two cells, not 0"):
        spread([])
    with pytest.raises(ValueError, match="by is 'top1'"):
        best(CELLS, 1, lambda _: None, "top1")
