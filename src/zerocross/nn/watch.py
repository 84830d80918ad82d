"""What a binary layer looks at while it works, now and then: weights that are no signs, inputs that say nothing."""

from __future__ import annotations

import warnings

import torch
from torch import Tensor, nn

from zerocross.nn.check import not_signs

_CONSTANT_LOOKS = 3  # in a row before a layer speaks: a single one may be an odd batch, or a start at zero


class Watched(nn.Module):
    """A layer that warns once when it computes with theta weights other than -1 and +1, or with a constant input.

    It looks at calls 1, 2, 4, 8, ... of forward and where `train()` or `eval()` is called: too seldom to cost anything.
    Compiled code is left as it is; there, weights are looked at on `train()` and `eval()` alone.
    """

    _calls = 0
    _constant = 0  # looks in a row at which all inputs were the same
    _warned: tuple[str, ...] = ()

    def train(self, mode: bool = True) -> Watched:
        """As torch's; looks at the weights."""
        if readable(self.weight):  # type: ignore[arg-type]
            self._look_at_weight()
        return super().train(mode)

    def _watch(self, x: Tensor) -> None:
        if torch.compiler.is_compiling():
            return
        self._calls += 1
        if self._calls & (self._calls - 1) or not readable(x):  # only at powers of two
            return
        self._look_at_weight()
        if self.training and x.numel() > 1:
            low, high = torch.aminmax(x.detach())
            self._constant = self._constant + 1 if bool(low == high) else 0
            if self._constant == _CONSTANT_LOOKS:
                self._warn_once(
                    "input",
                    f"the input of a {self} is {float(low):g} everywhere, in batch after batch, and says nothing: a "
                    "sign after a ReLU is always +1. Use hardtanh in the place of the ReLU; "
                    "zerocross.binarize(model, example=batch) names the layers",
                )

    def _look_at_weight(self) -> None:
        weight: Tensor = self.weight  # type: ignore[assignment]
        if getattr(self, "binary_kinds", {}).get("weight") == "theta" and (wrong := not_signs(weight)):
            self._warn_once(
                "weight",
                f"{wrong:,} of {weight.numel():,} theta weights of a {self} are not -1 or +1: it is not binary. Train "
                "them with GradientFilter, not with Adam or SGD, and average them with zerocross.nn.AveragedModel; "
                "zerocross.check(model) names the layers",
            )

    def _warn_once(self, what: str, message: str) -> None:
        if what not in self._warned:
            self._warned = (*self._warned, what)
            warnings.warn(message, stacklevel=6)


def readable(x: Tensor) -> bool:
    """Return whether a value can be read here and now: not while torch compiles, traces, captures or maps over it."""
    if torch.compiler.is_compiling() or torch.jit.is_tracing() or type(x) not in {Tensor, nn.Parameter} or x.is_meta:
        return False
    if torch._C._len_torch_dispatch_stack() or torch._C._functorch.peek_interpreter_stack() is not None:  # type: ignore[attr-defined]
        return False
    return not (x.is_cuda and torch.cuda.is_current_stream_capturing())
