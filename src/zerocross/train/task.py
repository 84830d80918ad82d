"""Tasks own the loss: the loop hands over model and batch, and gets a number to minimise."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from zerocross.train.config import Task

Loss = Callable[[nn.Module, Tensor, Tensor], Tensor]


def build_loss(task: Task, teacher: nn.Module | None) -> Loss:
    """The loss of a task: (model, inputs, targets) -> mean over the batch."""
    if task.name == "classification":

        def classification(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
            return F.cross_entropy(model(x), y, label_smoothing=task.label_smoothing)

        return classification
    if task.name != "distillation":
        raise ValueError(f"task.name is {task.name!r}; it can be 'classification' or 'distillation'")
    if teacher is None:
        raise ValueError("distillation needs a teacher: set task.teacher to a run folder, or to module:function")

    def distillation(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        del y  # the teacher's word replaces the label's
        with torch.no_grad():
            wanted = teacher(x).float().softmax(dim=1)
        return F.cross_entropy(model(x), wanted)

    return distillation


def load_teacher(task: Task, num_classes: int, load_run: Callable[[Path], nn.Module]) -> nn.Module | None:
    """The teacher that a task names, frozen and in evaluation mode; None where there is none to load.

    Args:
        task: Its `teacher` is a run folder of ours, or "module:function"; its `teacher_weights` a state dict.
        num_classes: What the teacher must tell apart.
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
    outputs = [m.out_features for m in teacher.modules() if isinstance(m, nn.Linear)]
    if outputs and outputs[-1] != num_classes:
        raise ValueError(f"the teacher {task.teacher} tells {outputs[-1]} classes apart, the data have {num_classes}")
    return teacher.eval().requires_grad_(False)


def _from_function(name: str, weights: str | None) -> nn.Module:
    module_name, _, function_name = name.partition(":")
    try:
        build: Any = getattr(importlib.import_module(module_name), function_name)
    except (ImportError, AttributeError) as missing:
        raise ValueError(
            f"task.teacher {name!r} cannot be imported ({missing}); it is read as module:function"
        ) from None
    teacher = build()
    if not isinstance(teacher, nn.Module):
        raise ValueError(f"task.teacher {name!r} gave a {type(teacher).__name__}, not a network (nn.Module)")
    if weights is not None:
        teacher.load_state_dict(read_weights(Path(weights)))
    return teacher


def read_weights(path: Path) -> dict[str, Tensor]:
    """A state dict from .safetensors, or from a torch file read with weights_only (no pickle is run)."""
    if not path.is_file():
        raise FileNotFoundError(2, "No such file of weights", str(path))
    if path.suffix == ".safetensors":
        from safetensors.torch import load_file

        return load_file(path)
    return torch.load(path, weights_only=True, map_location="cpu")
