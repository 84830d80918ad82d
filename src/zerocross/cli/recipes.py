"""zerocross recipes: the runs that have a name."""

from __future__ import annotations

from typing import Annotated

import typer


def command(
    name: Annotated[str | None, typer.Argument(help="Show one recipe whole, with the source of each value.")] = None,
) -> None:
    """List the recipes, or show one with where each of its values comes from: stated by the paper, or assumed."""
    from rich.console import Console
    from rich.table import Table

    from zerocross.train import recipes

    console = Console(highlight=False)
    if name is None:
        table = Table(box=None, pad_edge=False)
        for header in ("recipe", "epochs", "batch", "what it trains"):
            table.add_column(header, no_wrap=header == "recipe")
        for key, recipe in recipes.RECIPES.items():
            epochs = " + ".join(str(stage.epochs) for stage in recipe.config.stages)
            table.add_row(key, epochs, str(recipe.config.batch_size), recipe.summary)
        console.print(table)
        console.print("\nzerocross recipes NAME shows one whole; zerocross train NAME runs it.", markup=False)
        return
    recipe = recipes.get(name)
    console.print(recipe.summary, markup=False)
    table = Table(box=None, pad_edge=False)
    for header in ("setting", "value", "source"):
        table.add_column(header)
    for path, value in flat(recipe.config):
        table.add_row(path, str(value), source(recipe.stated, recipe.assumed, path))
    console.print(table)
    console.print("\nSources:")
    for kind, notes in (("stated by the paper", recipe.stated), ("assumed", recipe.assumed)):
        for path, note in notes.items():
            console.print(f"  {path}: {kind}: {note}", markup=False, soft_wrap=True)
    console.print(f"\nChange any of them: zerocross train {name} --set SETTING=VALUE", markup=False)


def flat(config: object) -> list[tuple[str, object]]:
    """All settings of a config, by dotted path."""
    from zerocross.train.config import to_dict

    def walk(prefix: str, value: object) -> list[tuple[str, object]]:
        if isinstance(value, dict) and value:
            return [pair for key, part in value.items() for pair in walk(f"{prefix}.{key}" if prefix else key, part)]
        if isinstance(value, list):
            return [pair for index, part in enumerate(value) for pair in walk(f"{prefix}.{index}", part)]
        return [(prefix, value)]

    return [(path, value) for path, value in walk("", to_dict(config)) if path != "recipe"]  # type: ignore[arg-type]


def source(stated: object, assumed: object, path: str) -> str:
    """Whether a setting is stated by the paper, assumed with a reason, or a plain default."""

    def named(notes: object) -> bool:
        fields = [field.strip() for key in notes for field in key.split(",")]  # type: ignore[union-attr, attr-defined]
        return any(path == f or path.startswith(f + ".") or path.endswith("." + f) for f in fields)

    return "stated" if named(stated) else "assumed" if named(assumed) else "default"
