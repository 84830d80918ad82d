"""`zerocross suite`: the tasks of the benchmark, a check of their convergence, the runs of its tables, the ranking."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from zerocross.cli.execution import placement, with_execution_options
from zerocross.cli.suite_common import DATA, RESULTS, RESULTS_OF, TASKS_OF, WORK, app, train_runs

if TYPE_CHECKING:
    from zerocross.suite.table import SuiteRun
    from zerocross.suite.tasks import Task
    from zerocross.sweep.execution import Execution


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


@app.command()
@with_execution_options
def converge(
    tasks: Annotated[str, TASKS_OF] = "all",
    seeds: Annotated[int, typer.Option(min=2, help="Trainings of each kind.")] = 3,
    data_dir: Annotated[Path | None, DATA] = None,
    results: Annotated[Path, RESULTS] = Path("results/suite"),
    work: Annotated[Path, WORK] = Path("runs/suite"),
    quiet: Annotated[bool, typer.Option("--quiet", "-q", metavar="", help="No progress.")] = False,
    *,
    execution: Execution,
) -> int:
    """Check convergence: train the filter and the full-precision twin at the length of a task and at twice that length.

    A task has converged if twice the length improves the score by no more than the noise between seeds; if the score
    falls by more, longer training overfits. Writes RESULTS/convergence.json. Exit code 1 if a task has not converged.
    """
    from zerocross.files import write_json
    from zerocross.suite import convergence
    from zerocross.suite.table import task_names
    from zerocross.suite.tasks import TASKS
    from zerocross.sweep.cache import RunCache
    from zerocross.tables import text_table

    chosen, cache, place = task_names(tasks), RunCache(results, work), placement(data_dir, execution)
    runs = [run for task in chosen for run in convergence.runs(task, seeds)]
    if code := train_runs(runs, cache, place, execution, quiet=quiet):
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
    tasks: Annotated[str, TASKS_OF] = "all",
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
        return train_runs(tables.published(chosen, names, seeds), cache, place, execution, quiet=quiet)

    def find(run: SuiteRun) -> dict[str, Any] | None:
        return cache.find(run.job(place))

    trial_runs = [run for task in chosen for name in names for run in tables.search(task, name, trials)]
    code = train_runs(trial_runs, cache, place, execution, quiet=quiet)
    if code > 1:
        return code
    return max(code, train_runs(tables.tuned(chosen, names, seeds, trials, find), cache, place, execution, quiet=quiet))


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
    from zerocross.suite import convergence, rank_output
    from zerocross.suite import rank as ranking
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
        write_json(
            results / f"rank-{table}.json", {**documents[table], **rank_output.section_of(documents[table], table)}
        )
        if documents[table]["friedman"] is not None:
            for kind in ("svg", "png"):
                rank_output.draw(documents[table], table, results / f"rank-{table}.{kind}")
    converged = convergence.summary({task.name: convergence.rows(task, find) for task in TASKS.values()})
    text = rank_output.page(documents, os.path.relpath(results, page.parent) if page else str(results), converged)
    typer.echo(text)
    if page is not None:
        write_text(page, text)


from zerocross.cli import suite_settings  # noqa: E402, F401 - adds its commands, after these in --help
