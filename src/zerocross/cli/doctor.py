"""zerocross doctor: what this machine has, and the command that adds what is missing."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from zerocross.cli.train import DATA_DIR


def command(
    data_dir: Annotated[Path | None, DATA_DIR] = None,
    cuda: Annotated[
        bool, typer.Option("--cuda", help="Run the checklist for GPUs instead: about a minute on two devices.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show Python, torch, devices, compiler, processor features, extras, datasets and caches.

    For each missing piece, the command that adds it is shown. Exit code 0: nothing essential is broken, although
    optional pieces may be missing; 1: something is. With --cuda, exit code 1 means that a check failed; checks without
    a suitable device are skipped, with the reason.
    """
    raise typer.Exit(_check_cuda(as_json) if cuda else _examine(data_dir, as_json))


def _examine(data_dir: Path | None, as_json: bool) -> int:
    from zerocross import __version__
    from zerocross.doctor import examine, healthy, render

    findings = examine(data_dir)
    sound = healthy(findings)
    if as_json:
        _print_json({"version": __version__, "healthy": sound}, "findings", findings)
    else:
        typer.echo(f"zerocross {__version__}\n\n{render(findings)}")
        absent = sum(each.state == "missing" for each in findings)
        verdict = "nothing essential is broken" if sound else "something essential is broken: see above"
        typer.echo(f"\n{verdict}; {absent} optional pieces are missing")
    return 0 if sound else 1


def _check_cuda(as_json: bool) -> int:
    from zerocross.extras import require

    require("torch")
    from zerocross.doctor.devices import checklist, render_checks

    outcomes = checklist("cuda")
    failed = sum(each.state == "fail" for each in outcomes)
    if as_json:
        _print_json({"device": "cuda", "failed": failed}, "checks", outcomes)
    else:
        typer.echo(render_checks(outcomes))
    return 1 if failed else 0


def _print_json(head: dict[str, object], key: str, items: list[object]) -> None:
    import json
    from dataclasses import asdict
    from typing import Any, cast

    typer.echo(json.dumps({**head, key: [asdict(cast("Any", item)) for item in items]}, indent=1))
