"""The objective of a search: train a config with the settings of a trial, and return the validation accuracy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zerocross import train
from zerocross.train.build import check
from zerocross.train.config import Config, DataConfig
from zerocross.train.task import load_teacher

if TYPE_CHECKING:  # Optuna is an extra
    from zerocross.data.dataset import Dataset
    from zerocross.tune import Report, SearchSpace
    from zerocross.tune.space import Settings


class Reader:
    """Reads data once for consecutive runs that share it.

    Args:
        place: Where the data are.
    """

    def __init__(self, place: train.Placement) -> None:
        self.place = place
        self._read: tuple[DataConfig, Dataset] | None = None

    def __call__(self, config: Config) -> Dataset:
        """Return the data of a run."""
        if self._read is None or self._read[0] != config.data:
            self._read = (config.data, train.load_data(config, self.place))
        return self._read[1]


class Training:
    """The objective: train a config with the settings of a trial. Its value is the validation accuracy in percent.

    Args:
        base: The config that the settings change.
        read: Returns the data of a config.
        prune: Report the accuracy after each epoch, so that the study can stop the trial early.
    """

    def __init__(self, base: Config, read: Reader, *, prune: bool = False) -> None:
        self.base = base
        self.read = read
        self.prune = prune

    def __call__(self, settings: Settings, report: Report) -> float:
        """Train once."""
        config = self.searched(settings)
        dataset = self.read(config)
        teacher = load_teacher(config.task, dataset, lambda run: train.load_model(run, self.read.place, dataset)[0])
        last = sum(stage.epochs for stage in config.stages)
        watch: dict[str, Any] = {}
        if self.prune:  # a trial is not pruned after its last epoch
            watch["on_epoch"] = lambda done, scores: report(done, scores["top1"]) if done < last else None
        try:
            return train.fit(config, dataset, teacher=teacher, show=False, **watch).scores["top1"]
        except train.Stopped as stopped:
            raise SystemExit(stopped.exit_code) from stopped  # the trial returns to the queue
        except train.RunError:  # training diverged: the worst possible value
            return 0.0

    def check(self, space: SearchSpace) -> None:
        """Raise a ValueError for a space that a run would refuse, before the study is created."""
        for settings in space.probes():
            try:
                config = self.searched(settings)
                check(config, self.read(config), 1)
            except ValueError as error:
                raise ValueError(f"this space does not fit the recipe: {str(error).removeprefix('--set ')}") from error

    def searched(self, settings: Settings) -> Config:
        """Return the config of a trial, which is evaluated on held-out training data."""
        return applied(self.base, {**settings, "data.validate": True})


def applied(config: Config, settings: Settings) -> Config:
    """Return a config with the settings of a trial; a setting that names the config's own method changes nothing."""
    texts = {name: "none" if value is None else str(value) for name, value in settings.items()}
    if texts.get("method") == config.method:
        del texts["method"]
    return train.changed(config, texts)
