"""`zerocross data`: fetch and check datasets."""

from __future__ import annotations

from pathlib import Path

import typer

from zerocross.cli.train import FETCHED

app = typer.Typer(help="Fetch datasets, and check what is there.", no_args_is_help=True)

_FETCHED = ("cifar10", "audiomnist", "imagenet", "digits")


@app.command()
def fetch(
    name: str = typer.Argument(
        help="cifar10 is downloaded; audiomnist, imagenet: says where they are and where to put them."
    ),
    data_dir: Path = typer.Option(FETCHED, "--data-dir", envvar="ZEROCROSS_DATA", help="The folder of all datasets."),
    url: str = typer.Option("", "--url", hidden=True, help="Another address of the same archive."),
) -> None:
    """Download CIFAR-10 (170 MB), or print where another dataset comes from and the layout expected.

    A download that breaks off is continued by the next one. Files are checked before they are put in place.
    """
    from zerocross.data import layout

    if name not in _FETCHED:
        raise ValueError(f"dataset {name!r} is unknown; choose one of {', '.join(_FETCHED)}")
    if name == "digits":
        typer.echo("digits come with scikit-learn: nothing to fetch")
    elif name == "cifar10":
        _fetch_cifar10(data_dir, url or layout.CIFAR10_ADDRESS)
    else:
        address = {"audiomnist": layout.AUDIOMNIST_ADDRESS, "imagenet": layout.IMAGENET_ADDRESS}[name]
        typer.echo(f"{name} is not downloaded for you. Official address:\n  {address}\nLay it out like this:")
        for line in layout.LAYOUTS[name].replace("DIR", str(data_dir)).splitlines():
            typer.echo(f"  {line}")
        typer.echo(f"Then: zerocross data check {data_dir}")


def _fetch_cifar10(data_dir: Path, address: str) -> None:
    from rich import progress

    from zerocross.data.fetch import fetch_cifar10

    columns = (
        progress.TextColumn("cifar10"),
        progress.BarColumn(),
        progress.DownloadColumn(),
        progress.TransferSpeedColumn(),
        progress.TimeRemainingColumn(),
    )
    with progress.Progress(*columns, transient=True) as bar:
        task = bar.add_task("cifar10", total=None)
        folder = fetch_cifar10(
            data_dir, address=address, progress=lambda done, total: bar.update(task, completed=done, total=total)
        )
    if folder is None:
        typer.echo(f"cifar10 is already complete in {data_dir / 'cifar10'}: nothing to do")
    else:
        typer.echo(f"cifar10 is in {folder}; all checksums match")


@app.command()
def check(
    folder: Path | None = typer.Argument(
        None, metavar="DIR", envvar="ZEROCROSS_DATA", help="The folder of all datasets."
    ),
) -> None:
    """Verify the datasets in DIR: counts, checksums, folds, a sample of clips and images.

    Exit code 0: what is there is sound; 1: something is damaged; 2: nothing was found.
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
    for found in findings:
        table.add_row(
            found.dataset, escape(found.part), f"[{colour[found.state]}]{found.state}[/]", escape(found.detail)
        )
    Console().print(table)
    states = {found.state for found in findings}
    if states == {"missing"}:
        typer.echo(f"no dataset found in {folder}")
        raise typer.Exit(2)
    raise typer.Exit(1 if "damaged" in states else 0)
