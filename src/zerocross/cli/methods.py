"""zerocross methods: list the methods for training binary weights."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Annotated, Any

import typer


def command(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Show the details of one method: source, settings, stages.")
    ] = None,
) -> None:
    """List the methods with their hyperparameters and the number to tune, or show the details of one."""
    from rich.console import Console
    from rich.table import Table

    from zerocross.methods import METHODS

    if name is not None:
        _show(name)
        return
    table = Table(box=None, pad_edge=False)
    table.add_column("method", no_wrap=True)
    table.add_column("summary", ratio=3)
    table.add_column("hyperparameters", ratio=2)
    table.add_column("number", justify="right")
    for key, method in METHODS.items():
        table.add_row(key, method.summary, _values(method.hyperparameters), str(len(method.tuned)))
    Console(highlight=False).print(table)
    untested = ", ".join(key for key, method in METHODS.items() if method.golden is None)
    typer.echo(f"\nnot tested against reference values of published code: {untested}")
    typer.echo(
        "number: hyperparameters of the binary weights to tune, including initialisation, scaling and clipping.\n"
        "Details: zerocross methods NAME. Train: zerocross train RECIPE --method NAME. Compare: zerocross compare"
    )


def _show(name: str) -> None:
    from zerocross.methods import get

    method = get(name)
    details = {
        "Source": method.source,
        f"Hyperparameters to tune ({len(method.tuned)})": ", ".join(method.tuned),
        "Settings": method.settings,
        "Binary weights": _values(method.hyperparameters),
        "Real parameters": _values(method.real) or "from the recipe",
        "Layers": _values(method.model_options),
        "Run": _values(method.run) or "from the recipe",
        "Published network": _values(method.network) or "common",
        "Reference values": f"tests/reference/golden/{method.golden}.npz" if method.golden else "none",
    }
    typer.echo(f"{name}: {method.summary}\n")
    for what, text in details.items():
        typer.echo(f"{what}: {text}")
    for number, part in enumerate(method.parts, 1):
        different = {**part.optimizer, **{f"real {key}": value for key, value in part.real.items()}}
        extra = f", {_values(different)}" if different else ""
        typer.echo(f"Stage {number}: {part.share:.0%} of the epochs, binarize = {part.binarize}{extra}")
    setting, value = next(iter(method.hyperparameters.items()))
    example = shlex.quote(f"optimizer.{setting}={value}")  # a ramp has a >
    typer.echo(f"\nTrain: zerocross train digits --method {name} --set {example}")


def _values(settings: Mapping[str, Any]) -> str:
    return ", ".join(f"{key}={'none' if value is None else _short(value)}" for key, value in settings.items())


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
