"""Datasets: `load(name)` for built-in ones, `from_tensors` for your own; one source per file.

Names are imported on first use (PEP 562), so that finding and fetching files does not require torch.
"""

from __future__ import annotations

from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zerocross.extras import named

if TYPE_CHECKING:
    from zerocross.data.batches import Batches, Split
    from zerocross.data.dataset import BatchStream, Dataset, from_tensors
    from zerocross.data.options import BatchOptions

NAMES = ("digits", "mnist", "fashion-mnist", "cifar10", "audiomnist", "ucr", "hapt", "imdb", "imagenet")
"""The names that `load` takes.

Examples:
    >>> import zerocross
    >>> zerocross.data.NAMES[:3]
    ('digits', 'mnist', 'fashion-mnist')
"""
_HOME = {
    "Batches": "zerocross.data.batches",
    "BatchOptions": "zerocross.data.options",
    "BatchStream": "zerocross.data.dataset",
    "Dataset": "zerocross.data.dataset",
    "Split": "zerocross.data.batches",
    "from_tensors": "zerocross.data.dataset",
}

__all__ = ["NAMES", "BatchOptions", "BatchStream", "Batches", "Dataset", "Split", "from_tensors", "load"]


def load(name: str, data_dir: str | Path | None = None, *, validate: bool = False, **options: Any) -> Dataset:
    """Load a dataset by name, for final results or, with `validate=True`, for choosing settings.

    Args:
        name: one of `NAMES`.
        data_dir: the folder of its files; `digits` needs none.
        validate: hold out a part of the training data and evaluate on it; test data is not read. Otherwise train on
            all training data and evaluate on the official test part.
        options: `fold` and `features` (audiomnist), `set` (ucr), `words` (imdb), `train_size` (cifar10,
            mnist, fashion-mnist, imdb), `reader` and `workers` (imagenet).

    Examples:
        >>> from zerocross import data
        >>> digits = data.load("digits", validate=True)
        >>> len(digits.train), len(digits.evaluation), digits.evaluated_on
        (1151, 287, 'validation')
    """
    if name not in NAMES:
        raise ValueError(f"dataset {name!r} is unknown; choose one of {', '.join(NAMES)}, or use from_tensors()")
    with named():
        source = import_module(f"zerocross.data.{name.replace('-', '_')}").load
    known = [option for option in signature(source).parameters if option not in {"data_dir", "validate"}]
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise ValueError(f"{name} has no option {unknown[0]!r}; it has {', '.join(known) or 'none'}")
    return source(data_dir, validate=validate, **options)


def __getattr__(name: str) -> Any:
    if name in _HOME:
        with named():
            return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'zerocross.data' has no attribute {name!r}; it has {', '.join(__all__)}")
