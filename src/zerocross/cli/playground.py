"""zerocross playground: write a page on which packed networks classify drawings, images and speech."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def command(
    models: Annotated[
        list[Path],
        typer.Argument(metavar="MODELS...", help="Packed networks (.zcb) for drawn digits, photos or spoken digits."),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The page, such as playground.html.")],
    force: Annotated[bool, typer.Option("--force", help="Replace the page if it exists.")] = False,
) -> None:
    """Write one self-contained HTML page that runs packed networks as WebAssembly, built by clang.

    A network for grey images classifies drawings, one for colour images classifies image files, and one for log-mel
    spectra classifies speech; at most one of each kind. No data leaves the page.
    """
    from zerocross import zoo
    from zerocross.export.web.playground import page
    from zerocross.files import write_text
    from zerocross.runtime.format import read

    if output.exists() and not force:
        raise FileExistsError(f"{output} already exists: choose another name, or use --force to replace it")
    text = page([read(zoo.located(path)) for path in models])
    write_text(output, text)
    typer.echo(f"{output}: {len(text.encode()) / 1000:,.0f} KB")
