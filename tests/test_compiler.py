"""torch.compile if it works, otherwise the same function with one warning."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch._inductor import config, cpp_builder

from zerocross import compiler


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    caches = (compiler.missing, compiler._warn_once, cpp_builder.cpp_compiler_search)
    for cache in caches:
        cache.cache_clear()
    yield
    for cache in caches:
        cache.cache_clear()


def double(x: torch.Tensor) -> torch.Tensor:
    return 2 * x


@config.patch({"cpp.cxx": ("no-such-compiler",)})
def test_without_a_compiler_the_function_is_returned_with_one_warning():
    assert not compiler.available()
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        assert compiler.compiled(double) is double
        assert compiler.compiled(double, dynamic=True) is double
    assert re.match(r"no C\+\+ compiler found: install g\+\+ or clang\+\+.*Running eagerly", str(heard[0].message))
    assert len(heard) == 1
    assert heard[0].filename == __file__


def test_without_pythons_headers_the_function_is_returned(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(cpp_builder, "get_cpp_compiler", lambda: "g++")
    monkeypatch.setattr(compiler.sysconfig, "get_path", lambda _: str(tmp_path))
    with pytest.warns(UserWarning, match=r"Python\.h not found: install Python's headers"):
        assert compiler.compiled(double) is double


@config.patch({"cpp.cxx": ("no-such-compiler",)})
def test_code_for_other_devices_needs_no_compiler():
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        assert compiler.compiled(double, needs_cpp=False) is not double


def test_with_a_compiler_the_function_is_compiled(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cpp_builder, "get_cpp_compiler", lambda: "g++")
    assert compiler.available()
    seen = []

    def backend(graph: torch.fx.GraphModule, _: list[torch.Tensor]):
        seen.append(graph)
        return graph.forward

    function = compiler.compiled(double, backend=backend)
    assert torch.equal(function(torch.ones(3)), torch.full((3,), 2.0))
    assert len(seen) == 1


@pytest.mark.parametrize("argument", [True, False])
@pytest.mark.parametrize("limit", [2, 12])
def test_recompile_limit_holds_with_and_without_an_argument_of_torch(
    monkeypatch: pytest.MonkeyPatch, limit: int, argument: bool
):
    monkeypatch.setattr(cpp_builder, "get_cpp_compiler", lambda: "g++")
    builds = []

    def backend(graph: torch.fx.GraphModule, _: list[torch.Tensor]):
        builds.append(graph)
        return graph.forward

    if not argument:  # as in an older torch
        compile_ = torch.compile
        monkeypatch.setattr(torch, "compile", lambda function, dynamic, backend: compile_(
            function, dynamic=dynamic, backend=backend))  # fmt: skip
    torch._dynamo.reset()
    function = compiler.compiled(double, backend=backend, dynamic=False, recompile_limit=limit)
    for size in range(2, 16):
        assert torch.equal(function(torch.ones(size)), torch.full((size,), 2.0))
    assert len(builds) == limit
