"""`zerocross suite`: the benchmark's tasks, whether their trainings have converged, and the runs behind its tables."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from zerocross.cli.execution import placement, with_execution_options

if TYPE_CHECKING:
    from zerocross.suite.table import SuiteRun
    from zerocross.suite.tasks import Task
    from zerocross.sweep.cache import RunCache
    from zerocross.sweep.execution import Execution

app = typer.Typer(help="Many real tasks that train in seconds.", no_args_is_help=True)


RESULTS_OF = typer.Option(metavar="DIR", help="Where the suite's results are.")


@app.command()
def tasks(results: Annotated[Path, RESULTS_OF] = Path("results/suite")) -> None:
    """List the tasks: data, network, parameters, budget, what settings are chosen on, and whether they converge."""
    import torch

    from zerocross.data.ucr import SETS
    from zerocross.models import create
    from zerocross.nn import summary
    from zerocross.suite.tasks import TASKS
    from zerocross.tables import text_table

    classes = {name: {"classes": series.classes} for name, series in SETS.items()} | {"hapt": {"classes": 12}}
    rows = []
    for task in TASKS.values():
        with torch.device("meta"):  # shapes without memory
            total = summary(create(task.network, **{**classes.get(task.name, {}), **task.network_options})).total
        part = task.data_options.get("train_size")
        data = " ".join([task.data, str(task.data_options.get("set", ""))]).strip()
        rows.append(
            [
                task.name,
                data + (f", {part:,} training samples" if part else ""),
                task.network,
                task.held_out,
                task.metric,
                f"{total.binary:,}",
                f"{total.real:,}",
                str(task.epochs),
                str(task.batch_size),
                f"{task.seconds:g}",
                _converged(task, results),
            ]
        )
    header = ["task", "data", "network", "settings chosen on", "metric", "binary", "real"]
    header += ["epochs", "batch", "seconds", "twice the length changes"]
    typer.echo(text_table(header, rows, right=4))
    typer.echo(
        f"{len(rows)} tasks. Seconds: of one core, for one training. Twice the length: change in points (noise of "
        "seeds), zerocross suite converge"
    )


def _converged(task: Task, results: Path) -> str:
    from zerocross import train
    from zerocross.suite import convergence
    from zerocross.sweep.cache import RunCache

    cache, place = RunCache(results, results), train.Placement()
    rows = convergence.rows(task, lambda run: cache.find(run.job(place)))
    words = [
        f"{row.method} {row.change:+.2f} ({row.noise:.2f}{'' if row.converged else ', not converged'})" for row in rows
    ]
    return "; ".join(words) or "unmeasured"


RESULTS = typer.Option(metavar="DIR", help="A file per task, a line per run; a run that is there is not made again.")
WORK = typer.Option(metavar="DIR", help="Locks, and logs of failed processes.")
DATA = typer.Option(envvar="ZEROCROSS_DATA", metavar="DIR", help="Where the datasets are.")


@app.command()
@with_execution_options
def converge(
    tasks: Annotated[str, typer.Option(metavar="A,B", help="Tasks, or series, or all.")] = "all",
    seeds: Annotated[int, typer.Option(min=2, help="How many trainings of each kind.")] = 3,
    data_dir: Annotated[Path | None, DATA] = None,
    results: Annotated[Path, RESULTS] = Path("results/suite"),
    work: Annotated[Path, WORK] = Path("runs/suite"),
    quiet: Annotated[bool, typer.Option("--quiet", "-q", metavar="", help="No progress.")] = False,
    *,
    execution: Execution,
) -> int:
    """Train tasks at their length and at twice that, the filter and the full-precision twin, on held-out training data.

    A task has converged if twice the length gains no more than the noise of seeds; if it loses more, longer training
    overfits. Writes RESULTS/convergence.json. Exit code 1: a task has not converged.
    """
    from zerocross.files import write_json
    from zerocross.suite import convergence
    from zerocross.suite.table import task_names
    from zerocross.suite.tasks import TASKS
    from zerocross.sweep.cache import RunCache
    from zerocross.tables import text_table

    chosen, cache, place = task_names(tasks), RunCache(results, work), placement(data_dir, execution)
    runs = [run for task in chosen for run in convergence.runs(task, seeds)]
    if code := _made(runs, cache, place, execution, quiet=quiet):
        return code

    def find(run: SuiteRun) -> dict[str, Any] | None:
        return cache.find(run.job(place))

    lines, converged = [], True
    for task in chosen:
        for row in convergence.rows(task, find, seeds):
            converged &= row.converged
            lines.append(
                [
                    task.name,
                    str(task.epochs),
                    row.method,
                    " ".join(f"{score:.2f}" for score in row.single),
                    " ".join(f"{score:.2f}" for score in row.double),
                    f"{row.change:+.2f}",
                    f"{row.noise:.2f}",
                    row.verdict,
                ]
            )
    header = ["task", "epochs", "method", "single length", "double length", "change", "seeds' noise", "converged"]
    typer.echo(text_table(header, lines, right=3))
    rows = {task.name: convergence.rows(task, find) for task in TASKS.values()}
    write_json(results / "convergence.json", convergence.document(rows))
    return 0 if converged else 1


@app.command("run")
@with_execution_options
def run_command(
    tasks: Annotated[str, typer.Option(metavar="A,B", help="Tasks, or series, or all.")] = "all",
    methods: Annotated[
        str, typer.Option(metavar="A,B", help="Methods; real is the full-precision twin; or all.")
    ] = "all",
    seeds: Annotated[int, typer.Option(metavar="K", min=1, help="Seeds 0 to K - 1.")] = 5,
    table: Annotated[
        str, typer.Option(metavar="WHICH", help="published: the authors' settings; tuned: equal trials for all.")
    ] = "published",
    trials: Annotated[int, typer.Option(metavar="N", min=2, help="Trials of each search of the tuned table.")] = 12,
    data_dir: Annotated[Path | None, DATA] = None,
    results: Annotated[Path, RESULTS] = Path("results/suite"),
    work: Annotated[Path, WORK] = Path("runs/suite"),
    quiet: Annotated[bool, typer.Option("--quiet", "-q", metavar="", help="No progress.")] = False,
    *,
    execution: Execution,
) -> int:
    """Train methods on tasks and keep a line per run. Cut short, the same command continues.

    Exit code 1: some runs failed, or cannot be made; the others are there.
    """
    from zerocross.suite import table as tables
    from zerocross.sweep.cache import RunCache

    tables.check_table(table)
    chosen, names = tables.task_names(tasks), tables.method_names(methods)
    cache, place = RunCache(results, work), placement(data_dir, execution)
    if table == "published":
        return _made(tables.published(chosen, names, seeds), cache, place, execution, quiet=quiet)

    def find(run: SuiteRun) -> dict[str, Any] | None:
        return cache.find(run.job(place))

    trial_runs = [run for task in chosen for name in names for run in tables.search(task, name, trials)]
    code = _made(trial_runs, cache, place, execution, quiet=quiet)
    if code > 1:
        return code
    return max(code, _made(tables.tuned(chosen, names, seeds, trials, find), cache, place, execution, quiet=quiet))


def _made(runs: list[SuiteRun], cache: RunCache, place: Any, execution: Execution, *, quiet: bool) -> int:
    """Make runs that are not there; say which cannot be made, which failed and which diverged."""
    from zerocross.suite.table import checked
    from zerocross.sweep.execute import Interrupted
    from zerocross.sweep.short import run_short

    logging.getLogger("lightning_fabric.utilities").setLevel(logging.WARNING)  # who is which rank
    missing = [run for run in runs if cache.find(run.job(place)) is None]
    good, refused = checked(missing, place)
    for name, reason in refused.items():
        sys.stderr.write(f"zerocross: left out: {name}: {reason}\n")
    left_out = {id(run) for run in missing} - {id(run) for run in good}
    jobs = [run.job(place) for run in runs if id(run) not in left_out]
    try:
        ended = run_short(jobs, cache, execution, show=not quiet)
    except Interrupted as stopped:
        sys.stderr.write(f"zerocross: {stopped}\n")
        return stopped.exit_code
    failed = [(job, each["failed"]) for job, each in zip(jobs, ended, strict=True) if "failed" in each]
    diverged = [job.label for job, each in zip(jobs, ended, strict=True) if "diverged" in each]
    for job, reason in failed:
        sys.stderr.write(f"zerocross: failed: {job.label}: {reason}\n")
    if diverged and not quiet:
        typer.echo(f"{len(diverged)} of {len(jobs)} runs diverged and count as 0 %: {'; '.join(diverged[:8])}")
    return 1 if failed or refused else 0


@app.command()
def rank(
    methods: Annotated[str, typer.Option(metavar="A,B", help="Methods, or all.")] = "all",
    seeds: Annotated[int, typer.Option(metavar="K", min=1, help="Seeds that a result has.")] = 5,
    trials: Annotated[int, typer.Option(metavar="N", min=2, help="Trials of each search of the tuned table.")] = 12,
    results: Annotated[Path, RESULTS_OF] = Path("results/suite"),
    page: Annotated[Path | None, typer.Option(metavar="FILE", help="Also writes the page, docs/suite.md.")] = None,
) -> None:
    """Rank methods over tasks from the results alone: tables, critical-difference diagrams, JSON.

    Only tasks and methods without gaps are ranked; what is left out is named.
    """
    import os

    from zerocross import train
    from zerocross.files import write_json, write_text
    from zerocross.suite import rank as ranking
    from zerocross.suite import rank_output
    from zerocross.suite.table import TABLES, method_names
    from zerocross.suite.tasks import TASKS
    from zerocross.sweep.cache import RunCache

    cache, place, names = RunCache(results, results), train.Placement(), method_names(methods)

    def find(run: SuiteRun) -> dict[str, Any] | None:
        return cache.find(run.job(place))

    documents = {}
    for table in TABLES:
        scores, diverged = ranking.scores_of(table, list(TASKS.values()), names, seeds, trials, find)
        documents[table] = {**ranking.rank(scores, names), "seeds": seeds, "diverged": diverged}
        write_json(results / f"rank-{table}.json", documents[table])
        if documents[table]["friedman"] is not None:
            for kind in ("svg", "png"):
                rank_output.draw(documents[table], table, results / f"rank-{table}.{kind}")
    text = rank_output.page(documents, os.path.relpath(results, page.parent) if page else str(results))
    typer.echo(text)
    if page is not None:
        write_text(page, text)


@app.command()
@with_execution_options
def settings(
    tasks: Annotated[str, typer.Option(metavar="A,B", help="Tasks, or series, or all.")],
    spaces: Annotated[
        str,
        typer.Option(
            metavar="A,B", help="Spaces: flip (1 number), filter (2), latent (6), latent-narrow, latent-wide."
        ),
    ] = "filter,latent",
    count: Annotated[
        int | None, typer.Option(metavar="N", min=2, help="Settings, a power of two. Default: 128, and 32 of flip.")
    ] = None,
    seeds: Annotated[int, typer.Option(metavar="K", min=2, help="Seeds of each setting.")] = 3,
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
    return _made(runs, cache, place, execution, quiet=quiet)


@app.command("trials")
def trials_command(
    count: Annotated[
        int | None, typer.Option(metavar="N", min=2, help="Settings of each table, if not the default number.")
    ] = None,
    seeds: Annotated[int, typer.Option(metavar="K", min=2, help="Seeds of each setting.")] = 3,
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
    tasks: Annotated[str, typer.Option(metavar="A,B", help="Tasks, or series, or all.")],
    lengths: Annotated[str, typer.Option(metavar="X,Y", help="Lengths, as multiples of a task's own.")] = "0.5,1,2,4",
    batches: Annotated[str, typer.Option(metavar="N,M", help="Batch sizes.")] = "32,256",
    seeds: Annotated[int, typer.Option(metavar="K", min=1, help="Seeds of each flip rate.")] = 3,
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
    if code := _made(runs(cells, seeds), cache, place, execution, quiet=quiet):
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
