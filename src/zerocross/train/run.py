"""Runs: a folder with config, metrics, checkpoints, the final weights and a picture; begun, gone on with, read back."""

from __future__ import annotations

import dataclasses
import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lightning_fabric import Fabric
from torch import nn

from zerocross import data
from zerocross.data.dataset import Dataset
from zerocross.files import write_whole
from zerocross.train import checkpoint
from zerocross.train.build import build_model
from zerocross.train.config import Config, from_dict, to_dict
from zerocross.train.loop import fit, make_fabric
from zerocross.train.picture import draw
from zerocross.train.record import provenance, write_json
from zerocross.train.task import load_teacher, read_weights


@dataclass(frozen=True)
class Place:
    """Where a run takes place: all that a resumed run needs besides its config, and that does not decide its result.

    Args:
        data_dir: Where the datasets are.
        devices: How many processes, one device each.
        accelerator: "auto", "cpu" or "cuda".
        tensorboard: Whether event files are written.
    """

    data_dir: str | None = None
    devices: int = 1
    accelerator: str = "auto"
    tensorboard: bool = False


@dataclass(frozen=True)
class Finished:
    """A finished run, as its result.json has it."""

    folder: Path
    result: dict[str, Any]
    model: nn.Module | None = None


def begin(config: Config, folder: Path, place: Place | None = None, *, show: bool = True) -> Finished:
    """Start a run in a new folder."""
    place = place or Place()
    # Ranks but the first find the folder made.
    fabric = make_fabric(config, place.devices, place.accelerator)
    if fabric.global_rank == 0 and (folder / "config.json").exists():
        raise FileExistsError(
            f"{folder} already holds a run; go on with it by --resume {folder}, or choose another folder by --out"
        )
    fabric.launch()
    if fabric.is_global_zero:
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / "place.json", dataclasses.asdict(place))
        write_json(folder / "config.json", to_dict(config))
    fabric.barrier()
    return _carry_out(config, folder, place, fabric, show=show)


def resume(folder: Path, *, show: bool = True) -> Finished:
    """Go on with a run from its newest whole checkpoint, or from its config where there is none yet."""
    config, place = read_config(folder), read_place(folder)
    if (folder / "result.json").exists():
        return Finished(folder, json.loads((folder / "result.json").read_text(encoding="utf-8")))
    for aside in (*folder.glob(".*.part"), *(folder / "checkpoints").glob(".*.part")):
        aside.unlink(missing_ok=True)  # what a kill in mid-write left
    fabric = make_fabric(config, place.devices, place.accelerator)
    fabric.launch()
    return _carry_out(config, folder, place, fabric, show=show)


def _carry_out(config: Config, folder: Path, place: Place, fabric: Fabric, *, show: bool) -> Finished:
    began = time.perf_counter()
    dataset = load_data(config, place)
    teacher = load_teacher(config.task, dataset.num_classes, lambda run: load_model(run, place)[0])
    fitted = fit(
        config, dataset, teacher=teacher, folder=folder, fabric=fabric, show=show, tensorboard=place.tensorboard
    )
    result = {
        "hash": config.hash,
        "config": to_dict(config),
        "evaluated_on": dataset.evaluated_on,
        "data": dataset.source,
        "final": {key: fitted.scores[key] for key in ("top1", "top5", "loss")},
        "history": fitted.record.of("eval"),
        "ff_ratio": [[line["update"], line["ff_ratio"]] for line in fitted.record.of("train") if "ff_ratio" in line],
        "train_loss": [[line["update"], line["loss"]] for line in fitted.record.of("train")],
        "devices": fabric.world_size,
        "seconds": round(time.perf_counter() - began, 1),
        "provenance": provenance(),
    }
    if fabric.is_global_zero:
        save_weights(fitted.model, folder / "model.safetensors")
        draw(folder / "curves.png", fitted.record.lines, f"{config.recipe}, {config.method}", dataset.evaluated_on)
        write_json(folder / "result.json", result)
    fabric.barrier()
    return Finished(folder, result, fitted.model)


def load_data(config: Config, place: Place) -> Dataset:
    """The data of a run."""
    return data.load(config.data.name, place.data_dir, validate=config.data.validate, **dict(config.data.options))


def save_weights(model: nn.Module, path: Path) -> None:
    """The state dict as one safetensors file."""
    from safetensors.torch import save

    tensors = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in model.state_dict().items()}
    write_whole(path, lambda file: file.write(save(tensors)))


def load_model(folder: Path, place: Place | None = None, dataset: Dataset | None = None) -> tuple[nn.Module, str]:
    """The network of a run, and which weights it holds: the final ones, or those of its newest checkpoint."""
    config = read_config(folder)
    dataset = dataset or load_data(config, place or read_place(folder))
    final = folder / "model.safetensors"
    if final.exists():
        model = build_model(config, config.stages[-1], dataset)
        model.load_state_dict(read_weights(final))
        return model, "final weights"
    state, damaged = checkpoint.newest(folder / "checkpoints")
    if state is None:
        why = f" ({damaged[0]})" if damaged else ""
        raise FileNotFoundError(f"{folder} has no weights yet{why}; train it with: zerocross train --resume {folder}")
    reached = checkpoint.Position(**state["position"])
    stage = reached.stage if reached.step else reached.stage - 1
    model = build_model(config, config.stages[max(stage, 0)], dataset)
    model.load_state_dict(state["model"])
    return model, f"checkpoint after {reached.updates} updates"


def read_config(folder: Path) -> Config:
    """The config of a run folder."""
    return from_dict(_read_json(folder, "config.json"))


def read_place(folder: Path) -> Place:
    """Where a run took place."""
    return Place(**_read_json(folder, "place.json"))


def _read_json(folder: Path, name: str) -> dict[str, Any]:
    path = folder / name
    if not path.is_file():
        raise FileNotFoundError(f"{folder} is not a run folder: it has no {name}")
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as wrong:
        raise ValueError(f"{path} is damaged: {wrong}") from None
