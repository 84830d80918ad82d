"""The panels and tables of Figure 8, computed from the results of searches: means over runs with intervals."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from zerocross.figures.panel import Panel, Table
from zerocross.paper import curves
from zerocross.paper.artefact import Content
from zerocross.sweep.job import Result

SPACES = {"filter": "filter: alpha, gamma", "latent": "latent weights: 6 settings"}
SAMPLERS = {"botorch": "BoTorch", "tpe": "TPE", "random": "random"}
AFTER = (5, 10, 15, 25)  # numbers of trials after which the best values are compared
EARLY = 10
NEAR = 1.0  # points of accuracy within which a search has found the best
RESAMPLES = 10_000

Estimate = dict[str, Any]


def figures(groups: Mapping[str, Mapping[str, Sequence[Result]]]) -> Content:
    """Return the content of the artefact from sampler -> space -> results; the first sampler is the main one."""
    measured = measure(groups)
    main = measured["sampler"]
    best = [_best_panel(sampler, group) for sampler, group in groups.items()]
    return Content(
        panels=[best[0], _trials_panel(main, groups[main]), *best[1:]],
        tables=[_accuracy_table(measured), _trials_table(measured), _split_table(measured)],
        measured=measured,
        runs=[
            _row(space, result) for group in groups.values() for space, results in group.items() for result in results
        ],
    )


# ---- statistics


def measure(groups: Mapping[str, Mapping[str, Sequence[Result]]]) -> dict[str, Any]:
    """Return the figures of tables and claims, by sampler and space.

    after: the best value after a number of trials; `difference` is filter - latent. needed: the number of trials until
    a search comes within NEAR points of the best value of all searches, of those with its seed, or of those in its
    space. A search that never does counts as one trial more than it has, and in `never`; `difference` is
    latent - filter, the number of trials saved.
    """
    flat = [(space, result) for group in groups.values() for space, results in group.items() for result in results]
    trials = len(flat[0][1]["outcomes"])
    best = {kind: _bests((_peers(kind, *one), one[1]) for one in flat) for kind in ("all", "seed", "space")}
    return {
        "sampler": next(iter(groups)),
        "trials": trials,
        "best": best,
        "after": {
            sampler: {
                str(mark): _compared(
                    {space: [max(_values(one)[:mark]) for one in results] for space, results in group.items()}
                )
                for mark in sorted({min(mark, trials) for mark in AFTER})
            }
            for sampler, group in groups.items()
        },
        "needed": {
            kind: {sampler: _needed(group, kind, best[kind]) for sampler, group in groups.items()} for kind in best
        },
        "suggestion_seconds": {
            sampler: {
                space: statistics.fmean(trial["sampler_seconds"] for one in results for trial in one["outcomes"])
                for space, results in group.items()
            }
            for sampler, group in groups.items()
        },
    }


def estimate(values: Sequence[float], minus: Sequence[float] | None = None) -> Estimate:
    """Return the mean, or its difference to the mean of other runs, with a 95 % bootstrap interval (percentiles)."""
    rng = np.random.default_rng(0)
    means = rng.choice(values, (RESAMPLES, len(values))).mean(axis=1)
    mean = statistics.fmean(values)
    if minus is not None:
        means = means - rng.choice(minus, (RESAMPLES, len(minus))).mean(axis=1)
        mean -= statistics.fmean(minus)
    low, high = np.quantile(means, (0.025, 0.975))
    return {"mean": mean, "low": float(low), "high": float(high), "n": len(values)}


def trials_needed(values: Sequence[float], target: float) -> int:
    """Return the number of the first trial, from 1, that reaches the target; len(values) + 1 if none does."""
    return next((number for number, value in enumerate(values, 1) if value >= target), len(values) + 1)


def _values(result: Result) -> list[float]:
    return [one["value"] for one in result["outcomes"]]


def _compared(runs: Mapping[str, Sequence[float]]) -> dict[str, Estimate]:
    return {
        **{space: estimate(values) for space, values in runs.items()},
        "difference": estimate(runs["filter"], minus=runs["latent"]),
    }


def _needed(group: Mapping[str, Sequence[Result]], kind: str, best: Mapping[str, float]) -> dict[str, Estimate]:
    needed = {
        space: [trials_needed(_values(result), best[_peers(kind, space, result)] - NEAR) for result in results]
        for space, results in group.items()
    }
    trials = len(group["filter"][0]["outcomes"])
    return {
        **{space: {**estimate(n), "never": sum(each > trials for each in n)} for space, n in needed.items()},
        "difference": estimate(needed["latent"], minus=needed["filter"]),
    }


def _bests(keyed: Iterable[tuple[str, Result]]) -> dict[str, float]:
    bests: dict[str, float] = {}
    for key, result in keyed:
        bests[key] = max(bests.get(key, -np.inf), *_values(result))
    return bests


def _peers(kind: str, space: str, result: Result) -> str:
    """Return the key of the searches that a search is compared with: all, those with its seed, or in its space."""
    return {"all": "all", "seed": str(result["search"]["seed"]), "space": space}[kind]


# ---- panels and tables


def _best_panel(sampler: str, group: Mapping[str, Sequence[Result]]) -> Panel:
    lines = []
    for space, results in group.items():
        best = np.maximum.accumulate([_values(one) for one in results], axis=1)
        lines.append(curves.curve(SPACES[space], range(1, best.shape[1] + 1), best.T.tolist()))
    title = f"Best so far, {SAMPLERS[sampler]}"
    return curves.panel(title, "trial", "best validation accuracy so far (%)", lines)


def _trials_panel(sampler: str, group: Mapping[str, Sequence[Result]]) -> Panel:
    points = []
    for space, results in group.items():
        pairs = [(number, value) for one in results for number, value in enumerate(_values(one), 1)]
        numbers, values = zip(*pairs, strict=True)
        points.append(curves.curve(SPACES[space], numbers, [[value] for value in values], "points", n=len(results)))
    return curves.panel(f"Every trial, {SAMPLERS[sampler]}", "trial", "validation accuracy (%)", points)


def _accuracy_table(measured: Mapping[str, Any]) -> Table:
    marks = list(next(iter(measured["after"].values())))
    rows = [
        [space, SAMPLERS[sampler], *(interval(after[mark][space], 2) for mark in marks), after[marks[0]][space]["n"]]
        for sampler, after in measured["after"].items()
        for space in SPACES
    ]
    return Table(
        title="Mean best validation accuracy (%) after a number of trials, with a 95 % interval",
        columns=["searched", "sampler", *(f"{mark} trials" for mark in marks), "runs"],
        rows=rows,
        notes=["Intervals: bootstrap over runs."],
    )


def _trials_table(measured: Mapping[str, Any]) -> Table:
    rows = []
    for sampler in measured["needed"]["all"]:
        for space in SPACES:
            needed = [by_sampler[sampler][space] for by_sampler in measured["needed"].values()]
            rows.append([space, SAMPLERS[sampler], *(f"{interval(one)}, {one['never']}" for one in needed)])
    best = measured["best"]
    spaces = ", ".join(f"{space} {value:.2f}" for space, value in best["space"].items())
    seeds = f"{min(best['seed'].values()):.2f} to {max(best['seed'].values()):.2f}"
    return Table(
        title=f"Trials needed to come within {NEAR:g} point of the best value, and the number of runs that never did",
        columns=["searched", "sampler", "of all searches", "of searches with its seed", "of searches in its space"],
        rows=rows,
        notes=[
            f"The best value of all searches is {best['all']['all']:.2f} %; by seed {seeds} %; by space {spaces} %.",
            f"A run that never did counts as {measured['trials'] + 1} trials, so that the mean is a lower bound.",
        ],
    )


def _split_table(measured: Mapping[str, Any]) -> Table:
    marks = list(next(iter(measured["after"].values())))
    early, last = str(min(EARLY, measured["trials"])), marks[-1]
    rows = []
    for sampler, after in measured["after"].items():
        seconds = measured["suggestion_seconds"][sampler]
        rows.append(
            [
                SAMPLERS[sampler],
                interval(after[early]["difference"], 2),
                interval(after[last]["difference"], 2),
                interval(measured["needed"]["all"][sampler]["difference"]),
                *(f"{seconds[space]:.3f}" for space in SPACES),
            ]
        )
    return Table(
        title="The effect of the space and of the sampler",
        columns=[
            "sampler", f"filter - latent, {early} trials", f"filter - latent, {last} trials", "trials saved",
            "s per suggestion, filter", "latent",
        ],
        rows=rows,
        notes=["With random sampling the difference comes from the space alone; another sampler adds its own effect."],
    )  # fmt: skip


def interval(value: Estimate, digits: int = 1) -> str:
    """Format mean and interval."""
    mean, low, high = (f"{value[key]:.{digits}f}" for key in ("mean", "low", "high"))
    return f"{mean} ({low} to {high})"


def _row(space: str, result: Result) -> dict[str, Any]:
    search = result["search"]
    return {
        "label": f"{space}, {search['sampler']}",
        "seed": search["seed"],
        "hash": result["hash"],
        "best": max(_values(result)),
        "trials": search["trials"],
        "seconds": result["seconds"],
        "commit": result["provenance"]["commit"],
    }
