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
    """What there is to know about a trained network and its two files.

    Args:
        name: in the zoo or on the hub.
        title: what it does, in a few words.
        data: what it was trained and tested on.
        data_licence: of the data.
        data_address: where the data come from.
        licence: of the network's files.
        network: a name for zerocross.models.create.
        options: the network's, all of them.
        input_size: of one sample.
        class_names: one per output.
        method: how the binary weights were trained.
        recipe: that the run started from.
        command: that trains the same run.
        epochs: over all stages.
        seed: of the run.
        config: hash of the run's config; a checkout of zerocross has the result as results/runs/HASH.json.
        evaluated_on: "test" or "validation".
        trained_top1: accuracy in percent at the end of training, of the PyTorch network.
        samples: of the part that the packed file was evaluated on; 0 where it was not.
        correct: how many of them the packed file gets right.
        agreeing: for how many of them the packed file and the PyTorch network give the same class.
        real: how the packed file stores weights of real layers; "int8" ones are so in the PyTorch network, too.
        float_bytes: of the parameters in float32.
        packed_file: the packed network.
        packed_bytes: its size.
        packed_sha256: its checksum.
        weights_file: the PyTorch network's weights.
        weights_bytes: its size.
        weights_sha256: its checksum.
        milliseconds: of one prediction: batch 1, one thread, preprocessing not included.
        cpu: on which.
        made_with: versions and date of training.

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
        """Accuracy of the packed file in percent; None where it was not evaluated."""
        return 100 * self.correct / self.samples if self.samples else None

    def markdown(self) -> str:
        """The card as a page."""
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
    """A card from its JSON; missing, unknown and mistyped fields are refused."""
    if not path.is_file():
        raise FileNotFoundError(2, "No such card", str(path))
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as wrong:
        raise ValueError(f"{path} is not a card: {wrong}") from None
    known = {field.name: str(field.type).partition("[")[0] for field in fields(Card)}
    if not isinstance(values, dict) or set(values) != set(known):
        wrong = sorted(set(values) ^ set(known)) if isinstance(values, dict) else [type(values).__name__]
        raise ValueError(f"{path} is not a card of this version: {', '.join(wrong[:5])} missing or unknown")
    kinds = {"str": str, "int": int, "float": (int, float), "dict": dict, "list": list}
    for name, kind in known.items():
        if not isinstance(values[name], kinds[kind]) or isinstance(values[name], bool):
            raise ValueError(f"{path} is not a card: {name} is {values[name]!r}, not of type {kind}")
    return Card(**values)


def write_card(path: Path, card: Card) -> None:
    """Write a card as JSON, whole or not at all."""
    write_json(path, asdict(card))


def verified(path: Path, sha256: str, cure: str) -> Path:
    """The path of a file that has the checksum on its card, or an error that says so."""
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing: {cure}")
    if (found := checksum(path)) != sha256:
        raise ValueError(
            f"{path} is not the file of its card (sha256 {found[:16]}..., not {sha256[:16]}...): it was changed or cut "
            f"short; {cure}"
        )
    return path


def checksum(path: Path) -> str:
    """The SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def table(cards: Iterable[Card]) -> str:
    """Cards side by side, as a Markdown table."""
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
