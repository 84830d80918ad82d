"""The options shared by all commands with many runs: how many run at a time, and where."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from zerocross.sweep.execution import Execution
    from zerocross.train import Placement

# name -> (type with its option, default)
OPTIONS: dict[str, tuple[Any, Any]] = {
    "jobs": (
        Annotated[
            int | None,
            typer.Option(metavar="J", min=1, help="Runs at a time on this machine; they share its threads. [1]"),
        ],
        None,
    ),
    "cluster": (
        Annotated[str | None, typer.Option(metavar="WHERE", help="local, or slurm: one Slurm job per run. [local]")],
        None,
    ),
    "partition": (Annotated[str | None, typer.Option(metavar="NAME", help="Slurm partition.")], None),
    "gpus": (Annotated[int | None, typer.Option(metavar="N", help="GPUs per Slurm job, 0 or 1. [0]")], None),
    "cpus": (Annotated[int | None, typer.Option(metavar="N", help="Cores per Slurm job. [1]")], None),
    "time": (
        Annotated[
            str | None,
            typer.Option(
                metavar="LIMIT",
                help="Time limit of a Slurm job, in minutes or D-HH:MM:SS; it then saves and is requeued. [24 h]",
            ),
        ],
        None,
    ),
    "array": (
        Annotated[int | None, typer.Option(metavar="N", help="Maximum number of Slurm jobs at a time. [64]")],
        None,
    ),
    "cluster_file": (
        Annotated[
            Path | None,
            typer.Option(metavar="FILE", help="A TOML file with these options and more; see docs/cluster.md."),
        ],
        None,
    ),
}


def with_execution_options(command: Callable[..., int]) -> Callable[..., int]:
    """Add these options to a command, which receives them as one argument `execution`."""
    signature = inspect.signature(command, globals={**_globals(command), "Execution": object}, eval_str=True)
    own = {name: each for name, each in signature.parameters.items() if name != "execution"}
    parameters = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
        for name, (kind, default) in {
            **{name: (each.annotation, each.default) for name, each in own.items()},
            **OPTIONS,
        }.items()
    ]

    @functools.wraps(command)
    def wrapped(**values: Any) -> int:
        given = {name: values.pop(name) for name in OPTIONS}
        return command(**values, execution=execution(**given))

    setattr(wrapped, "__signature__", inspect.Signature(parameters))  # noqa: B010 - Typer reads it
    wrapped.__annotations__ = {each.name: each.annotation for each in parameters}
    return wrapped


def execution(*, cluster_file: Path | None = None, time: str | None = None, **given: Any) -> Execution:
    """Return the Execution of the options; options override the file, which overrides the defaults."""
    from zerocross.sweep.execution import Execution, from_file, minutes

    values = {name: value for name, value in given.items() if value is not None}
    if time is not None:
        values["time"] = minutes(time)
    result = from_file(cluster_file, **values) if cluster_file is not None else Execution(**values)
    if result.cluster == "local" and (
        unused := [name for name in ("partition", "gpus", "cpus", "time", "array") if name in values]
    ):
        options = ", ".join(f"--{name}" for name in unused)
        raise ValueError(f"{options}: only for a cluster; add --cluster slurm, or use --jobs on this machine")
    return result


def placement(data_dir: Path | None, where: Execution) -> Placement:
    """Return data and device of runs; the nodes of a cluster may have other devices than this machine."""
    from zerocross.train import Placement

    device = "auto" if where.cluster == "local" else "cuda" if where.gpus else "cpu"
    return Placement(str(data_dir.resolve()) if data_dir else None, accelerator=device)


def _globals(command: Callable[..., Any]) -> dict[str, Any]:
    return getattr(command, "__globals__", {})
