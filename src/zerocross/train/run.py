"""Runs in folders (config, metrics, checkpoints, final weights, plot): start them, resume them, load them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lightning_fabric import Fabric
from torch import nn

from zerocross import data
from zerocross.data.dataset import Dataset
from zerocross.files import write_json, write_whole
from zerocross.provenance import provenance
from zerocross.train import checkpoint
from zerocross.train.build import build_model, check
from zerocross.train.config import Config, resolved, to_dict
from zerocross.train.folder import Placement, alone, holds_run, read_config, read_json, read_placement
from zerocross.train.inputs import Inputs, inputs_of, read_inputs
from zerocross.train.loop import Fitted, fit, make_fabric
from zerocross.train.picture import draw
from zerocross.train.precision import settled
from zerocross.train.ranks import LostPeerError, from_rank_zero, is_lost_peer, launch
from zerocross.train.task import load_teacher, read_weights


@dataclass(frozen=True)
class Finished:
    """A finished run: its folder, the contents of result.json, and the network if it was trained just now.

    Examples:
        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> from zerocross import train
        >>> with TemporaryDirectory() as folder:
        ...     config = train.Config(stages=(train.Stage(epochs=1),))
        ...     finished = train.begin(config, Path(folder) / "run", show=False)
        ...
        >>> finished.result["evaluated_on"], sorted(finished.result["final"])
        ('test', ['loss', 'top1', 'top5'])
    """

    folder: Path
    result: dict[str, Any]
    model: nn.Module | None = None


def begin(config: Config, folder: Path, place: Placement | None = None, *, show: bool = True) -> Finished:
    """Start a run in a new folder; check everything that can be checked before the folder is created.

    Examples:
        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> from zerocross import train
        >>> with TemporaryDirectory() as folder:
        ...     config = train.Config(stages=(train.Stage(epochs=1),))
        ...     finished = train.begin(config, Path(folder) / "run", show=False)
        ...     sorted(path.name for path in finished.folder.iterdir() if path.is_file())[-3:]
        ...
        ['model.safetensors', 'place.json', 'result.json']
    """
    place = place or Placement()
    _refuse_run(folder)
    config = resolved(settled(dataclasses.replace(config, processes=place.processes), place.accelerator))
    dataset, teacher, fabric = _gather(config, place)
    check(config, dataset, place.processes)

    def enter() -> None:
        _refuse_run(folder)  # another process may have started one in the meantime
        write_json(folder / "place.json", dataclasses.asdict(place))
        write_json(folder / "config.json", to_dict(config))

    return _carry_out(config, folder, place, dataset, teacher, fabric, enter, show=show)


def _refuse_run(folder: Path) -> None:
    if holds_run(folder):
        raise FileExistsError(
            f"{folder} already contains a run; continue it with --resume {folder}, or choose another folder with --out"
        )


def resume(folder: Path, *, data_dir: str | None = None, show: bool = True) -> Finished:
    """Resume a run from its newest intact checkpoint, or from the start if there is none yet.

    Args:
        folder: The run folder.
        data_dir: The folder of the datasets, if it has moved.
        show: Whether to show progress on the terminal.

    Examples:
        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> from zerocross import train
        >>> with TemporaryDirectory() as folder:
        ...     run = Path(folder) / "run"
        ...     first = train.begin(train.Config(stages=(train.Stage(epochs=1),)), run, show=False)
        ...     again = train.resume(run, show=False)  # it was finished: nothing is trained
        ...
        >>> again.result["final"] == first.result["final"]
        True
    """
    config, place = read_config(folder), read_placement(folder)
    if (folder / "result.json").exists():
        return Finished(folder, read_json(folder, "result.json"))
    if data_dir is not None:
        place = dataclasses.replace(place, data_dir=data_dir)
    dataset, teacher, fabric = _gather(config, place)

    def enter() -> None:
        for leftover in (*folder.glob(".*.part"), *(folder / "checkpoints").glob(".*.part")):
            leftover.unlink(missing_ok=True)  # left over by a process that was killed while writing

    return _carry_out(config, folder, place, dataset, teacher, fabric, enter, show=show)


def _gather(config: Config, place: Placement) -> tuple[Dataset, nn.Module | None, Fabric]:
    """Load data and teacher and find devices: whatever may be missing, before other processes are launched."""
    fabric = make_fabric(config, place.devices, place.accelerator, place.nodes)
    dataset = load_data(config, place)
    teacher = load_teacher(config.task, dataset, lambda run: load_model(run, place, dataset)[0])
    return dataset, teacher, fabric


def _carry_out(
    config: Config,
    folder: Path,
    place: Placement,
    dataset: Dataset,
    teacher: nn.Module | None,
    fabric: Fabric,
    enter: Callable[[], None],
    *,
    show: bool,
) -> Finished:
    """Train; `enter` is called on rank 0 first, once it has locked the folder."""
    launch(fabric)
    try:
        with ExitStack() as closing:

            def hold() -> None:
                closing.enter_context(alone(folder))
                enter()

            from_rank_zero(fabric, hold)
            fitted = fit(
                config,
                dataset,
                teacher=teacher,
                folder=folder,
                fabric=fabric,
                show=show,
                tensorboard=place.tensorboard,
                log=place.log,
            )
            result = _result(config, dataset, fitted, fabric)
            if fabric.is_global_zero:
                save_weights(fitted.model, folder / "model.safetensors")
                title = f"{config.recipe}, {config.method}"
                draw(folder / "curves.png", fitted.record.lines, title, dataset.evaluated_on)
                write_json(folder / "result.json", result)
            fabric.barrier()
    except RuntimeError as error:
        if fabric.world_size > 1 and is_lost_peer(error):
            raise LostPeerError(
                "another process of this run has exited, and this one cannot continue without it"
            ) from error
        raise
    return Finished(folder, result, fitted.model)


def _result(config: Config, dataset: Dataset, fitted: Fitted, fabric: Fabric) -> dict[str, Any]:
    train = fitted.record.of("train")
    return {
        "hash": config.hash,
        "config": to_dict(config),
        "revision": config.revision,
        "evaluated_on": dataset.evaluated_on,
        "data": dataset.source,
        "data_fingerprint": dataset.fingerprint,
        "final": {key: fitted.scores[key] for key in ("top1", "top5", "loss")},
        "history": fitted.record.of("eval"),
        "ff_ratio": [[line["update"], line["ff_ratio"]] for line in train if "ff_ratio" in line],
        "train_loss": [[line["update"], line["loss"]] for line in train],
        "devices": fabric.world_size,
        "seconds": round(fitted.record.seconds, 1),
        "provenance": provenance(),
    }


def load_data(config: Config, place: Placement) -> Dataset:
    """Load the dataset of a run.

    Examples:
        >>> from zerocross import train
        >>> train.load_data(train.Config(), train.Placement()).name
        'digits'
    """
    return data.load(config.data.name, place.data_dir, validate=config.data.validate, **dict(config.data.options))


def load_inputs(folder: Path, place: Placement | None = None) -> Inputs:
    """Return the inputs and classes of a run's network; reads the dataset only if the folder has no inputs.json.

    Folders of finished runs of older versions have none.

    Examples:
        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> from zerocross import train
        >>> with TemporaryDirectory() as folder:
        ...     run = Path(folder) / "run"
        ...     finished = train.begin(train.Config(stages=(train.Stage(epochs=1),)), run, show=False)
        ...     inputs = train.load_inputs(run)
        ...
        >>> inputs.input_size, inputs.num_classes
        ((1, 8, 8), 10)
    """
    inputs = read_inputs(folder)
    return inputs or inputs_of(load_data(read_config(folder), place or read_placement(folder)))


def save_weights(model: nn.Module, path: Path) -> None:
    """Write the state dict to a safetensors file."""
    from safetensors.torch import save

    tensors = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in model.state_dict().items()}
    write_whole(path, lambda file: file.write(save(tensors)))


def load_model(
    folder: Path, place: Placement | None = None, dataset: Dataset | Inputs | None = None
) -> tuple[nn.Module, str]:
    """Load the network of a run; also return which weights it has: the final ones, or those of the last checkpoint.

    Examples:
        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> from zerocross import train
        >>> with TemporaryDirectory() as folder:
        ...     run = Path(folder) / "run"
        ...     finished = train.begin(train.Config(stages=(train.Stage(epochs=1),)), run, show=False)
        ...     model, which = train.load_model(run)
        ...
        >>> which
        'final weights'
    """
    config = read_config(folder)
    inputs = dataset or load_inputs(folder, place)
    final = folder / "model.safetensors"
    if final.exists():
        model = build_model(config, config.stages[-1], inputs)
        model.load_state_dict(read_weights(final))
        return model, "final weights"
    state, damaged = checkpoint.newest(folder / "checkpoints")
    if state is None:
        why = f" ({damaged[0]})" if damaged else ""
        raise FileNotFoundError(f"{folder} has no weights yet{why}; train it first: zerocross train --resume {folder}")
    reached = checkpoint.Position(**state["position"])
    stage = reached.stage if reached.step else reached.stage - 1
    model = build_model(config, config.stages[max(stage, 0)], inputs)
    model.load_state_dict(state["model"])
    return model, f"checkpoint after {reached.updates} updates"
