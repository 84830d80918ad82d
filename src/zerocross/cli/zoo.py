"""`zerocross zoo`: list the trained networks of the package, show their cards, add a run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from zerocross.cli.train import DATA_DIR

app = typer.Typer(help="Trained networks of this package: list them, show their cards, add a run.")

BEGIN, END = "<!-- zoo: begin -->", "<!-- zoo: end -->"


@app.callback(invoke_without_command=True)
def overview(context: typer.Context) -> None:
    """List the trained networks of this package; other commands accept `zoo:NAME` in place of a packed file."""
    if context.invoked_subcommand is not None:
        return
    from zerocross import zoo
    from zerocross.tables import text_table

    header = ["name", "task", "network", "epochs", "accuracy", "size", "time"]
    rows = []
    for card in map(zoo.card, zoo.names()):
        accuracy = f"{card.top1:.2f} %" if card.top1 is not None else "-"
        size, time = f"{card.packed_bytes / 1000:.1f} kB", f"{card.milliseconds:.3g} ms"
        rows.append([card.name, card.title, card.network, str(card.epochs), accuracy, size, time])
    typer.echo(text_table(header, rows, right=4))
    typer.echo("\naccuracy: of the packed file on test data. time: one input, one thread.")
    typer.echo("Details: zerocross zoo show NAME. Predict: zerocross predict zoo:NAME FILES")


@app.command()
def show(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of a network in the zoo.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Print the card of a network: data, licences, training, accuracy, size, speed, checksums."""
    import json
    from dataclasses import asdict

    from zerocross import zoo

    card = zoo.card(name)
    typer.echo(json.dumps(asdict(card), indent=1) if as_json else card.markdown().rstrip())


@app.command()
def add(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a finished run.")],
    name: Annotated[str, typer.Option(metavar="NAME", help="Its name in the zoo.")],
    real: Annotated[str, typer.Option(metavar="TYPE", help="Type of real weights: float32 or int8.")] = "float32",
    data_dir: Annotated[Path | None, DATA_DIR] = None,
    results: Annotated[Path, typer.Option(metavar="DIR", help="Folder of the results that cards refer to.")] = Path(
        "results/runs"
    ),
    to: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder of the zoo. Default: that of this package.")
    ] = None,
    page: Annotated[Path, typer.Option(metavar="FILE", help="The page whose table of networks is updated.")] = Path(
        "docs/zoo.md"
    ),
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing network with this name.")] = False,
) -> None:
    """Add a finished run to the zoo: packed file, weights and card, with the test accuracy of the packed file.

    For checkouts of zerocross. Reads the dataset for the evaluation.
    """
    from dataclasses import replace

    from zerocross import train, zoo
    from zerocross.files import write_text
    from zerocross.zoo.add import keep_result, write_entry
    from zerocross.zoo.card import read_card, table

    folder = to or zoo.FILES
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]*", name):
        raise ValueError(f"--name {name!r}: use only lower-case letters, digits, - and _")
    if (folder / f"{name}.json").exists() and not overwrite:
        raise FileExistsError(
            f"{folder / name}.json already exists: choose another name, or use --overwrite to replace it"
        )
    if train.read_config(run).data.validate:
        raise ValueError(
            f"{run} held out training data (--validate); cards report test accuracy, so train without --validate"
        )
    place = replace(train.Placement(), data_dir=None if data_dir is None else str(data_dir))
    stored = keep_result(run, results)
    card = write_entry(run, folder, name, real=real, place=place)
    typer.echo(card.markdown())
    typer.echo(f"written: {folder / name}.zcb, .safetensors, .json; result in {stored}")
    if page.is_file():
        text = page.read_text(encoding="utf-8")
        before, begin, rest = text.partition(BEGIN)
        _, end, after = rest.partition(END)
        if not begin or not end:
            raise ValueError(f"{page} has no markers for the table: add {BEGIN} and {END}")
        cards = [read_card(path) for path in sorted(folder.glob("*.json"))]
        write_text(page, f"{before}{BEGIN}\n{table(cards)}{END}{after}")
        typer.echo(f"updated the table in {page}")
