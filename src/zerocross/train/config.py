"""What a run is: small frozen values that can be written down, compared, hashed and changed from the command line."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from zerocross import methods, models
from zerocross.checks import did_you_mean
from zerocross.methods import Value
from zerocross.optim.schedule import Schedule

Binarize = Literal["both", "activations", "none"]

ENGINE_REVISION = 1
"""Of all arithmetic that runs share: data, batches, loop, layers, evaluation. Raised when a change alters results."""


@dataclass(frozen=True)
class Stage:
    """One stage of training; two-step training is two of them.

    Args:
        epochs: At least 1.
        binarize: What is binary in this stage: "both" weights and activations, "activations" only, or "none".
        init_from: None: from scratch. "previous": from the weights at the end of the stage before. In the first stage:
            the folder of a finished run, "RUN" or "RUN#DIGEST" (see trained_run), for its final weights.
        optimizer: Hyperparameters of the method that differ in this stage (warm_start, for one).
        real: Settings of the real parameters' optimizer that differ in this stage.
    """

    epochs: int = 30
    binarize: Binarize = "both"
    init_from: str | None = None
    optimizer: Mapping[str, Value] = field(default_factory=dict)
    real: Mapping[str, Value] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check_types(self, "stage.")
        if self.epochs < 1:
            raise ValueError(f"epochs is {self.epochs}; a stage needs at least 1")


@dataclass(frozen=True)
class DataConfig:
    """Which data: a name for zerocross.data.load, its options, and whether settings are being searched.

    With `validate` a part of the training data is held out and evaluated on, and the test data stay unread.
    """

    name: str = "digits"
    validate: bool = False
    options: Mapping[str, Value] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check_types(self, "data.")


@dataclass(frozen=True)
class ModelConfig:
    """Which network: a name for zerocross.models.create, and its options."""

    name: str = "digits_net"
    options: Mapping[str, Value] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check_types(self, "model.")


@dataclass(frozen=True)
class TaskConfig:
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

    def __post_init__(self) -> None:
        _check_types(self, "task.")
        if not 0 <= self.label_smoothing < 1:
            raise ValueError(f"task.label_smoothing is {self.label_smoothing}; it must lie in [0, 1)")


@dataclass(frozen=True)
class RealConfig:
    """How the real parameters (stem, batch norm, last layer) are trained.

    Args:
        name: "sgd" or "adam".
        lr: > 0.
        momentum: Of SGD, in [0, 1).
        weight_decay: 0 or positive.
        schedule: Of lr, as `Schedule.parse` reads it: "cosine", "linear:0.1", "step:0.5,0.75".
        decay: What weight_decay acts on: "matrices" and kernels only, or "all" (biases and batch norm, too).
    """

    name: Literal["sgd", "adam"] = "sgd"
    lr: float = 0.1
    momentum: float = 0.9
    weight_decay: float = 1e-4
    schedule: str = "cosine"
    decay: Literal["matrices", "all"] = "matrices"

    def __post_init__(self) -> None:
        _check_types(self, "real.")
        _check_schedule("real.schedule", self.schedule)
        if not self.lr > 0 or not 0 <= self.momentum < 1 or not self.weight_decay >= 0:
            raise ValueError(
                f"real.lr, momentum, weight_decay are {self.lr}, {self.momentum}, {self.weight_decay}; they must be "
                "positive, in [0, 1), and 0 or positive"
            )


@dataclass(frozen=True)
class Config:
    """All that decides the result of a run, and nothing else (no paths, no kind of device).

    Args:
        recipe: The name under which it is listed.
        data: See DataConfig.
        model: See ModelConfig.
        task: See TaskConfig.
        method: A name in zerocross.methods.
        optimizer: The method's hyperparameters; missing ones are filled in with its defaults.
        real: See RealConfig.
        stages: See Stage.
        batch_size: Samples per update, over all devices together.
        accumulate: Micro-batches per update; they share batch_size.
        warmup_epochs: Linear rise of alpha and lr at the start of each stage.
        seed: Start, order and augmentation.
        precision: "32", "bf16" (autocast; parameters and filter state stay float32), or "auto": bf16 where the device
            computes in it. A run settles "auto" before it begins, and stores what it used.
        compile: "auto" (on where a compiler is present and the planned steps repay it), "on" or "off".
        log_every: Updates between two lines of metrics; flips are counted on these updates.
        checkpoint_every: Updates between two checkpoints; one is written at the end of every epoch, too.
        sync_bn: Batch statistics over all devices (CUDA only).
        processes: How many train together, one device each: batch statistics and the order of batches depend on it.
    """

    recipe: str = "custom"
    data: DataConfig = field(default_factory=DataConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    task: TaskConfig = field(default_factory=TaskConfig)
    method: str = "filter"
    optimizer: Mapping[str, Value] = field(default_factory=dict)
    real: RealConfig = field(default_factory=RealConfig)
    stages: tuple[Stage, ...] = field(default_factory=lambda: (Stage(),))
    batch_size: int = 64
    accumulate: int = 1
    warmup_epochs: float = 0.0
    seed: int = 0
    precision: Literal["auto", "32", "bf16"] = "32"
    compile: Literal["auto", "on", "off"] = "auto"
    log_every: int = 10
    checkpoint_every: int = 500
    sync_bn: bool = False
    processes: int = 1

    def __post_init__(self) -> None:
        _check_types(self, "")
        object.__setattr__(self, "method", methods.current_name(self.method))
        object.__setattr__(self, "optimizer", methods.hyperparameters(self.method, self.optimizer))
        for name in ("batch_size", "accumulate", "log_every", "checkpoint_every", "processes"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at least 1")
        if self.batch_size % self.accumulate:
            raise ValueError(f"batch_size {self.batch_size} does not divide into accumulate = {self.accumulate} parts")
        if self.seed < 0 or not self.warmup_epochs >= 0:
            raise ValueError(f"seed and warmup_epochs are {self.seed}, {self.warmup_epochs}; neither may be negative")
        if not self.stages or self.stages[0].init_from == "previous":
            raise ValueError("stages: there must be at least one, and the first has no previous one to start from")
        if invalid := [stage.init_from for stage in self.stages[1:] if stage.init_from not in {None, "previous"}]:
            raise ValueError(f"init_from is {invalid[0]!r}; after the first stage it can be 'previous' or none")
        if self.warmup_epochs >= (shortest := min(stage.epochs for stage in self.stages)):
            raise ValueError(
                f"warmup_epochs is {self.warmup_epochs:g}; it must lie below the epochs of every stage, here {shortest}"
            )
        for stage in self.stages:
            _check_schedule("optimizer.schedule", str(self.optimizer_of(stage)["schedule"]))
            self.real_of(stage)

    def optimizer_of(self, stage: Stage) -> dict[str, Value]:
        """The method's hyperparameters in a stage."""
        return methods.hyperparameters(self.method, {**self.optimizer, **stage.optimizer})

    def real_of(self, stage: Stage) -> RealConfig:
        """The real parameters' settings in a stage."""
        return build_part(RealConfig, {**dataclasses.asdict(self.real), **stage.real}, "real.")

    @property
    def revision(self) -> dict[str, int]:
        """The revision of the arithmetic that this run would be computed with, by what it belongs to."""
        return {"engine": ENGINE_REVISION, "method": methods.get(self.method).revision}

    @property
    def hash(self) -> str:
        """Sixteen hex digits of what decides the result: the name of its file in results/runs/.

        Options of the network count with their defaults resolved, and the arithmetic by its revision: a result that
        was computed otherwise is never found under this name.
        """
        if self.precision == "auto":
            raise ValueError(
                "precision is 'auto', which is another one on another machine: settle it first, with "
                "zerocross.train.precision.settled(config), or set 32 or bf16"
            )
        decides = {k: v for k, v in to_dict(resolved(self)).items() if k not in {"recipe", "checkpoint_every"}}
        decides["revision"] = self.revision
        for stage in decides["stages"]:  # trained weights count by their digest, wherever they are
            stage["init_from"] = stage["init_from"] and stage["init_from"].rpartition("#")[2]
        return hashlib.sha256(json.dumps(decides, sort_keys=True).encode()).hexdigest()[:16]


