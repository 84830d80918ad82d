"""What a method is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import nn
from torch.optim import Optimizer

from zerocross.nn import set_progress

Value = float | int | bool | str | None
OnStep = Callable[[nn.Module, int, int], None]
Build = Callable[[list[nn.Parameter], Mapping[str, Any], int], Optimizer]


@dataclass(frozen=True)
class StageTemplate:
    """A part of a run that a method splits into stages.

    Args:
        share: Of the epochs, in (0, 1).
        binarize: What is binary meanwhile: "both", "activations" or "none".
        optimizer: Hyperparameters of the method that differ in it.
        real: Settings of the real parameters that differ in it.
    """

    share: float
    binarize: str
    optimizer: Mapping[str, Value] = field(default_factory=dict)
    real: Mapping[str, Value] = field(default_factory=dict)


def tell_progress(model: nn.Module, step: int, total: int) -> None:
    """Tell the layers how far training has come: those that change with time (EDE's t, ReCU's tau) listen."""
    set_progress(model, step / total)


@dataclass(frozen=True)
class Method:
    """One way to train binary weights.

    Args:
        summary: One line for lists.
        source: Whose it is.
        hyperparameters: Name -> published or default value; `optimizer.NAME` in a config. A number may be a ramp over
            the run: "1e-2->1e-5".
        tuned: What there is to tune for the binary weights, in words.
        settings: Where the values come from: published, scaled, or assumed.
        build: (parameters, hyperparameters, ff_every) -> the optimizer of the binary weights.
        model_options: What models.create() must be told.
        real: The authors' settings of the real parameters, where they are a part of the method.
        parts: The stages of the method, where it has more than one.
        on_step: Called before each update with (model, step, total), for methods that change with time.
        run: What its authors published about the run: "warmup", a share of it, and "batch_size".
        network: The options of birealnet20 that make it the authors' own network; empty where they published none of
            this kind, or the common one.
        lr_name: The hyperparameter that the optimizer holds as a param group's `lr`.
        golden: The file in tests/reference/golden with numbers of published code, or None.
        revision: Raised when its arithmetic changes in a way that no setting of a run tells, so that results of before
            are not taken for results of now.
    """

    summary: str
    source: str
    hyperparameters: Mapping[str, Value]
    tuned: tuple[str, ...]
    settings: str
    build: Build
    model_options: Mapping[str, Value] = field(default_factory=dict)
    real: Mapping[str, Value] = field(default_factory=dict)
    parts: tuple[StageTemplate, ...] = ()
    on_step: OnStep = tell_progress
    run: Mapping[str, float] = field(default_factory=dict)
    network: Mapping[str, Value] = field(default_factory=dict)
    lr_name: str = "lr"
    golden: str | None = None
    revision: int = 1

    @property
    def kind(self) -> str:
        """What the binary layers hold: "theta" or "latent"."""
        return str(self.model_options["weights"])
