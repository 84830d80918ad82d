"""Weight averaging for models with binary weights: EMA and SWA that leave them binary."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.optim import swa_utils

from zerocross.checks import check_choice

THETA = ("majority", "kept")


class AveragedModel(swa_utils.AveragedModel):
    """Average a model over its updates (SWA or EMA) while its theta weights stay -1 and +1.

    torch's AveragedModel averages every parameter, so that theta weights silently become real. This one averages
    real parameters, latent weights and batch-norm statistics; theta weights take the majority sign over all updates, or
    the latest one. Batch-norm statistics lag behind flips, even more so when averaged: re-estimate them at the end with
    ``torch.optim.swa_utils.update_bn``.

    Args:
        model: the model to average; `module` is a copy of it.
        decay: None: all updates have equal weight (SWA). In [0, 1): the share of the average that each update keeps
            (EMA; 0.99 averages over about 100 updates).
        theta: ``"majority"``: the sign of the averaged theta, which needs one more number per weight; a tie keeps the
            current sign. ``"kept"``: the theta weights of the latest update.
        device: device of the average.

    Examples:
        >>> import torch
        >>> import zerocross
        >>> model = torch.nn.Sequential(torch.nn.Linear(4, 4), zerocross.nn.BinaryLinear(4, 2))
        >>> averaged = zerocross.nn.AveragedModel(model, decay=0.99)
        >>> averaged.update_parameters(model)  # after every optimizer step; at the end swa_utils.update_bn
        >>> sorted(averaged.module[1].weight.abs().unique().tolist())
        [1.0]
    """

    def __init__(
        self,
        model: nn.Module,
        decay: float | None = None,
        *,
        theta: str = "majority",
        device: torch.device | str | None = None,
    ) -> None:
        if decay is not None and not 0 <= decay < 1:
            raise ValueError(f"decay = {decay}: it must be None (equal weights) or lie in [0, 1)")
        check_choice("theta", theta, THETA)
        super().__init__(model, device)  # type: ignore[arg-type]
        self.decay = decay
        self.theta = theta
        if theta == "majority":
            for index, weight in enumerate(_thetas(self.module)):
                self.register_buffer(f"votes_{index}", weight.detach().clone())

    @torch.no_grad()
    def update_parameters(self, model: nn.Module) -> None:
        """Add the model's current state to the average."""
        seen = int(self.n_averaged)
        share = 1.0 if seen == 0 else 1 / (seen + 1) if self.decay is None else 1 - self.decay
        thetas = {id(weight) for weight in _thetas(self.module)}
        copied = thetas | _passing(self.module)
        for mine, theirs in zip(_tensors(self.module), _tensors(model), strict=True):
            theirs = theirs.detach().to(mine.device)  # noqa: PLW2901
            if id(mine) in copied or not mine.is_floating_point():
                mine.detach().copy_(theirs)
            else:
                mine.detach().lerp_(theirs.to(mine.dtype), share)
        if self.theta == "majority":
            for index, weight in enumerate(_thetas(self.module)):
                votes: Tensor = getattr(self, f"votes_{index}")
                votes.lerp_(weight.detach(), share)
                weight.detach().copy_(torch.where(votes == 0, weight, torch.copysign(torch.ones_like(votes), votes)))
        self.n_averaged += 1


def _tensors(model: nn.Module) -> list[Tensor]:
    return [*model.parameters(), *model.buffers()]


def _thetas(model: nn.Module) -> list[Tensor]:
    """Return the theta weights of a model, tied ones once."""
    weights = {
        id(weight): weight
        for module in model.modules()
        for name, kind in getattr(module, "binary_kinds", {}).items()
        if kind == "theta" and (weight := getattr(module, name)) is not None
    }
    return list(weights.values())


def _passing(model: nn.Module) -> set[int]:
    """Return the non-persistent buffers: they hold training progress (EDE's t), so the current values are copied."""
    return {
        id(buffer)
        for module in model.modules()
        for name, buffer in module.named_buffers(recurse=False)
        if name in module._non_persistent_buffers_set
    }
