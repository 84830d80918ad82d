"""`zerocross suite`: the tasks of the benchmark, a check of their convergence, the runs of its tables, the ranking."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from zerocross.cli.execution import placement, with_execution_options
from zerocross.cli.suite_units import units

if TYPE_CHECKING:
    from zerocross.suite.table import SuiteRun
    from zerocross.suite.tasks import Task
    from zerocross.sweep.cache import RunCache
    from zerocross.sweep.execution import Execution

app = typer.Typer(help="Benchmark methods on many real tasks that train in seconds.", no_args_is_help=True)
app.command()(units)


RESULTS_OF = typer.Option(metavar="DIR", help="Folder of the results.")


@app.command()
def tasks(results: Annotated[Path, RESULTS_OF] = Path("results/suite")) -> None:
    """List the tasks: data, network, validation data, metric, parameters, budget, convergence."""
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
    header += ["epochs", "batch", "seconds", "change at twice the length"]
    typer.echo(text_table(header, rows, right=4))
    typer.echo(
        f"{len(rows)} tasks. Seconds: for one training on one core. Change at twice the length: in points (noise "
        "between seeds); see zerocross suite converge"
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
    return "; ".join(words) or "not measured"


RESULTS = typer.Option(
    metavar="DIR", help="Results: one file per task, one line per run. Finished runs are not repeated."
)
WORK = typer.Option(metavar="DIR", help="Locks, and logs of failed processes.")
DATA = typer.Option(envvar="ZEROCROSS_DATA", metavar="DIR", help="Folder of the datasets.")


@app.command()
@with_execution_options
def converge(
    tasks: Annotated[
        str, typer.Option(metavar="A,B", help="Tasks; series (those of the UCR archive); or all.")
    ] = "all",
    seeds: Annotated[int, typer.Option(min=2, help="Trainings of each kind.")] = 3,
    data_dir: Annotated[Path | None, DATA] = None,
    results: Annotated[Path, RESULTS] = Path("results/suite"),
    work: Annotated[Path, WORK] = Path("runs/suite"),
    quiet: Annotated[bool, typer.Option("--quiet", "-q", metavar="", help="No progress.")] = False,
    *,
    execution: Execution,
) -> int:
    """Check convergence: train the filter and the full-precision twin at the length of a task and at twice that length.

    A task converges if doubling the length changes the score, on held-out training data, less than another seed does.
    Writes RESULTS/convergence.json. Exit code 1 if a task has not converged.
    """
    from zerocross.files import write_json
    from zerocross.suite import convergence
    from zerocross.suite.table import task_names
    from zerocross.suite.tasks import TASKS
    from zerocross.sweep.cache import RunCache
    from zerocross.tables import text_table

    chosen, cache, place = task_names(tasks), RunCache(results, work), placement(data_dir, execution)
    runs = [run for task in chosen for run in convergence.runs(task, seeds)]
    if code := _train(runs, cache, place, execution, quiet=quiet):
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
                    "yes" if row.converged else "no",
                ]
            )
    header = [
        "task",
        "epochs",
        "method",
        "single length",
        "double length",
        "change",
        "noise between seeds",
        "converged",
    ]
    typer.echo(text_table(header, lines, right=3))
    rows = {task.name: convergence.rows(task, find) for task in TASKS.values()}
    write_json(results / "convergence.json", convergence.document(rows))
    return 0 if converged else 1


@app.command("run")
@with_execution_options
def run_command(
    tasks: Annotated[
        str, typer.Option(metavar="A,B", help="Tasks; series (those of the UCR archive); or all.")
    ] = "all",
    methods: Annotated[
        str, typer.Option(metavar="A,B", help="Methods, real (the full-precision twin), or all.")
    ] = "all",
    seeds: Annotated[int, typer.Option(metavar="K", min=1, help="Seeds 0 to K - 1.")] = 5,
    table: Annotated[
        str,
        typer.Option(
            metavar="WHICH", help="published: settings of the authors; tuned: the same number of trials for all."
        ),
    ] = "published",
    trials: Annotated[int, typer.Option(metavar="N", min=2, help="Trials per search in the tuned table.")] = 12,
    data_dir: Annotated[Path | None, DATA] = None,
    results: Annotated[Path, RESULTS] = Path("results/suite"),
    work: Annotated[Path, WORK] = Path("runs/suite"),
    quiet: Annotated[bool, typer.Option("--quiet", "-q", metavar="", help="No progress.")] = False,
    *,
    execution: Execution,
) -> int:
    """Train methods on tasks, and store one line per run. An interrupted command continues when run again.

    Exit code 1 if some runs failed or are not possible; the others are finished.
    """
    from zerocross.suite import table as tables
    from zerocross.sweep.cache import RunCache

    tables.check_table(table)
    chosen, names = tables.task_names(tasks), tables.method_names(methods)
    cache, place = RunCache(results, work), placement(data_dir, execution)
    if table == "published":
        return _train(tables.published(chosen, names, seeds), cache, place, execution, quiet=quiet)

    def find(run: SuiteRun) -> dict[str, Any] | None:
        return cache.find(run.job(place))

    trial_runs = [run for task in chosen for name in names for run in tables.search(task, name, trials)]
    code = _train(trial_runs, cache, place, execution, quiet=quiet)
    if code > 1:
        return code
    return max(code, _train(tables.tuned(chosen, names, seeds, trials, find), cache, place, execution, quiet=quiet))


def _train(runs: list[SuiteRun], cache: RunCache, place: Any, execution: Execution, *, quiet: bool) -> int:
    """Run the missing trainings; report those that are not possible, failed or diverged."""
    from zerocross.suite.table import checked
    from zerocross.sweep.execute import Interrupted
    from zerocross.sweep.short import run_short

    logging.getLogger("lightning_fabric.utilities").setLevel(logging.WARNING)  # hide the ranks of the processes
    missing = [run for run in runs if cache.find(run.job(place)) is None]
    possible, refused = checked(missing, place)
    for name, reason in refused.items():
        sys.stderr.write(f"zerocross: left out: {name}: {reason}\n")
    left_out = {id(run) for run in missing} - {id(run) for run in possible}
    jobs = [run.job(place) for run in runs if id(run) not in left_out]
    try:
        outcomes = run_short(jobs, cache, execution, show=not quiet)
    except Interrupted as stopped:
        sys.stderr.write(f"zerocross: {stopped}\n")
        return stopped.exit_code
    failed = [(job, result["failed"]) for job, result in zip(jobs, outcomes, strict=True) if "failed" in result]
    diverged = [job.label for job, result in zip(jobs, outcomes, strict=True) if "diverged" in result]
    for job, reason in failed:
        sys.stderr.write(f"zerocross: failed: {job.label}: {reason}\n")
    if diverged and not quiet:
        typer.echo(f"{len(diverged)} of {len(jobs)} runs diverged and count as 0 %: {'; '.join(diverged[:8])}")
    return 1 if failed or refused else 0


@app.command()
def rank(
    methods: Annotated[str, typer.Option(metavar="A,B", help="Methods, or all.")] = "all",
    seeds: Annotated[int, typer.Option(metavar="K", min=1, help="Seeds per method and task.")] = 5,
    trials: Annotated[int, typer.Option(metavar="N", min=2, help="Trials per search in the tuned table.")] = 12,
    results: Annotated[Path, RESULTS_OF] = Path("results/suite"),
    page: Annotated[Path | None, typer.Option(metavar="FILE", help="Also write the page, docs/suite.md.")] = None,
) -> None:
    """Rank methods over tasks from finished results: tables, critical-difference diagrams, JSON.

    Only tasks and methods without gaps are ranked; the others are listed.
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
    tasks: Annotated[str, typer.Option(metavar="A,B", help="Tasks; series (those of the UCR archive); or all.")],
    space: Annotated[str, typer.Option(metavar="NAME", help="filter (2 hyperparameters) or latent (6).")] = "filter",
    count: Annotated[
        int | None, typer.Option(metavar="N", min=2, help="Number of settings, a power of two. Default: 128.")
    ] = None,
    seeds: Annotated[int, typer.Option(metavar="K", min=2, help="Seeds per setting.")] = 3,
    data_dir: Annotated[Path | None, DATA] = None,
    results: Annotated[Path, RESULTS] = Path("results/suite"),
    work: Annotated[Path, WORK] = Path("runs/suite"),
    quiet: Annotated[bool, typer.Option("--quiet", "-q", metavar="", help="No progress.")] = False,
    *,
    execution: Execution,
) -> int:
    """Train tables of settings, and compute the expected result of random search in them by number of trials.

    Settings are drawn by a Sobol sequence and evaluated on held-out training data. The expectation is exact. The
    quality of a setting is its mean over the seeds that the search does not see; regret is relative to trying all
    settings.
    """
    from zerocross.checks import check_choice
    from zerocross.suite import trials
    from zerocross.suite.table import task_names
    from zerocross.sweep.cache import RunCache
    from zerocross.tables import text_table

    check_choice("space", space, trials.SPACES)
    number = count or trials.SPACES[space][1]
    if number & (number - 1):
        raise ValueError(f"count is {number}; it must be a power of two (32, 64, 128, ...) for a Sobol sequence")
    chosen, cache, place = task_names(tasks), RunCache(results, work), placement(data_dir, execution)
    runs = [run for task in chosen for run in trials.runs(task, space, number, seeds)]
    if code := _train(runs, cache, place, execution, quiet=quiet):
        return code
    rows = []
    for task in chosen:
        table = trials.table_of(task, space, number, seeds, lambda run: cache.find(run.job(place)))
        if table is not None:
            curve = trials.random_search(table)
            best = float(curve[-1])
            regrets = [f"{value:.2f}" for value in trials.regret(curve, best).values()]
            needed = [str(trials.trials_to(curve, best, points)) for points in (0.5, 1, 2)]
            rows.append([task.name, f"{best:.2f}", " ".join(regrets), " ".join(needed)])
    header = ["task", "best", f"regret after {trials.TRIALS} trials", "trials to within 0.5, 1, 2 points"]
    typer.echo(text_table(header, rows, right=1))
    return 0
