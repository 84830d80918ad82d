"""zerocross playground: a page in which packed networks classify what is drawn, dropped or said."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def command(
    models: Annotated[
        list[Path],
        typer.Argument(metavar="MODELS...", help="Packed networks (.zcb): of digits, of photos, of spoken digits."),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The page, such as playground.html.")],
    force: Annotated[bool, typer.Option("--force", help="Replace the page if it exists.")] = False,
) -> None:
    """Write one self-contained HTML page that runs packed networks as WebAssembly, built by clang.

    A network of grey images is drawn for, one of colour images takes pictures, one of log-mel spectra listens; one of
    each kind at most. Nothing leaves the page.
    """
    from zerocross import zoo
    from zerocross.export.web.playground import page
    from zerocross.files import write_text
    from zerocross.runtime.format import read

    if output.exists() and not force:
        raise FileExistsError(f"{output} exists: choose another name, or replace it with --force")
    text = page([read(zoo.located(path)) for path in models])
    write_text(output, text)
    typer.echo(f"{output}: {len(text.encode()) / 1000:,.0f} KB")
