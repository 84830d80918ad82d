"""Text about a study: progress lines and a summary."""

from __future__ import annotations

import statistics
from collections.abc import Mapping

from zerocross.tune.history import ENOUGH, History, Outcome
from zerocross.tune.space import short
from zerocross.tune.study import Study


def progress(history: History, outcome: Outcome, unit: str = "") -> str:
    """Return a line about a new result."""
    best = f"best {history.best.value:.2f}{unit}" if history.best else "no best yet"
    chosen = "  ".join(f"{name.rpartition('.')[2]} {short(value)}" for name, value in outcome.settings.items())
    value = f"{outcome.value:.2f}{unit}{' when pruned' * outcome.pruned}"
    seconds = f"{outcome.seconds:.1f} s, of which sampler {outcome.sampler_seconds:.2f} s"
    return f"{count(history)}: trial {outcome.number}  {value} ({best})  {chosen}  ({seconds})"


def summary(study: Study, history: History, importance: Mapping[str, float], what: str, unit: str = "") -> list[str]:
    """Return lines with the state of a study, its best settings and their importance, and the sampler's time."""
    pruned = sum(outcome.pruned for outcome in history.outcomes)
    states = {"pruned": pruned, "waiting or running": history.open, "failed": history.failed}
    more = "".join(f", {number} {state}" for state, number in states.items() if number)
    plan, best = study.plan, history.best
    lines = [f"study {study.name}: {count(history)} trials done{more}; sampler {plan.sampler}, seed {plan.seed}"]
    if best is None:
        return [*lines, "no trial is complete yet"]
    rows = [("setting", "best", "importance", "searched")]
    for part in plan.space.parameters:
        share = f"{100 * importance[part.name]:.0f} %" if part.name in importance else "-"
        rows.append((part.name, short(best.settings[part.name]), share, str(part).removeprefix(f"{part.name} ")))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines += [f"  {a:{widths[0]}}  {b:>{widths[1]}}  {c:>{widths[2]}}  {d}" for a, b, c, d in rows]
    if not importance:
        lines.append(f"  (importance needs {ENOUGH} complete trials)")
    costs = [outcome.sampler_seconds for outcome in history.outcomes]
    mean = statistics.mean(costs)
    return [
        *lines,
        f"best {what}: {best.value:.2f}{unit}, trial {best.number}",
        f"sampler's own time: {mean:.3f} s per suggestion (mean of {len(costs)}; maximum {max(costs):.3f} s)",
    ]


def count(history: History) -> str:
    """Return the number of complete trials, of all."""
    return f"{len(history.outcomes)} of {len(history.outcomes) + history.open + history.failed}"
