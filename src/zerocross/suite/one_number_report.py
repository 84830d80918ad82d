"""Evaluate the results of `one_number`: a document, pictures and a page."""

from __future__ import annotations

import functools
import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.signal import sosfilt

from zerocross.figures.panel import Curve, Panel, Table
from zerocross.filters import alpha_for_flips, cascade, ema, flip_rate, most_flips
from zerocross.suite import rank, section
from zerocross.suite.one_number import CURVE_SEEDS, GRID, OPEN, RATES, VARIANTS
from zerocross.suite.tasks import TASKS

MEAN_GOAL, WORST_GOAL = 0.3, 1.0  # maximum loss in points: on average over the tasks that judge, and on any of them
COLUMNS = 2  # of the picture
NEAR = 1.0  # points below the best of a curve that count as near it, where noise between seeds is not larger
_RESAMPLES = 2000
_BELOW = "points below the task's best"


def judge(measured: Mapping[str, Any], *, seed: int = 0) -> dict[str, Any]:
    """Return the loss of the default to the best settings per task in points, its mean, and the ranking of variants.

    Intervals: 95 %, by resampling seeds, and tasks for the mean.
    """
    random = np.random.default_rng(seed)
    losses, draws = {}, []
    for name, row in measured["tasks"].items():
        default, best = row["variants"].get(OPEN), row.get("best", {}).get("test")
        if default is None or best is None:
            continue
        sampled = _means(best, random) - _means(default, random)
        low, high = np.quantile(sampled, (0.025, 0.975))
        mean = statistics.fmean(best) - statistics.fmean(default)
        losses[name] = {"loss": round(mean, 2), "low": round(low, 2), "high": round(high, 2), "half": row["half"]}
        if row["half"] == "judges":
            draws.append(sampled)
    judged = [entry["loss"] for entry in losses.values() if entry["half"] == "judges"]
    document: dict[str, Any] = {**measured, "losses": losses, "mean": None, "holds": None}
    if judged:
        stack = np.array(draws)
        picks = random.integers(len(stack), size=(_RESAMPLES, len(stack)))
        means = np.array([stack[pick, index % stack.shape[1]].mean() for index, pick in enumerate(picks)])
        low, high = np.quantile(means, (0.025, 0.975))
        document["mean"] = {"loss": round(statistics.fmean(judged), 2), "low": round(low, 2), "high": round(high, 2)}
        document["holds"] = document["mean"]["loss"] <= MEAN_GOAL and max(judged) <= WORST_GOAL
    scores = {name: row["variants"] for name, row in measured["tasks"].items() if row["half"] == "judges"}
    document["ranking"] = rank.rank(scores, list(VARIANTS))
    return document


def _means(scores: Sequence[float], random: np.random.Generator) -> np.ndarray:
    """Return bootstrap means over seeds."""
    values = np.array(scores, dtype=float)
    return values[random.integers(len(values), size=(_RESAMPLES, len(values)))].mean(axis=1)


