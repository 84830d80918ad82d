"""Tasks define the loss: the loop passes model and batch, and gets back a value to minimise."""

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
    """Return the loss function of a task: (model, inputs, targets) -> mean over the batch."""
    if task.name == "classification":

        def classification(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
            return F.cross_entropy(model(x), y, label_smoothing=task.label_smoothing)

        return classification
    if teacher is None:
        raise ValueError("distillation needs a teacher: pass one to fit(teacher=...)")

    def distillation(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        del y  # the teacher's output replaces the labels
        with torch.no_grad():
            soft_targets = teacher(x).float().softmax(dim=1)
        return F.cross_entropy(model(x), soft_targets)

    return distillation


def load_teacher(task: TaskConfig, dataset: Dataset, load_run: Callable[[Path], nn.Module]) -> nn.Module | None:
    """Load the teacher of a task, frozen and in evaluation mode; None if the task has none.

    Args:
        task: Its `teacher` is a run folder or "module:function", its `teacher_weights` a state dict.
        dataset: The teacher must accept its inputs and have one output per class.
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
    """Raise ValueError unless a network accepts a dataset's inputs and returns one logit per class."""
    was_training = network.training
    x = torch.zeros(1, *dataset.input_size)
    try:
        with torch.no_grad():
            shape = tuple(network.eval()(x).shape)
    except RuntimeError as error:
        raise ValueError(
            f"{what} does not accept the inputs of {dataset.name}, {tuple(x.shape[1:])}: {one_line(error)}"
        ) from error
    finally:
        network.train(was_training)
    if shape != (1, dataset.num_classes):
        raise ValueError(
            f"{what} returns {shape[1:]} outputs per sample; {dataset.name} has {dataset.num_classes} classes"
        )


def check_batch(network: nn.Module, dataset: Dataset, samples: int) -> None:
    """Raise ValueError if a forward pass sees one sample only and the network's batch norm needs at least two."""
    if samples > 1:
        return
    try:
        with torch.no_grad():
            copy.deepcopy(network).train()(torch.zeros(1, *dataset.input_size))
    except ValueError as error:
        raise ValueError(
            "batch_size leaves 1 sample per forward pass and device, too few to train batch norm: it must be at least "
            f"2 x accumulate x devices ({one_line(error)})"
        ) from error


def _from_function(name: str, weights: str | None) -> nn.Module:
    module_name, _, function_name = name.partition(":")
    if weights is None:
        raise ValueError(
            f"task.teacher {name!r} builds a network with random weights: provide trained ones with --set "
            "task.teacher_weights=FILE (a state dict, .safetensors or .pt)"
        )
    try:
        build: Any = getattr(importlib.import_module(module_name), function_name)
        teacher = build()
    except Exception as error:  # user code may raise anything
        raise ValueError(
            f"task.teacher {name!r} was called as module:function and failed: {type(error).__name__}: {one_line(error)}"
        ) from error
    if not isinstance(teacher, nn.Module):
        raise ValueError(f"task.teacher {name!r} returned a {type(teacher).__name__}, not an nn.Module")
    try:
        teacher.load_state_dict(read_weights(Path(weights)))
    except RuntimeError as error:
        raise ValueError(f"{weights} does not match the teacher {name!r}: {one_line(error)}") from error
    return teacher


def trained_run(folder: Path) -> str:
    """Return a finished run in the form that `Stage.init_from` takes: FOLDER#DIGEST, with a digest of its weights.

    Examples:
        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> from zerocross import train
        >>> with TemporaryDirectory() as folder:
        ...     run = Path(folder) / "run"
        ...     finished = train.begin(train.Config(stages=(train.Stage(epochs=1),)), run, show=False)
        ...     stage = train.Stage(epochs=1, init_from=train.trained_run(run))
        ...
        >>> len(stage.init_from.rpartition("#")[2])
        16
    """
    return f"{folder}#{_digest(_final_weights(folder))}"


def initial_weights(named: str) -> dict[str, Tensor]:
    """Load the weights that `Stage.init_from` refers to: FOLDER, or FOLDER#DIGEST, whose digest is verified."""
    folder, mark, digest = named.rpartition("#")
    path = _final_weights(Path(folder if mark else named))
    if mark and (actual := _digest(path)) != digest:
        raise ValueError(f"{path} has changed since this run was configured (sha256 {actual}..., expected {digest}...)")
    return read_weights(path)


def _final_weights(folder: Path) -> Path:
    path = folder / "model.safetensors"
    if not path.is_file():
        raise FileNotFoundError(f"{folder} has no final weights (model.safetensors): use the folder of a finished run")
    return path


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def read_weights(path: Path) -> dict[str, Tensor]:
    """Read a state dict from .safetensors, or from a torch file with weights_only=True."""
    if not path.is_file():
        raise FileNotFoundError(2, "No such weights file", str(path))
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            return load_file(path)
        return torch.load(path, weights_only=True, map_location="cpu")
    except Exception as error:  # a damaged file can raise almost anything
        raise ValueError(f"{path} is not a readable state dict: {one_line(error)}") from error
