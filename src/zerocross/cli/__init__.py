"""The command line: one file per command, heavy imports inside, so that --help answers at once."""

from __future__ import annotations

import sys


def main() -> None:
    """Entry point of `zerocross`."""
    try:
        from zerocross.cli.app import run
    except ModuleNotFoundError as missing:
        if missing.name not in {"typer", "rich"}:
            raise
        sys.stderr.write("zerocross: the commands need a few more packages: pip install 'zerocross[train]'\n")
        sys.exit(2)
    sys.exit(run())
