"""`zerocross zoo`: the trained networks in the box, their cards, and how a run becomes one of them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from zerocross.cli.train import DATA_DIR

app = typer.Typer(help="Trained networks in the box: list them, show their cards, add a run.")

BEGIN, END = "<!-- zoo: begin -->", "<!-- zoo: end -->"


@app.callback(invoke_without_command=True)
def overview(context: typer.Context) -> None:
    """List the trained networks that come with zerocross; `zoo:NAME` stands for a packed file in other commands."""
    if context.invoked_subcommand is not None:
        return
    from zerocross import zoo
    from zerocross.tables import text_table

    header = ["name", "what it does", "network", "epochs", "accuracy", "size", "time"]
    rows = []
    for card in map(zoo.card, zoo.names()):
        accuracy = f"{card.top1:.2f} %" if card.top1 is not None else "-"
        size, time = f"{card.packed_bytes / 1000:.1f} kB", f"{card.milliseconds:.3g} ms"
        rows.append([card.name, card.title, card.network, str(card.epochs), accuracy, size, time])
    typer.echo(text_table(header, rows, right=4))
    typer.echo("\naccuracy: of the packed file, on the test part. time: one input, one thread.")
    typer.echo("One whole: zerocross zoo show NAME. Try one: zerocross predict zoo:NAME FILES")


@app.command()
def show(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A network of the zoo.")],
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
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
    real: Annotated[
        str, typer.Option(metavar="TYPE", help="How real weights are stored: float32 or int8.")
    ] = "float32",
    data_dir: Annotated[Path | None, DATA_DIR] = None,
    results: Annotated[Path, typer.Option(metavar="DIR", help="Where results are, to which cards point.")] = Path(
        "results/runs"
    ),
    to: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The zoo's folder. Default: that of this package.")
    ] = None,
    page: Annotated[
        Path, typer.Option(metavar="FILE", help="The page whose table of networks is brought up to date.")
    ] = Path("docs/zoo.md"),
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a network of that name.")] = False,
) -> None:
    """Put a finished run into the zoo: packed file, weights and card, with the packed file's own test accuracy.

    For checkouts of zerocross. The dataset is read, for the evaluation.
    """
    from dataclasses import replace

    from zerocross import train, zoo
    from zerocross.files import write_text
    from zerocross.zoo.add import keep_result, write_entry
    from zerocross.zoo.card import read_card, table

    folder = to or zoo.FILES
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]*", name):
        raise ValueError(f"--name {name!r}: give small letters, digits, - and _ only")
    if (folder / f"{name}.json").exists() and not overwrite:
        raise FileExistsError(f"{folder / name}.json exists: choose another name, or replace it with --overwrite")
    if train.read_config(run).data.validate:
        raise ValueError(f"{run} held a part of its training data out: a card tells of the test part, so train on all")
    place = replace(train.Placement(), data_dir=None if data_dir is None else str(data_dir))
    kept = keep_result(run, results)
    card = write_entry(run, folder, name, real=real, place=place)
    typer.echo(card.markdown())
    typer.echo(f"written: {folder / name}.zcb, .safetensors, .json; result in {kept}")
    if page.is_file():
        text = page.read_text(encoding="utf-8")
        before, begin, rest = text.partition(BEGIN)
        _, end, after = rest.partition(END)
        if not begin or not end:
            raise ValueError(f"{page} has no place for the table: put {BEGIN} and {END} into it")
        cards = [read_card(path) for path in sorted(folder.glob("*.json"))]
        write_text(page, f"{before}{BEGIN}\n{table(cards)}{END}{after}")
        typer.echo(f"table in {page} brought up to date")