def to_dict(config: Config) -> dict[str, Any]:
    """Plain containers, fit for JSON."""
    return json.loads(json.dumps(dataclasses.asdict(config)))


def from_dict(values: Mapping[str, Any]) -> Config:
    """The Config of such a dict; unknown keys are refused."""
    values = dict(values)
    for name, part in (("data", DataConfig), ("model", ModelConfig), ("task", TaskConfig), ("real", RealConfig)):
        if name in values:
            values[name] = build_part(part, values[name], f"{name}.")
    if "stages" in values:
        values["stages"] = tuple(build_part(Stage, stage, "stages.") for stage in values["stages"])
    return build_part(Config, values, "")


def resolved(config: Config) -> Config:
    """The same run with every option of its network written out, so that a later default cannot change its meaning.

    What the data decide (`classes`) and what the stages decide (`binarize`) are left to them.
    """
    return dataclasses.replace(
        config, model=dataclasses.replace(config.model, options={**default_options(config), **config.model.options})
    )


def network_defaults(name: str) -> dict[str, Value]:
    """The options of a network with their defaults, without those that data and stages decide."""
    if name not in models.names():
        return {}  # refused where the network is built, with the names that there are
    return {k: v for k, v in models.options(name).items() if k not in {"classes", "binarize"}}


