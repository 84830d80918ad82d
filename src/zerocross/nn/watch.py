"""Occasional self-checks of binary layers: weights that are not signs, inputs that are constant."""

from __future__ import annotations

import warnings

import torch
from torch import Tensor, nn

from zerocross.nn.check import not_signs

_CONSTANT_CHECKS = (
    3  # consecutive checks before a warning: a single one may be an unusual batch, or a zero initialisation
)


class Watched(nn.Module):
    """A layer that warns once if its theta weights are not -1 and +1, or if its input is constant.

    It checks at calls 1, 2, 4, 8, ... of forward and whenever `train()` or `eval()` is called, so that the cost is
    negligible. Compiled code contains no checks; there, weights are checked by `train()` and `eval()` only.
    """

    _calls = 0
    _constant = 0  # consecutive checks at which all inputs were equal
    _warned: tuple[str, ...] = ()

    def train(self, mode: bool = True) -> Watched:
        """Set the training mode, and check the weights."""
        if readable(self.weight):  # type: ignore[arg-type]
            self._check_weight()
        return super().train(mode)

    def _watch(self, x: Tensor) -> None:
        if torch.compiler.is_compiling():
            return
        self._calls += 1
        if self._calls & (self._calls - 1) or not readable(x):  # only at powers of two
            return
        self._check_weight()
        if self.training and x.numel() > 1:
            low, high = torch.aminmax(x.detach())
            self._constant = self._constant + 1 if bool(low == high) else 0
            if self._constant == _CONSTANT_CHECKS:
                self._warn_once(
                    "input",
                    f"the input of a {self} is {float(low):g} everywhere, batch after batch, so it carries no "
                    "information: the sign after a ReLU is always +1. Replace the ReLU by hardtanh; "
                    "zerocross.binarize(model, example=batch) names the layers",
                )

    def _check_weight(self) -> None:
        weight: Tensor = self.weight  # type: ignore[assignment]
        if getattr(self, "binary_kinds", {}).get("weight") == "theta" and (count := not_signs(weight)):
            self._warn_once(
                "weight",
                f"{count:,} of {weight.numel():,} theta weights of a {self} are not -1 or +1: it is not binary. Train "
                "them with GradientFilter, not with Adam or SGD, and average them with zerocross.nn.AveragedModel; "
                "zerocross.check(model) names the layers",
            )

    def _warn_once(self, what: str, message: str) -> None:
        if what not in self._warned:
            self._warned = (*self._warned, what)
            warnings.warn(message, stacklevel=6)


def readable(x: Tensor) -> bool:
    """Return True if a value can be read now, that is, not while torch compiles, traces, captures or vmaps it."""
    if torch.compiler.is_compiling() or torch.jit.is_tracing() or type(x) not in {Tensor, nn.Parameter} or x.is_meta:
        return False
    if torch._C._len_torch_dispatch_stack() or torch._C._functorch.peek_interpreter_stack() is not None:  # type: ignore[attr-defined]
        return False
    return not (x.is_cuda and torch.cuda.is_current_stream_capturing())
