"""The training loop."""

from __future__ import annotations

import math
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from lightning_fabric import Fabric
from torch import Tensor, nn

from zerocross import compiler, methods
from zerocross.data.dataset import BatchStream, Dataset
from zerocross.data.order import derived_seed
from zerocross.optim import ff_ratio
from zerocross.train import checkpoint
from zerocross.train.build import Schedules, build_model, build_optimizer, build_schedules, should_compile, start_from
from zerocross.train.checkpoint import Position
from zerocross.train.config import Config, Stage
from zerocross.train.display import Display
from zerocross.train.evaluate import evaluate
from zerocross.train.record import Record
from zerocross.train.stop import Stop, Stopped
from zerocross.train.task import Loss, build_loss


class RunError(RuntimeError):
    """A run that cannot go on, for a reason that its user can understand."""


@dataclass
class Work:
    """What one stage trains with."""

    stage: Stage
    module: nn.Module  # the network itself
    model: Any  # the network as Fabric wraps it: device, precision, DDP, compiled code
    optimizer: Any
    schedules: Schedules
    train: BatchStream
    evaluation: BatchStream
    loss: Loss
    evaluated: Any  # how the network is called in evaluation
    updates_per_epoch: int


@dataclass(frozen=True)
class Fitted:
    """The end of a run: the network, its last evaluation (never the best), and the lines of metrics."""

    model: nn.Module
    scores: dict[str, float]
    record: Record


def fit(
    config: Config,
    dataset: Dataset,
    *,
    model: nn.Module | None = None,
    teacher: nn.Module | None = None,
    folder: Path | None = None,
    fabric: Fabric | None = None,
    show: bool = True,
    tensorboard: bool = False,
) -> Fitted:
    """Train as `config` says, evaluate after each epoch, and return the network of the last one.

    Args:
        config: All that decides the result.
        dataset: From zerocross.data.load or from_tensors.
        model: A network of your own in place of the one that config.model names (single-stage runs).
        teacher: For distillation.
        folder: Where metrics and checkpoints go. A checkpoint that is there is gone on from, to the bit.
        fabric: Devices, precision and processes; by default one device.
        show: Progress on the terminal.
        tensorboard: Event files beside the metrics.
    """
    fabric = fabric or make_fabric(config)
    fabric.launch()
    main = fabric.is_global_zero
    if model is not None and len(config.stages) > 1:
        raise ValueError("a model of your own goes with a single stage: later stages build theirs from config.model")
    state, damaged = checkpoint.newest(folder / "checkpoints") if folder is not None else (None, [])
    position = Position(**state["position"]) if state else Position()
    record = Record(folder if main else None, state["recorded"] if state else 0, tensorboard=tensorboard and main)
    display = Display(config, dataset, show=show and main)
    for line in damaged:
        display.say(f"{line}; going on from the one before it" if state else f"{line}; starting again")
    carried = state["model"] if state else None
    last = config.stages[-1]
    work = None
    with ExitStack() as closing:
        closing.callback(record.close)
        closing.callback(display.close)
        stop = closing.enter_context(Stop(fabric))
        while position.stage < len(config.stages):
            work = _prepare(config, dataset, position, fabric, model, carried, state, teacher)
            state = None
            display.stage(position, work.stage, work.updates_per_epoch)
            while position.epoch < work.stage.epochs:
                _train_epoch(config, work, position, record, display, fabric, folder, stop)
                scores = _evaluate(work, fabric)
                record.write("eval", update=position.updates, stage=position.stage, epoch=position.epoch, **scores)
                display.epoch(position, scores)
                position.next_epoch()
                if position.epoch < work.stage.epochs:
                    _save(folder, position, work, record, fabric)
            carried = {name: tensor.cpu() for name, tensor in work.module.state_dict().items()}
            position.next_stage()
            _save(folder, position, work, record, fabric)
        if work is None:  # all stages were done: only the weights are wanted
            module = model if model is not None else build_model(config, last, dataset)
            module.load_state_dict(carried or {})
        else:
            module = work.module
    return Fitted(module, record.of("eval")[-1], record)


def _train_epoch(
    config: Config,
    work: Work,
    position: Position,
    record: Record,
    display: Display,
    fabric: Fabric,
    folder: Path | None,
    stop: Stop,
) -> None:
    """The rest of the epoch at `position`: batches, updates, metrics, checkpoints."""
    on_step = methods.get(config.method).on_step
    total = work.stage.epochs * work.updates_per_epoch
    number = sum(stage.epochs for stage in config.stages[: position.stage]) + position.epoch
    clock, images = time.perf_counter(), 0
    work.model.train()
    for x, y in work.train.epoch(number, start=position.batch):
        if position.batch >= work.updates_per_epoch * config.accumulate:
            break  # a last update that would lack micro-batches
        if position.batch % config.accumulate == 0:
            work.schedules.apply(work.optimizer, position.step)
            if on_step is not None:
                on_step(work.module, position.step, total)
        position.batch += 1
        accumulating = position.batch % config.accumulate != 0
        with fabric.no_backward_sync(work.model, enabled=accumulating):
            loss = work.loss(work.model, x, y)
            fabric.backward(loss / config.accumulate)
        images += len(x) * fabric.world_size
        if accumulating:
            continue
        work.optimizer.step()
        work.optimizer.zero_grad()
        if position.step % config.log_every == 0:
            value = _finite(loss, position, folder)
            seconds = time.perf_counter() - clock
            record.write("train", **_metrics(position, value, work, images / seconds))
            display.update(position, value, record.lines[-1])
            clock, images = time.perf_counter(), 0
        position.step += 1
        position.updates += 1
        display.advance(position)
        if stop.requested(position):
            _finite(loss, position, folder)
            _save(folder, position, work, record, fabric)
            raise Stopped(stop.signal or 0, position)
        if position.step % config.checkpoint_every == 0:
            _finite(loss, position, folder)
            _save(folder, position, work, record, fabric)


