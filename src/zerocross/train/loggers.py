"""Experiment trackers behind one small interface: TensorBoard, Weights & Biases, MLflow, or an object of your own."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, cast, runtime_checkable

from zerocross.checks import check_choice
from zerocross.extras import missing, named, require


@runtime_checkable
class MetricLogger(Protocol):
    """What `fit` needs of a tracker; any object with these two methods will do.

    Examples:
        >>> from zerocross.train import MetricLogger
        >>> class Printer:
        ...     def log(self, metrics, step):
        ...         print(step, metrics)
        ...     def close(self):
        ...         pass
        >>> isinstance(Printer(), MetricLogger)
        True
    """

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        """Record metrics of an update, such as {"train/loss": 0.5}."""

    def close(self) -> None:
        """Finish; called once, at the end of a run or when it is stopped."""


class TensorBoardLogger:
    """Event files in FOLDER/tensorboard.

    Args:
        folder: The run folder.
        first: The first update that is written; events of later updates are replaced: a resumed run writes them again.
    """

    def __init__(self, folder: Path, first: int = 0) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise missing("tensorboard") from None
        self._writer = SummaryWriter(str(folder / "tensorboard"), purge_step=first)

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        """Write one scalar for each metric."""
        for name, value in metrics.items():
            self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        """Close the event file."""
        self._writer.close()


class WandbLogger:
    """A run of Weights & Biases, named after the run folder; its files are in FOLDER/wandb.

    A resumed training continues the same run. wandb's own settings apply: WANDB_PROJECT, WANDB_MODE=offline, ...

    Args:
        folder: The run folder.
        first: The first update that is written; wandb keeps what it has of later ones.
    """

    def __init__(self, folder: Path, first: int = 0) -> None:
        del first
        with named():
            import wandb
        where = str(folder.resolve())  # a process of its own writes it, which may work in another folder
        self._run = wandb.init(
            dir=where, name=folder.name, id=_run_id(folder), resume="allow", settings=wandb.Settings(silent=True)
        )

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        """Add metrics to the history of the run."""
        self._run.log(dict(metrics), step=step)

    def close(self) -> None:
        """Finish the run."""
        self._run.finish()


class MlflowLogger:
    """A run of MLflow, named after the run folder; in FOLDER/mlflow.db unless a tracking server is configured.

    A resumed training continues the same run.

    Args:
        folder: The run folder.
        first: The first update that is written; MLflow keeps what it has of later ones.
    """

    def __init__(self, folder: Path, first: int = 0) -> None:
        del first
        with named():
            import mlflow
        uri = None if mlflow.is_tracking_uri_set() else f"sqlite:///{folder.resolve() / 'mlflow.db'}"
        self._client = mlflow.MlflowClient(tracking_uri=uri)
        experiment = self._client.get_experiment_by_name("zerocross")
        where = experiment.experiment_id if experiment else self._client.create_experiment("zerocross")
        tags = {"zerocross.run": _run_id(folder)}
        known = self._client.search_runs([where], f"tags.`zerocross.run` = '{tags['zerocross.run']}'", max_results=1)
        run = known[0] if known else self._client.create_run(where, tags=tags, run_name=folder.name)
        self._id = run.info.run_id

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        """Log each metric with its update."""
        for name, value in metrics.items():
            self._client.log_metric(self._id, name, value, step=step)

    def close(self) -> None:
        """Mark the run as finished."""
        self._client.set_terminated(self._id)


LOGGERS: Mapping[str, Callable[[Path, int], MetricLogger]] = {
    "tensorboard": TensorBoardLogger,
    "wandb": WandbLogger,
    "mlflow": MlflowLogger,
}


def open_loggers(requested: Sequence[str | MetricLogger], folder: Path | None, first: int = 0) -> list[MetricLogger]:
    """Return loggers: names of `LOGGERS` are opened for the run folder, objects are returned as they are.

    Args:
        requested: Names or objects.
        folder: The run folder, which named loggers need.
        first: The first update that will be written.
    """
    for each in requested:
        if isinstance(each, str):
            check_choice("log", each, LOGGERS)
            if folder is None:
                raise ValueError(f"log={each!r} writes to the run folder: pass folder=, or a logger of your own")
        elif not isinstance(each, MetricLogger):
            raise ValueError(f"log contains {each!r}, which has no log(metrics, step) and close()")
    return [LOGGERS[each](cast("Path", folder), first) if isinstance(each, str) else each for each in requested]


def check_log(names: Sequence[str]) -> None:
    """Raise an error if there is no logger of such a name, or if its package is not installed."""
    for name in names:
        check_choice("log", name, LOGGERS)
        require(name)


def numbers(kind: str, values: Mapping[str, Any]) -> dict[str, float]:
    """Return what trackers are given of a line of the record: its floats, as "KIND/NAME"."""
    return {f"{kind}/{name}": value for name, value in values.items() if isinstance(value, float)}


def _run_id(folder: Path) -> str:
    return hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:16]
