"""zerocross export: export a packed network to C99, WebAssembly, ONNX or QONNX."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def command(
    model: Annotated[Path | None, typer.Argument(metavar="MODEL", help="A packed network (.zcb), or zoo:NAME.")] = None,
    to: Annotated[str | None, typer.Option(metavar="TARGET", help="The target, see --list.")] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="DIR", help="The folder to write to; created if missing.")
    ] = None,
    name: Annotated[str, typer.Option(metavar="NAME", help="Name of the files, and prefix of names in C.")] = "model",
    cc: Annotated[
        str | None,
        typer.Option(metavar="COMMAND", help="Target c: a compiler with options, to measure code size and memory."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace files that exist.")] = False,
    show: Annotated[bool, typer.Option("--list", help="List the targets and the operators they support.")] = False,
) -> None:
    """Export a packed network: to C for a microcontroller, to WebAssembly for a browser, to ONNX and QONNX.

    The files compute the same as the packed network. Each target supports the operators in --list; a network with any
    other operator is refused, and the error names the module that contains it.
    """
    from zerocross import zoo
    from zerocross.export import TARGETS, export
    from zerocross.runtime.format import read

    if show:
        for key, target in TARGETS.items():
            typer.echo(f"{key:6} {target.about}\n       {', '.join(target.ops)}")
            for op, reason in target.unsupported.items():
                typer.echo(f"       not {op}: {reason}")
        return
    if model is None or to is None or output is None:
        raise ValueError(
            "a packed network, --to TARGET and -o DIR are required; example: zerocross export model.zcb --to c -o c"
        )
    options = {} if cc is None else {"cc": cc}
    exported = export(read(zoo.located(model)), to, output, name=name, force=force, **options)
    for each in exported.files:
        typer.echo(f"{output / each}")
    for note in exported.notes:
        typer.echo(note)
