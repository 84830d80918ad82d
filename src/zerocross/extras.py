"""Name the extra of this package that installs a missing module."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

_EXTRAS = {
    "train": ("torch", "lightning_fabric", "filelock", "matplotlib", "rich", "sklearn", "typer"),
    "runtime": ("numba", "llvmlite", "PIL"),
    "tune": ("optuna", "botorch", "gpytorch", "sqlalchemy", "threadpoolctl", "optuna_integration", "greenlet"),
    "report": ("plotly",),
    "export": ("onnx", "onnxruntime", "qonnx"),
    "tensorboard": ("tensorboard",),
    "wandb": ("wandb",),
    "mlflow": ("mlflow",),
    "serve": ("fastapi", "uvicorn", "starlette", "prometheus_client", "python_multipart"),
    "hub": ("huggingface_hub",),
}
_EXTRA = {module: extra for extra, modules in _EXTRAS.items() for module in modules}


class MissingExtraError(ModuleNotFoundError):
    """A module of an extra is not installed; the message names the extra."""


def missing(module: str) -> MissingExtraError:
    """Return the error for a missing module."""
    return MissingExtraError(
        f"this part of zerocross needs {module}, which is not installed: pip install 'zerocross[{_EXTRA[module]}]'",
        name=module,
    )


def missing_modules() -> dict[str, list[str]]:
    """Return the modules that are not installed, for every extra; empty lists for extras that are complete."""
    return {extra: [name for name in modules if not installed(name)] for extra, modules in _EXTRAS.items()}


def installed(module: str) -> bool:
    """Whether a module, or a submodule of a package, is installed, without importing it."""
    try:
        return find_spec(module) is not None
    except (ModuleNotFoundError, ValueError):  # its package is missing, or is None in sys.modules
        return False


def require(module: str) -> None:
    """Raise MissingExtraError if a module is not installed, without importing it."""
    if not installed(module):
        raise missing(module)


@contextmanager
def named() -> Iterator[None]:
    """Turn ModuleNotFoundError raised in this context into an error that names the extra to install."""
    try:
        yield
    except MissingExtraError:
        raise
    except ModuleNotFoundError as error:
        module = (error.name or "").partition(".")[0]
        if module not in _EXTRA:
            raise
        raise missing(module) from None  # the traceback of the failed import does not help
