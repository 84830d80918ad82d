"""zerocross predict: the classes that a packed network sees in images, clips or arrays; no PyTorch is loaded."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    import numpy as np

    from zerocross.runtime import Model

BATCH = 64


@dataclass
class _Sample:
    """One input: its file, its number where the file holds several, and its numbers or what is wrong with it."""

    file: Path
    index: int | None = None
    x: np.ndarray | None = None
    error: str = ""

    @property
    def name(self) -> str:
        return str(self.file) if self.index is None else f"{self.file}[{self.index}]"


def command(
    model: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL", help="A packed network (.zcb), see zerocross pack; or zoo:NAME, see zerocross zoo."
        ),
    ],
    inputs: Annotated[
        list[Path], typer.Argument(metavar="FILES...", help="Images, clips (.wav), arrays (.npy), or folders of them.")
    ],
    top: Annotated[int, typer.Option(metavar="N", min=1, help="How many classes to show for each input.")] = 3,
    threads: Annotated[int, typer.Option(metavar="N", min=1, help="Threads to compute with.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print a line of JSON for each input.")] = False,
) -> None:
    """Print the most probable classes of each input, with their probabilities in percent.

    Images and clips are prepared as the network's file says. An array holds one input or a batch; one of bytes is
    normalised like an image, one of floating-point numbers is taken as the network's input as it is. A file that cannot
    be read is named on stderr, the others are predicted, and the exit code is 2.
    """
    from zerocross import zoo
    from zerocross.runtime import load

    network = load(zoo.located(model), threads=threads)
    if len(network.output_size) != 1:
        raise ValueError(f"{model} gives values of shape {network.output_size} for an input, not a score per class")
    show = _show_json if as_json else _show
    failed = 0
    batch: list[_Sample] = []
    for sample in _samples(network, inputs):
        batch.append(sample)
        if len(batch) == BATCH:
            failed += show(network, batch, top)
            batch = []
    failed += show(network, batch, top)
    if failed:
        raise typer.Exit(2)


def _samples(network: Model, paths: list[Path]) -> Iterator[_Sample]:
    """Every sample, read as it is needed; a wrong path is refused before the first."""
    from zerocross.runtime.preprocess import finite, read_input

    files = [file for path in paths for file in _files(network, path)]
    for file in files:
        try:
            x = read_input(file, network.graph.preprocessing, network.input_size)
        except (ValueError, OSError) as wrong:
            yield _Sample(file, error=str(wrong))
            continue
        for index, numbers in enumerate(x):
            sample = _Sample(file, index if len(x) > 1 else None)
            try:
                sample.x = finite(numbers, sample.name)
            except ValueError as wrong:
                sample.error = str(wrong)
            yield sample


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


def _predict(network: Model, batch: list[_Sample], top: int) -> Iterator[tuple[_Sample, list[tuple[int, float]]]]:
    """Every sample with its most probable classes and their probabilities; with none, and the reason, on an error."""
    import numpy as np

    right = [sample.x for sample in batch if sample.x is not None]
    scores = iter(network(np.stack(right)).astype(np.float64) if right else ())
    for sample in batch:
        found: list[tuple[int, float]] = []
        if sample.x is not None:
            score = next(scores)
            if np.isfinite(score).all():
                share = np.exp(score - score.max())
                share /= share.sum()
                found = [(int(index), float(share[index])) for index in np.argsort(-share, kind="stable")[:top]]
            else:
                sample.error = f"{sample.name}: the network's scores are not finite; are its numbers too large?"
        if sample.error:
            typer.echo(f"zerocross: {' '.join(sample.error.split())}", err=True)
        yield sample, found


def _show(network: Model, batch: list[_Sample], top: int) -> int:
    """Print a table; return how many inputs failed."""
    failed = 0
    wide = max((len(name) for name in network.classes), default=len(str(network.output_size[0] - 1)))
    wider = max((len(sample.name) for sample in batch if not sample.error), default=0)
    for sample, found in _predict(network, batch, top):
        failed += not found
        if found:
            shares = "   ".join(f"{_class(network, index):{wide}} {100 * share:5.1f} %" for index, share in found)
            typer.echo(f"{sample.name:{wider}}   {shares}")
    return failed


def _show_json(network: Model, batch: list[_Sample], top: int) -> int:
    """Print a line of JSON for each input; return how many failed."""
    failed = 0
    for sample, found in _predict(network, batch, top):
        failed += not found
        line: dict[str, object] = {"file": str(sample.file)}
        if sample.index is not None:
            line["index"] = sample.index
        if found:
            line["classes"] = [{"class": _class(network, index), "probability": share} for index, share in found]
        else:
            line["error"] = sample.error
        typer.echo(json.dumps(line, allow_nan=False))
    return failed


def _class(network: Model, index: int) -> str:
    return network.classes[index] if network.classes else str(index)
