"""The command line: one file per command, with heavy imports inside functions so that --help is fast."""

from __future__ import annotations

import sys

from zerocross.extras import MissingExtraError, named


def main() -> None:
    """Entry point of `zerocross`."""
    try:
        with named():
            from zerocross.cli.app import run

            code = run()
    except MissingExtraError as missing:
        sys.stderr.write(f"zerocross: {missing}\n")
        code = 2
    sys.exit(code)
