"""Build the objects of a training stage from its config: network, optimizer, schedules, batches, loss."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from lightning_fabric import Fabric
from torch import Tensor, nn
from torch.optim import Optimizer

from zerocross import compiler, methods, models
from zerocross.checks import one_line
from zerocross.data.dataset import BatchStream, Dataset
from zerocross.data.order import derived_seed
from zerocross.nn import summary
from zerocross.optim import HybridOptimizer, Ramp, Schedule, set_field, set_value, split_params, unwrapped
from zerocross.train.checkpoint import restore_random_states, seed_random_states
from zerocross.train.config import Config, RealConfig, Stage
from zerocross.train.inputs import Inputs
from zerocross.train.task import Loss, build_loss, check_batch, check_fits, initial_weights

# Measured on a 2-core CPU: multiply-accumulates per second of eager training, the share of time that compiled code
# saves, and how long compilation takes. Used only by compile="auto", to decide whether compilation pays off.
_EAGER_MACS_PER_SECOND = 34e9
_SAVED_SHARE = 0.6
_COMPILE_SECONDS = 100.0


@dataclass(frozen=True)
class Schedules:
    """Alpha-decay and lr-decay: the schedules of the two optimizers' param groups.

    Args:
        binary: Schedule of the binary weights' `lr`.
        real: Schedule of the real parameters' `lr`.
        ramps: Param-group field of the binary weights' optimizer -> its ramp, over the same updates.
    """

    binary: Schedule
    real: Schedule
    ramps: Mapping[str, Ramp] = field(default_factory=dict)

    def apply(self, optimizer: Optimizer, step: int) -> None:
        """Set `lr` (alpha in a filter's groups) and every field that has a ramp, for update `step`."""
        if isinstance(optimizer, HybridOptimizer):
            set_field(optimizer.binary.param_groups, "lr", self.binary.factor(step))
            for name, ramp in self.ramps.items():
                set_value(optimizer.binary.param_groups, name, ramp.value(step, self.binary.total))
            set_field(optimizer.real.param_groups, "lr", self.real.factor(step))
        else:
            set_field(optimizer.param_groups, "lr", self.real.factor(step))


@dataclass(frozen=True)
class StageParts:
    """The parts of a stage: network, optimizer, schedules and batches.

    Attributes:
        stage: The config of the stage.
        network: The network itself, neither compiled nor wrapped.
        optimizer: The optimizer itself: schedules, flip ratios and hyperparameters are read and set here.
        schedules: Schedules of the optimizer's `lr`, over all updates of the stage.
        train: Training batches.
        evaluation: Evaluation batches.
        updates_per_epoch: Optimizer steps per epoch.
    """

    stage: Stage
    network: nn.Module
    optimizer: Optimizer
    schedules: Schedules
    train: BatchStream
    evaluation: BatchStream
    updates_per_epoch: int


@dataclass(frozen=True)
class StageSetup:
    """A stage, ready to train on the devices of a Fabric.

    Attributes:
        parts: The parts of the stage.
        compiled: The network for evaluation: compiled, if worthwhile, but not wrapped.
        fabric_model: The network as Fabric wraps it (device, precision, DDP).
        forward: What training calls: `fabric_model`, or `compiled` where the wrapper would change nothing.
        fabric_optimizer: The optimizer as Fabric wraps it: stepped, and saved to checkpoints.
        loss: The loss function of the task.
    """

    parts: StageParts
    compiled: Any
    fabric_model: Any
    forward: Any
    fabric_optimizer: Any
    loss: Loss


def build_stage(
    config: Config,
    index: int,
    dataset: Dataset,
    *,
    own: nn.Module | None = None,
    carried: Mapping[str, Tensor] | None = None,
    world_size: int = 1,
    rank: int = 0,
    device: str | torch.device = "cpu",
) -> StageParts:
    """Build network, optimizer, schedules and batches of stage `index`; raise a ValueError if they do not fit.

    Args:
        config: The run.
        index: Index of the stage.
        dataset: See fit().
        own: The user's network, in place of the one that the config names.
        carried: The weights at the end of the stage before, or of the run that this one starts from.
        world_size: Number of processes.
        rank: This process.
        device: Device of the batches.
    """
    stage = config.stages[index]
    network = own if own is not None else build_model(config, stage, dataset)
    if carried is not None and stage.init_from is not None:
        start_from(network, carried)
    check_batch(network, dataset, micro_batch(config) // world_size)
    images = len(dataset.input_size) == 3
    if images:
        network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    if config.sync_bn and world_size > 1:
        network = nn.SyncBatchNorm.convert_sync_batchnorm(network)
    options = {"rank": rank, "world_size": world_size, "device": device, "channels_last": images}
    train = dataset.train_batches(micro_batch(config), seed=config.seed, **options)
    evaluation = dataset.eval_batches(micro_batch(config), **options)
    optimizer = build_optimizer(network, config, stage)
    updates = len(train) // config.accumulate
    schedules = build_schedules(config, stage, updates)
    return StageParts(stage, network, optimizer, schedules, train, evaluation, updates)


def prepare(
    config: Config,
    index: int,
    dataset: Dataset,
    fabric: Fabric,
    *,
    own: nn.Module | None = None,
    teacher: nn.Module | None = None,
    carried: dict[str, Tensor] | None = None,
    state: dict[str, Any] | None = None,
) -> StageSetup:
    """Build stage `index` and set it up on the devices of `fabric`.

    Args:
        config: The run.
        index: Index of the stage.
        dataset: See fit().
        fabric: Devices, precision, processes.
        own: The user's network, in place of the one that the config names.
        teacher: For distillation.
        carried: The weights at the end of the stage before, or of the run that this one starts from.
        state: A checkpoint from within this stage, to resume from.
    """
    ranks: dict[str, Any] = {"world_size": fabric.world_size, "rank": fabric.global_rank, "device": fabric.device}
    parts = build_stage(config, index, dataset, own=own, carried=carried, **ranks)
    network, updates = parts.network, parts.updates_per_epoch * parts.stage.epochs
    if state is not None:
        network.load_state_dict(state["model"])  # after building the optimizer, which initialises weights
    compiling = should_compile(config, network, dataset, updates, fabric.device)
    compiled = compiler.compiled(network, needs_cpp=fabric.device.type == "cpu") if compiling else network
    fabric_model, fabric_optimizer = fabric.setup(compiled, parts.optimizer)
    optimizer = unwrapped(fabric_optimizer)
    if state is None:
        seed_random_states(derived_seed(config.seed, index, fabric.global_rank))
    else:
        optimizer.load_state_dict(state["optimizer"])  # after setup: the parameters are on their device now
        restore_random_states(state["random"][fabric.global_rank])
    loss = build_loss(config.task, teacher.eval().to(fabric.device) if teacher is not None else None)
    # Fabric's wrapper converts precisions and serves DDP: in one float32 process it only takes time.
    forward = compiled if fabric.world_size == 1 and config.precision == "32" else fabric_model
    return StageSetup(replace(parts, optimizer=optimizer), compiled, fabric_model, forward, fabric_optimizer, loss)


def check(config: Config, dataset: Dataset, processes: int) -> None:
    """Raise the errors of all stages now, before a run folder is created."""
    for index, stage in enumerate(config.stages):
        network, carried = build_model(config, stage, dataset), None
        if index == 0:
            check_fits(network, dataset, f"model {config.model.name}")
            carried = initial_weights(stage.init_from) if stage.init_from is not None else None
        build_stage(config, index, dataset, own=network, carried=carried, world_size=processes)


def micro_batch(config: Config) -> int:
    """Samples per forward pass, over all devices together."""
    return config.batch_size // config.accumulate


def build_model(config: Config, stage: Stage, dataset: Dataset | Inputs) -> nn.Module:
    """Create the network of a stage, initialised from the run's seed."""
    torch.manual_seed(config.seed)
    options = {**methods.get(config.method).model_options, **config.model.options}
    options.setdefault("classes", dataset.num_classes)
    return models.create(config.model.name, binarize=stage.binarize, **options)


def start_from(model: nn.Module, carried: Mapping[str, Tensor]) -> None:
    """Load the weights of the previous stage or run; only scales and binarizers may be missing or extra."""
    try:
        missing, unexpected = model.load_state_dict(dict(carried), strict=False)
    except RuntimeError as error:  # shapes differ: another width or number of classes
        raise ValueError(f"the initial weights do not match this network: {one_line(error)}") from None
    if missing := [name for name in missing if not _is_of_binarizer(name)]:
        raise ValueError(f"the initial weights lack {', '.join(missing[:5])}: they belong to another network")
    if unexpected := [name for name in unexpected if not _is_of_binarizer(name)]:
        raise ValueError(f"the initial weights contain {', '.join(unexpected[:5])}, which this network does not have")


def _is_of_binarizer(name: str) -> bool:
    return name.endswith(".scale") or ".binarizer." in name


def build_optimizer(model: nn.Module, config: Config, stage: Stage) -> Optimizer:
    """Build one optimizer for the network: the method's for binary weights, if any, plus that of the rest."""
    split = split_params(model)
    real_settings = config.real_of(stage)
    real = build_real(split.real, split.real_no_decay, real_settings, _lr_factors(model))
    if not split.binary:
        if stage.binarize == "both":
            raise ValueError(
                "the network has no binary weights to train: binarize it first (model, report = "
                "zerocross.binarize(model)), or train it as a real network with Stage(binarize='none')"
            )
        return real
    hyperparameters = methods.first_values(config.optimizer_of(stage))
    binary = methods.get(config.method).build(split.binary, hyperparameters, config.log_every)
    return HybridOptimizer(binary, real, model, ff_every=config.log_every)


def build_real(
    decayed: list[nn.Parameter],
    not_decayed: list[nn.Parameter],
    settings: RealConfig,
    lr_factors: Mapping[nn.Parameter, float] | None = None,
) -> Optimizer:
    """Build the optimizer of the real parameters; those with a learning rate of their own are never decayed."""
    factors = lr_factors or {}
    others = [param for param in not_decayed if param not in factors]
    groups = [
        {"params": decayed, "weight_decay": settings.weight_decay},
        {"params": others, "weight_decay": settings.weight_decay if settings.decay == "all" else 0.0},
    ]
    for factor in sorted(set(factors.values())):
        own = [param for param in not_decayed if factors.get(param) == factor]
        groups.append({"params": own, "weight_decay": 0.0, "lr": settings.lr * factor})
    groups = [group for group in groups if group["params"]]
    if not groups:
        raise ValueError("the network has no real parameters to train; a binary network needs batch norm or biases")
    if settings.name == "adam":
        return torch.optim.Adam(groups, lr=settings.lr, foreach=True)  # same bits; torch's default only on CUDA
    return torch.optim.SGD(groups, lr=settings.lr, momentum=settings.momentum)


def _lr_factors(model: nn.Module) -> dict[nn.Parameter, float]:
    """Parameters that learn at a share of the learning rate, as their modules say (`lr_factors`)."""
    return {
        getattr(module, name): factor
        for module in model.modules()
        for name, factor in getattr(module, "lr_factors", {}).items()
    }


def build_schedules(config: Config, stage: Stage, updates_per_epoch: int) -> Schedules:
    """Build the schedules over all updates of a stage."""
    total = stage.epochs * updates_per_epoch
    warmup = min(round(config.warmup_epochs * updates_per_epoch), total - 1)
    optimizer = config.optimizer_of(stage)
    binary = Schedule.parse(str(optimizer["schedule"]), total, warmup)
    real = Schedule.parse(config.real_of(stage).schedule, total, warmup)
    return Schedules(binary, real, methods.ramps(config.method, optimizer))


def should_compile(config: Config, model: nn.Module, dataset: Dataset, updates: int, device: torch.device) -> bool:
    """Return True to compile; "auto" compiles if there is a compiler and the planned updates make up for its cost."""
    if config.compile != "auto":
        return config.compile == "on"
    if device.type == "cuda":
        return updates >= 500
    if not compiler.available():
        return False
    total = summary(model, (1, *dataset.input_size)).total
    macs = 3 * config.batch_size * updates * ((total.binary_macs or 0) + (total.real_macs or 0))
    return macs / _EAGER_MACS_PER_SECOND * _SAVED_SHARE > 2 * _COMPILE_SECONDS
