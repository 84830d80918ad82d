"""`zerocross suite settings`, `trials`, `units` and `one-number`: how settings of a method change its results."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from zerocross.cli.execution import placement, with_execution_options
from zerocross.cli.suite_common import DATA, RESULTS, RESULTS_OF, TASKS_OF, WORK, app, train_runs

if TYPE_CHECKING:
    from zerocross.suite.table import SuiteRun
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
        int | None,
        typer.Option(metavar="N", min=2, help="Number of settings, a power of two. Default: 128 (flip: 32)."),
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
        raise ValueError(f"count is {count}; it must be a power of two (32, 64, 128, ...) for a Sobol sequence")
    chosen, cache, place = task_names(tasks), RunCache(results, work), placement(data_dir, execution)
    runs = [
        run for task in chosen for name in names for run in trials.runs(task, name, count or trials.SPACES[name], seeds)
    ]
    return train_runs(runs, cache, place, execution, quiet=quiet)


@app.command("trials")
def trials_command(
    count: Annotated[
        int | None, typer.Option(metavar="N", min=2, help="Number of settings per table, if not the default.")
    ] = None,
    seeds: Annotated[int, typer.Option(metavar="K", min=2, help="Seeds per setting.")] = 3,
    repeats: Annotated[int, typer.Option(min=0, help="Bayesian searches per table.")] = 300,
    results: Annotated[Path, RESULTS_OF] = Path("results/suite"),
    page: Annotated[Path | None, typer.Option(metavar="FILE", help="Also write the page, docs/trials.md.")] = None,
) -> int:
    """Evaluate tables of settings: the quality of random and Bayesian search by number of trials.

    Reads results only. Writes RESULTS/trials.json and pictures. Exit code 1 if there is no complete table.
    """
    from zerocross import train
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
    _write(document, trials_report, results / "trials", page)
    return 0


@app.command()
@with_execution_options
def units(
    tasks: Annotated[str, TASKS_OF],
    lengths: Annotated[
        str, typer.Option(metavar="X,Y", help="Lengths, as multiples of that of the task.")
    ] = "0.5,1,2,4",
    batches: Annotated[str, typer.Option(metavar="N,M", help="Batch sizes.")] = "32,256",
    seeds: Annotated[int, typer.Option(metavar="K", min=1, help="Seeds per flip rate.")] = 3,
    data_dir: Annotated[Path | None, DATA] = None,
    results: Annotated[Path, RESULTS] = Path("results/suite"),
    work: Annotated[Path, WORK] = Path("runs/suite"),
    quiet: Annotated[bool, typer.Option("--quiet", "-q", metavar="", help="No progress.")] = False,
    *,
    execution: Execution,
) -> int:
    """Train method flip over flip rates, lengths and batch sizes; print the best rate of each cell in three units.

    Runs are evaluated on held-out training data. The best values of a suitable unit agree over all cells; `spread` is
    their standard deviation in factors of two. Writes RESULTS/units.json.
    """
    from zerocross.files import write_json
    from zerocross.suite.table import task_names
    from zerocross.suite.units import UNITS, Cell, best, runs, spread
    from zerocross.sweep.cache import RunCache
    from zerocross.tables import text_table

    try:
        sizes = [(float(length), int(batch)) for length in lengths.split(",") for batch in batches.split(",")]
    except ValueError:
        raise ValueError(f"--lengths {lengths} and --batches {batches} must be comma-separated numbers") from None
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


@app.command("one-number")
@with_execution_options
def one_number_command(
    tasks: Annotated[str, TASKS_OF] = "all",
    variants: Annotated[
        bool, typer.Option("--variants/--no-variants", metavar="", help="Also compare variants.")
    ] = True,
    page: Annotated[Path | None, typer.Option(metavar="FILE", help="Also write the page, docs/one-number.md.")] = None,
    data_dir: Annotated[Path | None, DATA] = None,
    results: Annotated[Path, RESULTS] = Path("results/suite"),
    work: Annotated[Path, WORK] = Path("runs/suite"),
    quiet: Annotated[bool, typer.Option("--quiet", "-q", metavar="", help="No progress.")] = False,
    *,
    execution: Execution,
) -> int:
    """Measure how much one flip rate for all tasks loses against alpha and gamma tuned per task, and where.

    Half of the tasks choose the default flip rate on held-out training data, the other half judge it on test data.
    Writes RESULTS/one-number.json and pictures. An interrupted command continues when run again.
    """
    from zerocross.suite import one_number, one_number_report
    from zerocross.suite.table import task_names
    from zerocross.sweep.cache import RunCache

    chosen, cache, place = task_names(tasks), RunCache(results, work), placement(data_dir, execution)

    def find(run: SuiteRun) -> dict[str, Any] | None:
        return cache.find(run.job(place))

    for part in (
        lambda: one_number.screening_runs(chosen),
        lambda: one_number.deciding_runs(chosen, find, variants=variants),
        lambda: one_number.judging_runs(chosen, find),
    ):
        if code := train_runs(part(), cache, place, execution, quiet=quiet):
            return code
    document = one_number_report.judge(one_number.measured(chosen, find))
    _write(document, one_number_report, results / "one-number", page)
    return 0


def _write(document: dict[str, Any], report: Any, path: Path, page: Path | None) -> None:
    """Write PATH.json and pictures, print the page, and write it, too, if a file is given.

    Args:
        document: Fit for JSON.
        report: The module with `panels(document)`, their number of COLUMNS, `page(document, picture)` and
            `section_of(document)`.
        path: Of the results, without a suffix.
        page: The file of the page, or None.
    """
    import os

    from zerocross.figures import pictures
    from zerocross.files import write_json, write_text

    write_json(path.with_suffix(".json"), {**document, **report.section_of(document)})
    for kind in ("svg", "png"):
        pictures.draw(report.panels(document), [], path.with_suffix(f".{kind}"), columns=report.COLUMNS)
    folder = os.path.relpath(path.parent, page.parent) if page else str(path.parent)
    text = report.page(document, f"{folder}/{path.name}.svg")
    typer.echo(text)
    if page is not None:
        write_text(page, text)
