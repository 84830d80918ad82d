"""`zerocross data`: fetch and check datasets."""

from __future__ import annotations

from pathlib import Path

import typer

from zerocross.cli.train import FETCHED

app = typer.Typer(help="Fetch datasets, and check them.", no_args_is_help=True)

_DOWNLOADED = ("cifar10", "mnist", "fashion-mnist")
_EXPLAINED = ("audiomnist", "ucr", "hapt", "imdb", "imagenet")


@app.command()
def fetch(
    name: str = typer.Argument(
        help=f"Downloaded: {', '.join(_DOWNLOADED)}. Only explained (source and layout): {', '.join(_EXPLAINED)}."
    ),
    data_dir: Path = typer.Option(FETCHED, "--data-dir", envvar="ZEROCROSS_DATA", help="The folder of all datasets."),
    url: str = typer.Option("", "--url", hidden=True, help="Another URL of the same files."),
) -> None:
    """Download a dataset (CIFAR-10: 170 MB), or print its source and the expected layout.

    An interrupted download continues with the next call. Files are checked before they are put in place.
    """
    from zerocross.data import layout

    known = (*_DOWNLOADED, *_EXPLAINED, "digits")
    if name not in known:
        raise ValueError(f"dataset {name!r} is unknown; choose one of {', '.join(known)}")
    if name == "digits":
        typer.echo("digits are part of scikit-learn: nothing to fetch")
    elif name in _DOWNLOADED:
        _download(name, data_dir, url)
    else:
        address = layout.ADDRESSES[name]
        typer.echo(f"{name} cannot be downloaded automatically. Official source:\n  {address}\nExpected layout:")
        for line in layout.LAYOUTS[name].replace("DIR", str(data_dir)).splitlines():
            typer.echo(f"  {line}")
        typer.echo(f"Then: zerocross data check {data_dir}")


def _download(name: str, data_dir: Path, address: str) -> None:
    from rich import progress

    from zerocross.data.fetch import fetch_cifar10, fetch_idx
    from zerocross.data.layout import CIFAR10_ADDRESS

    columns = (
        progress.TextColumn(name),
        progress.BarColumn(),
        progress.DownloadColumn(),
        progress.TransferSpeedColumn(),
        progress.TimeRemainingColumn(),
    )
    with progress.Progress(*columns, transient=True) as bar:
        task = bar.add_task(name, total=None)

        def show(done: int, total: int | None) -> None:
            bar.update(task, completed=done, total=total)

        if name == "cifar10":
            folder = fetch_cifar10(data_dir, address=address or CIFAR10_ADDRESS, progress=show)
        else:
            folder = fetch_idx(name, data_dir, address=address or None, progress=show)
    if folder is None:
        typer.echo(f"{name} is already complete in {data_dir / name}: nothing to do")
    else:
        typer.echo(f"{name} is in {folder}; all checksums match")


@app.command()
def check(
    folder: Path | None = typer.Argument(
        None, metavar="DIR", envvar="ZEROCROSS_DATA", help="The folder of all datasets."
    ),
) -> None:
    """Verify the datasets in DIR: counts, checksums, folds, a sample of clips and images.

    Exit code 0: all datasets found are intact; 1: some are damaged; 2: none was found.
    """
    if folder is None:
        folder = FETCHED
        if not folder.is_dir():
            raise ValueError(f"no folder given: pass DIR or set ZEROCROSS_DATA; the default, {folder}, does not exist")
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from zerocross.data.check import check as check_folder

    findings = check_folder(folder)
    table = Table("dataset", "part", "state", "detail")
    colour = {"ok": "green", "missing": "yellow", "damaged": "red"}
    for finding in findings:
        state = f"[{colour[finding.state]}]{finding.state}[/]"
        table.add_row(finding.dataset, escape(finding.part), state, escape(finding.detail))
    Console().print(table)
    states = {finding.state for finding in findings}
    if states == {"missing"}:
        typer.echo(f"no dataset found in {folder}")
        raise typer.Exit(2)
    raise typer.Exit(1 if "damaged" in states else 0)
