"""Tasks own the loss: the loop hands over model and batch, and gets a number to minimise."""

from __future__ import annotations

import copy
import hashlib
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from zerocross.checks import one_line
from zerocross.data.dataset import Dataset
from zerocross.train.config import TaskConfig

Loss = Callable[[nn.Module, Tensor, Tensor], Tensor]


def build_loss(task: TaskConfig, teacher: nn.Module | None) -> Loss:
    """The loss of a task: (model, inputs, targets) -> mean over the batch."""
    if task.name == "classification":

        def classification(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
            return F.cross_entropy(model(x), y, label_smoothing=task.label_smoothing)

        return classification
    if teacher is None:
        raise ValueError("distillation needs a teacher: hand one to fit(teacher=...)")

    def distillation(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        del y  # the teacher's word replaces the label's
        with torch.no_grad():
            wanted = teacher(x).float().softmax(dim=1)
        return F.cross_entropy(model(x), wanted)

    return distillation


def load_teacher(task: TaskConfig, dataset: Dataset, load_run: Callable[[Path], nn.Module]) -> nn.Module | None:
    """The teacher that a task names, frozen and in evaluation mode; None where there is none to load.

    Args:
        task: Its `teacher` is a run folder of ours, or "module:function"; its `teacher_weights` a state dict.
        dataset: Whose inputs the teacher must take, and whose classes it must tell apart.
        load_run: Loads the network of a run folder.
    """
    if task.name != "distillation":
        return None
    if task.teacher is None:
        raise ValueError("distillation needs a teacher: --set task.teacher=RUN_FOLDER, or module:function")
    if ":" in task.teacher and not Path(task.teacher).exists():
        teacher = _from_function(task.teacher, task.teacher_weights)
    else:
        teacher = load_run(Path(task.teacher))
    teacher.eval().requires_grad_(False)
    check_fits(teacher, dataset, f"the teacher {task.teacher}")
    return teacher


def check_fits(network: nn.Module, dataset: Dataset, what: str) -> None:
    """Refuse a network that does not take a dataset's inputs, or does not give one logit per class."""
    was_training = network.training
    x = torch.zeros(1, *dataset.input_size)
    try:
        with torch.no_grad():
            shape = tuple(network.eval()(x).shape)
    except RuntimeError as error:
        raise ValueError(
            f"{what} does not take the inputs of {dataset.name}, {tuple(x.shape[1:])}: {one_line(error)}"
        ) from error
    finally:
        network.train(was_training)
    if shape != (1, dataset.num_classes):
        raise ValueError(f"{what} gives {shape[1:]} outputs; {dataset.name} has {dataset.num_classes} classes")


def check_batch(network: nn.Module, dataset: Dataset, samples: int) -> None:
    """Refuse batches of one sample where batch norm, which needs two values per channel, cannot be trained on them."""
    if samples > 1:
        return
    try:
        with torch.no_grad():
            copy.deepcopy(network).train()(torch.zeros(1, *dataset.input_size))
    except ValueError as error:
        raise ValueError(
            "batch_size leaves 1 sample per forward pass and device, on which batch norm cannot be trained: it must be "
            f"at least 2 x accumulate x devices ({one_line(error)})"
        ) from error


def _from_function(name: str, weights: str | None) -> nn.Module:
    module_name, _, function_name = name.partition(":")
    if weights is None:
        raise ValueError(
            f"task.teacher {name!r} builds a network with random weights, which teach nothing: give it a state dict by "
            "--set task.teacher_weights=FILE (.safetensors or .pt)"
        )
    try:
        build: Any = getattr(importlib.import_module(module_name), function_name)
        teacher = build()
    except Exception as error:  # whatever someone else's module does
        raise ValueError(
            f"task.teacher {name!r} is read as module:function, and failed: {type(error).__name__}: {one_line(error)}"
        ) from error
    if not isinstance(teacher, nn.Module):
        raise ValueError(f"task.teacher {name!r} gave a {type(teacher).__name__}, not a network (nn.Module)")
    try:
        teacher.load_state_dict(read_weights(Path(weights)))
    except RuntimeError as error:
        raise ValueError(f"{weights} does not fit the teacher {name!r}: {one_line(error)}") from error
    return teacher


def trained_run(folder: Path) -> str:
    """A finished run as `Stage.init_from` names it, FOLDER#DIGEST: other weights are another start, and another run."""
    return f"{folder}#{_digest(_final_weights(folder))}"


def initial_weights(named: str) -> dict[str, Tensor]:
    """The weights that `Stage.init_from` names: FOLDER, or FOLDER#DIGEST, which the weights must have."""
    folder, mark, digest = named.rpartition("#")
    path = _final_weights(Path(folder if mark else named))
    if mark and (found := _digest(path)) != digest:
        raise ValueError(f"{path} holds other weights than this run started from (sha256 {found}..., not {digest}...)")
    return read_weights(path)


def _final_weights(folder: Path) -> Path:
    path = folder / "model.safetensors"
    if not path.is_file():
        raise FileNotFoundError(f"{folder} has no final weights to start from (model.safetensors): name a finished run")
    return path


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def read_weights(path: Path) -> dict[str, Tensor]:
    """A state dict from .safetensors, or from a torch file read with weights_only (no pickle is run)."""
    if not path.is_file():
        raise FileNotFoundError(2, "No such file of weights", str(path))
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            return load_file(path)
        return torch.load(path, weights_only=True, map_location="cpu")
    except Exception as error:  # a broken file fails in many ways, all of which mean the same
        raise ValueError(f"{path} is not a readable state dict: {one_line(error)}") from error
