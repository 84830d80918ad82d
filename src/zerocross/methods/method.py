"""The definition of a method."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import nn
from torch.optim import Optimizer

from zerocross.nn import set_progress

Value = float | int | bool | str | None
"""The type of a hyperparameter.

Examples:
    >>> from zerocross.methods import Value, get
    >>> all(isinstance(value, Value) for value in get("filter").hyperparameters.values())
    True
"""
OnStep = Callable[[nn.Module, int, int], None]
Build = Callable[[list[nn.Parameter], Mapping[str, Any], int], Optimizer]


@dataclass(frozen=True)
class StageTemplate:
    """One stage of a method that trains in several stages.

    Args:
        share: Share of the epochs, in (0, 1).
        binarize: The binary parts in this stage: "both", "activations" or "none".
        optimizer: Hyperparameters of the method that differ in this stage.
        real: Settings of the real parameters that differ in this stage.

    Examples:
        >>> from zerocross.methods import get
        >>> [(stage.share, stage.binarize) for stage in get("adambnn").parts]
        [(0.5, 'activations'), (0.5, 'both')]
    """

    share: float
    binarize: str
    optimizer: Mapping[str, Value] = field(default_factory=dict)
    real: Mapping[str, Value] = field(default_factory=dict)


def tell_progress(model: nn.Module, step: int, total: int) -> None:
    """Set the progress of layers that depend on it (EDE's t, ReCU's tau).

    Examples:
        >>> from zerocross.methods import tell_progress
        >>> from zerocross.nn import Sign
        >>> layer = Sign("ede")
        >>> tell_progress(layer, step=75, total=100)
        >>> layer.temperature.item()
        1.0
    """
    set_progress(model, step / total)


@dataclass(frozen=True)
class Method:
    """One way to train binary weights.

    Args:
        summary: One-line description.
        source: The publication.
        hyperparameters: Name -> published or default value; `optimizer.NAME` in a config. A number may be a ramp over
            the run: "1e-2->1e-5".
        tuned: Names of the hyperparameters to tune for the binary weights.
        settings: Source of the values: published, scaled, or assumed.
        build: (parameters, hyperparameters, ff_every) -> the optimizer of the binary weights.
        model_options: Options for models.create().
        real: The authors' settings of the real parameters, if they are part of the method.
        parts: The stages of the method, if it has more than one.
        on_step: Called before each update with (model, step, total).
        run: Published settings of the run: "warmup", as a share of it, and "batch_size".
        network: Options that turn birealnet20 into the authors' network; empty if they published none of this kind,
            or used the common one.
        lr_name: The hyperparameter that the optimizer stores as a param group's `lr`.
        optional: Hyperparameters that may also be None.
        golden: The file in tests/reference/golden with reference values of published code, or None.
        revision: Increased when its arithmetic changes without a change of settings, so that old results are not
            mistaken for new ones.

    Examples:
        >>> from zerocross.methods import get
        >>> method = get("filter")
        >>> method.kind, dict(method.hyperparameters)["gamma"]
        ('theta', 0.1)
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
    optional: tuple[str, ...] = ()
    golden: str | None = None
    revision: int = 1

    @property
    def kind(self) -> str:
        """The kind of its binary weights: "theta" or "latent"."""
        return str(self.model_options["weights"])
