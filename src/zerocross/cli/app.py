"""The list of commands; user errors are printed as one line with exit code 2, without a traceback."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

import zerocross

app = typer.Typer(
    name="zerocross",
    help="Train binary neural networks by filtering gradients; a weight flips when its filtered gradient crosses zero.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _say_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"zerocross {zerocross.__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_say_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Global options."""


# command name -> module in zerocross.cli. A module offers `command` (a function) or `app` (a group of commands).
COMMANDS = {
    "demo": "demo",
    "train": "train",
    "tune": "tune",
    "compare": "compare",
    "suite": "suite",
    "reproduce": "reproduce",
    "evaluate": "evaluate",
    "runs": "runs",
    "recipes": "recipes",
    "methods": "methods",
    "models": "models",
    "data": "data",
    "filter": "filter",
    "migrate": "migrate",
    "report": "report",
    "pack": "pack",
    "predict": "predict",
    "zoo": "zoo",
    "serve": "serve",
    "export": "export",
    "playground": "playground",
    "bench": "bench",
    "doctor": "doctor",
}

for _name, _module in COMMANDS.items():
    _part = importlib.import_module(f"zerocross.cli.{_module}")
    if hasattr(_part, "app"):
        app.add_typer(_part.app, name=_name)
    else:
        app.command(_name)(_part.command)

# Errors that a user can fix: one line and exit code 2. Anything else is a bug and keeps its traceback.
USER_ERRORS = (ValueError, FileNotFoundError, FileExistsError, NotADirectoryError, IsADirectoryError, PermissionError)


def run(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        code = app(args=words or ["--help"], prog_name="zerocross", standalone_mode=False)
    except typer.Abort:
        return _fail("interrupted", 130)
    except typer.TyperException as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # help has already been printed
            return 0
        where = getattr(getattr(error, "ctx", None), "command_path", "zerocross")
        return _fail(f"{_one_line(error.format_message())} (see {where} --help)", 2)
    except USER_ERRORS as error:
        if os.environ.get("ZEROCROSS_DEBUG"):
            raise
        return _fail(_message(error), 2)
    return code if isinstance(code, int) else 0


def _message(error: BaseException) -> str:
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.strerror}: {error.filename}"
    return _one_line(str(error)) or type(error).__name__


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _fail(message: str, code: int) -> int:
    sys.stderr.write(f"zerocross: {message}\n")
    return code
