"""Figure 8's figures, from the results of searches alone: means over runs, with intervals, as panels and tables."""

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
AFTER = (5, 10, 15, 25)  # trials after which the best is compared
EARLY = 10
NEAR = 1.0  # points of accuracy that count as having found it
RESAMPLES = 10_000

Estimate = dict[str, Any]


def figures(groups: Mapping[str, Mapping[str, Sequence[Result]]]) -> Content:
    """The data of the artefact: sampler -> space -> results of its searches; the first sampler is the main one."""
    measured = measure(groups)
    main = measured["sampler"]
    best = [_best_panel(sampler, group) for sampler, group in groups.items()]
    return Content(
        panels=[best[0], _trials_panel(main, groups[main]), *best[1:]],
        tables=[_accuracy_table(measured), _trials_table(measured), _split_table(measured)],
        measured=measured,
        runs=[_row(space, result) for group in groups.values() for space, made in group.items() for result in made],
    )


# ---- statistics


def measure(groups: Mapping[str, Mapping[str, Sequence[Result]]]) -> dict[str, Any]:
    """The figures that tables and claims are made of, by sampler and space.

    after: the best after so many trials; `difference` is filter - latent. needed: trials until a search came within
    NEAR points of the best value of all searches, of those with its seed, or of those in its space. One that never did
    counts as one trial more than it had, and in `never`; `difference` is latent - filter, the trials saved.
    """
    flat = [(space, result) for group in groups.values() for space, made in group.items() for result in made]
    trials = len(flat[0][1]["outcomes"])
    best = {kind: _bests((_peers(kind, *one), one[1]) for one in flat) for kind in ("all", "seed", "space")}
    return {
        "sampler": next(iter(groups)),
        "trials": trials,
        "best": best,
        "after": {
            sampler: {
                str(mark): _compared(
                    {space: [max(_values(one)[:mark]) for one in made] for space, made in group.items()}
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
                space: statistics.fmean(trial["sampler_seconds"] for one in made for trial in one["outcomes"])
                for space, made in group.items()
            }
            for sampler, group in groups.items()
        },
    }


def estimate(values: Sequence[float], minus: Sequence[float] | None = None) -> Estimate:
    """The mean, or its difference to that of other runs, with a 95 % interval by bootstrap over runs (percentiles)."""
    rng = np.random.default_rng(0)
    means = rng.choice(values, (RESAMPLES, len(values))).mean(axis=1)
    mean = statistics.fmean(values)
    if minus is not None:
        means = means - rng.choice(minus, (RESAMPLES, len(minus))).mean(axis=1)
        mean -= statistics.fmean(minus)
    low, high = np.quantile(means, (0.025, 0.975))
    return {"mean": mean, "low": float(low), "high": float(high), "n": len(values)}


def trials_needed(values: Sequence[float], target: float) -> int:
    """The first trial, counted from 1, that reaches the target; one more than there are where none does."""
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
        space: [trials_needed(_values(result), best[_peers(kind, space, result)] - NEAR) for result in made]
        for space, made in group.items()
    }
    trials = len(group["filter"][0]["outcomes"])
    return {
        **{space: {**estimate(n), "never": sum(each > trials for each in n)} for space, n in needed.items()},
        "difference": estimate(needed["latent"], minus=needed["filter"]),
    }


def _bests(keyed: Iterable[tuple[str, Result]]) -> dict[str, float]:
    found: dict[str, float] = {}
    for key, result in keyed:
        found[key] = max(found.get(key, -np.inf), *_values(result))
    return found


def _peers(kind: str, space: str, result: Result) -> str:
    """The searches whose best a search is measured by: all, those with its seed, or those in its space."""
    return {"all": "all", "seed": str(result["search"]["seed"]), "space": space}[kind]


# ---- panels and tables


def _best_panel(sampler: str, group: Mapping[str, Sequence[Result]]) -> Panel:
    lines = []
    for space, made in group.items():
        best = np.maximum.accumulate([_values(one) for one in made], axis=1)
        lines.append(curves.curve(SPACES[space], range(1, best.shape[1] + 1), best.T.tolist()))
    title = f"Best so far, {SAMPLERS[sampler]}"
    return curves.panel(title, "trial", "best validation accuracy so far (%)", lines)


def _trials_panel(sampler: str, group: Mapping[str, Sequence[Result]]) -> Panel:
    points = []
    for space, made in group.items():
        pairs = [(number, value) for one in made for number, value in enumerate(_values(one), 1)]
        numbers, values = zip(*pairs, strict=True)
        points.append(curves.curve(SPACES[space], numbers, [[value] for value in values], "points", n=len(made)))
    return curves.panel(f"Every trial, {SAMPLERS[sampler]}", "trial", "validation accuracy (%)", points)


def _accuracy_table(measured: Mapping[str, Any]) -> Table:
    marks = list(next(iter(measured["after"].values())))
    rows = [
        [space, SAMPLERS[sampler], *(told(after[mark][space], 2) for mark in marks), after[marks[0]][space]["n"]]
        for sampler, after in measured["after"].items()
        for space in SPACES
    ]
    return Table(
        title="Mean best validation accuracy (%) after so many trials, with a 95 % interval",
        columns=["searched", "sampler", *(f"{mark} trials" for mark in marks), "runs"],
        rows=rows,
        notes=["Intervals: bootstrap over runs."],
    )


def _trials_table(measured: Mapping[str, Any]) -> Table:
    rows = []
    for sampler in measured["needed"]["all"]:
        for space in SPACES:
            found = [needed[sampler][space] for needed in measured["needed"].values()]
            rows.append([space, SAMPLERS[sampler], *(f"{told(one)}, {one['never']}" for one in found)])
    best = measured["best"]
    own = ", ".join(f"{space} {value:.2f}" for space, value in best["space"].items())
    seeds = f"{min(best['seed'].values()):.2f} to {max(best['seed'].values()):.2f}"
    return Table(
        title=f"Trials needed to come within {NEAR:g} point of the best, and how many runs never did",
        columns=["searched", "sampler", "of all searches", "of those with its seed", "of those in its space"],
        rows=rows,
        notes=[
            f"The best: of all {best['all']['all']:.2f} %; with one seed {seeds} %; in one space {own} %.",
            f"A run that never came near counts as {measured['trials'] + 1} trials: the mean is then a lower bound.",
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
                told(after[early]["difference"], 2),
                told(after[last]["difference"], 2),
                told(measured["needed"]["all"][sampler]["difference"]),
                *(f"{seconds[space]:.3f}" for space in SPACES),
            ]
        )
    return Table(
        title="How much is the space, how much the sampler",
        columns=[
            "sampler", f"filter - latent, {early} trials", f"filter - latent, {last} trials", "trials saved",
            "s per suggestion, filter", "latent",
        ],
        rows=rows,
        notes=["Under random sampling the whole difference is the space's; what another sampler adds is its own."],
    )  # fmt: skip


def told(found: Estimate, digits: int = 1) -> str:
    """Mean and interval in words."""
    mean, low, high = (f"{found[key]:.{digits}f}" for key in ("mean", "low", "high"))
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
