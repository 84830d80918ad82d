"""The training loop."""

from __future__ import annotations

import dataclasses
import math
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from lightning_fabric import Fabric
from lightning_fabric.plugins.environments import LightningEnvironment, SLURMEnvironment, TorchElasticEnvironment
from lightning_fabric.utilities.exceptions import MisconfigurationException
from torch import Tensor, nn

from zerocross import methods
from zerocross.checks import check_choice
from zerocross.data.dataset import Dataset
from zerocross.memory import keep_freed_memory
from zerocross.nn import check as check_binary
from zerocross.nn import start_epoch, start_from_batch
from zerocross.optim import HybridOptimizer, NonFiniteError, ff_ratio
from zerocross.train import checkpoint
from zerocross.train.build import StageSetup, build_model, prepare
from zerocross.train.checkpoint import Position
from zerocross.train.config import Config
from zerocross.train.display import Display
from zerocross.train.evaluation import evaluate
from zerocross.train.folder import alone
from zerocross.train.inputs import inputs_of, write_inputs
from zerocross.train.loggers import MetricLogger
from zerocross.train.precision import settled
from zerocross.train.ranks import RunError, from_rank_zero, launch
from zerocross.train.record import Record
from zerocross.train.stop import Stop, Stopped
from zerocross.train.task import initial_weights


@dataclass
class Run:
    """The state that all stages of a run share, and its progress."""

    config: Config
    folder: Path | None
    fabric: Fabric
    position: Position
    record: Record
    display: Display
    stop: Stop
    data: str  # fingerprint; empty without a folder


@dataclass(frozen=True)
class Fitted:
    """Result of a run: the network, its last evaluation (never the best one), and the recorded metrics.

    Examples:
        >>> from zerocross import data, train
        >>> fitted = train.fit(train.Config(stages=(train.Stage(epochs=1),)), data.load("digits"), show=False)
        >>> sorted(fitted.scores), type(fitted.model).__name__
        (['count', 'epoch', 'kind', 'loss', 'stage', 'top1', 'top5', 'update'], 'BiRealNet')
    """

    model: nn.Module
    scores: dict[str, float]
    record: Record


