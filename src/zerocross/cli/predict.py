"""zerocross predict: the classes that a packed network sees in images, clips or arrays; no PyTorch is loaded."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    import numpy as np

    from zerocross.runtime import Model

BATCH = 64


def command(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A packed network (.zcb), see zerocross pack.")],
    inputs: Annotated[
        list[Path], typer.Argument(metavar="FILES...", help="Images, clips (.wav), arrays (.npy), or folders of them.")
    ],
    top: Annotated[int, typer.Option(metavar="N", min=1, help="How many classes to show for each input.")] = 3,
    threads: Annotated[int, typer.Option(metavar="N", min=1, help="Threads to compute with.")] = 1,
) -> None:
    """Print the most probable classes of each input, with their probabilities in percent.

    Images and clips are prepared as the network's file says. An array holds one input or a batch; one of bytes is
    normalised like an image, one of floating-point numbers is taken as the network's input as it is.
    """
    from zerocross.runtime import load

    network = load(model, threads=threads)
    if len(network.output_size) != 1:
        raise ValueError(f"{model} gives values of shape {network.output_size} for an input, not a score per class")
    names: list[str] = []
    batch: list[np.ndarray] = []
    for name, x in _inputs(network, inputs):
        names.append(name)
        batch.append(x)
        if len(names) == BATCH:
            _show(network, names, batch, top)
            names, batch = [], []
    _show(network, names, batch, top)


def _inputs(network: Model, paths: list[Path]) -> Iterator[tuple[str, np.ndarray]]:
    """The name and the input of every sample, read as it is needed; a wrong path is refused before the first."""
    from zerocross.runtime.preprocess import read_input

    files = [file for path in paths for file in _files(network, path)]
    for file in files:
        x = read_input(file, network.graph.preprocessing, network.graph.input_size)
        for index, sample in enumerate(x):
            yield (f"{file}[{index}]" if len(x) > 1 else str(file)), sample


def _files(network: Model, path: Path) -> list[Path]:
    from zerocross.runtime.preprocess import suffixes

    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist")
    if not path.is_dir():
        return [path]
    wanted = suffixes(network.graph.preprocessing)
    found = sorted(file for file in path.rglob("*") if file.suffix.lower() in wanted and file.is_file())
    if not found:
        raise ValueError(f"{path} holds no file that this network takes ({', '.join(wanted)})")
    return found


def _show(network: Model, names: list[str], batch: list[np.ndarray], top: int) -> None:
    import numpy as np

    if not batch:
        return
    scores = network(np.stack(batch)).astype(np.float64)
    classes = network.graph.classes or [str(index) for index in range(scores.shape[1])]
    shares = np.exp(scores - scores.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    wide, wider = (max(len(name) for name in each) for each in (classes, names))
    for name, share in zip(names, shares, strict=True):
        best = np.argsort(-share, kind="stable")[:top]
        found = "   ".join(f"{classes[index]:{wide}} {100 * share[index]:5.1f} %" for index in best)
        typer.echo(f"{name:{wider}}   {found}")
