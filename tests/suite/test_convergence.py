"""Whether tasks have converged, read off runs."""

from __future__ import annotations

from typing import Any

import pytest

from zerocross.suite.convergence import Convergence, document, rows, runs, summary
from zerocross.suite.table import SuiteRun
from zerocross.suite.tasks import get


def test_the_change_is_compared_with_the_noise_of_seeds() -> None:
    assert Convergence("filter", (90.0, 92.0), (91.0, 92.0)).converged
    assert not Convergence("filter", (90.0, 90.2), (92.0, 92.1)).converged
    assert Convergence("filter", (90.0, 90.0), (90.0, 90.0)).converged
    verdicts = [Convergence("filter", (90.0, 90.2), (x, x)).verdict for x in (90.1, 89.0, 91.0)]
    assert verdicts == ["yes", "yes, overfits", "no"]
    row = Convergence("filter", (90.0, 92.0), (93.0, 93.0))
    assert (row.change, round(row.noise, 4)) == (2.0, 1.4142)


def test_runs_are_of_both_lengths_on_held_out_data() -> None:
    task = get("digits")
    suite_runs = runs(task, 2)
    assert len(suite_runs) == 8
    assert all(run.config.data.validate for run in suite_runs)
    assert {run.config.stages[0].epochs for run in suite_runs} == {task.epochs, 2 * task.epochs}
    with pytest.raises(ValueError, match="at least 2"):
        runs(task, 1)


def test_rows_are_of_methods_with_complete_runs() -> None:
    def find(run: SuiteRun) -> dict[str, Any] | None:
        if run.method == "real" and run.config.seed == 2:
            return None
        return {"score": 90.0 + run.config.seed + (run.config.stages[0].epochs > 20)}

    (row,) = result = rows(get("digits"), find)
    assert (row.method, row.single, row.double) == ("filter", (90.0, 91.0, 92.0), (91.0, 92.0, 93.0))
    text = document({"digits": result, "mnist": []})
    assert text["measured"]["digits"][0]["change"] == 1.0
    assert text["unmeasured"] == ["digits", "mnist"]


def test_the_summary_names_tasks_that_have_not_converged() -> None:
    flat, rising = ((name, (90.0, 90.4), (90.0 + gain, 90.4 + gain)) for name, gain in (("real", 0.1), ("filter", 2)))
    text = summary(
        {"digits": [Convergence(*flat)] * 2, "mnist": [Convergence(*rising), Convergence(*flat)], "imdb": []}
    )
    assert "On 1 of 2 tasks twice the length gains no more than the noise between seeds." in text
    assert "**Not converged** are mnist (filter +2.00, noise 0.28), in points. Not measured: imdb." in text
    assert "Not measured yet" in summary({"digits": []})