def fit(
    config: Config,
    dataset: Dataset,
    *,
    model: nn.Module | None = None,
    teacher: nn.Module | None = None,
    folder: Path | str | None = None,
    fabric: Fabric | None = None,
    show: bool = True,
    tensorboard: bool = False,
    log: Sequence[str | MetricLogger] = (),
    on_epoch: Callable[[int, dict[str, float]], None] | None = None,
) -> Fitted:
    """Train a network according to `config`, evaluate it every epoch (or every few), and return it after the last one.

    Args:
        config: Everything that determines the result.
        dataset: From zerocross.data.load or from_tensors.
        model: Your own network, used instead of the one that config.model names (single-stage runs only). It is trained
            in place.
        teacher: The teacher network, for distillation.
        folder: Where to write metrics and checkpoints. Resumes bit-exactly from an existing checkpoint, which must
            belong to the same config and data. Only one process (or one group of ranks) may use it at a time.
        fabric: Devices, precision and processes; one device by default.
        show: Show progress on the terminal.
        tensorboard: The same as "tensorboard" in `log`.
        log: Where metrics go besides metrics.jsonl: "tensorboard", "wandb" or "mlflow", which write to the folder or as
            their own settings say, or any object with log(metrics, step) and close(). Rank 0 logs.
        on_epoch: Called after each evaluation with (epochs completed, scores); an exception it raises ends the run.

    Examples:
        >>> from zerocross import data, train
        >>> config = train.Config(stages=(train.Stage(epochs=2),), optimizer={"alpha": 1e-2})
        >>> fitted = train.fit(config, data.load("digits"), show=False)
        >>> fitted.scores["top1"] > 80
        True
    """
    if model is not None and config.stages[1:]:
        raise ValueError("model= works with a single stage only: further stages build their network from config.model")
    fabric = fabric or make_fabric(config)
    launch(fabric)
    config = settled(dataclasses.replace(config, processes=fabric.world_size), fabric.device.type)
    if fabric.device.type == "cpu":
        keep_freed_memory()
    main = fabric.is_global_zero
    folder = Path(folder) if folder is not None else None
    with ExitStack() as closing:
        display = Display(config, dataset, show=show and main)
        closing.callback(display.close)
        state, data = _reopen(config, dataset, folder, fabric, display, closing)
        position = Position(**state["position"]) if state else Position()
        chosen = (*(["tensorboard"] if tensorboard and "tensorboard" not in log else []), *log)
        record = Record(folder if main else None, state["record"] if state else None, log=chosen if main else ())
        closing.callback(record.close)
        record.lines = from_rank_zero(fabric, lambda: record.lines)
        run = Run(config, folder, fabric, position, record, display, closing.enter_context(Stop(fabric)), data)
        first = config.stages[0].init_from
        carried = state["model"] if state else from_rank_zero(fabric, lambda: initial_weights(first)) if first else None
        inside = state if state and "optimizer" in state else None  # from the middle of a stage
        network = None
        while position.stage < len(config.stages):
            setup = prepare(
                config, position.stage, dataset, fabric, own=model, teacher=teacher, carried=carried, state=inside
            )
            stage, network = setup.parts.stage, setup.parts.network
            if isinstance(setup.parts.optimizer, HybridOptimizer):
                setup.parts.optimizer.trained = stage.init_from is not None or _was_trained(model)
            display.stage(position, stage, setup.parts.updates_per_epoch)
            while position.epoch < stage.epochs:
                _train_epoch(run, setup)
                scores = None
                if (position.epoch + 1) % config.evaluate_every == 0 or position.epoch + 1 == stage.epochs:
                    scores = _evaluate(run, setup)
                    record.write("eval", update=position.updates, stage=position.stage, epoch=position.epoch, **scores)
                    display.epoch(position, scores)
                position.next_epoch()
                if on_epoch is not None and scores is not None:
                    on_epoch(sum(stage.epochs for stage in config.stages[: position.stage]) + position.epoch, scores)
                if position.epoch < stage.epochs:
                    _save(run, setup)
            position.next_stage()
            _save(run, setup)
            carried, inside = network.state_dict(), None
        if network is None:  # all stages were already complete: only load the weights
            network = model if model is not None else build_model(config, config.stages[-1], dataset)
            network.load_state_dict(carried or {})
    check_binary(network)
    return Fitted(network, record.of("eval")[-1], record)


def _reopen(
    config: Config, dataset: Dataset, folder: Path | None, fabric: Fabric, display: Display, closing: ExitStack
) -> tuple[dict[str, Any] | None, str]:
    """Lock the folder; return its newest checkpoint, read by rank 0 for all ranks, and the data's fingerprint."""
    if folder is None:
        return None, ""

    def read() -> tuple[bytes | None, list[tuple[str, Path]], str]:
        closing.enter_context(alone(folder))
        data, damaged = checkpoint.newest_bytes(folder / "checkpoints")
        return data, [(str(error), error.path) for error in damaged], dataset.fingerprint

    data, damaged, fingerprint = from_rank_zero(fabric, read)
    state = checkpoint.parse(data) if data is not None else None
    if state and state["config"] != config.hash:
        raise ValueError(
            f"{folder} contains checkpoints of a run with other settings, or of another revision of this package; "
            "choose another folder, or resume with the version that started it"
        )
    if state and state.get("data", fingerprint) != fingerprint:  # older checkpoints have no fingerprint
        raise ValueError(
            f"{folder} contains checkpoints of a run on other data (fingerprint {state['data']}, here {fingerprint}): "
            "use the data that it was started with, or choose another folder"
        )
    for line, path in damaged:
        after = "resuming from the previous one" if state else "starting from scratch"
        aside = f" (kept as {checkpoint.set_aside(path).name})" if fabric.is_global_zero else ""
        display.say(f"{line}{aside}; {after}")
    from_rank_zero(fabric, lambda: write_inputs(folder, inputs_of(dataset)))
    return state, fingerprint


