"""Which extra of this package brings a module that is missing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

_EXTRAS = {
    "train": ("torch", "lightning_fabric", "filelock", "matplotlib", "rich", "sklearn", "typer"),
    "runtime": ("numba", "llvmlite", "PIL"),
    "tune": ("optuna", "botorch", "gpytorch", "sqlalchemy", "threadpoolctl", "optuna_integration", "greenlet"),
    "report": ("plotly",),
    "tensorboard": ("tensorboard",),
}
_EXTRA = {module: extra for extra, modules in _EXTRAS.items() for module in modules}


class MissingExtraError(ModuleNotFoundError):
    """A module that an extra brings is not installed; the message says which extra that is."""


def missing(module: str) -> MissingExtraError:
    """The error about a module that is not there."""
    return MissingExtraError(
        f"this part of zerocross needs {module}, which is not installed: pip install 'zerocross[{_EXTRA[module]}]'",
        name=module,
    )


def require(module: str) -> None:
    """Raise the error that names the extra, unless a module is installed; it is not imported."""
    if find_spec(module) is None:
        raise missing(module)


@contextmanager
def named() -> Iterator[None]:
    """Have the error about a module that is missing, raised by the imports in this context, name its extra."""
    try:
        yield
    except MissingExtraError:
        raise
    except ModuleNotFoundError as error:
        module = (error.name or "").partition(".")[0]
        if module not in _EXTRA:
            raise
        raise missing(module) from None  # the story of the import that failed helps nobody
