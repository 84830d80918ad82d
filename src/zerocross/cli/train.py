"""zerocross train: a recipe, or the rest of a run that was cut."""

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
_REFUSED = (FileNotFoundError, FileExistsError, NotADirectoryError, IsADirectoryError)  # paths that were given

FETCHED = Path("data")  # where `zerocross data fetch` puts datasets


def _data_dir(chosen: Path | None) -> Path | None:
    return FETCHED if chosen is None and FETCHED.is_dir() else chosen


DATA_DIR = typer.Option(
    metavar="DIR",
    help="Where the datasets are. Default: ./data, where `zerocross data fetch` puts them.",
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
        typer.Option(metavar="NAME", help="How binary weights are trained: a name from `zerocross methods`."),
    ] = None,
    in_two_steps: Annotated[
        bool,
        typer.Option("--two-step", metavar="", help="Real weights with binary activations first, then both binary."),
    ] = False,
    network: Annotated[
        str | None, typer.Option(metavar="WHICH", help="common, or published: the method's authors' own, and batch.")
    ] = None,
    init_from: Annotated[
        Path | None,
        typer.Option(
            metavar="RUN", help="Start from the weights of a finished run, warm: they survive the first step."
        ),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="FIELD=VALUE", help="Change a setting: --set optimizer.alpha=1e-4. Repeatable."),
    ] = None,
    epochs: Annotated[int | None, typer.Option(metavar="N", help="Epochs in all; stages share them.", min=1)] = None,
    seed: Annotated[int | None, typer.Option(metavar="N", help="Of start, order and augmentation.", min=0)] = None,
    validate: Annotated[
        bool,
        typer.Option("--validate", metavar="", help="Hold out training data, evaluate on it: for choosing settings."),
    ] = False,
    data_dir: Annotated[Path | None, DATA_DIR] = None,
    devices: Annotated[
        int | None, typer.Option(metavar="N", help="Processes, one device each. Default: 1.", min=1)
    ] = None,
    accelerator: Annotated[
        str | None, typer.Option(metavar="NAME", help="cpu, cuda (or gpu) or auto. Default: auto.")
    ] = None,
    precision: Annotated[
        str | None, typer.Option(metavar="NAME", help="32, bf16, or auto: bf16 where the device computes in it.")
    ] = None,
    compile_: Annotated[str | None, typer.Option("--compile", metavar="WHEN", help="auto, on or off.")] = None,
    sync_bn: Annotated[
        bool, typer.Option("--sync-bn", metavar="", help="Batch statistics over all devices (CUDA).")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(metavar="RUN", help="The run folder. Default: runs/RECIPE-METHOD-seedN.")
    ] = None,
    resume: Annotated[Path | None, typer.Option(help="Go on with the run in this folder.", metavar="RUN")] = None,
    results: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Also write the result to DIR/CONFIG-HASH.json.")
    ] = None,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", metavar="", help="Write TensorBoard event files, too.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", metavar="", help="Only the end result.")] = False,
) -> int:
    """Train a network as a recipe says, or go on with a run that was cut.

    Everything goes into one run folder: config, metrics (JSON lines), checkpoints, final weights and a picture. A run
    that was stopped or killed resumes bit-exactly with --resume. To fine-tune a trained network, begin a new run with
    --init-from: without it, the filter's first update would flip half of its weights.
    """
    if resume is not None:
        given = {
            "recipe": recipe, "--method": method, "--network": network, "--two-step": in_two_steps, "--set": set_,
            "--epochs": epochs, "--seed": seed, "--init-from": init_from, "--validate": validate, "--devices": devices,
            "--accelerator": accelerator, "--precision": precision, "--compile": compile_, "--sync-bn": sync_bn,
            "--out": out, "--tensorboard": tensorboard,
        }  # fmt: skip
        if refused := [name for name, value in given.items() if value]:
            raise ValueError(f"--resume goes on with a run as it was begun: leave out {', '.join(refused)}")
        moved = str(data_dir) if data_dir and _is_typed(context, "data_dir") else None
        return _resume(resume, moved, results=results, quiet=quiet)

    from zerocross import train
    from zerocross.train import assign, recipes
    from zerocross.train.precision import settled
    from zerocross.train.variants import with_epochs, with_method, with_network

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
        raise FileExistsError(f"{taken} already holds the result of this config; move it away, or leave out --results")
    where = str(data_dir.resolve()) if data_dir else None
    place = train.Placement(where, *started, accelerator or "auto", tensorboard)
    return _report(folder, lambda: train.begin(config, folder, place, show=not quiet), results)