def default_options(config: Config) -> dict[str, Value]:
    """The network's options where the config sets none: the model's defaults, then the method's."""
    defaults = network_defaults(config.model.name)
    own = methods.get(config.method).model_options
    return {**defaults, **{k: v for k, v in own.items() if k in defaults}}


def build_part(kind: Any, values: Mapping[str, Any], where: str) -> Any:
    """A dataclass from a dict; unknown keys are refused."""
    known = [f.name for f in dataclasses.fields(kind)]
    if unknown := [name for name in values if name not in known]:
        raise ValueError(unknown_field(where + unknown[0], unknown[0], known))
    return kind(**values)


def unknown_field(path: str, name: str, known: list[str]) -> str:
    """What to say about a field that does not exist."""
    return f"{path}: there is no {name!r}; there are {', '.join(known) or 'none'}{did_you_mean(name, known)}"


_WORDS = {float: "a number", int: "a whole number", bool: "true or false", str: "text", NoneType: "none"}


def _check_schedule(name: str, text: str) -> None:
    try:
        Schedule.parse(text, total=1)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def _check_types(part: Any, where: str) -> None:
    """Refuse a field of the wrong type, or a choice that does not exist; a whole number becomes a float where due."""
    for name, hint in get_type_hints(type(part)).items():
        value = getattr(part, name)
        if not _fits(value, hint):
            kinds = get_args(hint) if get_origin(hint) is not Literal and NoneType in get_args(hint) else (hint,)
            wanted = " or ".join(_WORDS.get(kind) or ", ".join(map(repr, get_args(kind))) for kind in kinds)
            raise ValueError(f"{where}{name} is {value!r}; it can be {wanted}")
        if hint is float:
            object.__setattr__(part, name, float(value))


def _fits(value: Any, hint: Any) -> bool:
    if get_origin(hint) is Literal:
        return value in get_args(hint)
    if NoneType in get_args(hint):
        return any(_fits(value, kind) for kind in get_args(hint))
    if hint in (int, float):
        return isinstance(value, (int, hint)) and not isinstance(value, bool)
    return isinstance(value, get_origin(hint) or hint)
