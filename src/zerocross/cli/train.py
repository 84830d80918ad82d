"""zerocross train: train a recipe, or resume a run."""

from __future__ import annotations

import dataclasses
import errno
import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from zerocross.train import Finished

_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EROFS}
_REFUSED = (FileNotFoundError, FileExistsError, NotADirectoryError, IsADirectoryError)  # about paths given by the user

FETCHED = Path("data")  # where `zerocross data fetch` puts datasets


def _data_dir(chosen: Path | None) -> Path | None:
    return FETCHED if chosen is None and FETCHED.is_dir() else chosen


DATA_DIR = typer.Option(
    metavar="DIR",
    help="Folder of the datasets. Default: ./data, where `zerocross data fetch` stores them.",
    envvar="ZEROCROSS_DATA",
    show_envvar=True,
    callback=_data_dir,
)


def command(
    context: typer.Context,
    recipe: Annotated[
        str | None,
        typer.Argument(metavar="RECIPE", help="A name from `zerocross recipes`, or a .json file. Default: digits."),
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Method for training binary weights: a name from `zerocross methods`."),
    ] = None,
    in_two_steps: Annotated[
        bool,
        typer.Option("--two-step", metavar="", help="Real weights with binary activations first, then both binary."),
    ] = False,
    network: Annotated[
        str | None,
        typer.Option(metavar="WHICH", help="common, or published: the network and batch size of the method's authors."),
    ] = None,
    init_from: Annotated[
        Path | None,
        typer.Option(metavar="RUN", help="Start from the weights of a finished run (with a warm start of the filter)."),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="FIELD=VALUE", help="Change a setting: --set optimizer.alpha=1e-4. Repeatable."),
    ] = None,
    epochs: Annotated[
        int | None, typer.Option(metavar="N", help="Total number of epochs, divided among stages.", min=1)
    ] = None,
    seed: Annotated[
        int | None, typer.Option(metavar="N", help="Seed of initial weights, sample order and augmentation.", min=0)
    ] = None,
    validate: Annotated[
        bool,
        typer.Option("--validate", metavar="", help="Evaluate on held-out training data, to choose settings."),
    ] = False,
    data_dir: Annotated[Path | None, DATA_DIR] = None,
    devices: Annotated[
        int | None, typer.Option(metavar="N", help="Number of processes, one device each. Default: 1.", min=1)
    ] = None,
    accelerator: Annotated[
        str | None, typer.Option(metavar="NAME", help="cpu, cuda (or gpu) or auto. Default: auto.")
    ] = None,
    precision: Annotated[
        str | None, typer.Option(metavar="NAME", help="32, bf16, or auto: bf16 if the device supports it natively.")
    ] = None,
    compile_: Annotated[str | None, typer.Option("--compile", metavar="WHEN", help="auto, on or off.")] = None,
    sync_bn: Annotated[
        bool, typer.Option("--sync-bn", metavar="", help="Compute batch statistics over all devices (CUDA only).")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(metavar="RUN", help="The run folder. Default: runs/RECIPE-METHOD-seedN.")
    ] = None,
    resume: Annotated[Path | None, typer.Option(help="Resume the run in this folder.", metavar="RUN")] = None,
    results: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Also write the result to DIR/CONFIG-HASH.json.")
    ] = None,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", metavar="", help="The same as --log tensorboard.")
    ] = False,
    log: Annotated[
        list[str] | None,
        typer.Option(metavar="WHERE", help="Also log metrics to tensorboard, wandb or mlflow. Repeatable."),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", metavar="", help="Print only the final result.")] = False,
) -> int:
    """Train a network from a recipe, or resume a run.

    Everything is written to one run folder: config, metrics (JSON lines), checkpoints, final weights and a plot. A run
    that was stopped or killed resumes bit-exactly with --resume. To fine-tune a trained network, start a new run with
    --init-from: otherwise the filter's first update would flip half of its weights.
    """
    if resume is not None:
        given = {
            "recipe": recipe, "--method": method, "--network": network, "--two-step": in_two_steps, "--set": set_,
            "--epochs": epochs, "--seed": seed, "--init-from": init_from, "--validate": validate, "--devices": devices,
            "--accelerator": accelerator, "--precision": precision, "--compile": compile_, "--sync-bn": sync_bn,
            "--out": out, "--tensorboard": tensorboard, "--log": log,
        }  # fmt: skip
        if refused := [name for name, value in given.items() if value]:
            raise ValueError(f"--resume continues a run with its own settings: remove {', '.join(refused)}")
        moved = str(data_dir) if data_dir and _is_typed(context, "data_dir") else None
        return _resume(resume, moved, results=results, quiet=quiet)

    from zerocross import train
    from zerocross.train import assign, recipes
    from zerocross.train.loggers import check_log
    from zerocross.train.precision import settled
    from zerocross.train.variants import with_epochs, with_method, with_network

    check_log([*(log or []), *(["tensorboard"] if tensorboard else [])])
    config = recipes.get(recipe or "digits").config
    if epochs is not None:
        config = with_epochs(config, epochs)
    if method is not None:
        config = with_method(config, method)
    if network is not None:
        config = with_network(config, network)
    changes = assignments(set_ or [])
    named = {"seed": seed, "precision": precision, "compile": compile_}
    changes |= {field: str(value) for field, value in named.items() if value is not None}
    changes |= {"data.validate": "true"} if validate else {}
    changes |= {"sync_bn": "true"} if sync_bn else {}
    start = None
    if init_from is not None:
        start = train.trained_run(init_from.resolve())
    config = assign.changed(config, changes, in_two_steps=in_two_steps, init_from=start)
    started = _torchrun() or (devices or 1, 1)
    config = settled(dataclasses.replace(config, processes=started[0] * started[1]), accelerator or "auto")
    folder = out or Path("runs") / f"{config.recipe}-{config.method}-seed{config.seed}"
    if results is not None and (taken := results / f"{config.hash}.json").exists():
        raise FileExistsError(f"{taken} already contains the result of this config; move it away, or remove --results")
    where = str(data_dir.resolve()) if data_dir else None
    place = train.Placement(where, *started, accelerator or "auto", tensorboard, log or [])
    return _report(folder, lambda: train.begin(config, folder, place, show=not quiet), results)


