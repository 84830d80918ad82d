"""torch.compile if a C++ compiler is available; otherwise run eagerly, with one warning."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any, TypeVar, cast

import torch

Function = TypeVar("Function", bound=Callable[..., Any])


@functools.cache
def available() -> bool:
    """Return True if torch.compile can build CPU code here (CUDA code does not need a C++ compiler)."""
    from torch._inductor import cpp_builder

    try:
        cpp_builder.get_cpp_compiler()
    except (RuntimeError, OSError):
        return False
    return True


@functools.cache
def _warn_once() -> None:
    warnings.warn(
        "no C++ compiler found: running eagerly, which is slower and gives the same results up to rounding; "
        "install g++ or clang++ (or set CXX), or disable compilation to silence this warning",
        stacklevel=3,
    )


def compiled(function: Function, *, needs_cpp: bool = True, **options: Any) -> Function:
    """Return the compiled function, or the function itself with one warning if there is no compiler."""
    if needs_cpp and not available():
        _warn_once()
        return function
    return cast("Function", torch.compile(function, **options))
