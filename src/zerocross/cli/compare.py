"""zerocross compare: compare methods on one recipe, with a cache of finished runs."""

from __future__ import annotations

import errno
import logging
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from zerocross.cli.execution import placement, with_execution_options
from zerocross.cli.train import DATA_DIR, assignments

if TYPE_CHECKING:
    from rich.console import Console

    from zerocross.sweep.execution import Execution


@with_execution_options
def command(
    recipe: Annotated[str, typer.Option(metavar="NAME", help="A name from `zerocross recipes`.")] = "digits",
    methods: Annotated[
        str,
        typer.Option(
            metavar="A,B:3,C",
            help="Names from `zerocross methods`, or all. NAME:K runs K seeds of that method.",
        ),
    ] = "all",
    epochs: Annotated[
        int | None, typer.Option(metavar="N", help="Total epochs of each run. Default: the recipe's.", min=1)
    ] = None,
    seeds: Annotated[int, typer.Option(metavar="K", help="Runs per method: seeds 0 to K - 1.", min=1)] = 1,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="FIELD=VALUE", help="Change a setting of all runs. Repeatable."),
    ] = None,
    in_two_steps: Annotated[
        bool,
        typer.Option("--two-step", metavar="", help="Real weights with binary activations first, then both binary."),
    ] = False,
    network: Annotated[
        str,
        typer.Option(
            metavar="WHICH", help="common, or published: the network and batch size of each method's authors."
        ),
    ] = "common",
    validate: Annotated[
        bool, typer.Option("--validate", metavar="", help="Evaluate on held-out training data.")
    ] = False,
    data_dir: Annotated[Path | None, DATA_DIR] = None,
    results: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder of finished runs, which are not repeated.")
    ] = Path("results/runs"),
    work: Annotated[Path, typer.Option(metavar="DIR", help="Folders of unfinished runs.")] = Path("runs/by-hash"),
    keep: Annotated[
        bool, typer.Option("--keep", metavar="", help="Also keep the folders of finished runs: weights, metrics.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(metavar="NAME", help="Write NAME.json, .md and .png. Default: results/compare-RECIPE-Nepochs."),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", metavar="", help="Print only the table.")] = False,
    *,
    execution: Execution,
) -> int:
    """Compare methods: the same data and budget for all, each with its own settings, on a common network or its own.

    Writes a table, a picture and all figures. Finished runs are cached by the hash of their config: an interrupted
    comparison continues with the same command, and a larger one trains only the new runs.
    """
    from rich.console import Console

    from zerocross.cli.outputs import are_ours
    from zerocross.suite import compare
    from zerocross.train import assign
    from zerocross.train.variants import with_network

    counts = method_seeds(methods, seeds, recipe, in_two_steps=in_two_steps)
    changes = assignments(set_ or []) | ({"data.validate": "true"} if validate else {})
    configs = compare.configs(recipe, counts, epochs=epochs, changes=changes, in_two_steps=in_two_steps)
    configs = [assign.changed(with_network(config, network), changes) for config in configs]
    total = sum(stage.epochs for stage in configs[0].stages)
    kinds = "-two-step" * in_two_steps + "-published" * (network == "published")
    kinds += "-validation" * configs[0].data.validate
    out = out or Path("results") / f"compare-{recipe}-{total}epochs{kinds}"
    files = _files(out)
    console = Console(highlight=False)
    if are_ours(files, compare.KIND, "comparison") and not quiet:
        console.print(f"replacing the earlier comparison {_names(files)}", soft_wrap=True, markup=False)

    from zerocross.sweep.cache import RunCache
    from zerocross.sweep.execute import Interrupted
    from zerocross.sweep.trainings import run_all

    logging.getLogger("lightning_fabric.utilities").setLevel(logging.WARNING)  # hide the ranks of the processes
    sys.path.append(str(Path.cwd()))  # a teacher's module:function may be there
    place = placement(data_dir, execution)
    try:
        outcomes = run_all(configs, place, RunCache(results, work, keep), execution, show=not quiet)
    except Interrupted as stopped:
        return _fail(str(stopped), stopped.exit_code)
    except OSError as error:
        if error.errno not in {errno.ENOSPC, errno.EDQUOT, errno.EIO}:
            raise
        return _fail(f"{error.strerror}; finished runs are kept. Free some space, then run the same command again", 1)
    options = {"--recipe": recipe, "--methods": methods, "--epochs": epochs, "--seeds": seeds, "--set": set_,
               "--two-step": in_two_steps, "--network": None if network == "common" else network,
               "--validate": validate}  # fmt: skip
    return _report(compare.summarise(outcomes, command=_command_line(options), network=network), files, console)


def method_seeds(text: str, seeds: int, recipe: str, *, in_two_steps: bool = False) -> dict[str, int]:
    """Parse "a,b:3,all" to method -> number of seeds; an explicit number takes precedence over "all"."""
    from zerocross.methods import METHODS, current_name, get
    from zerocross.suite.compare import two_step_methods

    named: dict[str, int] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, colon, number = (part.strip() for part in item.partition(":"))
        if colon and not (number.isdecimal() and int(number)):
            raise ValueError(f"--methods {item!r}: the number of seeds after the colon must be at least 1")
        if name in named:
            raise ValueError(f"--methods names {name!r} twice")
        if name != "all":
            get(name)
            name = current_name(name)
        named[name] = int(number) if colon else seeds
    if not named:
        raise ValueError(f"--methods names no method; choose some of {', '.join(METHODS)}, or all")
    if "all" in named:
        rest = named.pop("all")
        named |= {name: rest for name in (two_step_methods(recipe) if in_two_steps else METHODS) if name not in named}
    return named


def _files(out: Path) -> dict[str, Path]:
    return {kind: out.with_name(f"{out.name}.{kind}") for kind in ("json", "md", "png")}


def _names(files: Mapping[str, Path]) -> str:
    return ", ".join(str(path) for path in files.values())


def _report(summary: dict[str, Any], files: Mapping[str, Path], console: Console) -> int:
    from rich import box
    from rich.table import Table

    from zerocross.files import write_json, write_text
    from zerocross.suite import compare_picture, compare_text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in compare_text.header(summary):
        table.add_column(column, justify="left" if column == "method" else "right")
    for row in compare_text.rows(summary):
        table.add_row(*row)
    console.print(table)
    for note in compare_text.notes(summary):
        console.print(note, soft_wrap=True, markup=False)
    failed = sum(len(row["failed"]) for row in summary["methods"].values())
    finished = sum(row["n"] for row in summary["methods"].values())
    if finished:
        write_json(files["json"], summary)
        write_text(files["md"], compare_text.markdown(summary, files["png"].name))
        compare_picture.draw(files["png"], summary)
        console.print(f"written: {_names(files)}", soft_wrap=True, markup=False)
    return _fail(f"{failed} of {failed + finished} runs failed", 1) if failed else 0


def _command_line(options: Mapping[str, Any]) -> str:
    words = ["zerocross", "compare"]
    for option, value in options.items():
        for item in value if isinstance(value, list) else [value]:
            if item is True:
                words.append(option)
            elif item not in (None, False):
                words += [option, str(item)]
    return shlex.join(words)


def _fail(message: str, code: int) -> int:
    sys.stderr.write(f"zerocross: {message}\n")
    return code
