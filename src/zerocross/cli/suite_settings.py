"""`zerocross suite settings`, `trials` and `units`: tables of settings and what they say about searches and units."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from zerocross.cli.execution import placement, with_execution_options
from zerocross.cli.suite_common import DATA, RESULTS, RESULTS_OF, TASKS_OF, WORK, app, train_runs

if TYPE_CHECKING:
    from zerocross.sweep.execution import Execution


@app.command()
@with_execution_options
def settings(
    tasks: Annotated[str, TASKS_OF],
    spaces: Annotated[
        str,
        typer.Option(
            metavar="A,B", help="Spaces: flip (1 number), filter (2), latent (6), latent-narrow, latent-wide."
        ),
    ] = "filter,latent",
    count: Annotated[
        int | None, typer.Option(metavar="N", min=2, help="Settings, a power of two. Default: 128, and 32 of flip.")
    ] = None,
    seeds: Annotated[int, typer.Option(metavar="K", min=2, help="Seeds per setting.")] = 3,
    data_dir: Annotated[Path | None, DATA] = None,
    results: Annotated[Path, RESULTS] = Path("results/suite"),
    work: Annotated[Path, WORK] = Path("runs/suite"),
    quiet: Annotated[bool, typer.Option("--quiet", "-q", metavar="", help="No progress.")] = False,
    *,
    execution: Execution,
) -> int:
    """Train tables of settings, drawn by a Sobol sequence, on held-out training data. `suite trials` evaluates them."""
    from zerocross.checks import check_choice
    from zerocross.suite import trials
    from zerocross.suite.table import task_names
    from zerocross.sweep.cache import RunCache

    names = [name.strip() for name in spaces.split(",")]
    for name in names:
        check_choice("space", name, trials.SPACES)
    if count is not None and count & (count - 1):
        raise ValueError(f"count is {count}; a Sobol sequence takes a power of two: 32, 64, 128, ...")
    chosen, cache, place = task_names(tasks), RunCache(results, work), placement(data_dir, execution)
    runs = [
        run for task in chosen for name in names for run in trials.runs(task, name, count or trials.SPACES[name], seeds)
    ]
    return train_runs(runs, cache, place, execution, quiet=quiet)


@app.command("trials")
def trials_command(
    count: Annotated[
        int | None, typer.Option(metavar="N", min=2, help="Settings of each table, if not the default number.")
    ] = None,
    seeds: Annotated[int, typer.Option(metavar="K", min=2, help="Seeds per setting.")] = 3,
    repeats: Annotated[int, typer.Option(min=0, help="Bayesian searches of each table.")] = 100,
    results: Annotated[Path, RESULTS_OF] = Path("results/suite"),
    page: Annotated[Path | None, typer.Option(metavar="FILE", help="Also writes the page, docs/trials.md.")] = None,
) -> int:
    """Evaluate tables of settings: what random and Bayesian search find in them after how many trials.

    Reads results only. Writes RESULTS/trials.json and pictures. Exit code 1: there is no complete table.
    """
    import os

    from zerocross import train
    from zerocross.figures import pictures
    from zerocross.files import write_json, write_text
    from zerocross.suite import trials, trials_report
    from zerocross.suite.tasks import TASKS
    from zerocross.sweep.cache import RunCache

    cache, place = RunCache(results, results), train.Placement()
    tables: dict[str, dict[str, Any]] = {}
    for task in TASKS.values():
        for name, default in trials.SPACES.items():
            table = trials.table_of(task, name, count or default, seeds, lambda run: cache.find(run.job(place)))
            if table is not None:
                tables.setdefault(task.name, {})[name] = table
    if not tables:
        sys.stderr.write(
            "zerocross: no complete table of settings; train one: zerocross suite settings --tasks digits\n"
        )
        return 1
    document = trials_report.report(tables, repeats=repeats)
    write_json(results / "trials.json", document)
    for kind in ("svg", "png"):
        pictures.draw(trials_report.panels(document), [], results / f"trials.{kind}")
    folder = os.path.relpath(results, page.parent) if page else str(results)
    text = trials_report.page(document, f"{folder}/trials.svg")
    typer.echo(text)
    if page is not None:
        write_text(page, text)
    return 0


@app.command()
@with_execution_options
def units(
    tasks: Annotated[str, TASKS_OF],
    lengths: Annotated[str, typer.Option(metavar="X,Y", help="Lengths, as multiples of a task's own.")] = "0.5,1,2,4",
    batches: Annotated[str, typer.Option(metavar="N,M", help="Batch sizes.")] = "32,256",
    seeds: Annotated[int, typer.Option(metavar="K", min=1, help="Seeds per flip rate.")] = 3,
    data_dir: Annotated[Path | None, DATA] = None,
    results: Annotated[Path, RESULTS] = Path("results/suite"),
    work: Annotated[Path, WORK] = Path("runs/suite"),
    quiet: Annotated[bool, typer.Option("--quiet", "-q", metavar="", help="No progress.")] = False,
    *,
    execution: Execution,
) -> int:
    """Train method flip over flip rates, lengths and batch sizes on held-out training data; print the best by unit.

    A unit means the same everywhere if its best values agree; `spread` is their standard deviation in factors of two.
    Writes RESULTS/units.json.
    """
    from zerocross.files import write_json
    from zerocross.suite.table import task_names
    from zerocross.suite.units import UNITS, Cell, best, runs, spread
    from zerocross.sweep.cache import RunCache
    from zerocross.tables import text_table

    try:
        sizes = [(float(length), int(batch)) for length in lengths.split(",") for batch in batches.split(",")]
    except ValueError:
        raise ValueError(f"--lengths {lengths} and --batches {batches} must be numbers, separated by commas") from None
    cells = [Cell(task, length, batch) for task in task_names(tasks) for length, batch in sizes]
    cache, place = RunCache(results, work), placement(data_dir, execution)
    if code := train_runs(runs(cells, seeds), cache, place, execution, quiet=quiet):
        return code
    document = {}
    for by in ("loss", "score"):
        rows = best(cells, seeds, lambda run: cache.find(run.job(place)), by)
        spreads = spread(rows) if len(rows) > 1 else {}
        document[by] = {"best": rows, "spread": spreads}
        table = [[r["task"], str(r["updates"]), str(r["batch_size"]), *(f"{r[u]:.3g}" for u in UNITS)] for r in rows]
        table.append(["spread", "", "", *(f"{spreads[u]:.2f}" if spreads else "" for u in UNITS)])
        typer.echo(f"\nbest by {by}")
        typer.echo(text_table(["task", "updates", "batch", *UNITS], table, right=1))
    write_json(results / "units.json", document)
    return 0
