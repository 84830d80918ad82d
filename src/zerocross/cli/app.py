"""The list of commands, and how an error reaches the terminal: one line, exit code 2, no traceback."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence

import typer
from typer import _click as click

app = typer.Typer(
    name="zerocross",
    help="Train binary neural networks by filtering gradients; a weight flips when its filtered gradient crosses zero.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)

# command name -> module in zerocross.cli. A module offers `command` (a function) or `app` (a group of commands).
COMMANDS = {
    "demo": "demo",
    "train": "train",
    "evaluate": "evaluate",
    "runs": "runs",
    "recipes": "recipes",
    "models": "models",
    "data": "data",
    "filter": "filter",
}

for _name, _module in COMMANDS.items():
    _part = importlib.import_module(f"zerocross.cli.{_module}")
    if hasattr(_part, "app"):
        app.add_typer(_part.app, name=_name)
    else:
        app.command(_name)(_part.command)

# What a user can put right: one line and exit code 2. Anything else is a bug of ours and keeps its traceback.
USER_ERRORS = (ValueError, FileNotFoundError, FileExistsError, NotADirectoryError, IsADirectoryError, PermissionError)


def run(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    try:
        code = app(args=list(argv) if argv is not None else None, prog_name="zerocross", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as shown:
        sys.stdout.write(shown.format_message() + "\n")
        return 0
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.exceptions.Abort:
        return _fail("interrupted", 130)
    except click.exceptions.ClickException as wrong:
        where = getattr(getattr(wrong, "ctx", None), "command_path", "zerocross")
        return _fail(f"{wrong.format_message().strip()} (see {where} --help)", 2)
    except USER_ERRORS as wrong:
        if os.environ.get("ZEROCROSS_DEBUG"):
            raise
        return _fail(_one_line(wrong), 2)
    except KeyboardInterrupt:
        return _fail("interrupted", 130)
    return code if isinstance(code, int) else 0


def _one_line(wrong: BaseException) -> str:
    if isinstance(wrong, OSError) and wrong.filename is not None and wrong.strerror:
        return f"{wrong.strerror}: {wrong.filename}"
    return " ".join(str(wrong).split()) or type(wrong).__name__


def _fail(message: str, code: int) -> int:
    sys.stderr.write(f"zerocross: {message}\n")
    return code
