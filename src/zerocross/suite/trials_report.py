"""The number of trials that a space needs: regrets and trials of searches, with bootstrap intervals, from tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from zerocross.figures.panel import Curve, Panel, Table
from zerocross.suite import section
from zerocross.suite.bayes import bayesian_search
from zerocross.suite.trials import POINTS, SPACES, TRIALS, coordinates, random_search, regret, trials_to
from zerocross.tune.spaces import SPACES as SEARCHED

Tables = Mapping[str, Mapping[str, np.ndarray]]  # task -> space -> scores, settings by seeds
BASE = "filter"
COLUMNS = 2  # of the picture: random and Bayesian search side by side
_JUDGED = (10, 25)  # trials after which the verdicts compare regrets
_RESAMPLES = 300
_INTERVAL = (0.025, 0.975)


def report(tables: Tables, *, repeats: int = 300, seed: int = 0) -> dict[str, Any]:
    """Return regrets and trials for every task and space, and means over the tasks that have both compared spaces.

    The regret of a search is its distance from the best of all spaces of the task: the highest quality that trying all
    settings of one space reaches. The trials needed are those to come near the best of the space itself. Intervals:
    95 %, by resampling settings (for Bayesian search, searches), and tasks for the means.

    Args:
        tables: Complete tables.
        repeats: Bayesian searches per table; 0 leaves them out.
        seed: Seed of the bootstrap and of the searches.
    """
    random = np.random.default_rng(seed)
    tasks: dict[str, dict[str, Any]] = {}
    draws: dict[str, dict[str, dict[str, np.ndarray]]] = {}
    for task, spaces in tables.items():
        curves = {space: random_search(table) for space, table in spaces.items()}
        best = max(float(curve[-1]) for curve in curves.values())
        tasks[task], draws[task] = {}, {}
        for space, table in spaces.items():
            rows = random.integers(len(table), size=(_RESAMPLES, len(table)))
            sampled = np.array([random_search(table[row]) for row in rows])
            draws[task][space] = {
                "regret": _regrets(sampled, best),
                "trials": np.array([_needed(curve) for curve in sampled], dtype=float),
            }
            tasks[task][space] = {
                "settings": len(table),
                "seeds": table.shape[1],
                "best": round(float(curves[space][-1]), 2),
                "random": _rounded(curves[space][: max(TRIALS)]),
                "regret": _with_intervals(list(regret(curves[space], best).values()), draws[task][space]["regret"]),
                "trials": _with_intervals(_needed(curves[space]), draws[task][space]["trials"]),
            }
            if repeats:
                number = min(max(TRIALS), len(table))
                searches = bayesian_search(coordinates(SEARCHED[space], len(table)), table, number, repeats, seed)
                sampled = searches[random.integers(repeats, size=(_RESAMPLES, repeats))].mean(axis=1)
                draws[task][space]["bayesian_regret"] = _regrets(sampled, best)
                mean = searches.mean(axis=0)
                tasks[task][space]["bayesian"] = _rounded(mean)
                tasks[task][space]["bayesian_regret"] = _with_intervals(
                    list(regret(mean, best).values()), draws[task][space]["bayesian_regret"]
                )
    return {"trials": list(TRIALS), "points": list(POINTS), "tasks": tasks, "overall": _overall(tasks, draws, random)}


def _needed(curve: np.ndarray) -> list[int]:
    return [trials_to(curve, float(curve[-1]), points) or len(curve) for points in POINTS]


def _regrets(curves: np.ndarray, best: float) -> np.ndarray:
    return np.array([list(regret(curve, best).values()) for curve in curves])


def _overall(
    tasks: Mapping[str, Mapping[str, Any]],
    draws: Mapping[str, Mapping[str, Mapping[str, np.ndarray]]],
    random: np.random.Generator,
) -> dict[str, Any]:
    """Compare every other space with BASE over common tasks: mean regrets, mean trials, and trials saved."""
    overall = {}
    for space in SPACES:
        common = [task for task, row in tasks.items() if BASE in row and space in row]
        if space == BASE or not common:
            continue
        chosen = random.integers(len(common), size=(_RESAMPLES, len(common)))
        entry: dict[str, Any] = {"tasks": common}
        for kind in draws[common[0]][BASE]:
            columns = min(draws[task][each][kind].shape[1] for task in common for each in (BASE, space))
            means, samples = {}, {}
            for each in (BASE, space):
                values = np.array([[v[0] for v in tasks[task][each][kind][:columns]] for task in common])
                stack = np.array([draws[task][each][kind][:, :columns] for task in common])
                means[each] = values.mean(axis=0)
                samples[each] = np.array([stack[rows, index].mean(axis=0) for index, rows in enumerate(chosen)])
                entry.setdefault(each, {})[kind] = _with_intervals(means[each], samples[each])
            entry[f"{kind}_difference"] = _with_intervals(means[space] - means[BASE], samples[space] - samples[BASE])
        overall[space] = entry
    return overall


def _with_intervals(values: Sequence[float] | np.ndarray, draws: np.ndarray) -> list[list[float]]:
    """Return [value, low, high] for each value."""
    low, high = np.quantile(draws, _INTERVAL, axis=0)
    return [[round(float(x), 2) for x in triple] for triple in zip(values, low, high, strict=True)]


def _rounded(curve: np.ndarray) -> list[float]:
    return [round(float(value), 3) for value in curve]


def panels(document: Mapping[str, Any]) -> list[Panel]:
    """Return two panels per task, random and Bayesian search: points below the best over trials, a curve per space."""
    result = []
    for task, spaces in document["tasks"].items():
        best = max(row["best"] for row in spaces.values())
        for kind, title in (("random", "random search"), ("bayesian", "Bayesian search")):
            curves = [
                Curve(space, list(range(1, len(row[kind]) + 1)), [best - quality for quality in row[kind]])
                for space, row in spaces.items()
                if kind in row
            ]
            if curves:
                y = "points below the best"
                result.append(Panel(title=f"{task}, {title}", x="trials", y=y, curves=curves, y_scale="log"))
    return result


def section_of(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the section of the study on the page of `zerocross report`."""
    verdicts = [line.removeprefix("- ").replace("**", "") for line in _verdicts(document)]
    columns = ["task", "space", "best", *(f"regret after {k}" for k in document["trials"])]
    tables = [
        Table(title, columns, _regret_rows(document, kind), notes=notes)
        for title, kind, notes in (
            ("Random search", "regret", verdicts),
            ("Bayesian search", "bayesian_regret", []),
        )
    ]
    return section.section(
        "suite-trials",
        "How many trials a space of hyperparameters needs",
        "Searches are simulated from tables of settings; the quality of a setting is its mean over seeds that the "
        "search did not see. Regret: points below the best of all spaces of the task.",
        "zerocross suite trials",
        panels=panels(document),
        tables=[table for table in tables if table.rows],
    )


