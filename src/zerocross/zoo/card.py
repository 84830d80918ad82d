"""The card of a trained network: JSON for programs, Markdown for people."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from zerocross.files import write_json


@dataclass(frozen=True)
class Card:
    """Description of a trained network and its two files.

    Args:
        name: Name in the zoo or on the Hub.
        title: Short description of what the network does.
        data: Training and test data.
        data_licence: Licence of the data.
        data_address: Source of the data.
        licence: Licence of the network's files.
        network: Name for zerocross.models.create.
        options: All options of the network.
        input_size: Input size of one sample.
        class_names: One name per output.
        method: Training method of the binary weights.
        recipe: Recipe of the run.
        command: Command that trains the same run.
        epochs: Total number of epochs of all stages.
        seed: Seed of the run.
        config: Hash of the run's config; a checkout of zerocross contains the result as results/runs/HASH.json.
        evaluated_on: "test" or "validation".
        trained_top1: Accuracy of the PyTorch network in percent at the end of training.
        samples: Number of samples on which the packed file was evaluated; 0 if it was not.
        correct: Number of correct predictions of the packed file.
        agreeing: Number of samples for which the packed file and the PyTorch network give the same class.
        real: Data type of the weights of real layers; "int8" weights are rounded in the PyTorch network, too.
        float_bytes: Size of the parameters in float32.
        packed_file: Name of the packed file.
        packed_bytes: Size of the packed file.
        packed_sha256: Checksum of the packed file.
        weights_file: Name of the file with the PyTorch network's weights.
        weights_bytes: Size of that file.
        weights_sha256: Checksum of that file.
        milliseconds: Time of one prediction: batch 1, one thread, without preprocessing.
        cpu: Processor on which the time was measured.
        made_with: Versions and date of training.

    Examples:
        >>> from zerocross import zoo
        >>> card = zoo.card("digits")
        >>> card.network, card.method, card.recipe
        ('digits_net', 'filter', 'digits')
    """

    name: str
    title: str
    data: str
    data_licence: str
    data_address: str
    licence: str
    network: str
    options: dict[str, Any]
    input_size: list[int]
    class_names: list[str]
    method: str
    recipe: str
    command: str
    epochs: int
    seed: int
    config: str
    evaluated_on: str
    trained_top1: float
    samples: int
    correct: int
    agreeing: int
    real: str
    float_bytes: int
    packed_file: str
    packed_bytes: int
    packed_sha256: str
    weights_file: str
    weights_bytes: int
    weights_sha256: str
    milliseconds: float
    cpu: str
    made_with: str

    @property
    def top1(self) -> float | None:
        """Accuracy of the packed file in percent; None if it was not evaluated."""
        return 100 * self.correct / self.samples if self.samples else None

    def markdown(self) -> str:
        """Return the card as Markdown."""
        ratio = self.float_bytes / self.packed_bytes
        rows = [
            ("data", f"{self.data}; {self.data_address}"),
            ("licence of the data", self.data_licence),
            ("licence of these files", self.licence),
            ("network", f"`{self.network}`, input {' x '.join(map(str, self.input_size))}"),
            ("classes", _classes(self.class_names)),
            ("training", f"{self.epochs} epochs of `{self.recipe}`, method `{self.method}`, seed {self.seed}"),
            ("command", f"`{self.command}`"),
            ("result", f"config {self.config}, {self.trained_top1:.2f} % ({self.evaluated_on}) at the end of training"),
            ("made with", self.made_with),
            *self._tested(),
            ("size", f"{_kilobytes(self.packed_bytes)}, 1/{ratio:.0f} of float32; real weights {self.real}"),
            ("time", f"{self.milliseconds:.3g} ms for one input on one thread ({self.cpu})"),
            ("sha256", f"`{self.packed_sha256}` ({self.packed_file})<br>`{self.weights_sha256}` ({self.weights_file})"),
        ]  # fmt: skip
        table = "\n".join(f"| {key} | {value} |" for key, value in rows)
        return f"# {self.name}\n\n{self.title}.\n\n| | |\n|---|---|\n{table}\n"

    def _tested(self) -> Iterable[tuple[str, str]]:
        if not self.samples:
            return [("packed file", "not evaluated")]
        accuracy = f"**{self.top1:.2f} %** of {self.samples:,} {self.evaluated_on} samples"
        same = f"same class as the PyTorch network on {100 * self.agreeing / self.samples:.2f} % of them"
        return [("packed file", f"{accuracy}; {same}")]


def read_card(path: Path) -> Card:
    """Read a card from its JSON file; missing, unknown and mistyped fields raise a ValueError."""
    if not path.is_file():
        raise FileNotFoundError(2, "No such card", str(path))
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is not a card: {error}") from None
    known = {field.name: str(field.type).partition("[")[0] for field in fields(Card)}
    if not isinstance(values, dict) or set(values) != set(known):
        differing = sorted(set(values) ^ set(known)) if isinstance(values, dict) else [type(values).__name__]
        raise ValueError(f"{path} is not a card of this version: {', '.join(differing[:5])} missing or unknown")
    kinds = {"str": str, "int": int, "float": (int, float), "dict": dict, "list": list}
    for name, kind in known.items():
        if not isinstance(values[name], kinds[kind]) or isinstance(values[name], bool):
            raise ValueError(f"{path} is not a card: {name} is {values[name]!r}, not of type {kind}")
    return Card(**values)


def write_card(path: Path, card: Card) -> None:
    """Write a card as JSON, atomically."""
    write_json(path, asdict(card))


def verified(path: Path, sha256: str, hint: str) -> Path:
    """Return the path of a file if its checksum is that on its card; otherwise raise an error that ends with `hint`."""
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing: {hint}")
    if (actual := checksum(path)) != sha256:
        raise ValueError(
            f"{path} does not match its card (sha256 {actual[:16]}..., expected {sha256[:16]}...): it was changed or "
            f"truncated; {hint}"
        )
    return path


def checksum(path: Path) -> str:
    """Return the SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def table(cards: Iterable[Card]) -> str:
    """Return a Markdown table with one row per card."""
    header = ["name", "what it does", "network", "training", "packed file", "size", "ms"]
    lines = [f"| {' | '.join(header)} |", "|---|---|---|---|---:|---:|---:|"]
    for card in cards:
        accuracy = f"{card.top1:.2f} %" if card.top1 is not None else "-"
        cells = [
            f"`{card.name}`", card.title, f"`{card.network}`", f"{card.epochs} epochs of `{card.recipe}`", accuracy,
            _kilobytes(card.packed_bytes), f"{card.milliseconds:.3g}",
        ]  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _kilobytes(count: int) -> str:
    return f"{count / 1000:.1f} kB"


def _classes(names: list[str]) -> str:
    return ", ".join(names) if len(names) <= 12 else f"{len(names)}: {', '.join(names[:6])}, ..."
