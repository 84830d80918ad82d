"""zerocross reproduce: reproduce the figures and tables of the paper, and check their claims."""

from __future__ import annotations

import errno
import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from zerocross.cli.execution import placement, with_execution_options
from zerocross.cli.train import DATA_DIR

if TYPE_CHECKING:
    from rich.console import Console

    from zerocross.paper.artefact import Artefact, Scale
    from zerocross.paper.session import Session
    from zerocross.sweep.execution import Execution


@with_execution_options
def command(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="A figure or table from --list, or all.", show_default=False)
    ] = None,
    scale: Annotated[
        str, typer.Option(metavar="SCALE", help="smoke (seconds), reduced (minutes) or paper (GPUs).")
    ] = "smoke",
    out: Annotated[
        Path,
        typer.Option(metavar="DIR", help="Folder for NAME-SCALE.json, .svg and .png; runs are cached in DIR/runs."),
    ] = Path("results"),
    data_dir: Annotated[Path | None, DATA_DIR] = None,
    work: Annotated[Path, typer.Option(metavar="DIR", help="Folders of unfinished runs.")] = Path("runs/by-hash"),
    listed: Annotated[bool, typer.Option("--list", metavar="", help="List the artefacts without training.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", metavar="", help="Print only the claims.")] = False,
    *,
    execution: Execution,
) -> int:
    """Reproduce a figure or a table of the paper, and check its claims.

    Finished runs are cached by the hash of their config: an interrupted command continues where it stopped, and
    artefacts share runs. A claim that fails is shown as failed; the command continues.
    """
    from rich.console import Console

    from zerocross.checks import check_choice
    from zerocross.paper import registry
    from zerocross.paper.artefact import SCALES

    console = Console(highlight=False)
    check_choice("scale", scale, SCALES)
    checked: Any = scale
    if listed:
        _list(console)
        return 0
    if name is None:
        raise ValueError(f"name an artefact, or all: {', '.join(registry.ARTEFACTS)}")
    chosen = list(registry.ARTEFACTS.values()) if name == "all" else [registry.get(name)]

    from zerocross.paper.session import Session

    logging.getLogger("lightning_fabric.utilities").setLevel(logging.WARNING)  # hide the ranks of the processes
    place = placement(data_dir, execution)
    return _all(chosen, checked, Session(place, out, work, execution, show=not quiet), console)


def _list(console: Console) -> None:
    from rich import box
    from rich.table import Table

    from zerocross.paper.registry import ARTEFACTS

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("name", "claims"):
        table.add_column(column)
    for artefact in ARTEFACTS.values():
        claims = "\n".join(f"- {claim.sentence}" for claim in artefact.claims)
        table.add_row(artefact.name, f"[bold]{artefact.title}[/bold]\n{claims}")
    console.print(table)


def _all(chosen: list[Artefact], scale: Scale, session: Session, console: Console) -> int:
    """Create artefacts one by one; an artefact that fails does not stop the others."""
    from zerocross import train
    from zerocross.cli.outputs import are_ours
    from zerocross.paper.artefact import NotReady
    from zerocross.paper.reproduce import KIND, make, paths
    from zerocross.sweep.execute import Interrupted

    for artefact in chosen:
        are_ours(paths(session.out, artefact.name, scale), KIND)
    _announce(chosen, scale, session, console)
    failed = 0
    for artefact in chosen:
        console.print(f"\n[bold]{artefact.title}[/bold], {scale}", soft_wrap=True)
        try:
            document = make(artefact, scale, session)
        except NotReady as reason:
            if len(chosen) == 1:
                raise
            console.print(f"[yellow]left out[/yellow]  {reason}", soft_wrap=True)
        except train.RunError as error:
            failed += 1
            console.print(f"[red]no result[/red]  {error}", soft_wrap=True)
        except Interrupted as stopped:
            return _fail(str(stopped), stopped.exit_code)
        except train.Stopped as stopped:
            return _fail(f"{stopped}; run the same command again to continue", stopped.exit_code)
        except OSError as error:
            if error.errno not in {errno.ENOSPC, errno.EDQUOT, errno.EIO}:
                raise
            return _fail(
                f"{error.strerror}; finished runs are kept. Free some space, then run the same command again", 1
            )
        else:
            _verdicts(document, console)
            names = ", ".join(str(path) for path in paths(session.out, artefact.name, scale).values())
            console.print(f"written: {names}", soft_wrap=True, markup=False)
    return _fail(f"{failed} of {len(chosen)} artefacts have no result", 1) if failed else 0


def _announce(chosen: list[Artefact], scale: Scale, session: Session, console: Console) -> None:
    """Print the artefacts, the number of runs and the estimated time."""
    from zerocross.sweep.cost import estimate
    from zerocross.sweep.progress import duration

    if not session.show:
        return
    configs = {config.hash: config for artefact in chosen for config in artefact.configs(scale)}
    cost = estimate(list(configs.values()), session.cache, session.place, session.execution.parallel)
    names = ", ".join(artefact.name for artefact in chosen)
    time = (
        f", about {duration(cost.seconds)} for the others on the CPU of this machine"
        if cost.runs > cost.finished
        else ""
    )
    runs = f": {cost.runs} runs in {session.results}, {cost.finished} finished{time}" if configs else ""
    console.print(f"{names} at scale {scale}{runs}", soft_wrap=True, markup=False)


def _verdicts(document: dict[str, Any], console: Console) -> None:
    from rich.markup import escape

    words = {True: "[green]holds[/green]     ", False: "[red]FAILS[/red]     ", None: "[yellow]not judged[/yellow]"}
    for claim in document["claims"]:
        console.print(f"{words[claim['holds']]}  {escape(claim['sentence'])}", soft_wrap=True)
        console.print(f"            {claim['figures']}", soft_wrap=True, markup=False, style="dim")


def _fail(message: str, code: int) -> int:
    sys.stderr.write(f"zerocross: {message}\n")
    return code