def _metrics(position: Position, loss: float, work: Work, rate: float) -> dict[str, Any]:
    inner = getattr(work.optimizer, "optimizer", work.optimizer)
    binary = getattr(inner, "binary", None)
    line: dict[str, Any] = {
        "update": position.updates,
        "stage": position.stage,
        "epoch": position.epoch,
        "loss": loss,
        "lr": float(inner.param_groups[-1]["lr"]),
        "images_per_second": rate,
    }
    if binary is not None:
        line["alpha" if getattr(binary, "kind", "") == "theta" else "latent_lr"] = float(binary.param_groups[0]["lr"])
        line["ff_ratio"] = ff_ratio(inner)
        line["ff_ratio_by_layer"] = ff_ratio(inner, per="parameter")
    return line


def _finite(loss: Tensor, position: Position, folder: Path | None) -> float:
    value = float(loss.detach())
    if math.isfinite(value):
        return value
    kept = f" The last good checkpoint is kept in {folder / 'checkpoints'}." if folder is not None else ""
    raise RunError(
        f"the loss is {value} at update {position.updates}, epoch {position.epoch}: training has diverged.{kept} "
        "Lower the learning rate of the real parameters (--set real.lr=...), or train in --precision 32"
    )


def _prepare(
    config: Config,
    dataset: Dataset,
    position: Position,
    fabric: Fabric,
    own: nn.Module | None,
    carried: dict[str, Tensor] | None,
    state: dict[str, Any] | None,
    teacher: nn.Module | None,
) -> Work:
    """Build the stage at `position`, in the state of a checkpoint if there is one of it."""
    stage = config.stages[position.stage]
    resuming = state is not None and "optimizer" in state
    module = own if own is not None else build_model(config, stage, dataset)
    if carried is not None and resuming:
        module.load_state_dict(carried)
    elif carried is not None and stage.init_from == "previous":
        start_from(module, carried)
    images = len(dataset.input_size) == 3
    if images:
        module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    if config.sync_bn and fabric.world_size > 1:
        if fabric.device.type != "cuda":
            raise ValueError("--sync-bn needs CUDA: torch's SyncBatchNorm does not run on the CPU; leave it out")
        module = nn.SyncBatchNorm.convert_sync_batchnorm(module)
    shared = {
        "rank": fabric.global_rank, "world_size": fabric.world_size, "device": fabric.device, "channels_last": images,
    }  # fmt: skip
    train = dataset.train_batches(config.batch_size // config.accumulate, seed=config.seed, **shared)
    evaluation = dataset.eval_batches(config.batch_size // config.accumulate, **shared)
    updates = len(train) // config.accumulate
    if updates < 1:
        raise ValueError(f"batch_size {config.batch_size} is more than the {len(dataset.train)} samples to train on")
    optimizer = build_optimizer(module, config, stage)
    compiling = should_compile(config, module, dataset, updates * stage.epochs, fabric.device)
    wrapped = compiler.compiled(module, needs_cpp=fabric.device.type == "cpu") if compiling else module
    model, prepared = fabric.setup(wrapped, optimizer)
    torch.manual_seed(derived_seed(config.seed, position.stage, fabric.global_rank))
    if resuming and state is not None:
        optimizer.load_state_dict(state["optimizer"])  # after setup: the parameters are on their device now
        checkpoint.restore_random_states(state["random"][fabric.global_rank])
    if teacher is not None:
        teacher = teacher.to(fabric.device)
    return Work(
        stage, module, model, prepared, build_schedules(config, stage, updates), train, evaluation,
        build_loss(config.task, teacher), wrapped, updates,
    )  # fmt: skip


def _evaluate(work: Work, fabric: Fabric) -> dict[str, float]:
    """Of the bare network, since ranks may have different numbers of batches; all with rank 0's batch statistics."""
    if fabric.world_size > 1:
        for buffer in work.module.buffers():
            torch.distributed.broadcast(buffer, src=0)

    def forward(x: Tensor) -> Tensor:
        with fabric.autocast():
            return work.evaluated(x)

    def total(x: Tensor) -> Tensor:
        return fabric.all_reduce(x, reduce_op="sum")  # type: ignore[return-value]

    return evaluate(work.module, work.evaluation, forward=forward, total=total)


def _save(folder: Path | None, position: Position, work: Work, record: Record, fabric: Fabric) -> None:
    """A checkpoint of everything that decides what comes next; between stages, of the weights alone."""
    if folder is None:
        return
    states = [checkpoint.random_states()]
    if fabric.world_size > 1:
        gathered: list[Any] = [None] * fabric.world_size
        torch.distributed.all_gather_object(gathered, states[0])
        states = gathered
    if fabric.is_global_zero:
        state = {"model": work.module.state_dict(), "recorded": record.size, "random": states}
        if position.step > 0:
            state["optimizer"] = work.optimizer.state_dict()
        checkpoint.save(folder / "checkpoints", position, state)
    fabric.barrier()


def make_fabric(config: Config, devices: int | str = 1, accelerator: str = "auto") -> Fabric:
    """Lightning Fabric for a run: devices, precision, and DDP where there is more than one process."""
    precision: Any = {"32": "32-true", "bf16": "bf16-mixed"}[config.precision]
    many = not (isinstance(devices, int) and devices == 1)
    return Fabric(accelerator=accelerator, devices=devices, strategy="ddp" if many else "auto", precision=precision)
