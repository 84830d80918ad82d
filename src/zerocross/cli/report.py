"""`zerocross report`: show results on one HTML page."""

from __future__ import annotations

from collections.abc import Sized
from pathlib import Path
from typing import Annotated

import typer


def command(
    results: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder of the results of `reproduce` and `compare`.")
    ] = Path("results"),
    out: Annotated[Path, typer.Option(metavar="FILE", help="The page; an earlier page is replaced.")] = Path(
        "docs/report.html"
    ),
) -> None:
    """Write results to one HTML page: claims, interactive figures, and a filter explorer. The page works offline."""
    from zerocross.report import page
    from zerocross.report.results import read
    from zerocross.report.sections import claims_of
    from zerocross.sweep.stale import missing_runs, present_runs

    page.check(out)
    contents = read(results)
    page.write(out, page.build(contents))
    for line in contents.left_out:
        typer.echo(f"left out: {line}")
    present = present_runs(results / "runs")
    for artefact in contents.artefacts:
        if missing := missing_runs(artefact, present):
            typer.echo(
                f"stale: {artefact['name']} uses {_count(missing, 'run')} that {results / 'runs'} does not have for "
                f"the current code, such as {missing[0]}; run: {artefact['command']}"
            )
    claims = [claim.get("holds") for artefact in contents.artefacts for claim in claims_of(artefact)]
    typer.echo(
        f"{out}: {_count(contents.artefacts, 'artefact')}, {_count(claims, 'claim')} ({claims.count(True)} hold, "
        f"{claims.count(False)} fail, {claims.count(None)} not judged), {_count(contents.comparisons, 'comparison')}, "
        f"{len(contents.studies)} of the suite, {out.stat().st_size / 1e6:.1f} MB"
    )


def _count(things: Sized, noun: str) -> str:
    return f"{len(things)} {noun}{'' if len(things) == 1 else 's'}"
