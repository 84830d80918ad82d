"""What a run is: small frozen values that can be written down, compared, hashed and changed from the command line."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from zerocross import methods
from zerocross.methods import Value
from zerocross.nn.checks import did_you_mean
from zerocross.optim.schedule import Schedule, Shape

Binarize = Literal["both", "activations", "none"]


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
class Data:
    """Which data: a name for zerocross.data.load, its options, and whether settings are being searched.

    With `validate` a part of the training data is held out and evaluated on, and the test data stay unread.
    """

    name: str = "digits"
    validate: bool = False
    options: Mapping[str, Value] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check_types(self, "data.")


@dataclass(frozen=True)
class Model:
    """Which network: a name for zerocross.models.create, and its options."""

    name: str = "digits_net"
    options: Mapping[str, Value] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check_types(self, "model.")


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

    def __post_init__(self) -> None:
        _check_types(self, "task.")
        if not 0 <= self.label_smoothing < 1:
            raise ValueError(f"task.label_smoothing is {self.label_smoothing}; it must lie in [0, 1)")


@dataclass(frozen=True)
class Real:
    """How the real parameters (stem, batch norm, last layer) are trained.

    weight_decay acts on matrices and kernels only, never on vectors (biases, batch norm).
    """

    name: Literal["sgd", "adam"] = "sgd"
    lr: float = 0.1
    momentum: float = 0.9
    weight_decay: float = 1e-4
    schedule: Shape = "cosine"

    def __post_init__(self) -> None:
        _check_types(self, "real.")
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
    stages: tuple[Stage, ...] = field(default_factory=lambda: (Stage(),))
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
        _check_types(self, "")
        object.__setattr__(self, "optimizer", methods.hyperparameters(self.method, self.optimizer))
        for name in ("batch_size", "accumulate", "log_every", "checkpoint_every"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at least 1")
        if self.batch_size % self.accumulate:
            raise ValueError(f"batch_size {self.batch_size} does not divide into accumulate = {self.accumulate} parts")
        if self.seed < 0 or not self.warmup_epochs >= 0:
            raise ValueError(f"seed and warmup_epochs are {self.seed}, {self.warmup_epochs}; neither may be negative")
        if not self.stages or self.stages[0].init_from == "previous":
            raise ValueError("stages: there must be at least one, and the first has no previous one to start from")
        if wrong := [stage.init_from for stage in self.stages[1:] if stage.init_from not in {None, "previous"}]:
            raise ValueError(f"init_from is {wrong[0]!r}; after the first stage it can be 'previous' or none")
        if self.warmup_epochs >= (shortest := min(stage.epochs for stage in self.stages)):
            raise ValueError(
                f"warmup_epochs is {self.warmup_epochs:g}; it must lie below the epochs of every stage, here {shortest}"
            )
        for stage in self.stages:
            shape: Any = self.optimizer_of(stage)["schedule"]
            Schedule(shape, total=1)  # refuses a shape that does not exist
            self.real_of(stage)

    def optimizer_of(self, stage: Stage) -> dict[str, Value]:
        """The method's hyperparameters in a stage."""
        return methods.hyperparameters(self.method, {**self.optimizer, **stage.optimizer})

    def real_of(self, stage: Stage) -> Real:
        """The real parameters' settings in a stage."""
        return build_part(Real, {**dataclasses.asdict(self.real), **stage.real}, "real.")

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
            values[name] = build_part(part, values[name], f"{name}.")
    if "stages" in values:
        values["stages"] = tuple(build_part(Stage, stage, "stages.") for stage in values["stages"])
    return build_part(Config, values, "")


def with_epochs(config: Config, epochs: int) -> Config:
    """The same run over so many epochs in all; stages keep their shares."""
    total = sum(stage.epochs for stage in config.stages)
    shares = _shared_out(epochs, [stage.epochs / total for stage in config.stages])
    stages = (dataclasses.replace(stage, epochs=n) for stage, n in zip(config.stages, shares, strict=True))
    return dataclasses.replace(config, stages=tuple(stages))


def with_method(config: Config, name: str) -> Config:
    """The same run by another method: over as many epochs, at that method's own hyperparameters and stages.

    Settings of the real parameters that are a part of the method replace the run's. The run's own method keeps what the
    run says about it.
    """
    if name == config.method:
        return config
    method = methods.get(name)
    stages = tuple(dataclasses.replace(stage, optimizer={}) for stage in config.stages)
    if method.parts:
        stages = _stages_of(method.parts, sum(stage.epochs for stage in stages))
    real = build_part(Real, {**dataclasses.asdict(config.real), **method.real}, "real.")
    return dataclasses.replace(config, method=name, optimizer={}, real=real, stages=stages)


def two_step(config: Config) -> Config:
    """The same run in two stages: binary activations with real weights first, then both binary, from those weights.

    Half of the epochs each. The filter starts on its weights' side, or its first update would lose them.
    """
    return warm_started(in_two_stages(config))


def in_two_stages(config: Config) -> Config:
    """The stages of `two_step`, without a warm start yet: it follows from settings that may still change."""
    start = config.stages[0].init_from
    if len(config.stages) > 1:
        raise ValueError(f"this run has {len(config.stages)} stages already: two-step training divides one")
    parts = (methods.Part(0.5, "activations"), methods.Part(0.5, "both"))
    first, second = _stages_of(parts, sum(stage.epochs for stage in config.stages))
    first = dataclasses.replace(first, init_from=start)
    return dataclasses.replace(config, stages=(first, second))


def warm_started(config: Config) -> Config:
    """The same run, where each stage that starts from trained weights starts the filter on their side.

    warm_start = 3 sqrt(alpha / 2), at the stage's own alpha: what noise alone moves g by, three times (GradientFilter).
    It is derived last, when all other settings are known, and only where the run does not say it itself.
    """
    return dataclasses.replace(config, stages=tuple(_warm(config, stage) for stage in config.stages))


def _warm(config: Config, stage: Stage) -> Stage:
    values = config.optimizer_of(stage)
    if stage.init_from is None or stage.binarize != "both" or values.get("warm_start"):
        return stage
    if "warm_start" in values:
        warm = {"warm_start": 3 * math.sqrt(float(values["alpha"] or 0) / 2)}
        return dataclasses.replace(stage, optimizer={**warm, **stage.optimizer})
    if methods.get(config.method).kind == "theta":
        raise ValueError(
            f"method {config.method!r} starts from no weights: two-step training and --init-from are for latent "
            "weights, or the filter"
        )
    return stage


def _stages_of(parts: tuple[methods.Part, ...], epochs: int) -> tuple[Stage, ...]:
    counts = _shared_out(epochs, [part.share for part in parts])
    stages = []
    for part, count in zip(parts, counts, strict=True):
        binarize: Any = part.binarize
        stages.append(Stage(count, binarize, "previous" if stages else None, part.optimizer, part.real))
    return tuple(stages)


def _shared_out(epochs: int, shares: list[float]) -> list[int]:
    """Whole epochs by shares, at least one each; what is left over goes to the last stage."""
    if epochs < len(shares):
        raise ValueError(f"epochs is {epochs}; this run has {len(shares)} stages and needs at least one for each")
    counts = [max(1, int(epochs * share)) for share in shares[:-1]]
    counts.append(epochs - sum(counts))
    if counts[-1] < 1:
        raise ValueError(f"epochs is {epochs}; too few for stages of {', '.join(f'{share:.0%}' for share in shares)}")
    return counts


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