def _resume(folder: Path, data_dir: str | None, *, results: Path | None, quiet: bool) -> int:
    from zerocross import train

    if (started := _torchrun()) is not None:
        place = train.read_placement(folder)
        if started != (place.devices, place.nodes):
            raise ValueError(
                f"{folder} was begun by {place.devices} processes on {place.nodes} machines; torchrun started "
                f"{started[0]} on {started[1]}: take the same numbers"
            )
    done = (folder / "result.json").exists()
    return _report(folder, lambda: train.resume(folder, data_dir=data_dir, show=not quiet), results, was_done=done)


def _report(folder: Path, work: Callable[[], Finished], results: Path | None, *, was_done: bool = False) -> int:
    """Do the work and print how it ended."""
    finished = carry_out(folder, work)
    if isinstance(finished, int):
        return finished
    result = finished.result
    if results is not None:
        from zerocross.files import write_json

        write_json(results / f"{result['hash']}.json", result)
    final = result["final"]
    sys.stdout.write(
        f"{folder} {'was finished already' if was_done else 'done'}: {result['evaluated_on']} accuracy "
        f"{final['top1']:.2f} % after the last epoch (loss {final['loss']:.3f}, {result['seconds']:.0f} s); "
        f"curves in {folder / 'curves.png'}\n"
    )
    return 0


def carry_out(folder: Path, work: Callable[[], Finished]) -> Finished | int:
    """Do the work of a run; an exit code where there is nothing more to say.

    1 for a failed run, 130 or 143 for a stopped one, 0 in processes other than the first: what all of them meet
    together, the first one tells.
    """
    from zerocross import train

    logging.getLogger("lightning_fabric.utilities").setLevel(logging.WARNING)  # who is which rank
    first = os.environ.get("LOCAL_RANK", "0") == "0"
    sys.path.append(str(Path.cwd()))  # a teacher's module:function may stand there
    go_on = f"go on with: zerocross train --resume {folder}"
    try:
        finished = work()
    except train.Stopped as stopped:
        return _tell(f"{stopped}; {go_on}", stopped.exit_code) if first else 0
    except train.LostPeerError as failed:
        if first or isinstance(failed, train.RendezvousError):
            _tell(f"{failed}; {go_on}", 1)
        sys.stderr.flush()
        os._exit(1)  # at once, before the launcher kills what is left of the run
    except train.RunError as failed:
        return _tell(str(failed), 1) if first else 0
    except (OSError, MemoryError) as failed:
        if isinstance(failed, _REFUSED):
            raise
        kept = os.access(folder / "config.json", os.F_OK)
        after = f"; what it had saved is kept. Put it right, then {go_on}" if kept else ""
        return _tell(_environment(failed, folder) + after, 1)
    return finished if first else 0


def _environment(failed: OSError | MemoryError, folder: Path) -> str:
    """What the machine refused, in one line."""
    if isinstance(failed, MemoryError):
        return "out of memory"
    what = failed.strerror or str(failed)
    if failed.errno in _NO_ROOM:
        return f"{what}: the run cannot write to {folder}"
    return f"{what}: {failed.filename}" if failed.filename is not None else f"{what}, in the run in {folder}"


def _tell(message: str, code: int) -> int:
    sys.stderr.write(f"zerocross: {message}\n")
    return code


def _torchrun() -> tuple[int, int] | None:
    """Processes on this machine, and machines, where torchrun started us; None where it did not."""
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        return None
    here = int(os.environ["LOCAL_WORLD_SIZE"])
    return here, int(os.environ["WORLD_SIZE"]) // here


def _is_typed(context: typer.Context, name: str) -> bool:
    """Whether an option was given on the command line, and not by the environment."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def assignments(texts: list[str]) -> dict[str, str]:
    """Field -> value, of the texts that --set was given."""
    pairs = {}
    for text in texts:
        field, equals, value = text.partition("=")
        if not equals or not field:
            raise ValueError(f"--set {text!r} is not FIELD=VALUE; for instance: --set optimizer.alpha=1e-4")
        pairs[field.strip()] = value
    return pairs
