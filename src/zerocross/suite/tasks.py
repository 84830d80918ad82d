"""The tasks of the suite: data, network, budget and metric, sized to train in seconds on one CPU core."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from zerocross.checks import check_choice
from zerocross.train.config import Config, DataConfig, ModelConfig, RealConfig, Stage
from zerocross.train.variants import with_epochs, with_method

Options = Mapping[str, float | int | str | bool | None]
_ADAM = RealConfig(name="adam", lr=5e-3, weight_decay=0.0)


@dataclass(frozen=True)
class Task:
    """A task: data, network, length of training, and metric.

    Args:
        name: Name of the task.
        data: Name of the dataset (see zerocross.data.load).
        network: Name of the network (see zerocross.models.create).
        epochs: Epochs of a training.
        batch_size: Samples per update.
        data_options: Options of the dataset; `train_size` limits the number of training samples.
        network_options: Options of the network; the number of classes comes from the data.
        real: Optimizer of the real parameters, unless the method has its own.
        alpha: alpha of the filter, where it is not set otherwise: the check of convergence uses it. The table of
            published settings has the paper's.
        metric: The score that is reported.
        held_out: The data on which settings are chosen.
        compiled: Compile all runs: even the few runs with published settings make up for it.
        seconds: CPU seconds of a training on one core (the filter, measured on a common server CPU).
    """

    name: str
    data: str
    network: str
    epochs: int
    batch_size: int
    data_options: Options = field(default_factory=dict)
    network_options: Options = field(default_factory=dict)
    real: RealConfig = _ADAM
    alpha: float = 3e-3
    metric: str = "top1"
    held_out: str = "training samples, stratified"
    compiled: bool = False
    seconds: float = 5.0

    def config(
        self, method: str = "filter", *, seed: int = 0, validate: bool = False, epochs: int | None = None
    ) -> Config:
        """Return the config of one training of this task.

        Args:
            method: A name in zerocross.methods, with its own settings; or "real", the full-precision twin.
            seed: Seed of initial weights and data order.
            validate: Evaluate on held-out training data, to choose settings; test data is not read.
            epochs: Number of epochs; None uses that of the task.
        """
        twin = method == "real"
        config = Config(
            recipe=f"suite-{self.name}",
            data=DataConfig(self.data, validate, dict(self.data_options)),
            model=ModelConfig(self.network, dict(self.network_options)),
            optimizer={"alpha": self.alpha},
            real=self.real,
            stages=(Stage(epochs=self.epochs, binarize="none" if twin else "both"),),
            batch_size=self.batch_size,
            seed=seed,
            compile="on" if self.compiled else "off",
            evaluate_every=1_000_000,
        )
        config = config if twin else with_method(config, method)
        return config if epochs is None else with_epochs(config, epochs)


def _series(
    set_name: str,
    epochs: int,
    batch_size: int,
    stem_stride: int,
    seconds: float,
    train_size: int | None = None,
    *,
    compiled: bool = False,
) -> Task:
    return Task(
        name=set_name,
        data="ucr",
        network="series_net",
        epochs=epochs,
        batch_size=batch_size,
        data_options={"set": set_name} | ({} if train_size is None else {"train_size": train_size}),
        network_options={"width": 16, "stem_stride": stem_stride},
        real=dataclasses.replace(_ADAM, lr=1e-2),
        compiled=compiled,
        seconds=seconds,
    )


# Eleven of the thirteen sets: Phoneme and Mallat have too few training series per class to hold some out.
_TASKS = (
    Task("digits", "digits", "digits_net", 20, 64, network_options={"width": 16}, seconds=4.0),
    Task("mnist", "mnist", "mnist_net", 60, 32, {"train_size": 1_000}, compiled=True, seconds=15.0),
    Task("fashion-mnist", "fashion-mnist", "mnist_net", 60, 32, {"train_size": 1_000}, compiled=True, seconds=15.0),
    Task("audiomnist", "audiomnist", "audio_mlp", 10, 256, alpha=1e-3,
         real=dataclasses.replace(_ADAM, lr=1e-3), held_out="the fold's validation speakers", seconds=7.9),
    Task("hapt", "hapt", "series_net", 10, 64, network_options={"channels": 6, "width": 16, "stem_stride": 2},
         held_out="five of the training people", seconds=14.0),
    Task("imdb", "imdb", "text_mlp", 6, 256, alpha=1e-3, real=dataclasses.replace(_ADAM, lr=1e-3), seconds=10.6),
    _series("Crop", 56, 64, 1, 5.0, train_size=1_200),
    _series("ECG5000", 40, 32, 2, 4.6),
    _series("ElectricDevices", 36, 64, 2, 6.0, train_size=2_000),
    _series("FordA", 6, 64, 4, 5.6),
    _series("InsectWingbeatSound", 160, 32, 4, 4.6),
    _series("ItalyPowerDemand", 120, 16, 1, 2.4),
    _series("NonInvasiveFetalECGThorax1", 90, 32, 8, 7.0, train_size=840, compiled=True),
    _series("StarLightCurves", 16, 32, 8, 5.5),
    _series("TwoPatterns", 32, 32, 2, 4.3),
    _series("UWaveGestureLibraryAll", 36, 32, 8, 6.4),
    _series("Wafer", 32, 32, 2, 4.8),
)  # fmt: skip

TASKS: Mapping[str, Task] = MappingProxyType({task.name: task for task in _TASKS})


def get(name: str) -> Task:
    """Return the task with this name, or raise a ValueError that lists the names."""
    check_choice("task", name, TASKS)
    return TASKS[name]
