"""Progress of a run: a live progress bar on a terminal, plain lines otherwise."""

from __future__ import annotations

import time
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from zerocross.data.dataset import Dataset
from zerocross.train.checkpoint import Position
from zerocross.train.config import Config, Stage

_LINE_EVERY = 30.0  # seconds between two lines within an epoch, without a terminal


class Display:
    """Shows the progress of a run: time left, loss, accuracy, FF ratio.

    Args:
        config: The run's config.
        dataset: Determines whether accuracies are labelled "test" or "validation".
        show: False prints nothing.
    """

    def __init__(self, config: Config, dataset: Dataset, *, show: bool) -> None:
        self.console = Console(quiet=not show, highlight=False)
        self.config = config
        self.part = dataset.evaluated_on
        self.many_classes = dataset.num_classes > 10  # with fewer classes, top-5 says little
        self.live = show and self.console.is_terminal
        self._bar: Progress | None = None
        self._task: Any = None
        self._total = 0
        self._started = self._said = time.monotonic()
        self._done_before = 0
        self._words = self._accuracy = ""

    def say(self, text: str) -> None:
        """Print a line, above the progress bar if there is one."""
        self.console.print(text, soft_wrap=True, markup=False)

    def stage(self, position: Position, stage: Stage, updates_per_epoch: int) -> None:
        """Start showing a stage."""
        self.close()
        self._total = stage.epochs * updates_per_epoch
        self._started, self._done_before = time.monotonic(), position.step
        if position.stage == 0 and self.config.precision == "bf16":
            self.say("precision: bfloat16 (parameters and filter state stay float32)")
        if len(self.config.stages) > 1:
            self.say(f"stage {position.stage + 1} of {len(self.config.stages)}: binarize = {stage.binarize}")
        if self.live:
            self._bar = Progress(
                BarColumn(bar_width=None), MofNCompleteColumn(), TimeRemainingColumn(compact=True),
                TextColumn("left  {task.fields[words]}"), console=self.console, expand=True,
            )  # fmt: skip
            self._task = self._bar.add_task("", total=self._total, completed=position.step, words="")
            self._bar.start()

    def update(self, position: Position, loss: float, line: dict[str, Any]) -> None:
        """Show the metrics of an update."""
        ff = line.get("ff_ratio")
        self._words = f"loss {loss:.3f}" + (f"  FF {ff:.1e}" if ff is not None else "")
        if not self.live and time.monotonic() - self._said > _LINE_EVERY:
            self._said = time.monotonic()
            rate = line["images_per_second"]
            self.say(
                f"  update {position.step + 1} of {self._total}  {self._words}  {rate:,.0f} images/s  "
                f"{self._left(position.step + 1)} left"
            )

    def advance(self, position: Position) -> None:
        """Show that one more update has been completed."""
        if self._bar is not None:
            self._bar.update(self._task, completed=position.step, words=self._words + self._accuracy)

    def epoch(self, position: Position, scores: dict[str, float]) -> None:
        """Show the evaluation at the end of an epoch."""
        self._said = time.monotonic()
        epochs = self.config.stages[position.stage].epochs
        top5 = f" (top-5 {scores['top5']:.2f} %)" if self.many_classes else ""
        self._accuracy = f"  {self.part} {scores['top1']:.2f} %"
        self.say(
            f"epoch {position.epoch + 1:>{len(str(epochs))}} of {epochs}{self._accuracy}{top5}, loss "
            f"{scores['loss']:.3f}  training {self._words}  {self._left(position.step)} left"
        )
        self.advance(position)

    def close(self) -> None:
        """Remove the progress bar."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def _left(self, done: int) -> str:
        progress = done - self._done_before
        seconds = (time.monotonic() - self._started) / max(progress, 1) * (self._total - done)
        minutes, seconds = divmod(round(seconds), 60)
        hours, minutes = divmod(minutes, 60)
        return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"
