"""Statistics of a weight, filter by filter (over all dimensions but the first)."""

from __future__ import annotations

from torch import Tensor


def centred(w: Tensor) -> Tensor:
    """Return w minus the mean of each filter."""
    return w - column(w.flatten(1).mean(1), w)


def column(values: Tensor, w: Tensor) -> Tensor:
    """Return one value per filter, in a shape that broadcasts against `w`."""
    return values.view(-1, *(1,) * (w.dim() - 1))


def check_several(w: Tensor, method: str) -> None:
    """Raise ValueError if filters have a single weight: minus its mean it would be 0."""
    if w[:1].numel() == 1:
        raise ValueError(
            f"{method} centres each filter, and a filter of shape {tuple(w.shape[1:])} has one weight: keep this layer "
            "real, or use another binarizer"
        )
