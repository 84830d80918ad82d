"""torch.compile if a C++ compiler is available; otherwise run eagerly, with one warning."""

from __future__ import annotations

import functools
import inspect
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


def compiled(
    function: Function, *, needs_cpp: bool = True, recompile_limit: int | None = None, **options: Any
) -> Function:
    """Return the compiled function, or the function itself with one warning if there is no compiler.

    Args:
        function: what is compiled.
        needs_cpp: False for CUDA code, which needs no C++ compiler.
        recompile_limit: builds after which other inputs run eagerly; None is torch's default.
        options: of torch.compile.
    """
    if needs_cpp and not available():
        _warn_once()
        return function
    if recompile_limit is None:
        return cast("Function", torch.compile(function, **options))
    if "recompile_limit" in inspect.signature(torch.compile).parameters:
        return cast("Function", torch.compile(function, recompile_limit=recompile_limit, **options))
    return _with_limit(torch.compile(function, **options), recompile_limit)


def _with_limit(function: Callable[..., Any], limit: int) -> Any:
    """Set the limit around each call, for versions of torch.compile that have no argument for it."""
    from torch._dynamo import config

    @functools.wraps(function)
    def limited(*args: Any, **kwargs: Any) -> Any:
        with config.patch(cache_size_limit=limit):
            return function(*args, **kwargs)

    return limited
