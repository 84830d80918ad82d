"""Many searches: finished ones are read from the cache, stopped ones resume, with the same result in any process."""

from __future__ import annotations

import copy
import dataclasses
import json
import math
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from zerocross import train
from zerocross.sweep import searches
from zerocross.sweep.cache import RunCache
from zerocross.sweep.execute import Interrupted
from zerocross.sweep.execution import Execution
from zerocross.sweep.job import Job, Result
from zerocross.sweep.progress import seconds_left
from zerocross.sweep.searches import Search, _job, run_searches, search_from
from zerocross.tune import queue

TRIALS = 3
BASE = train.changed(
    train.RECIPES["digits"].config,
    {
        "stages.0.epochs": "1",
        "compile": "off",
        "model.options.width": "4",
        "batch_size": "128",
        "data.validate": "true",
    },
)
ONE = Search("filter", "random", 3, TRIALS, BASE)
OTHER = dataclasses.replace(ONE, space="latent")
Trained = list[train.Config]


def results_of(searches: list[Search], folder: Path, jobs: int = 1) -> list[dict[str, Any]]:
    cache = RunCache(folder / "results", folder / "work")
    return run_searches(searches, train.Placement(), cache, Execution(jobs), show=False)


def outcomes(results: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Return all of the outcomes that a repetition must reproduce: everything but times."""
    return [
        [{key: one[key] for key in ("number", "settings", "value")} for one in result["outcomes"]] for result in results
    ]


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> Trained:
    """Replace training by a function that takes no time; return the configs of all trials."""
    configs: Trained = []

    def fit(config: train.Config, *words: object, **values: object) -> Any:
        configs.append(config)
        size = config.optimizer.get("alpha", config.optimizer.get("lr"))
        return SimpleNamespace(scores={"top1": 50 - math.log10(float(str(size)))})

    monkeypatch.setattr(train, "fit", fit)
    return configs


def stop_at(monkeypatch: pytest.MonkeyPatch, trained: Trained, count: int, ending: BaseException) -> Callable[[], None]:
    """Make the trial of that number end with an exception; the returned function undoes it."""
    fit = train.fit

    def cut(*words: Any, **values: Any) -> Any:
        if len(trained) == count:
            raise ending
        return fit(*words, **values)

    monkeypatch.setattr(train, "fit", cut)
    return lambda: monkeypatch.setattr(train, "fit", fit)


# ---- one search


def test_a_trial_is_trained_with_its_settings_and_the_seed_of_the_search(trained: Trained, tmp_path: Path) -> None:
    (result,) = results_of([ONE], tmp_path)
    assert len(trained) == len(result["outcomes"]) == TRIALS
    assert {config.seed for config in trained} == {3}
    assert all(config.data.validate for config in trained)
    for config, one in zip(trained, result["outcomes"], strict=True):
        assert config.optimizer["alpha"] == one["settings"]["optimizer.alpha"]
        assert one["value"] == pytest.approx(50 - math.log10(one["settings"]["optimizer.alpha"]))
        assert one["seconds"] >= one["sampler_seconds"] >= 0
    assert result["seconds"] == pytest.approx(sum(one["seconds"] for one in result["outcomes"]), abs=0.01)
    assert "optuna" in result["provenance"]["versions"]
    assert json.loads((tmp_path / "results" / f"{ONE.hash}.json").read_text()) == result
    assert not list((tmp_path / "work").iterdir())


@pytest.mark.parametrize(
    "change",
    [
        {"space": "latent"},
        {"sampler": "tpe"},
        {"seed": 4},
        {"trials": TRIALS + 1},
        {"base": dataclasses.replace(BASE, batch_size=64)},
    ],
    ids=lambda change: next(iter(change)),
)
def test_hash_changes_with_everything_that_affects_the_result(change: dict[str, Any]) -> None:
    assert dataclasses.replace(ONE, **change).hash != ONE.hash


def test_hash_does_not_change_with_irrelevant_settings() -> None:
    assert dataclasses.replace(ONE, base=dataclasses.replace(BASE, seed=9, recipe="mine")).hash == ONE.hash
    assert search_from(json.loads(json.dumps(ONE.to_dict()))) == ONE


# ---- many


def test_cached_results_are_not_computed_again(trained: Trained, tmp_path: Path) -> None:
    first = results_of([ONE], tmp_path)
    both = results_of([OTHER, ONE], tmp_path)
    assert [config.method for config in trained] == ["filter"] * TRIALS + ["latent-sgd"] * TRIALS
    assert both[1] == first[0]
    assert results_of([OTHER, ONE], tmp_path, jobs=2) == both
    assert len(trained) == 2 * TRIALS


@pytest.mark.parametrize("killed", [False, True], ids=["stopped", "killed"])
def test_a_stopped_search_resumes_after_its_finished_trials(
    killed: bool, trained: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = [dataclasses.replace(ONE, sampler="tpe", trials=8), dataclasses.replace(OTHER, trials=2)]
    whole = outcomes(results_of(both, tmp_path / "whole"))
    trained.clear()
    undo = stop_at(monkeypatch, trained, 6, SystemExit(143))
    with monkeypatch.context() as patch:
        if killed:  # a killed process cannot return its trial
            patch.setattr(queue, "give_back", lambda *_: None)
        with pytest.raises(Interrupted, match="with 0 of 2 searches finished; run the same command again") as cut:
            results_of(both, tmp_path)
    assert cut.value.exit_code == 143
    assert not list(tmp_path.glob("results/*"))
    undo()
    assert outcomes(results_of(both, tmp_path)) == whole
    assert len(trained) == 8 + 2


def test_ctrl_c_is_reported(trained: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stop_at(monkeypatch, trained, TRIALS, KeyboardInterrupt())
    with pytest.raises(Interrupted, match="with 1 of 2 searches finished; run the same command again") as cut:
        results_of([ONE, OTHER], tmp_path)
    assert cut.value.exit_code == 130


def test_damaged_file_is_named(trained: Trained, tmp_path: Path) -> None:
    damage: dict[str, Callable[[Any], Any]] = {
        "it has no outcomes": lambda values: values.pop("outcomes"),
        "it holds 2 of 3 trials": lambda values: values["outcomes"].pop(),
        "'value'": lambda values: values["outcomes"][0].pop("value"),
        "it holds the result of another search": lambda values: values["search"].update(seed=4),
    }
    (result,) = results_of([ONE], tmp_path)
    path = tmp_path / "results" / f"{ONE.hash}.json"
    for message, change in damage.items():
        values = copy.deepcopy(result)
        change(values)
        path.write_text(json.dumps(values))
        with pytest.raises(ValueError, match=f"{path} is damaged: {message}; remove the file to repeat this search"):
            results_of([ONE], tmp_path)
    path.write_text("{")
    with pytest.raises(ValueError, match=f"{path} is damaged"):
        results_of([ONE], tmp_path)
    assert len(trained) == TRIALS


def test_invalid_searches_are_refused_before_any_work(trained: Trained, tmp_path: Path) -> None:
    wrong = {
        "space 'fliter' is neither": dataclasses.replace(ONE, space="fliter"),
        "sampler 'bayes' is unknown": dataclasses.replace(ONE, sampler="bayes"),
        "this space does not fit the recipe: .*batch_size 100000": dataclasses.replace(
            ONE, base=dataclasses.replace(BASE, batch_size=100_000)
        ),
    }
    for message, search in wrong.items():
        with pytest.raises(ValueError, match=message):
            results_of([OTHER, search], tmp_path)
    with pytest.raises(ValueError, match="jobs is 0"):
        results_of([ONE], tmp_path, jobs=0)
    assert not trained
    assert not list(tmp_path.iterdir())


def test_a_failed_search_is_named_and_the_others_are_kept(
    trained: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = searches.KIND.work

    def fail(job: Job, folder: Path, show: bool) -> Result:
        if job.key == ONE.hash:
            raise train.RunError("2 of 3 trials failed")
        return work(job, folder, show)

    monkeypatch.setattr(searches, "KIND", dataclasses.replace(searches.KIND, work=fail))
    with pytest.raises(train.RunError, match="1 of 2 searches failed: filter, random, seed 3: 2 of 3 trials failed"):
        results_of([ONE, OTHER], tmp_path)
    assert [path.stem for path in (tmp_path / "results").iterdir()] == [OTHER.hash]


@pytest.mark.slow
def test_two_jobs_give_the_same_results_as_one(tmp_path: Path) -> None:
    """Real trainings in real processes."""
    both = [dataclasses.replace(search, trials=2) for search in (ONE, OTHER)]
    assert outcomes(results_of(both, tmp_path / "two", jobs=2)) == outcomes(results_of(both, tmp_path / "one"))


def test_time_left_is_estimated_from_searches_of_the_same_kind() -> None:
    one, other, longer, tpe = (
        _job(search, train.Placement())
        for search in (ONE, OTHER, dataclasses.replace(ONE, seed=4, trials=10), dataclasses.replace(ONE, sampler="tpe"))
    )
    assert seconds_left([one, other], [], {}) is None
    # 2 s per trial of the filter, 4 s with latent weights; TPE, still unknown, as the mean of both: 10 * 2 + 3 * 3
    assert seconds_left([longer, tpe], [(one, {"seconds": 6.0}), (other, {"seconds": 12.0})], {}) == pytest.approx(29.0)