def _train_epoch(run: Run, setup: StageSetup) -> None:
    """Train the rest of the current epoch: batches, updates, metrics, checkpoints."""
    config, position, fabric, parts = run.config, run.position, run.fabric, setup.parts
    on_step = methods.get(config.method).on_step
    total = parts.stage.epochs * parts.updates_per_epoch
    number = sum(stage.epochs for stage in config.stages[: position.stage]) + position.epoch
    clock, images = time.perf_counter(), 0
    loss: Tensor | float = 0.0
    setup.fabric_model.train()
    if position.batch == 0:
        start_epoch(parts.network)
    for x, y in parts.train.epoch(number, start=position.batch):
        if position.batch >= parts.updates_per_epoch * config.accumulate:
            break  # too few micro-batches left for another update
        if position.batch % config.accumulate == 0:
            if position.step == 0:
                start_from_batch(parts.network, x)
            loss = 0.0
            parts.schedules.apply(parts.optimizer, position.step)
            on_step(parts.network, position.step, total)
        position.batch += 1
        accumulating = position.batch % config.accumulate != 0
        with fabric.no_backward_sync(setup.fabric_model, enabled=accumulating):
            micro_loss = setup.loss(setup.forward, x, y) / config.accumulate
            fabric.backward(micro_loss)
        loss = loss + micro_loss.detach()
        images += len(x) * fabric.world_size
        if accumulating:
            continue
        _update(run, setup)
        if position.step % config.log_every == 0:
            value = _finite(run, loss)
            run.record.write("train", **_metrics(position, value, setup, images / (time.perf_counter() - clock)))
            run.display.update(position, value, run.record.lines[-1])
            clock, images = time.perf_counter(), 0
        position.step += 1
        position.updates += 1
        run.display.advance(position)
        stopping = run.stop.requested(position)
        if stopping or position.step % config.checkpoint_every == 0:
            _finite(run, loss)
            _save(run, setup)
        if stopping:
            raise Stopped(run.stop.signal or 0, position.updates, saved=parts.train.resumable)


def _update(run: Run, setup: StageSetup) -> None:
    try:
        setup.fabric_optimizer.step()
    except NonFiniteError as error:
        raise _diverged(
            run, str(error).partition(";")[0]
        ) from error  # the message names the parameter; no weight was changed
    setup.fabric_optimizer.zero_grad()


def _was_trained(model: nn.Module | None) -> bool:
    """Return True if the user's network has been trained before, according to the batches counted by its batch norm."""
    counts = [buffer for name, buffer in model.named_buffers() if name.endswith("num_batches_tracked")] if model else []
    return any(int(count) > 0 for count in counts)


def _metrics(position: Position, loss: float, setup: StageSetup, rate: float) -> dict[str, Any]:
    optimizer = setup.parts.optimizer
    binary = getattr(optimizer, "binary", None)
    line: dict[str, Any] = {
        "update": position.updates,
        "stage": position.stage,
        "epoch": position.epoch,
        "loss": loss,
        "lr": float(optimizer.param_groups[-1]["lr"]),
        "images_per_second": rate,
    }
    if binary is not None:
        theta = getattr(binary, "kind", "latent") == "theta"
        line[binary.lr_name if theta else "latent_lr"] = float(binary.param_groups[0]["lr"])
        line["ff_ratio"] = ff_ratio(optimizer)
        line["ff_ratio_by_layer"] = ff_ratio(optimizer, per="parameter")
    return line


def _finite(run: Run, loss: Any) -> float:
    """Return the loss averaged over all ranks; raise on every rank if it is not finite on one of them."""
    mean: Any = run.fabric.all_reduce(loss, reduce_op="mean")
    value = float(mean)
    if not math.isfinite(value):
        raise _diverged(run, f"the loss is {value}")
    return value


