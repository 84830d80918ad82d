"""The results of a study, in order of completion."""

from __future__ import annotations

from dataclasses import dataclass

import optuna
from optuna.trial import FrozenTrial, TrialState

from zerocross.tune.queue import slot, slots
from zerocross.tune.space import Settings

ENOUGH = 10  # minimum number of results for a meaningful importance
SAMPLER_SECONDS = "sampler_seconds"  # trial attribute: time spent on its suggestion


@dataclass(frozen=True)
class Outcome:
    """The result of one trial.

    Args:
        number: Number of the trial, counted from 0 without retries.
        settings: The searched settings, without the fixed ones.
        value: The value that the objective returned; for a pruned trial, the last one reported.
        pruned: True if the trial was pruned.
        seconds: Duration of the trial.
        sampler_seconds: The sampler's share of it.

    Examples:
        >>> from zerocross import tune
        >>> space = tune.SearchSpace((tune.Parameter("x", 0.0, 1.0),))
        >>> outcome = tune.search(lambda settings, report: settings["x"], space, trials=1, sampler="random").best
        >>> outcome.number, outcome.pruned, outcome.value == outcome.settings["x"]
        (0, False, True)
    """

    number: int
    settings: Settings
    value: float
    pruned: bool
    seconds: float
    sampler_seconds: float


@dataclass(frozen=True)
class History:
    """The results of a study so far.

    Args:
        outcomes: In order of completion.
        failed: Number of trials without a result, whose last attempt failed.
        open: Number of trials that are waiting or running.

    Examples:
        >>> from zerocross import tune
        >>> space = tune.SearchSpace((tune.Parameter("x", 0.0, 1.0),))
        >>> history = tune.search(lambda settings, report: settings["x"], space, trials=3, sampler="random")
        >>> history.best.value == max(history.best_so_far()), history.failed
        (True, 0)
    """

    outcomes: tuple[Outcome, ...]
    failed: int = 0
    open: int = 0

    @property
    def best(self) -> Outcome | None:
        """The best result of a complete trial, the first one if there are several; None if there is none yet."""
        return max((one for one in self.outcomes if not one.pruned), key=lambda one: one.value, default=None)

    def best_so_far(self) -> list[float]:
        """Return the best value up to each outcome; pruned trials do not count."""
        best, values = float("-inf"), []
        for one in self.outcomes:
            best = best if one.pruned else max(best, one.value)
            values.append(best)
        return values


def read(study: optuna.Study) -> History:
    """Return the history of a study."""
    done, failed, still_open = [], 0, 0
    for attempts in slots(study).values():
        results = [trial for trial in attempts if trial.state in {TrialState.COMPLETE, TrialState.PRUNED}]
        if results:
            done.append(results[0])
        elif all(trial.state == TrialState.FAIL for trial in attempts):
            failed += 1
        else:
            still_open += 1
    done.sort(key=lambda trial: (trial.datetime_complete, trial.number))
    return History(tuple(map(outcome, done)), failed, still_open)


def importance(study: optuna.Study) -> dict[str, float]:
    """Each parameter's share of the variance of the value (functional ANOVA); empty if there are too few trials."""
    complete = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    if len(complete) < ENOUGH or len({trial.value for trial in complete}) < 2:
        return {}
    evaluator = optuna.importance.FanovaImportanceEvaluator(seed=0)
    shares = optuna.importance.get_param_importances(study, evaluator=evaluator)
    return {name: float(share) for name, share in shares.items()}


def outcome(trial: FrozenTrial) -> Outcome:
    """Return the Outcome of a finished trial."""
    return Outcome(
        number=slot(trial),
        settings=dict(trial.params),
        value=float("-inf") if trial.value is None else trial.value,  # pruned before it reported anything
        pruned=trial.state == TrialState.PRUNED,
        seconds=trial.duration.total_seconds() if trial.duration else 0.0,
        sampler_seconds=trial.user_attrs.get(SAMPLER_SECONDS, 0.0),
    )
