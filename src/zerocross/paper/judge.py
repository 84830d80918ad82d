"""Judge claims about accuracy by the difference of means with its interval; with too few seeds, not at all."""

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
        """Format a difference in points."""
        return f"{self.mean:+.2f} points (95 % interval {self.low:+.2f} to {self.high:+.2f})"


def gain(one: Sequence[float], other: Sequence[float]) -> Gain:
    """Return mean(one) - mean(other); the interval is unbounded if neither has two values."""
    mean = statistics.fmean(one) - statistics.fmean(other)
    freedom = len(one) + len(other) - 2
    if freedom < 1:
        return Gain(mean, -math.inf, math.inf)
    within = sum(statistics.variance(group) * (len(group) - 1) for group in (one, other) if len(group) > 1)
    error = math.sqrt(within / freedom * (1 / len(one) + 1 / len(other)))
    half = float(stats.t.ppf((1 + CONFIDENCE) / 2, freedom)) * error
    return Gain(mean, mean - half, mean + half)


def too_few(groups: Mapping[str, Sequence[float]]) -> str:
    """Return a message if a group has fewer seeds than a comparison of accuracies needs; empty if all have enough."""
    counts = {name: len(values) for name, values in groups.items() if len(values) < MIN_SEEDS}
    if not counts:
        return ""
    alike = len(counts) == len(groups) and len(set(counts.values())) == 1
    have = next(iter(counts.values())) if alike else ", ".join(f"{name} {count}" for name, count in counts.items())
    return f"not judged: {have} of the {MIN_SEEDS} seeds that a comparison needs"


def above(one: Sequence[float], other: Sequence[float], names: tuple[str, str], margin: float = 0.0) -> Verdict:
    """Judge whether accuracy `one` exceeds `other` + margin, by the interval of their difference.

    Args:
        one: One value per seed.
        other: One value per seed.
        names: The names of the two.
        margin: In points; a negative margin judges whether `one` is not below `other` by that much.
    """
    figures = "; ".join(f"{name}: {percent(values)}" for name, values in zip(names, (one, other), strict=True))
    if reason := too_few(dict(zip(names, (one, other), strict=True))):
        return Verdict(None, f"{figures}; {reason}")
    difference = gain(one, other)
    figures = f"{figures}; {difference}"
    if difference.low > margin:
        return Verdict(holds=True, figures=figures)
    if difference.high < margin:
        return Verdict(holds=False, figures=figures)
    return Verdict(None, f"{figures}; the noise between seeds is too large to judge")


def grows(groups: Sequence[Sequence[float]]) -> bool | None:
    """Return True if means grow from the first group to the last beyond the noise between seeds, and never fall.

    None if the noise is too large to judge.
    """
    if any(gain(later, earlier).high < 0 for earlier, later in pairwise(groups)):
        return False
    total = gain(groups[-1], groups[0])
    return True if total.low > 0 else False if total.high < 0 else None


def percent(values: Sequence[float]) -> str:
    """Format values in percent as mean ± sample standard deviation (number of seeds)."""
    spread = f" ± {statistics.stdev(values):.2f}" if len(values) > 1 else ""
    return f"{statistics.fmean(values):.2f}{spread} % (n = {len(values)})"
