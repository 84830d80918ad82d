"""The options of all commands that make many runs: how many at a time, and where. They are listed here once."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

if TYPE_CHECKING:
    from zerocross.sweep.execution import Execution
    from zerocross.train import Placement

# name -> type, default and option
OPTIONS: dict[str, tuple[Any, Any]] = {
    "jobs": (
        Annotated[
            int | None,
            typer.Option(metavar="J", min=1, help="Runs at a time here, on a share of the threads each. [1]"),
        ],
        None,
    ),
    "cluster": (
        Annotated[str | None, typer.Option(metavar="WHERE", help="local, or slurm: each run a Slurm job. [local]")],
        None,
    ),
    "partition": (Annotated[str | None, typer.Option(metavar="NAME", help="Slurm's partition.")], None),
    "gpus": (Annotated[int | None, typer.Option(metavar="N", help="GPUs of each Slurm job, 0 or 1. [0]")], None),
    "cpus": (Annotated[int | None, typer.Option(metavar="N", help="Cores of each Slurm job. [1]")], None),
    "time": (
        Annotated[
            str | None,
            typer.Option(
                metavar="LIMIT",
                help="Time limit of a Slurm job, in minutes or D-HH:MM:SS; it saves, and is requeued. [24 h]",
            ),
        ],
        None,
    ),
    "array": (Annotated[int | None, typer.Option(metavar="N", help="Slurm jobs at a time, at most. [64]")], None),
    "cluster_file": (
        Annotated[
            Path | None,
            typer.Option(metavar="FILE", help="A TOML file with these options and more; see docs/cluster.md."),
        ],
        None,
    ),
}


def with_execution_options(command: Callable[..., int]) -> Callable[..., int]:
    """Give a command these options; it receives them as one Execution, under that name."""
    hints = get_type_hints(command, globalns={**_globals(command), "Execution": object}, include_extras=True)
    own = {name: each for name, each in inspect.signature(command).parameters.items() if name != "execution"}
    parameters = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
        for name, (kind, default) in {
            **{name: (hints[name], each.default) for name, each in own.items()},
            **OPTIONS,
        }.items()
    ]

    @functools.wraps(command)
    def wrapped(**values: Any) -> int:
        given = {name: values.pop(name) for name in OPTIONS}
        return command(**values, execution=execution(**given))

    setattr(wrapped, "__signature__", inspect.Signature(parameters))  # noqa: B010 - which Typer reads
    wrapped.__annotations__ = {each.name: each.annotation for each in parameters}
    return wrapped


def execution(*, cluster_file: Path | None = None, time: str | None = None, **given: Any) -> Execution:
    """What the options say: those that are given, before the file's, before the defaults."""
    from zerocross.sweep.execution import Execution, from_file, minutes

    values = {name: value for name, value in given.items() if value is not None}
    if time is not None:
        values["time"] = minutes(time)
    made = from_file(cluster_file, **values) if cluster_file is not None else Execution(**values)
    if made.cluster == "local" and (
        idle := [name for name in ("partition", "gpus", "cpus", "time", "array") if name in values]
    ):
        options = ", ".join(f"--{name}" for name in idle)
        raise ValueError(f"{options}: for a cluster; add --cluster slurm, or use --jobs on this machine")
    return made


def placement(data_dir: Path | None, where: Execution) -> Placement:
    """Data and device of runs that are executed there; a cluster's nodes have other devices than this machine."""
    from zerocross.train import Placement

    device = "auto" if where.cluster == "local" else "cuda" if where.gpus else "cpu"
    return Placement(str(data_dir.resolve()) if data_dir else None, accelerator=device)


def _globals(command: Callable[..., Any]) -> dict[str, Any]:
    return getattr(command, "__globals__", {})
