"""Statistics of a weight, filter by filter (over all dimensions but the first)."""

from __future__ import annotations

from torch import Tensor


def centred(w: Tensor) -> Tensor:
    """Each filter less its mean."""
    return w - column(w.flatten(1).mean(1), w)


def column(values: Tensor, w: Tensor) -> Tensor:
    """One value per filter, in the shape that broadcasts against `w`."""
    return values.view(-1, *(1,) * (w.dim() - 1))


def check_several(w: Tensor, method: str) -> None:
    """Refuse filters of a single weight: less its mean it is always 0."""
    if w[:1].numel() == 1:
        raise ValueError(
            f"{method} centres each filter, and a filter of shape {tuple(w.shape[1:])} has one weight: keep this layer "
            "real, or take another binarizer"
        )
