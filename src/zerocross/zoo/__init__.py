"""Trained networks that are part of the package: packed files of a few kilobytes, each with a model card.

    zerocross.zoo.names()                   # ["audiomnist", "cifar10", "digits", ...]
    zerocross.zoo.card("cifar10").top1      # test accuracy of the packed file
    run = zerocross.zoo.load("cifar10")     # the packed network, without torch
    run(run.preprocess("cat.png"))
    net = zerocross.zoo.model("cifar10")    # the PyTorch network with its weights, for inspection or fine-tuning

Every file is checked against the SHA-256 on its card before it is read. To add a finished run to the zoo, or to replace
an entry, run `zerocross zoo add RUN --name cifar10 --overwrite` in a checkout; see `zerocross.zoo.add`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from zerocross.checks import did_you_mean
from zerocross.extras import named
from zerocross.zoo.card import Card, read_card, verified

if TYPE_CHECKING:
    from torch import nn

    from zerocross.runtime import Model

FILES = Path(__file__).parent / "files"
PREFIX = "zoo:"

__all__ = ["Card", "card", "load", "located", "model", "names"]


def names() -> list[str]:
    """Return the names of all networks.

    Examples:
        >>> from zerocross import zoo
        >>> "digits" in zoo.names()
        True
    """
    return sorted(path.stem for path in FILES.glob("*.json"))


def card(name: str) -> Card:
    """Return the card of a network: data, licence, training, accuracy, size and speed.

    Examples:
        >>> from zerocross import zoo
        >>> round(zoo.card("digits").top1, 1)
        99.7
    """
    known = names()
    if name not in known:
        raise ValueError(f"the zoo has no network {name!r}; it has {', '.join(known)}{did_you_mean(name, known)}")
    return read_card(FILES / f"{name}.json")


def load(name: str, threads: int = 1, **options: Any) -> Model:
    """Load a packed network with `zerocross.runtime.load`, without torch.

    Args:
        name: One of `names()`.
        threads: Number of threads per call.
        options: Other options of `zerocross.runtime.load`.

    Examples:
        >>> import numpy as np
        >>> from zerocross import zoo
        >>> zoo.load("digits")(np.zeros((1, 1, 8, 8), np.float32)).shape
        (1, 10)
    """
    with named():
        from zerocross import runtime

    return runtime.load(_packed(name), threads, **options)


def model(name: str) -> nn.Module:
    """Return the PyTorch network with its trained weights, in evaluation mode.

    To fine-tune it: `train.fit(config, dataset, model=zoo.model(name))`.

    Examples:
        >>> from zerocross import zoo
        >>> network = zoo.model("digits")
        >>> type(network).__name__, network.training
        ('BiRealNet', False)
    """
    with named():
        from zerocross.zoo.network import build

    entry = card(name)
    return build(entry, verified(FILES / entry.weights_file, entry.weights_sha256, _REINSTALL))


def located(path: str | Path) -> Path:
    """Return a path unchanged, or for "zoo:NAME" the path of the zoo's packed file after checking it.

    Examples:
        >>> from zerocross import zoo
        >>> zoo.located("zoo:digits").name, zoo.located("model.zcb").name
        ('digits.zcb', 'model.zcb')
    """
    text = str(path)
    return _packed(text.removeprefix(PREFIX)) if text.startswith(PREFIX) else Path(path)


_REINSTALL = "install zerocross again"


def _packed(name: str) -> Path:
    entry = card(name)
    return verified(FILES / entry.packed_file, entry.packed_sha256, _REINSTALL)
