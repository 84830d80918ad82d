"""What a run is: small frozen values that can be written down, compared, hashed and changed from the command line."""

from __future__ import annotations

import dataclasses
import difflib
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from zerocross import methods
from zerocross.methods import Value

Binarize = Literal["both", "activations", "none"]


@dataclass(frozen=True)
class Stage:
    """One stage of training; two-step training is two of them.

    Args:
        epochs: At least 1.
        binarize: What is binary in this stage: "both" weights and activations, "activations" only, or "none".
        init_from: None: from scratch. "previous": from the weights at the end of the stage before.
        optimizer: Hyperparameters of the method that differ in this stage (warm_start, for one).
        real: Settings of the real parameters' optimizer that differ in this stage.
    """

    epochs: int = 30
    binarize: Binarize = "both"
    init_from: Literal["previous"] | None = None
    optimizer: Mapping[str, Value] = field(default_factory=dict)
    real: Mapping[str, Value] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.epochs < 1:
            raise ValueError(f"epochs is {self.epochs}; a stage needs at least 1")
        if self.binarize not in get_args(Binarize):
            raise ValueError(f"binarize is {self.binarize!r}; it can be {', '.join(get_args(Binarize))}")
        if self.init_from not in (None, "previous"):
            raise ValueError(f"init_from is {self.init_from!r}; it can be None or 'previous'")


@dataclass(frozen=True)
class Data:
    """Which data: a name for zerocross.data.load, its options, and whether settings are being searched.

    With `validate` a part of the training data is held out and evaluated on, and the test data stay unread.
    """

    name: str = "digits"
    validate: bool = False
    options: Mapping[str, Value] = field(default_factory=dict)


@dataclass(frozen=True)
class Model:
    """Which network: a name for zerocross.models.create, and its options."""

    name: str = "digits_net"
    options: Mapping[str, Value] = field(default_factory=dict)


@dataclass(frozen=True)
class Task:
    """What is minimised.

    Args:
        name: "classification" (cross-entropy), or "distillation" (soft cross-entropy to a teacher's logits).
        label_smoothing: Of the classification loss, in [0, 1).
        teacher: For distillation: a run folder of ours, or "module:function" that builds a network.
        teacher_weights: For "module:function": a state dict (.safetensors, or .pt read with weights_only).
    """

    name: Literal["classification", "distillation"] = "classification"
    label_smoothing: float = 0.0
    teacher: str | None = None
    teacher_weights: str | None = None


@dataclass(frozen=True)
class Real:
    """How the real parameters (stem, batch norm, last layer) are trained.

    weight_decay acts on matrices and kernels only, never on vectors (biases, batch norm).
    """

    name: Literal["sgd", "adam"] = "sgd"
    lr: float = 0.1
    momentum: float = 0.9
    weight_decay: float = 1e-4
    schedule: str = "cosine"

    def __post_init__(self) -> None:
        if self.name not in ("sgd", "adam"):
            raise ValueError(f"real.name is {self.name!r}; it can be 'sgd' or 'adam'")
        if not self.lr > 0 or not 0 <= self.momentum < 1 or not self.weight_decay >= 0:
            raise ValueError(
                f"real.lr, momentum, weight_decay are {self.lr}, {self.momentum}, {self.weight_decay}; they must be "
                "positive, in [0, 1), and 0 or positive"
            )


