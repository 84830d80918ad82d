"""zerocross reproduce: the paper's figures and tables, each with its claims checked."""

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
        Path, typer.Option(metavar="DIR", help="Where NAME-SCALE.json, .svg, .png go; runs are kept in DIR/runs.")
    ] = Path("results"),
    data_dir: Annotated[Path | None, DATA_DIR] = None,
    work: Annotated[Path, typer.Option(metavar="DIR", help="Folders of unfinished runs.")] = Path("runs/by-hash"),
    listed: Annotated[bool, typer.Option("--list", metavar="", help="List the artefacts, and train nothing.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", metavar="", help="Only the claims.")] = False,
    *,
    execution: Execution,
) -> int:
    """Reproduce a figure or a table of the paper, and check what it claims.

    Every finished run is kept by the hash of its config: a command that was cut goes on where it was, and artefacts
    share runs. A claim that does not hold is shown as such; it stops nothing.
    """
    from rich.console import Console

    from zerocross.checks import check_choice
    from zerocross.paper import registry
    from zerocross.paper.artefact import SCALES

    console = Console(highlight=False)
    check_choice("scale", scale, SCALES)
    asked: Any = scale
    if listed:
        _list(console)
        return 0
    if name is None:
        raise ValueError(f"name an artefact, or all: {', '.join(registry.ARTEFACTS)}")
    chosen = list(registry.ARTEFACTS.values()) if name == "all" else [registry.get(name)]

    from zerocross.paper.session import Session

    logging.getLogger("lightning_fabric.utilities").setLevel(logging.WARNING)  # who is which rank
    place = placement(data_dir, execution)
    return _all(chosen, asked, Session(place, out, work, execution, show=not quiet), console)


def _list(console: Console) -> None:
    from rich import box
    from rich.table import Table

    from zerocross.paper.registry import ARTEFACTS

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("name", "claims that are checked"):
        table.add_column(column)
    for artefact in ARTEFACTS.values():
        claims = "\n".join(f"- {claim.sentence}" for claim in artefact.claims)
        table.add_row(artefact.name, f"[bold]{artefact.title}[/bold]\n{claims}")
    console.print(table)


def _all(chosen: list[Artefact], scale: Scale, session: Session, console: Console) -> int:
    """Make them one by one; one that cannot be made does not stop the others."""
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
        except NotReady as waiting:
            if len(chosen) == 1:
                raise
            console.print(f"[yellow]left out[/yellow]  {waiting}", soft_wrap=True)
        except train.RunError as wrong:
            failed += 1
            console.print(f"[red]no result[/red]  {wrong}", soft_wrap=True)
        except Interrupted as stopped:
            return _tell(str(stopped), stopped.exit_code)
        except train.Stopped as stopped:
            return _tell(f"{stopped}; the same command continues from there", stopped.exit_code)
        except OSError as wrong:
            if wrong.errno not in {errno.ENOSPC, errno.EDQUOT, errno.EIO}:
                raise
            return _tell(f"{wrong.strerror}; finished runs are kept. Make room, and the same command continues", 1)
        else:
            _verdicts(document, console)
            names = ", ".join(str(path) for path in paths(session.out, artefact.name, scale).values())
            console.print(f"written: {names}", soft_wrap=True, markup=False)
    return _tell(f"{failed} of {len(chosen)} artefacts have no result", 1) if failed else 0


def _announce(chosen: list[Artefact], scale: Scale, session: Session, console: Console) -> None:
    """What will be done, and what it will cost."""
    from zerocross.sweep.cost import estimate
    from zerocross.sweep.progress import duration

    if not session.show:
        return
    configs = {config.hash: config for artefact in chosen for config in artefact.configs(scale)}
    cost = estimate(list(configs.values()), session.cache, session.place, session.execution.parallel)
    names = ", ".join(artefact.name for artefact in chosen)
    time = f", about {duration(cost.seconds)} for the others on this machine's CPU" if cost.runs > cost.there else ""
    runs = f": {cost.runs} runs in {session.results}, {cost.there} there already{time}" if configs else ""
    console.print(f"{names} at scale {scale}{runs}", soft_wrap=True, markup=False)


def _verdicts(document: dict[str, Any], console: Console) -> None:
    from rich.markup import escape

    words = {True: "[green]holds[/green]     ", False: "[red]FAILS[/red]     ", None: "[yellow]not judged[/yellow]"}
    for claim in document["claims"]:
        console.print(f"{words[claim['holds']]}  {escape(claim['sentence'])}", soft_wrap=True)
        console.print(f"            {claim['figures']}", soft_wrap=True, markup=False, style="dim")


def _tell(message: str, code: int) -> int:
    sys.stderr.write(f"zerocross: {message}\n")
    return code