def _diverged(run: Run, what: str) -> RunError:
    hint = ""
    if run.folder is not None and (saved := checkpoint.paths(run.folder / "checkpoints")):
        hint = f" The last good checkpoint is {saved[-1]}."
    return RunError(
        f"training diverged at update {run.position.updates}, epoch {run.position.epoch + 1}: {what}.{hint} "
        "Lower the learning rate (--set real.lr=...), or use --precision 32"
    )


def _evaluate(run: Run, setup: StageSetup) -> dict[str, float]:
    """Evaluate the unwrapped network, since ranks may have different numbers of batches, with rank 0's buffers."""
    fabric = run.fabric
    if fabric.world_size > 1:
        for buffer in setup.parts.network.buffers():
            torch.distributed.broadcast(buffer, src=0)

    def forward(x: Tensor) -> Tensor:
        with fabric.autocast():
            return setup.compiled(x)

    def total(x: Tensor) -> Tensor:
        return fabric.all_reduce(x, reduce_op="sum")  # type: ignore[return-value]

    return evaluate(setup.parts.network, setup.parts.evaluation, forward=forward, total=total)


def _save(run: Run, setup: StageSetup) -> None:
    """Save a checkpoint of everything that training depends on; between stages, of the weights only."""
    if run.folder is None or (run.position.batch and not setup.parts.train.resumable):
        return
    if not all(param.isfinite().all() for param in setup.parts.network.parameters()):
        raise _diverged(run, "the weights are not finite")  # although the loss before the last update was
    fabric = run.fabric
    states = [checkpoint.random_states()]
    if fabric.world_size > 1:
        gathered: list[Any] = [None] * fabric.world_size
        torch.distributed.all_gather_object(gathered, states[0])
        states = gathered
    if fabric.is_global_zero:
        state = {
            "config": run.config.hash,
            "data": run.data,
            "model": setup.parts.network.state_dict(),
            "random": states,
            "record": run.record.seen(run.position.updates),
        }
        if run.position.step > 0:
            state["optimizer"] = setup.fabric_optimizer.state_dict()
        checkpoint.save(run.folder / "checkpoints", run.position, state)
    fabric.barrier()


def _in_slurm() -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "srun is available, but not used": not a mistake on such a machine
        return SLURMEnvironment.detect()


def make_fabric(config: Config, devices: int = 1, accelerator: str = "auto", nodes: int = 1) -> Fabric:
    """Create the Lightning Fabric of a run: devices, precision, and DDP if there is more than one process.

    Examples:
        >>> from zerocross import train
        >>> train.make_fabric(train.Config(), accelerator="cpu").world_size
        1
    """
    accelerator = {"gpu": "cuda"}.get(accelerator, accelerator)  # Lightning's name for it
    check_choice("accelerator", accelerator, ("auto", "cpu", "cuda"))
    precision: Any = {"32": "32-true", "bf16": "bf16-mixed"}[settled(config, accelerator).precision]
    strategy = "ddp" if devices * nodes > 1 else "auto"
    plugins: Any = None
    if not TorchElasticEnvironment.detect() and (devices * nodes == 1 or not _in_slurm()):
        plugins = [LightningEnvironment()]  # Fabric would choose the same, with a warning if srun is available
    try:
        fabric = Fabric(
            accelerator=accelerator,
            strategy=strategy,
            devices=devices,
            num_nodes=nodes,
            precision=precision,
            plugins=plugins,
        )
    except (RuntimeError, MisconfigurationException) as error:  # no such device, or too few
        raise ValueError(f"{devices} {accelerator} device(s) requested, but not available: {error}") from error
    if config.sync_bn and fabric.device.type != "cuda":
        raise ValueError("--sync-bn requires CUDA: torch's SyncBatchNorm does not run on the CPU; remove the option")
    return fabric
