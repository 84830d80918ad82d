"""What a search asks for: train as a config says with a trial's settings, and give the accuracy on validation data."""

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
    """Reads data once for all runs in a row that share them.

    Args:
        place: Where the data are.
    """

    def __init__(self, place: train.Placement) -> None:
        self.place = place
        self._read: tuple[DataConfig, Dataset] | None = None

    def __call__(self, config: Config) -> Dataset:
        """The data of a run."""
        if self._read is None or self._read[0] != config.data:
            self._read = (config.data, train.load_data(config, self.place))
        return self._read[1]


class Training:
    """The objective: train as a config says with a trial's settings; the value is validation accuracy in percent.

    Args:
        base: What the settings change.
        read: Gives the data of a config.
        prune: Whether to report after each epoch.
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
        if self.prune:  # what has come to its end is not cut any more
            watch["on_epoch"] = lambda done, scores: report(done, scores["top1"]) if done < last else None
        try:
            return train.fit(config, dataset, teacher=teacher, show=False, **watch).scores["top1"]
        except train.Stopped as stopped:
            raise SystemExit(stopped.exit_code) from stopped  # the trial is given back
        except train.RunError:  # training has diverged: as bad as settings can be
            return 0.0

    def check(self, space: SearchSpace) -> None:
        """Refuse a space that a run would refuse, before there is a study."""
        for settings in space.probes():
            try:
                config = self.searched(settings)
                check(config, self.read(config), 1)
            except ValueError as wrong:
                raise ValueError(f"this space does not fit the recipe: {str(wrong).removeprefix('--set ')}") from wrong

    def searched(self, settings: Settings) -> Config:
        """The config of a trial: a part of the training data is held out, and evaluated on."""
        return applied(self.base, {**settings, "data.validate": True})


def applied(config: Config, settings: Settings) -> Config:
    """A config with a trial's settings; naming the method that it has changes nothing."""
    texts = {name: "none" if value is None else str(value) for name, value in settings.items()}
    if texts.get("method") == config.method:
        del texts["method"]
    return train.changed(config, texts)
