"""Shared by the commands of `zerocross suite`: the Typer application, common options, and the training of runs."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from zerocross.suite.table import SuiteRun
    from zerocross.sweep.cache import RunCache
    from zerocross.sweep.execution import Execution

app = typer.Typer(help="Benchmark methods on many real tasks that train in seconds.", no_args_is_help=True)

RESULTS_OF = typer.Option(metavar="DIR", help="Folder of the results.")
RESULTS = typer.Option(
    metavar="DIR", help="Results: one file per task, one line per run. Finished runs are not repeated."
)
WORK = typer.Option(metavar="DIR", help="Locks, and logs of failed processes.")
DATA = typer.Option(envvar="ZEROCROSS_DATA", metavar="DIR", help="Folder of the datasets.")
TASKS_OF = typer.Option(metavar="A,B", help="Tasks; series (those of the UCR archive); or all.")


def train_runs(runs: list[SuiteRun], cache: RunCache, place: Any, execution: Execution, *, quiet: bool) -> int:
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
