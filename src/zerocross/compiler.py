"""torch.compile if a C++ compiler is available; otherwise run eagerly, with one warning."""

from __future__ import annotations

import functools
import inspect
import sysconfig
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar, cast

import torch
from torch import Tensor

Function = TypeVar("Function", bound=Callable[..., Any])


@functools.cache
def missing() -> str:
    """Return what torch.compile lacks to build CPU code here, and the way out; empty if nothing (CUDA code needs none).

    Without Python's headers torch itself would raise an error in the middle of a training.
    """
    from torch._inductor import cpp_builder

    try:
        cpp_builder.get_cpp_compiler()
    except (RuntimeError, OSError):
        return "no C++ compiler found: install g++ or clang++ (or set CXX)"
    if not Path(sysconfig.get_path("include"), "Python.h").is_file():
        return "Python.h not found: install Python's headers, such as Debian's package python3-dev"
    return ""


def available() -> bool:
    """Return True if torch.compile can build CPU code here."""
    return not missing()


@functools.cache
def _warn_once() -> None:
    warnings.warn(
        f"{missing()}, or disable compilation to silence this warning. Running eagerly, which is slower and gives the "
        "same results up to rounding",
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
        options["recompile_limit"] = recompile_limit
        return cast("Function", torch.compile(function, **options))
    return _with_limit(torch.compile(function, **options), recompile_limit)


def _with_limit(function: Callable[..., Any], limit: int) -> Any:
    """Set the limit around each call, for versions of torch.compile that have no argument for it."""
    from torch._dynamo import config

    @functools.wraps(function)
    def limited(*args: Any, **kwargs: Any) -> Any:
        with config.patch(cache_size_limit=limit):
            return function(*args, **kwargs)

    return limited


class Recorded:
    """A compiled function of lists of tensors, whose compiled code can be called again without torch's guards.

    torch.compile checks a dozen properties of every tensor before each call. With a hundred tensors this takes 0.2 ms
    after work that has emptied the caches: 4 % of a step over 28 million weights. A caller who knows that its tensors
    are laid out as before can do without.

    Args:
        function: what is compiled; it changes tensors in place and returns nothing.
        recompile_limit: builds after which other inputs run eagerly.
    """

    def __init__(self, function: Callable[..., None], recompile_limit: int) -> None:
        self._ran: list[tuple[Callable[..., Any], tuple[Any, ...]]] = []
        self._function = compiled(function, dynamic=False, recompile_limit=recompile_limit, backend=self._backend)

    def _backend(self, graph: Any, inputs: Any) -> Callable[..., Any]:
        from torch._inductor.compile_fx import compile_fx

        # Sizes and strides have been compared before: by the guards, or by the caller who reuses the code.
        code: Any = compile_fx(graph, inputs, config_patches={"size_asserts": False})

        def run(*given: Any) -> Any:
            self._ran.append((code, given))
            return code(*given)

        return run

    def __call__(self, *args: list[Any]) -> Callable[[list[Tensor]], object] | None:
        """Call the function; return how to call its code again, with all tensors in one list in the order of `args`.

        They must have the devices, dtypes, shapes and strides of this call, under the same number of threads. None: the
        function did not run as one piece of compiled code.
        """
        self._ran = []
        self._function(*args)
        ran, self._ran = self._ran, []
        places = {id(tensor): place for place, tensor in enumerate(flattened(args))}
        if len(ran) != 1 or not all(id(tensor) in places for tensor in ran[0][1]):
            return None
        ((code, given),) = ran
        order = [places[id(tensor)] for tensor in given]
        return lambda tensors: code(*[tensors[place] for place in order])


def flattened(lists: Iterable[Any]) -> Iterator[Tensor]:
    """Yield the tensors of nested lists, in order."""
    for each in lists:
        if isinstance(each, Tensor):
            yield each
        else:
            yield from flattened(each)
