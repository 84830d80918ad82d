"""Step hooks that survive deepcopy and pickle, unlike torch's."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from torch.optim import Optimizer

AnyOptimizer = TypeVar("AnyOptimizer", bound=Optimizer)
Hook = Callable[..., None]


def keep_after_step(optimizer: AnyOptimizer, hook: Hook) -> AnyOptimizer:
    """Call `hook(optimizer, args, kwargs)` after each step of this optimizer and of its copies.

    torch drops hooks when an optimizer is copied or pickled, so that the copy would silently run without them.

    Args:
        optimizer: Any torch optimizer; modified in place (its class becomes a subclass of the same name that keeps its
            hooks) and returned.
        hook: To be picklable, it must be a module-level function, an instance of a class, or a functools.partial.

    Examples:
        >>> import torch
        >>> import zerocross
        >>> weight = torch.nn.Parameter(torch.ones(1))
        >>> optimizer = torch.optim.SGD([weight], lr=0.1)
        >>> optimizer = zerocross.optim.keep_after_step(optimizer, lambda *_: print("stepped"))
        >>> optimizer.step()
        stepped
    """
    if not hasattr(optimizer, "_kept_hooks"):
        optimizer.__class__ = _keeping(type(optimizer))  # type: ignore[assignment]
        optimizer._kept_hooks = []  # type: ignore[attr-defined]
    optimizer._kept_hooks.append(hook)  # type: ignore[attr-defined]
    optimizer.register_step_post_hook(hook)
    return optimizer


@functools.cache
def _keeping(base: type[Optimizer]) -> type[Optimizer]:
    """Return a subclass whose copies keep their hooks; unpickling creates it again from `base`."""

    class Keeping(base):
        _kept_hooks: list[Hook]

        def __getstate__(self) -> dict[str, Any]:
            return {**super().__getstate__(), "_kept_hooks": self._kept_hooks}

        def __setstate__(self, state: dict[str, Any]) -> None:
            super().__setstate__(state)
            for hook in state.get("_kept_hooks", ()):  # load_state_dict also calls this, without hooks
                self.register_step_post_hook(hook)

        def __reduce_ex__(self, protocol: Any) -> Any:
            del protocol
            return _empty, (base,), self.__getstate__()

    Keeping.__name__, Keeping.__qualname__, Keeping.__module__ = base.__name__, base.__qualname__, base.__module__
    return Keeping


def _empty(base: type[Optimizer]) -> Optimizer:
    kind = _keeping(base)
    return kind.__new__(kind)