def plateau(document: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    """Return, for each value of a sensitivity curve, the tasks that are near their best there, and the mean loss.

    Near: within NEAR points, or within two standard errors of the difference of two means.

    Args:
        document: See judge().
        key: "flip_rate" or "alpha".
    """
    found: dict[float, list[tuple[bool, float]]] = {}
    for row in document["tasks"].values():
        if not row[key]:
            continue
        means = [statistics.fmean(scores) for _, scores in row[key]]
        variance = statistics.fmean(statistics.variance(scores) for _, scores in row[key])
        limit = max(NEAR, 2 * math.sqrt(2 * variance / len(row[key][0][1])))
        for (value, _), mean in zip(row[key], means, strict=True):
            below = max(means) - mean
            found.setdefault(value, []).append((below <= limit, below))
    return [
        {
            "value": value,
            "tasks": len(pairs),
            "near": sum(near for near, _ in pairs),
            "below": round(statistics.fmean(below for _, below in pairs), 2),
        }
        for value, pairs in sorted(found.items())
    ]


def _plateaus(document: Mapping[str, Any]) -> list[str]:
    """Return the section of the page: how wide the plateau is, and whether it is at the same place everywhere."""
    lines = [
        (
            f"On held-out training data, {len(CURVE_SEEDS)} seeds. A task is near its best where it loses at most "
            f"{NEAR:g} point, or no more than two standard errors of its own noise."
        ),
        "",
    ]
    tables = []
    for key, label in (("flip_rate", "flip rate"), ("alpha", "alpha (gamma = 0.1)")):
        rows = plateau(document, key)
        wide = [row["value"] for row in rows if row["near"] == row["tasks"]]
        where = f"from {wide[0]:g} to {wide[-1]:g}" if wide else "nowhere"
        between = [row for row in rows if wide and wide[0] < row["value"] < wide[-1] and row["value"] not in wide]
        but = f", except {', '.join(format(row['value'], 'g') for row in between)}" if between else ""
        lines.append(f"- {label}: all tasks are near their best {where}{but}.")
        tables += ["", f"| {label} | tasks near their best | mean points below |", "|---|---|---|"]
        tables += [f"| {row['value']:g} | {row['near']} of {row['tasks']} | {row['below']:.2f} |" for row in rows]
    return [*lines, *tables]


def panels(document: Mapping[str, Any]) -> list[Panel]:
    """Return a panel of flips under noise, and three of accuracy below the best of each task.

    Accuracy over the flip rate and over alpha, one curve per task and their mean; and the mean over tasks of all
    settings of the grid over the flip rate of each, one curve per gamma: where they coincide, the flip rate determines
    the accuracy.
    """
    result = [_flips_under_noise()]
    for key, label in (("flip_rate", "flip rate"), ("alpha", "alpha (gamma = 0.1)")):
        curves = []
        for name, row in document["tasks"].items():
            if row[key]:
                means = [statistics.fmean(scores) for _, scores in row[key]]
                below = [mean - max(means) for mean in means]
                curves.append(Curve(name, [value for value, _ in row[key]], below, muted=True))
        if curves:
            mean = np.mean([curve.mean for curve in curves if curve.x == curves[0].x], axis=0).tolist()
            curves.insert(0, Curve("mean over tasks", curves[0].x, mean))
            title = f"{label}: tasks in grey, and their mean"
            result.append(Panel(title=title, x=label, y=_BELOW, curves=curves, x_scale="log"))
    if curves := _by_flip_rate(document):
        title = "all settings, mean over tasks, by their flip rate"
        result.append(Panel(title=title, x="flip rate under noise", y=_BELOW, curves=curves, x_scale="log"))
    return result


@functools.cache
def _flips_under_noise() -> Panel:
    """Return the flips of simulated weights whose gradient is white noise, over the flip rate that sets their alpha."""
    weights, start, steps = 48, 40_000, 120_000  # the slowest average, alpha = 1.3e-4, has forgotten its start
    requested = RATES[1:]
    noise = np.random.default_rng(0).standard_normal((weights, start + steps))
    curves = [Curve("requested", requested, requested)]
    for gamma in sorted({gamma for _, gamma in GRID}):
        rates = [rate for rate in requested if rate <= most_flips(gamma)]
        flips = []
        for rate in rates:
            filt = cascade(ema(gamma), ema(alpha_for_flips(rate, gamma)))
            g = np.asarray(sosfilt(filt.sections, noise))[:, start:]
            flips.append(float(f"{np.mean(g[:, 1:] * g[:, :-1] < 0):.3g}"))
        curves.append(Curve(f"gamma = {gamma:g}, simulated", rates, flips, style="points"))
    title, y = "a flip rate sets alpha, whatever gamma", "flips per weight and update"
    return Panel(title, "flip rate", y, x_scale="log", y_scale="log", curves=curves)


def _by_flip_rate(document: Mapping[str, Any]) -> list[Curve]:
    rows = [row["grid"] for row in document["tasks"].values() if len(row["grid"]) == len(GRID)]
    if not rows:
        return []
    means = np.array([[statistics.fmean(scores) for _, _, scores in grid] for grid in rows])
    below = (means - means.max(axis=1, keepdims=True)).mean(axis=0)
    curves = []
    for gamma in sorted({gamma for _, gamma in GRID}):
        chosen = [(alpha, y) for (alpha, each), y in zip(GRID, below.tolist(), strict=True) if each == gamma]
        rates = [flip_rate(cascade(ema(gamma), ema(alpha))) for alpha, _ in chosen]
        curves.append(Curve(f"gamma = {gamma:g}", rates, [y for _, y in chosen]))
    return curves


def section_of(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the section of the study on the page of `zerocross report`."""
    judged = [entry["loss"] for entry in document["losses"].values() if entry["half"] == "judges"]
    figures = "not measured yet"
    if document["mean"] is not None:
        figures = (
            f"{document['mean']['loss']:+.2f} points on average, {max(judged):+.2f} at most, on {len(judged)} tasks"
        )
    columns = ["task", "half", "default flip rate", "best (alpha, gamma)", "points lost"]
    return section.section(
        "suite-one-number",
        "One number instead of alpha and gamma",
        "Accuracy below the task's best, over the flip rate and over alpha, on held-out training data.",
        "zerocross suite one-number",
        claims=[
            {
                "sentence": f"One flip rate for all tasks loses at most {MEAN_GOAL} points on average, and "
                f"{WORST_GOAL} on any task, against the best alpha and gamma of each.",
                "holds": document["holds"],
                "figures": figures,
            }
        ],
        panels=panels(document),
        tables=[Table("Test accuracy, %", columns, [_row(document, name) for name in document["losses"]])],
    )


def _row(document: Mapping[str, Any], name: str) -> list[str]:
    row, entry = document["tasks"][name], document["losses"][name]
    best = ", ".join(f"{value:.2g}" for value in row["best"]["settings"].values())
    return [
        name,
        entry["half"],
        _percent(row["variants"][OPEN]),
        f"{_percent(row['best']['test'])} ({best})",
        f"{entry['loss']:+.2f} ({entry['low']:+.2f} to {entry['high']:+.2f})",
    ]


def page(document: Mapping[str, Any], picture: str) -> str:
    """Return docs/one-number.md.

    Args:
        document: See judge().
        picture: The path of the picture, relative to the page.
    """
    rate = document["rates"].get(OPEN)
    lines = [
        "# One number",
        "",
        (
            "Written by `zerocross suite one-number` from `results/suite/`. The filter has two discounts and a decay. "
            "Noise alone flips a share arccos((p + q) / (1 + pq)) / pi of the weights at each update (p = 1 - alpha, "
            "q = 1 - gamma), about sqrt(alpha gamma) / pi; so a flip rate determines alpha, and its decay is "
            "alpha-decay. Can one flip rate serve all tasks?"
        ),
        "",
    ]
    if document["mean"] is None or rate is None:
        return "\n".join([*lines, "Not measured yet: some runs are missing.", ""])
    mean, judged = document["mean"], [e for e in document["losses"].values() if e["half"] == "judges"]
    worst = max(entry["loss"] for entry in judged)
    verdict = "It holds" if document["holds"] else "**It does not hold**"
    lines += [
        (
            f"{verdict}: at the default flip rate of {rate:g}, untouched, the {len(judged)} tasks that judge lose "
            f"{mean['loss']:.2f} points on average ({mean['low']:.2f} to {mean['high']:.2f}) and {worst:.2f} at most, "
            f"on test data, against the best of {len(GRID)} settings of (alpha, gamma) found for each task (goal: at "
            f"most {MEAN_GOAL} and {WORST_GOAL}). The default was chosen on the other tasks, on held-out training "
            "data; settings were chosen with five seeds and judged with five others."
        ),
        "",
        f"![Accuracy over flip rate and alpha]({picture})",
        "",
        (
            "First panel: weights whose gradients are nothing but noise flip at the requested rate, with alpha "
            "computed from it and any gamma. Second and third: accuracy over the flip rate and over alpha, on held-out "
            f"training data. Where a curve is flat, the value hardly matters. Last: the {len(GRID)} settings of "
            "(alpha, gamma), each at the flip rate that noise gives it. Where the curves of different gammas coincide, "
            "the flip rate is all that counts."
        ),
        "",
        "| task | half | default flip rate | best (alpha, gamma) | points lost |",
        "|---|---|---|---|---|",
    ]
    lines += [f"| {' | '.join(_row(document, name))} |" for name in document["losses"]]
    if left := [name for name in TASKS if name not in document["losses"]]:
        lines += ["", f"**Incomplete**: of {len(TASKS)} tasks, these are not measured yet: {', '.join(left)}."]
    lines += ["", "## How wide the plateau is", "", *_plateaus(document), "", "## Variants", "", *_variants(document)]
    return "\n".join([*lines, ""])


def _variants(document: Mapping[str, Any]) -> list[str]:
    ranking = document["ranking"]
    if ranking["friedman"] is None:
        return [f"Not ranked: {ranking['why_not']}."]
    apart = sum(pair["holm"] < rank.LEVEL for pair in ranking["pairs"])
    lines = [
        (
            f"Each at its own best flip rate, on the {len(ranking['tasks'])} tasks that judge; {apart} of "
            f"{len(ranking['pairs'])} pairs differ significantly (Wilcoxon, Holm)."
        ),
        "",
        "| variant | flip rate | mean rank | accuracy |",
        "|---|---|---|---|",
    ]
    for name, row in ranking["methods"].items():
        lines.append(f"| {name} | {document['rates'][name]:g} | {row['rank']:.2f} | {row['mean']:.2f} |")
    return lines


def _percent(scores: Sequence[float]) -> str:
    return f"{statistics.fmean(scores):.2f} ± {statistics.stdev(scores):.2f}"
