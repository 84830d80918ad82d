"""A stand-in for a CUDA graph on the CPU: operations are recorded once, and run again on the same memory."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten


class Recording(TorchDispatchMode):
    """Record what runs in this context; `replay` runs it again. Reading a value of a tensor raises an error."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Any, Any, Any, list[Any]]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        del types
        if func is torch.ops.aten._local_scalar_dense.default:
            raise RuntimeError("a value was read, for which a GPU would have to stop")
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        self.calls.append((func, args, kwargs, tree_flatten(result)[0]))
        return result

    @torch.no_grad()
    def replay(self) -> None:
        """Run all recorded operations again, writing to the tensors that they returned when they were recorded."""
        for func, args, kwargs, outputs in self.calls:
            again = tree_flatten(func(*args, **kwargs))[0]
            memory = {x.data_ptr() for x in tree_flatten((args, kwargs))[0] if isinstance(x, Tensor)}
            for output, value in zip(outputs, again, strict=True):
                if isinstance(output, Tensor) and output.data_ptr() not in memory:
                    output.copy_(value)
