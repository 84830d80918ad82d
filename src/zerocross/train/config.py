"""Run configs: frozen dataclasses that can be stored as JSON, compared, hashed and changed from the command line."""

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
"""Revision of the arithmetic all runs share (data, batches, loop, layers, evaluation); bump it when results change."""


@dataclass(frozen=True)
class Stage:
    """One stage of training; two-step training has two of them.

    Args:
        epochs: At least 1.
        binarize: The binary parts in this stage: "both" weights and activations, "activations" only, or "none".
        init_from: None: train from scratch. "previous": start from the final weights of the previous stage. In the
            first stage, the folder of a finished run, "RUN" or "RUN#DIGEST" (see trained_run): start from its weights.
        optimizer: Hyperparameters of the method that differ in this stage, such as warm_start.
        real: Settings of the real parameters' optimizer that differ in this stage.

    Examples:
        >>> from zerocross import train
        >>> first, second = train.Stage(5, "activations"), train.Stage(5, "both", init_from="previous")
        >>> len(train.Config(stages=(first, second)).stages)
        2
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
    """The dataset: a name for zerocross.data.load, and its options.

    With `validate=True` part of the training data is held out for evaluation and the test data are not read: use it to
    choose settings.

    Examples:
        >>> from zerocross import train
        >>> train.Config(data=train.DataConfig("digits", validate=True)).data.validate
        True
    """

    name: str = "digits"
    validate: bool = False
    options: Mapping[str, Value] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check_types(self, "data.")


@dataclass(frozen=True)
class ModelConfig:
    """The network: a name for zerocross.models.create, and its options.

    Examples:
        >>> from zerocross import train
        >>> train.Config(model=train.ModelConfig("birealnet20", {"surrogate": "clip"})).model.name
        'birealnet20'
    """

    name: str = "digits_net"
    options: Mapping[str, Value] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check_types(self, "model.")


@dataclass(frozen=True)
class TaskConfig:
    """The training objective.

    Args:
        name: "classification" (cross-entropy), or "distillation" (soft cross-entropy to a teacher's logits).
        label_smoothing: For the classification loss, in [0, 1).
        teacher: For distillation: a run folder, or "module:function" that builds a network.
        teacher_weights: For "module:function": a state dict (.safetensors, or .pt read with weights_only).

    Examples:
        >>> from zerocross import train
        >>> train.TaskConfig(label_smoothing=0.1).name
        'classification'
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
    """The optimizer of the real parameters (stem, batch norm, last layer).

    Args:
        name: "sgd" or "adam".
        lr: > 0.
        momentum: For SGD, in [0, 1).
        weight_decay: 0 or positive.
        schedule: Schedule of lr, as `Schedule.parse` reads it: "cosine", "linear:0.1", "step:0.5,0.75".
        decay: Which parameters weight_decay applies to: "matrices" (and kernels), or "all" (also biases, batch norm).

    Examples:
        >>> from zerocross import train
        >>> train.RealConfig(name="adam", lr=1e-3, schedule="linear").momentum
        0.9
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
                "positive, in [0, 1), and non-negative"
            )


@dataclass(frozen=True)
class Config:
    """Everything that determines the result of a run, and nothing else (no paths, no device type).

    Args:
        recipe: The name that tables show.
        data: See DataConfig.
        model: See ModelConfig.
        task: See TaskConfig.
        method: A name in zerocross.methods.
        optimizer: The method's hyperparameters; missing ones get their defaults.
        real: See RealConfig.
        stages: See Stage.
        batch_size: Samples per update, over all devices together.
        accumulate: Micro-batches per update; batch_size is divided among them.
        warmup_epochs: Linear warm-up of alpha and lr at the start of each stage.
        seed: Seed of initial weights, sample order and augmentation.
        precision: "32", "bf16" (autocast; parameters and filter state stay float32), or "auto": bf16 if the device
            supports it natively. A run resolves "auto" when it starts, and stores the precision it used.
        compile: "auto" (on if a compiler is available and the planned steps make up for its cost), "on" or "off".
        log_every: Updates between two lines of metrics; flips are counted on these updates.
        checkpoint_every: Updates between two checkpoints; one is also written at the end of every epoch.
        evaluate_every: Epochs between two evaluations; the last epoch of a stage is always evaluated.
        sync_bn: Compute batch statistics over all devices (CUDA only).
        processes: Number of processes, one device each; batch statistics and the order of batches depend on it.

    Examples:
        >>> from zerocross import train
        >>> config = train.Config(optimizer={"alpha": 1e-2}, stages=(train.Stage(epochs=5),))
        >>> config.method, config.optimizer["gamma"], len(config.hash)
        ('filter', 0.1, 16)
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
    evaluate_every: int = 1
    sync_bn: bool = False
    processes: int = 1

    def __post_init__(self) -> None:
        _check_types(self, "")
        object.__setattr__(self, "method", methods.current_name(self.method))
        object.__setattr__(self, "optimizer", methods.hyperparameters(self.method, self.optimizer))
        for name in ("batch_size", "accumulate", "log_every", "checkpoint_every", "evaluate_every", "processes"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at least 1")
        if self.batch_size % self.accumulate:
            raise ValueError(f"batch_size {self.batch_size} is not divisible by accumulate = {self.accumulate}")
        if self.seed < 0 or not self.warmup_epochs >= 0:
            raise ValueError(f"seed and warmup_epochs are {self.seed}, {self.warmup_epochs}; neither may be negative")
        if not self.stages or self.stages[0].init_from == "previous":
            raise ValueError("stages: at least one is needed, and the first one cannot have init_from = 'previous'")
        if invalid := [stage.init_from for stage in self.stages[1:] if stage.init_from not in {None, "previous"}]:
            raise ValueError(f"init_from is {invalid[0]!r}; after the first stage it must be 'previous' or none")
        if self.warmup_epochs >= (shortest := min(stage.epochs for stage in self.stages)):
            raise ValueError(
                f"warmup_epochs is {self.warmup_epochs:g}; it must be less than the shortest stage, {shortest} epochs"
            )
        for stage in self.stages:
            _check_schedule("optimizer.schedule", str(self.optimizer_of(stage)["schedule"]))
            self.real_of(stage)

    def optimizer_of(self, stage: Stage) -> dict[str, Value]:
        """Return the method's hyperparameters in a stage."""
        return methods.hyperparameters(self.method, {**self.optimizer, **stage.optimizer})

    def real_of(self, stage: Stage) -> RealConfig:
        """Return the settings of the real parameters' optimizer in a stage."""
        return build_part(RealConfig, {**dataclasses.asdict(self.real), **stage.real}, "real.")

    @property
    def revision(self) -> dict[str, int]:
        """The revisions of the code that would compute this run: of the engine and of the method."""
        return {"engine": ENGINE_REVISION, "method": methods.get(self.method).revision}

    @property
    def hash(self) -> str:
        """Sixteen hex digits that identify the result: the name of its file in results/runs/.

        The hash covers the network's options with defaults filled in and the revision of the arithmetic, so that a
        result computed differently is never found under the same name.
        """
        if self.precision == "auto":
            raise ValueError(
                "precision is 'auto', which differs between machines: resolve it first with "
                "zerocross.train.precision.settled(config), or set 32 or bf16"
            )
        idle = {"recipe", "checkpoint_every", "evaluate_every"}
        decides = {k: v for k, v in to_dict(resolved(self)).items() if k not in idle}
        decides["revision"] = self.revision
        for stage in decides["stages"]:  # trained weights are identified by their digest, not by their path
            stage["init_from"] = stage["init_from"] and stage["init_from"].rpartition("#")[2]
        return hashlib.sha256(json.dumps(decides, sort_keys=True).encode()).hexdigest()[:16]


def to_dict(config: Config) -> dict[str, Any]:
    """Convert a config to plain containers, ready for JSON.

    Examples:
        >>> from zerocross import train
        >>> train.to_dict(train.Config())["method"]
        'filter'
    """
    return json.loads(json.dumps(dataclasses.asdict(config)))


def from_dict(values: Mapping[str, Any]) -> Config:
    """Create a config from the output of `to_dict`; raise ValueError on unknown keys.

    Examples:
        >>> from zerocross import train
        >>> config = train.Config(seed=3)
        >>> train.from_dict(train.to_dict(config)) == config
        True
    """
    values = dict(values)
    for name, part in (("data", DataConfig), ("model", ModelConfig), ("task", TaskConfig), ("real", RealConfig)):
        if name in values:
            values[name] = build_part(part, values[name], f"{name}.")
    if "stages" in values:
        values["stages"] = tuple(build_part(Stage, stage, "stages.") for stage in values["stages"])
    return build_part(Config, values, "")


def resolved(config: Config) -> Config:
    """Return the config with every option of its network set explicitly, so that later defaults do not change it.

    `classes`, which depends on the data, and `binarize`, which depends on the stage, are left out.
    """
    return dataclasses.replace(
        config, model=dataclasses.replace(config.model, options={**default_options(config), **config.model.options})
    )


def network_defaults(name: str) -> dict[str, Value]:
    """Return the options of a network with their defaults, except those that depend on the data and the stage."""
    if name not in models.names():
        return {}  # building the network raises the error, which lists the valid names
    return {k: v for k, v in models.options(name).items() if k not in {"classes", "binarize"}}


def default_options(config: Config) -> dict[str, Value]:
    """Return the network's options before the config's own: the model's defaults, overridden by the method's."""
    defaults = network_defaults(config.model.name)
    overrides = methods.get(config.method).model_options
    return {**defaults, **{k: v for k, v in overrides.items() if k in defaults}}


def build_part(kind: Any, values: Mapping[str, Any], where: str) -> Any:
    """Create a dataclass from a dict; raise ValueError on unknown keys."""
    known = [f.name for f in dataclasses.fields(kind)]
    if unknown := [name for name in values if name not in known]:
        raise ValueError(unknown_field(where + unknown[0], unknown[0], known))
    return kind(**values)


def unknown_field(path: str, name: str, known: list[str]) -> str:
    """Return the error message for a field that does not exist."""
    return f"{path}: unknown field {name!r}; known fields: {', '.join(known) or 'none'}{did_you_mean(name, known)}"


_WORDS = {float: "a number", int: "a whole number", bool: "true or false", str: "text", NoneType: "none"}


def _check_schedule(name: str, text: str) -> None:
    try:
        Schedule.parse(text, total=1)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def _check_types(part: Any, where: str) -> None:
    """Check the type of every field and the value of every choice; convert integers to float where needed."""
    for name, hint in get_type_hints(type(part)).items():
        value = getattr(part, name)
        if not _fits(value, hint):
            kinds = get_args(hint) if get_origin(hint) is not Literal and NoneType in get_args(hint) else (hint,)
            wanted = " or ".join(_WORDS.get(kind) or ", ".join(map(repr, get_args(kind))) for kind in kinds)
            raise ValueError(f"{where}{name} is {value!r}; it must be {wanted}")
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