def _resume(folder: Path, data_dir: str | None, *, results: Path | None, quiet: bool) -> int:
    from zerocross import train

    if (started := _torchrun()) is not None:
        place = train.read_placement(folder)
        if started != (place.devices, place.nodes):
            raise ValueError(
                f"{folder} was started with {place.devices} processes on {place.nodes} machines; torchrun started "
                f"{started[0]} on {started[1]}: use the same numbers"
            )
    done = (folder / "result.json").exists()
    return _report(folder, lambda: train.resume(folder, data_dir=data_dir, show=not quiet), results, was_done=done)


def _report(folder: Path, work: Callable[[], Finished], results: Path | None, *, was_done: bool = False) -> int:
    """Run `work` and print its result."""
    finished = carry_out(folder, work)
    if isinstance(finished, int):
        return finished
    result = finished.result
    if results is not None:
        from zerocross.files import write_json

        write_json(results / f"{result['hash']}.json", result)
    final = result["final"]
    sys.stdout.write(
        f"{folder} {'was already finished' if was_done else 'finished'}: {result['evaluated_on']} accuracy "
        f"{final['top1']:.2f} % after the last epoch (loss {final['loss']:.3f}, {result['seconds']:.0f} s); "
        f"curves in {folder / 'curves.png'}\n"
    )
    return 0


def carry_out(folder: Path, work: Callable[[], Finished]) -> Finished | int:
    """Run `work`; return its result, or an exit code if it has no result to report.

    1 if the run failed, 130 or 143 if it was stopped, 0 in processes other than the first, which reports for all.
    """
    from zerocross import train

    logging.getLogger("lightning_fabric.utilities").setLevel(logging.WARNING)  # hide the ranks of the processes
    first = os.environ.get("LOCAL_RANK", "0") == "0"
    sys.path.append(str(Path.cwd()))  # a teacher's module:function may be there
    hint = f"resume with: zerocross train --resume {folder}"
    try:
        finished = work()
    except train.Stopped as stopped:
        return _fail(f"{stopped}; {hint}", stopped.exit_code) if first else 0
    except train.LostPeerError as error:
        if first or isinstance(error, train.RendezvousError):
            _fail(f"{error}; {hint}", 1)
        sys.stderr.flush()
        os._exit(1)  # immediately, before the launcher kills the rest of the run
    except train.RunError as error:
        return _fail(str(error), 1) if first else 0
    except (OSError, MemoryError) as error:
        if isinstance(error, _REFUSED):
            raise
        has_folder = os.access(folder / "config.json", os.F_OK)
        after = f"; checkpoints are kept. Fix the problem, then {hint}" if has_folder else ""
        return _fail(_environment(error, folder) + after, 1)
    return finished if first else 0


def _environment(error: OSError | MemoryError, folder: Path) -> str:
    """Describe a system error in one line."""
    if isinstance(error, MemoryError):
        return "out of memory"
    what = error.strerror or str(error)
    if error.errno in _NO_ROOM:
        return f"{what}: the run cannot write to {folder}"
    return f"{what}: {error.filename}" if error.filename is not None else f"{what} (in the run in {folder})"


def _fail(message: str, code: int) -> int:
    sys.stderr.write(f"zerocross: {message}\n")
    return code


def _torchrun() -> tuple[int, int] | None:
    """Return the processes per machine and the number of machines if started by torchrun, else None."""
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        return None
    local = int(os.environ["LOCAL_WORLD_SIZE"])
    return local, int(os.environ["WORLD_SIZE"]) // local


def _is_typed(context: typer.Context, name: str) -> bool:
    """Return True if an option was given on the command line, not by the environment."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def assignments(texts: list[str]) -> dict[str, str]:
    """Parse the values of --set into field -> value."""
    pairs = {}
    for text in texts:
        field, equals, value = text.partition("=")
        if not equals or not field:
            raise ValueError(f"--set {text!r} is not FIELD=VALUE; example: --set optimizer.alpha=1e-4")
        pairs[field.strip()] = value
    return pairs