def _regret_rows(document: Mapping[str, Any], kind: str) -> list[list[str]]:
    """Return task, space, best, and the regret after each number of trials; "-" where the table is smaller."""
    rows = []
    for task, spaces in document["tasks"].items():
        for space, row in spaces.items():
            if kind in row:
                cells = [_cell(triple) for triple in row[kind]]
                missing = len(document["trials"]) - len(cells)
                rows.append([task, space, f"{row['best']:.2f}", *cells, *["-"] * missing])
    return rows


def page(document: Mapping[str, Any], picture: str) -> str:
    """Return docs/trials.md.

    Args:
        document: See report().
        picture: The path of the picture, relative to the page.
    """
    lines = [
        "# How many trials a space needs",
        "",
        (
            "Written by `zerocross suite trials` from `results/suite/`. For every task and space a table of settings "
            "(a Sobol sequence) is trained with several seeds on held-out training data. A search sees one seed; the "
            "quality of what it returns is the mean over the other seeds, so that luck does not count. Random search "
            "is exact (the mean over all draws); Bayesian search (a Gaussian process, expected improvement) is "
            "repeated hundreds of times. Regret: points below the best of all spaces of the task. Intervals: 95 %, by "
            "resampling settings (of Bayesian search: searches), and tasks for the means. A setting with lr * "
            "weight_decay above 1, which latent-sgd refuses, counts as 0 %."
        ),
        "",
        *_verdicts(document),
        "",
        f"![Accuracy over trials]({picture})",
        "",
        "## Spaces",
        "",
    ]
    lines += [f"- **{name}**: {'; '.join(map(str, SEARCHED[name].parameters))}" for name in SPACES]
    numbers = document["trials"]
    head = " | ".join(f"after {k}" for k in numbers)
    for title, kind in (("random", "regret"), ("Bayesian", "bayesian_regret")):
        if rows := _regret_rows(document, kind):
            lines += ["", f"## Regret of {title} search, in points", "", f"| task | space | best | {head} |"]
            lines += ["|" + "---|" * (3 + len(numbers))]
            lines += [f"| {' | '.join(row)} |" for row in rows]
    head = " | ".join(f"within {points:g}" for points in document["points"])
    lines += ["", "## Trials to come near the best of the space", "", f"| task | space | {head} |"]
    lines += ["|" + "---|" * (2 + len(document["points"]))]
    for task, spaces in document["tasks"].items():
        for space, row in spaces.items():
            cells = [_cell(triple, "g") for triple in row["trials"]]
            lines.append(f"| {task} | {space} | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def _verdicts(document: Mapping[str, Any]) -> list[str]:
    """Return one paragraph for each space that is compared with the filter's."""
    near = document["points"].index(1.0)
    lines = []
    for space, entry in document["overall"].items():
        saved = entry["trials_difference"][near]
        count = "more" if saved[1] > 0 else "fewer" if saved[2] < 0 else "no clearly different number of"
        tasks = f"{len(entry['tasks'])} task{'s' if len(entry['tasks']) > 1 else ''}"
        line = (
            f"- **{space}** against **{BASE}** ({tasks}): to come within 1 point of its own best "
            f"it takes {count} trials: {_cell(saved, '+.1f')} on average "
            f"({_cell(entry[space]['trials'][near], '.1f')} against {_cell(entry[BASE]['trials'][near], '.1f')})."
        )
        for title, kind in (("Random", "regret"), ("Bayesian", "bayesian_regret")):
            gaps = dict(zip(document["trials"], entry.get(f"{kind}_difference", []), strict=False))
            if gaps:  # small tables have fewer settings
                numbers = [k for k in _JUDGED if k in gaps] or [max(gaps)]
                parts = [f"after {k} trials {_compared(gaps[k])}" for k in numbers]
                line += f" {title} search: {'; '.join(parts)} points of regret."
        lines.append(line)
    return lines


def _compared(gap: Sequence[float]) -> str:
    words = "it is worse" if gap[1] > 0 else "it is better" if gap[2] < 0 else "it does not differ significantly"
    return f"{words}, {_cell(gap, '+.2f')}"


def _cell(triple: Sequence[float], form: str = ".2f") -> str:
    value, low, high = triple
    return f"{value:{form}} ({low:{form}} to {high:{form}})"
