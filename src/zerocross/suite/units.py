"""Find the unit of the flip rate whose best value depends least on the length of a run and the batch size.

Trains method `flip` over flip rates, lengths and batch sizes, evaluated on held-out training data. For each cell (task,
length, batch size) it finds the best rate, and converts it to three units. The right unit is the one in which the best
values of all cells are closest together.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zerocross import files, train
from zerocross.filters.flips import alpha_for_flips
from zerocross.suite.tasks import get
from zerocross.train.variants import with_epochs

RATES = (2.5e-3, 5e-3, 1e-2, 2e-2, 4e-2)
GAMMA = 0.1
COSINE_MEAN = 0.5  # mean of the schedule over a run


@dataclass(frozen=True)
class Cell:
    """The settings of a run, except its flip rate and seed."""

    task: str
    updates: int
    batch_size: int


UNITS = {
    "flips per update": lambda rate, _: rate,
    "flips per weight over the run": lambda rate, updates: COSINE_MEAN * rate * updates,
    "memory 1 / alpha, share of the run": lambda rate, updates: 1 / (alpha_for_flips(rate, GAMMA) * updates),
}


def measure(
    cells: Sequence[Cell], out: Path, data_dir: str | Path | None, rates: Sequence[float] = RATES, seeds: int = 1
) -> Iterator[dict[str, Any]]:
    """Train the runs that are not in the file yet, and yield each; the file is rewritten atomically after each run.

    Args:
        cells: The cells to train.
        out: A JSON file of runs; an existing file is continued.
        data_dir: Folder of the datasets.
        rates: Flip rates.
        seeds: Number of seeds for each.
    """
    runs = json.loads(out.read_text(encoding="utf-8"))["runs"] if out.exists() else []
    done = {(r["task"], r["updates_requested"], r["batch_size"], r["flip_rate"], r["seed"]) for r in runs}
    for cell in cells:
        for seed in range(seeds):
            for rate in rates:
                if (*dataclasses.astuple(cell), rate, seed) not in done:
                    runs.append(_run(cell, rate, seed, data_dir))
                    files.write_text(out, json.dumps({"runs": runs}, indent=0) + "\n")
                    yield runs[-1]


def _run(cell: Cell, rate: float, seed: int, data_dir: str | Path | None) -> dict[str, Any]:
    task = get(cell.task)
    config = task.config("flip", seed=seed, validate=True)
    config = dataclasses.replace(
        config, batch_size=cell.batch_size, optimizer={**config.optimizer, "flip_rate": rate, "gamma": GAMMA}
    )
    dataset = train.load_data(config, train.Placement(data_dir=None if data_dir is None else str(data_dir)))
    per_epoch = len(dataset.train_batches(cell.batch_size, seed=seed))
    config = with_epochs(config, max(1, round(cell.updates / per_epoch)))
    scores = train.fit(config, dataset, show=False).scores
    return {
        "task": cell.task,
        "updates_requested": cell.updates,
        "updates": int(scores["update"]),
        "batch_size": cell.batch_size,
        "flip_rate": rate,
        "seed": seed,
        "top1": round(scores["top1"], 3),
        "loss": round(scores["loss"], 5),
        "held_out": int(scores["count"]),
    }


def best(runs: Sequence[Mapping[str, Any]], by: str = "loss") -> list[dict[str, Any]]:
    """Return the best flip rate of each cell in every unit, by the mean "loss" or "top1" on held-out data.

    Args:
        runs: See measure(); cells with fewer than three rates are left out.
        by: The score to compare.
    """
    if by not in {"loss", "top1"}:
        raise ValueError(f"by is {by!r}; it must be 'loss' or 'top1'")
    cells: dict[tuple[str, int, int], dict[float, list[Mapping[str, Any]]]] = {}
    for run in runs:
        key = (run["task"], run["updates_requested"], run["batch_size"])
        cells.setdefault(key, {}).setdefault(run["flip_rate"], []).append(run)
    rows = []
    for (task, _, batch_size), of_rate in sorted(cells.items()):
        if len(of_rate) < 3:
            continue
        mean = {rate: sum(r[by] for r in group) / len(group) for rate, group in of_rate.items()}
        rate = min(mean, key=lambda r: mean[r] if by == "loss" else -mean[r])
        updates = next(iter(of_rate.values()))[0]["updates"]
        units = {unit: value(rate, updates) for unit, value in UNITS.items()}
        edge = rate in (min(mean), max(mean))
        rows.append({"task": task, "updates": updates, "batch_size": batch_size, "edge": edge, **units})
    return rows


def spread(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return the standard deviation of the best values of all cells, in factors of two of the flip rate, by unit.

    Memory is proportional to the inverse square of the rate, so that its logarithm counts half.
    """
    if len(rows) < 2:
        raise ValueError(f"a spread needs at least two cells, not {len(rows)}")
    result = {}
    for unit in UNITS:
        logs = [math.log2(row[unit]) * (0.5 if unit.startswith("memory") else 1.0) for row in rows]
        mean = sum(logs) / len(logs)
        result[unit] = math.sqrt(sum((x - mean) ** 2 for x in logs) / (len(logs) - 1))
    return result
