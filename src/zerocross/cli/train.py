"""zerocross train: a recipe, or the rest of a run that was cut."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

DATA_DIR = typer.Option(help="Where the datasets are.", envvar="ZEROCROSS_DATA", show_envvar=True)


def command(
    recipe: Annotated[str | None, typer.Argument(help="A name from `zerocross recipes`. Default: digits.")] = None,
    method: Annotated[str | None, typer.Option(help="How binary weights are trained: filter, latent-sgd, ...")] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="FIELD=VALUE", help="Change a setting: --set optimizer.alpha=1e-4. Repeatable."),
    ] = None,
    epochs: Annotated[int | None, typer.Option(help="Epochs (of every stage).", min=1)] = None,
    seed: Annotated[int | None, typer.Option(help="Start, order and augmentation.", min=0)] = None,
    validate: Annotated[
        bool, typer.Option("--validate", help="Hold out training data and evaluate on it: for choosing settings.")
    ] = False,
    data_dir: Annotated[Path | None, DATA_DIR] = None,
    devices: Annotated[int, typer.Option(help="Processes, one device each.", min=1)] = 1,
    accelerator: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    precision: Annotated[str | None, typer.Option(help="32 or bf16.")] = None,
    compile_: Annotated[str | None, typer.Option("--compile", help="auto, on or off.")] = None,
    sync_bn: Annotated[bool, typer.Option("--sync-bn", help="Batch statistics over all devices (CUDA).")] = False,
    out: Annotated[Path | None, typer.Option(help="The run folder. Default: runs/RECIPE-METHOD-seedN.")] = None,
    resume: Annotated[Path | None, typer.Option(help="Go on with the run in this folder.", metavar="RUN")] = None,
    results: Annotated[
        Path | None, typer.Option(help="Also write the result to this folder, as CONFIG-HASH.json.")
    ] = None,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Write TensorBoard event files, too.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only the end result.")] = False,
) -> int:
    """Train a network as a recipe says, or go on with a run that was cut.

    Everything goes into one run folder: config, metrics (JSON lines), checkpoints, final weights and a picture. A run
    that was stopped or killed goes on, to the bit, with --resume.
    """
    if resume is not None:
        given = [recipe, method, set_, epochs, seed, precision, compile_, out]
        if any(value is not None for value in given) or validate or sync_bn or devices != 1:
            raise ValueError(f"--resume goes on with {resume} as it was begun, and takes no other settings; leave them out")
        return carry_out(resume, resuming=True, results=results, quiet=quiet)

    from zerocross.train import Place, assign, recipes
    from zerocross.train.config import with_method

    config = recipes.get(recipe or "digits").config
    if method is not None:
        config = with_method(config, method)
    changes = _assignments(set_ or [])
    if epochs is not None:
        changes |= {f"stages.{index}.epochs": str(epochs) for index in range(len(config.stages))}
    named = {"seed": seed, "precision": precision, "compile": compile_}
    changes |= {field: str(value) for field, value in named.items() if value is not None}
    changes |= {"data.validate": "true"} if validate else {}
    changes |= {"sync_bn": "true"} if sync_bn else {}
    config = assign.changed(config, changes)
    folder = out or Path("runs") / f"{config.recipe}-{config.method}-seed{config.seed}"
    place = Place(str(data_dir) if data_dir else None, devices, accelerator, tensorboard)
    return carry_out(folder, config=config, place=place, results=results, quiet=quiet)


def carry_out(
    folder: Path,
    *,
    resuming: bool = False,
    config: object = None,
    place: object = None,
    results: Path | None = None,
    quiet: bool = False,
) -> int:
    """Begin or resume a run, and tell how it ended: 0, 1 for a failed run, 130 or 143 for a stopped one."""
    import os

    from rich.console import Console

    from zerocross import train
    from zerocross.train.record import write_json

    console = Console(highlight=False, soft_wrap=True)
    errors = Console(stderr=True, highlight=False, soft_wrap=True)
    was_finished = resuming and (folder / "result.json").exists()
    try:
        if resuming:
            finished = train.resume(folder, show=not quiet)
        else:
            finished = train.begin(config, folder, place, show=not quiet)  # type: ignore[arg-type]
    except train.Stopped as stopped:
        if int(os.environ.get("LOCAL_RANK", "0")) == 0:
            errors.print(
                f"zerocross: stopped after {stopped.position.updates} updates, and saved; go on with: "
                f"zerocross train --resume {folder}", markup=False,
            )  # fmt: skip
        return stopped.exit_code
    except train.RunError as failed:
        errors.print(f"zerocross: {failed}", markup=False)
        return 1
    except OSError as failed:
        if isinstance(failed, FileExistsError | FileNotFoundError):
            raise
        errors.print(
            f"zerocross: {failed}; the run stopped, its last good checkpoint is kept in {folder / 'checkpoints'}. "
            f"Make room, then: zerocross train --resume {folder}", markup=False,
        )  # fmt: skip
        return 1
    if int(os.environ.get("LOCAL_RANK", "0")) != 0:
        return 0
    result = finished.result
    if results is not None:
        write_json(results / f"{result['hash']}.json", result)
    final = result["final"]
    state = "was finished already" if was_finished else "done"
    console.print(
        f"{folder} {state}: {result['evaluated_on']} accuracy {final['top1']:.2f} % after the last epoch "
        f"(loss {final['loss']:.3f}, {result['seconds']:.0f} s); curves in {folder / 'curves.png'}", markup=False,
    )  # fmt: skip
    return 0


def _assignments(texts: list[str]) -> dict[str, str]:
    pairs = {}
    for text in texts:
        field, equals, value = text.partition("=")
        if not equals or not field:
            raise ValueError(f"--set {text!r} is not FIELD=VALUE; for instance: --set optimizer.alpha=1e-4")
        pairs[field.strip()] = value
    return pairs
