"""The search in memory: samplers, seeds, pruning, faulty objectives."""

from __future__ import annotations

import math
import statistics
from typing import Any

import pytest

from tune.objectives import TWO, hill
from zerocross import tune
from zerocross.tune import SAMPLERS, History, Parameter, SearchSpace, StudyPlan, history, queue, samplers


def values(result: History) -> list[float]:
    return [one.value for one in result.outcomes]


def begin(sampler: str = "random", seed: int = 0, **more: Any) -> tune.Study:
    return tune.begin_or_join(tune.in_memory(), "study", StudyPlan(TWO, sampler, seed, **more))


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_history_depends_only_on_the_seed(sampler: str) -> None:
    if sampler == "botorch":
        pytest.importorskip("botorch")
    whole = tune.search(hill, TWO, 7, sampler, seed=3)
    study = begin(sampler, seed=3)
    for trials in (3, 6, 7):  # as if it had been stopped and resumed
        tune.extend(study, trials)
        tune.work(study, hill)
    assert values(history.read(study.load())) == values(whole)
    assert [one.number for one in whole.outcomes] == list(range(7))
    assert values(tune.search(hill, TWO, 3, sampler, seed=4)) != values(whole)[:3]
    assert all(one.sampler_seconds > 0 for one in whole.outcomes)


@pytest.mark.parametrize("sampler", ["gp", "botorch"])
def test_model_based_samplers_beat_random_search(sampler: str) -> None:
    """On a smooth hill in two dimensions, a few suggestions of a Gaussian process come close to the top."""
    if sampler == "botorch":
        pytest.importorskip("botorch")
    best = [max(values(tune.search(hill, TWO, 11, sampler, seed))) for seed in range(2 if sampler == "gp" else 1)]
    chance = [max(values(tune.search(hill, TWO, 11, "random", seed))) for seed in range(20)]
    assert statistics.mean(best) > -0.05
    assert statistics.mean(best) > statistics.mean(chance) / 2


def test_first_trials_are_random_for_all_samplers() -> None:
    """The first trials of every sampler are the same random ones; they differ only by the model."""
    drawn = {name: values(tune.search(hill, TWO, samplers.STARTUP, name, seed=1)) for name in ("random", "gp")}
    assert drawn["gp"] == drawn["random"]


def test_choices_and_fixed_settings_reach_the_objective() -> None:
    space = SearchSpace((Parameter("clip", choices=(None, 1.0)),), fixed={"method": "latent-sgd"})
    seen: list[Any] = []

    def objective(settings: Any, report: Any) -> float:
        seen.append(dict(settings))
        return 1.0 if settings["clip"] is None else 0.0

    result = tune.search(objective, space, 10, "tpe")
    assert {settings["clip"] for settings in seen} == {None, 1.0}
    assert all(settings["method"] == "latent-sgd" for settings in seen)
    assert result.best is not None
    assert result.best.settings == {"clip": None}


def test_best_so_far_and_best() -> None:
    result = tune.search(hill, TWO, 12, "random")
    expected, best = [], -math.inf
    for value in values(result):
        best = max(best, value)
        expected.append(best)
    assert result.best_so_far() == expected
    assert result.best is not None
    assert result.best.value == best
    assert History(()).best is None
    assert History(()).best_so_far() == []


def test_hopeless_trials_are_pruned() -> None:
    ran: list[int] = []

    def objective(settings: Any, report: Any) -> float:
        for step in range(1, 6):
            ran.append(step)
            report(step, hill(settings, report))
        return hill(settings, report)

    whole = tune.search(objective, TWO, 30, "random")
    steps = len(ran)
    ran.clear()
    cut = tune.search(objective, TWO, 30, "random", prune=True)
    pruned = [one for one in cut.outcomes if one.pruned]
    assert steps == 150
    assert len(ran) < 120
    assert len(pruned) >= 5
    assert values(cut) == values(whole)  # the value of a pruned trial is its last report
    assert cut.best == cut.outcomes[values(cut).index(max(values(cut)))]
    assert cut.best is not None
    assert all(one.value < cut.best.value for one in pruned)
    assert len(cut.outcomes) == 30


@pytest.mark.parametrize("returned", [math.nan, math.inf, None, "much"])
def test_value_that_is_not_a_number_is_refused(returned: Any) -> None:
    with pytest.raises(ValueError, match=r"the objective returned .* it must be a finite number"):
        tune.search(lambda *_: returned, TWO, 2, "random")


def test_failed_trial_is_tried_again_with_the_same_settings_and_then_given_up() -> None:
    study, seen = begin(), []
    tune.extend(study, 3)

    def objective(settings: Any, report: Any) -> float:
        seen.append(settings["a"])
        if settings["a"] == seen[0]:
            raise RuntimeError("these settings break it")
        return hill(settings, report)

    for _ in range(queue.ATTEMPTS):
        with pytest.raises(RuntimeError, match="these settings"):
            tune.work(study, objective)
    tune.work(study, objective)
    assert seen.count(seen[0]) == queue.ATTEMPTS
    result = history.read(study.load())
    assert (len(result.outcomes), result.failed, result.open) == (2, 1, 0)


def test_interrupted_trial_is_requeued_with_its_settings() -> None:
    study, seen = begin(), []
    tune.extend(study, 2)

    def objective(settings: Any, report: Any) -> float:
        seen.append(settings["a"])
        if len(seen) == 1:
            raise KeyboardInterrupt
        return hill(settings, report)

    with pytest.raises(KeyboardInterrupt):
        tune.work(study, objective)
    assert history.read(study.load()).open == 2
    tune.work(study, objective)
    assert len(seen) == 3
    assert seen[1] == seen[0]
    assert history.read(study.load()).failed == 0


def slope(settings: Any, report: Any) -> float:
    return math.log10(settings["a"])


def test_importance_finds_the_relevant_parameter() -> None:
    study = begin()
    tune.extend(study, 30)
    tune.work(study, slope)
    shares = history.importance(study.load())
    assert shares["a"] > 0.9
    assert sum(shares.values()) == pytest.approx(1)
    few = begin()
    tune.extend(few, 3)
    tune.work(few, hill)
    assert history.importance(few.load()) == {}


def test_invalid_plans_are_refused() -> None:
    with pytest.raises(ValueError, match="sampler 'botorsh' is unknown; choose one of botorch, gp, tpe, random"):
        StudyPlan(TWO, "botorsh")
    with pytest.raises(ValueError, match="seed is -1"):
        StudyPlan(TWO, "random", -1)
    with pytest.raises(ValueError, match="trials is 0; it must be at least 1"):
        tune.search(hill, TWO, 0, "random")


def test_missing_botorch_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ImportError(f"No module named {name!r}")

    monkeypatch.setattr(samplers.importlib, "import_module", missing)
    with pytest.raises(ValueError, match=r"pip install 'zerocross\[tune\]'"):
        StudyPlan(TWO, "botorch")
