"""zerocross recipes: the runs that have a name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from zerocross.train import Recipe


def command(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Show one recipe whole, with the source of each value.")
    ] = None,
) -> None:
    """List the recipes, or show one with where each of its values comes from: stated by the paper, or assumed."""
    from rich.console import Console
    from rich.table import Table

    from zerocross.train import recipes

    if name is not None:
        _show(name, recipes.get(name))
        return
    table = Table(box=None, pad_edge=False)
    for header in ("recipe", "epochs", "batch", "what it trains"):
        table.add_column(header, no_wrap=header == "recipe")
    for key, recipe in recipes.RECIPES.items():
        epochs = " + ".join(str(stage.epochs) for stage in recipe.config.stages)
        table.add_row(key, epochs, str(recipe.config.batch_size), recipe.summary)
    Console(highlight=False).print(table)
    typer.echo("\nOne whole: zerocross recipes NAME. Run it: zerocross train NAME")


def _show(name: str, recipe: Recipe) -> None:
    from zerocross.tables import text_table
    from zerocross.train.config import to_dict

    typer.echo(recipe.summary)
    typer.echo()
    rows = [[path, str(value), source(recipe, path)] for path, value in flat(to_dict(recipe.config))]
    typer.echo(text_table(["setting", "value", "source"], rows))
    for kind, notes in (("Stated by the paper", recipe.stated), ("Assumed", recipe.assumed)):
        typer.echo(f"\n{kind}")
        for path, note in notes.items():
            typer.echo(f"  {path}: {note}")
    typer.echo(f"\nChange any of them: zerocross train {name} --set SETTING=VALUE")


def flat(values: Mapping[Any, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The settings that are set, by dotted path."""
    for key, value in values.items():
        if isinstance(value, list):
            value = dict(enumerate(value))  # noqa: PLW2901
        if isinstance(value, dict):
            yield from flat(value, f"{prefix}{key}.")
        elif value is not None and prefix + str(key) != "recipe":
            yield f"{prefix}{key}", value


def source(recipe: Recipe, path: str) -> str:
    """Whether a setting is stated by the paper, assumed with a reason, or our default."""

    def named(notes: Mapping[str, str]) -> bool:
        fields = [field.strip() for key in notes for field in key.split(",")]
        return any(path == field or path.startswith(f"{field}.") or path.endswith(f".{field}") for field in fields)

    return "stated" if named(recipe.stated) else "assumed" if named(recipe.assumed) else "our default"
