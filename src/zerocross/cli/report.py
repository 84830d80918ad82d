"""`zerocross report`: results as one HTML page."""

from __future__ import annotations

from collections.abc import Sized
from pathlib import Path
from typing import Annotated

import typer


def command(
    results: Annotated[Path, typer.Option(metavar="DIR", help="What `reproduce` and `compare` have written.")] = Path(
        "results"
    ),
    out: Annotated[Path, typer.Option(metavar="FILE", help="The page; an earlier one is replaced.")] = Path(
        "docs/report.html"
    ),
) -> None:
    """Turn results into one HTML page: claims, interactive figures, and a filter explorer. It needs no network."""
    from zerocross.report import page
    from zerocross.report.results import read
    from zerocross.report.sections import claims_of
    from zerocross.sweep.stale import missing_runs, present_runs

    page.check(out)
    found = read(results)
    page.write(out, page.build(found))
    for line in found.left_out:
        typer.echo(f"left out: {line}")
    present = present_runs(results / "runs")
    for artefact in found.artefacts:
        if missing := missing_runs(artefact, present):
            typer.echo(
                f"stale: {artefact['name']} stands on {_count(missing, 'run')} that {results / 'runs'} does not hold "
                f"for the present code, {missing[0]} for one; run: {artefact['command']}"
            )
    claims = [claim.get("holds") for artefact in found.artefacts for claim in claims_of(artefact)]
    typer.echo(
        f"{out}: {_count(found.artefacts, 'artefact')}, {_count(claims, 'claim')} ({claims.count(True)} hold, "
        f"{claims.count(False)} fail, {claims.count(None)} not judged), {_count(found.comparisons, 'comparison')}, "
        f"{out.stat().st_size / 1e6:.1f} MB"
    )


def _count(things: Sized, noun: str) -> str:
    return f"{len(things)} {noun}{'' if len(things) == 1 else 's'}"