@dataclass(frozen=True)
class Config:
    """All that decides the result of a run, and nothing else (no paths, no device count).

    Args:
        recipe: The name under which it is listed.
        data: See Data.
        model: See Model.
        task: See Task.
        method: A name in zerocross.methods.
        optimizer: The method's hyperparameters; missing ones are filled in with its defaults.
        real: See Real.
        stages: See Stage.
        batch_size: Samples per update, over all devices together.
        accumulate: Micro-batches per update; they share batch_size.
        warmup_epochs: Linear rise of alpha and lr at the start of each stage.
        seed: Start, order and augmentation.
        precision: "32" or "bf16" (autocast; parameters and filter state stay float32).
        compile: "auto" (on where a compiler is present and the planned steps repay it), "on" or "off".
        log_every: Updates between two lines of metrics; flips are counted on these updates.
        checkpoint_every: Updates between two checkpoints; one is written at the end of every epoch, too.
        sync_bn: Batch statistics over all devices (CUDA only).
    """

    recipe: str = "custom"
    data: Data = field(default_factory=Data)
    model: Model = field(default_factory=Model)
    task: Task = field(default_factory=Task)
    method: str = "filter"
    optimizer: Mapping[str, Value] = field(default_factory=dict)
    real: Real = field(default_factory=Real)
    stages: tuple[Stage, ...] = (Stage(),)
    batch_size: int = 64
    accumulate: int = 1
    warmup_epochs: float = 0.0
    seed: int = 0
    precision: Literal["32", "bf16"] = "32"
    compile: Literal["auto", "on", "off"] = "auto"
    log_every: int = 10
    checkpoint_every: int = 500
    sync_bn: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "optimizer", methods.hyperparameters(self.method, self.optimizer))
        for name, lowest in (("batch_size", 1), ("accumulate", 1), ("log_every", 1), ("checkpoint_every", 1)):
            if getattr(self, name) < lowest:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at least {lowest}")
        if self.batch_size % self.accumulate:
            raise ValueError(f"batch_size {self.batch_size} does not divide into accumulate = {self.accumulate} parts")
        if not 0 <= self.task.label_smoothing < 1:
            raise ValueError(f"task.label_smoothing is {self.task.label_smoothing}; it must lie in [0, 1)")
        if self.seed < 0 or self.warmup_epochs < 0:
            raise ValueError(f"seed and warmup_epochs are {self.seed}, {self.warmup_epochs}; neither may be negative")
        if not self.stages or self.stages[0].init_from is not None:
            raise ValueError("stages: there must be at least one, and the first has no previous one to start from")
        for name, allowed in (("precision", ("32", "bf16")), ("compile", ("auto", "on", "off"))):
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name} is {getattr(self, name)!r}; it can be {', '.join(allowed)}")
        for stage in self.stages:
            methods.hyperparameters(self.method, stage.optimizer)
            self.real_of(stage)

    def optimizer_of(self, stage: Stage) -> dict[str, Value]:
        """The method's hyperparameters in a stage."""
        return methods.hyperparameters(self.method, {**self.optimizer, **stage.optimizer})

    def real_of(self, stage: Stage) -> Real:
        """The real parameters' settings in a stage."""
        return _build(Real, {**dataclasses.asdict(self.real), **stage.real}, "real")

    @property
    def hash(self) -> str:
        """Sixteen hex digits of what decides the result: the name of its file in results/runs/."""
        decides = {k: v for k, v in to_dict(self).items() if k not in {"recipe", "checkpoint_every"}}
        return hashlib.sha256(json.dumps(decides, sort_keys=True).encode()).hexdigest()[:16]


def to_dict(config: Config) -> dict[str, Any]:
    """Plain containers, fit for JSON."""
    return json.loads(json.dumps(dataclasses.asdict(config)))


def from_dict(values: Mapping[str, Any]) -> Config:
    """The Config of such a dict; unknown keys are refused."""
    values = dict(values)
    for name, part in (("data", Data), ("model", Model), ("task", Task), ("real", Real)):
        if name in values:
            values[name] = _build(part, values[name], name)
    if "stages" in values:
        values["stages"] = tuple(_build(Stage, stage, "stages") for stage in values["stages"])
    return _build(Config, values, "")


def with_method(config: Config, name: str) -> Config:
    """The same run by another method, at that method's own hyperparameters."""
    stages = tuple(dataclasses.replace(stage, optimizer={}) for stage in config.stages)
    return dataclasses.replace(config, method=name, optimizer={}, stages=stages)


def _build(kind: Any, values: Mapping[str, Any], where: str) -> Any:
    known = {f.name for f in dataclasses.fields(kind)}
    if unknown := sorted(set(values) - known):
        raise ValueError(unknown_field(f"{where}.{unknown[0]}".lstrip("."), unknown[0], known))
    return kind(**values)


def unknown_field(path: str, name: str, known: set[str]) -> str:
    """What to say about a field that does not exist."""
    near = difflib.get_close_matches(name, known, 1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return f"{path}: there is no {name!r}; {hint}There are: {', '.join(sorted(known))}"
