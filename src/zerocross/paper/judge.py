"""How claims about seeds are judged: by a difference of means with its interval, and not where seeds are too few."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from scipy import stats

from zerocross.paper.artefact import Verdict

MIN_SEEDS = 3
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Gain:
    """A difference of two means with its 95 % interval (Student's t, pooled variance)."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        """In words, for figures in points."""
        return f"{self.mean:+.2f} points (95 % interval {self.low:+.2f} to {self.high:+.2f})"


def gain(one: Sequence[float], other: Sequence[float]) -> Gain:
    """mean(one) - mean(other); the interval is unbounded where neither has two values."""
    mean = statistics.fmean(one) - statistics.fmean(other)
    freedom = len(one) + len(other) - 2
    if freedom < 1:
        return Gain(mean, -math.inf, math.inf)
    within = sum(statistics.variance(group) * (len(group) - 1) for group in (one, other) if len(group) > 1)
    error = math.sqrt(within / freedom * (1 / len(one) + 1 / len(other)))
    half = float(stats.t.ppf((1 + CONFIDENCE) / 2, freedom)) * error
    return Gain(mean, mean - half, mean + half)


def too_few(groups: Mapping[str, Sequence[float]]) -> str:
    """What to say where a group has fewer seeds than a comparison of accuracies needs; empty where all have enough."""
    short = {name: len(values) for name, values in groups.items() if len(values) < MIN_SEEDS}
    if not short:
        return ""
    alike = len(short) == len(groups) and len(set(short.values())) == 1
    have = next(iter(short.values())) if alike else ", ".join(f"{name} {count}" for name, count in short.items())
    return f"not judged: {have} of the {MIN_SEEDS} seeds that a comparison needs"


def above(one: Sequence[float], other: Sequence[float], names: tuple[str, str], margin: float = 0.0) -> Verdict:
    """Whether accuracy `one` exceeds `other` + margin: by the interval of their difference, or not to be told.

    Args:
        one: A value per seed.
        other: A value per seed.
        names: What the two are called.
        margin: In points; a negative one asks whether `one` is not below `other` by as much.
    """
    figures = "; ".join(f"{name}: {percent(values)}" for name, values in zip(names, (one, other), strict=True))
    if short := too_few(dict(zip(names, (one, other), strict=True))):
        return Verdict(None, f"{figures}; {short}")
    difference = gain(one, other)
    figures = f"{figures}; {difference}"
    if difference.low > margin:
        return Verdict(holds=True, figures=figures)
    if difference.high < margin:
        return Verdict(holds=False, figures=figures)
    return Verdict(None, f"{figures}; the seeds' noise is too large to tell")


def grows(groups: Sequence[Sequence[float]]) -> bool | None:
    """Whether means grow from the first group to the last beyond the seeds' noise, and nowhere fall beyond it.

    None where that cannot be told.
    """
    if any(gain(later, earlier).high < 0 for earlier, later in pairwise(groups)):
        return False
    whole = gain(groups[-1], groups[0])
    return True if whole.low > 0 else False if whole.high < 0 else None


def percent(values: Sequence[float]) -> str:
    """Mean ± sample standard deviation (number of seeds), in per cent."""
    spread = f" ± {statistics.stdev(values):.2f}" if len(values) > 1 else ""
    return f"{statistics.fmean(values):.2f}{spread} % (n = {len(values)})"
