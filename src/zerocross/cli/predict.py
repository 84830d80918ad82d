"""zerocross predict: classify images, clips or arrays with a packed network, without PyTorch."""

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
    """One input: its file, its index if the file has several, and its values or an error."""

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
    top: Annotated[int, typer.Option(metavar="N", min=1, help="Number of classes to show per input.")] = 3,
    threads: Annotated[int, typer.Option(metavar="N", min=1, help="Number of threads.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print one line of JSON per input.")] = False,
) -> None:
    """Print the most probable classes of each input, with their probabilities in percent.

    Images and clips are preprocessed as the packed network specifies. An array is one input or a batch; bytes are
    normalised like an image, floating-point numbers are used unchanged. A file that cannot be read is reported on
    stderr, the others are classified, and the exit code is 2.
    """
    from zerocross import zoo
    from zerocross.runtime import load

    network = load(zoo.located(model), threads=threads)
    if len(network.output_size) != 1:
        raise ValueError(f"{model} returns values of shape {network.output_size} for an input, not one score per class")
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
    """Yield all samples, read lazily; raises for a wrong path before the first sample."""
    from zerocross.runtime.preprocess import finite, read_input

    files = [file for path in paths for file in _files(network, path)]
    for file in files:
        try:
            x = read_input(file, network.graph.preprocessing, network.input_size)
        except (ValueError, OSError) as error:
            yield _Sample(file, error=str(error))
            continue
        for index, numbers in enumerate(x):
            sample = _Sample(file, index if len(x) > 1 else None)
            try:
                sample.x = finite(numbers, sample.name)
            except ValueError as error:
                sample.error = str(error)
            yield sample


def _files(network: Model, path: Path) -> list[Path]:
    from zerocross.runtime.preprocess import suffixes

    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist")
    if not path.is_dir():
        return [path]
    wanted = suffixes(network.graph.preprocessing)
    files = sorted(file for file in path.rglob("*") if file.suffix.lower() in wanted and file.is_file())
    if not files:
        raise ValueError(f"{path} contains no file that this network can read ({', '.join(wanted)})")
    return files


def _predict(network: Model, batch: list[_Sample], top: int) -> Iterator[tuple[_Sample, list[tuple[int, float]]]]:
    """Yield each sample with its most probable classes and their probabilities; none if the sample has an error."""
    import numpy as np

    valid = [sample.x for sample in batch if sample.x is not None]
    scores = iter(network(np.stack(valid)).astype(np.float64) if valid else ())
    for sample in batch:
        classes: list[tuple[int, float]] = []
        if sample.x is not None:
            score = next(scores)
            if np.isfinite(score).all():
                share = np.exp(score - score.max())
                share /= share.sum()
                classes = [(int(index), float(share[index])) for index in np.argsort(-share, kind="stable")[:top]]
            else:
                sample.error = (
                    f"{sample.name}: the scores of the network are not finite; are the input values too large?"
                )
        if sample.error:
            typer.echo(f"zerocross: {' '.join(sample.error.split())}", err=True)
        yield sample, classes


def _show(network: Model, batch: list[_Sample], top: int) -> int:
    """Print a table; return the number of inputs that failed."""
    failed = 0
    class_width = max((len(name) for name in network.classes), default=len(str(network.output_size[0] - 1)))
    name_width = max((len(sample.name) for sample in batch if not sample.error), default=0)
    for sample, classes in _predict(network, batch, top):
        failed += not classes
        if classes:
            shares = "   ".join(
                f"{_class(network, index):{class_width}} {100 * share:5.1f} %" for index, share in classes
            )
            typer.echo(f"{sample.name:{name_width}}   {shares}")
    return failed


def _show_json(network: Model, batch: list[_Sample], top: int) -> int:
    """Print one line of JSON per input; return the number of inputs that failed."""
    failed = 0
    for sample, classes in _predict(network, batch, top):
        failed += not classes
        line: dict[str, object] = {"file": str(sample.file)}
        if sample.index is not None:
            line["index"] = sample.index
        if classes:
            line["classes"] = [{"class": _class(network, index), "probability": share} for index, share in classes]
        else:
            line["error"] = sample.error
        typer.echo(json.dumps(line, allow_nan=False))
    return failed


def _class(network: Model, index: int) -> str:
    return network.classes[index] if network.classes else str(index)
