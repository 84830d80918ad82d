"""The table of a packed network: each layer, binary or real, the operations folded into it, and its size in bytes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from zerocross.deploy.kinds import GIVES
from zerocross.deploy.steps import Step
from zerocross.runtime.format import Graph, all_equal
from zerocross.tables import bytes_text, shape_text, text_table


@dataclass(frozen=True)
class PackedLayer:
    """One node of a packed graph that has parameters, or a sign.

    Attributes:
        name: Name of the node.
        op: Op of the node.
        kind: "binary" (weights and inputs), "binary weights" (inputs are real), "real", or "bits" (signs, thresholds).
        shape: Shape of its weight, or of its vectors.
        weights: Number of weights, without vectors.
        bytes: Size of its tensors in the file; constant vectors take no space.
        note: Operations folded into the node, or the reason why it was not folded.

    Examples:
        >>> import zerocross
        >>> packed = zerocross.deploy.pack(zerocross.nn.BinaryLinear(64, 32, sign_input="clip"), (64,))
        >>> layer = packed.layers[-1]
        >>> layer.weights, layer.bytes
        (2048, 256)
    """

    name: str
    op: str
    kind: str
    shape: tuple[int, ...]
    weights: int
    bytes: int
    note: str


def layers(graph: Graph, steps_of_nodes: Mapping[str, Step]) -> tuple[PackedLayer, ...]:
    """Return a row for every node with parameters and for every sign."""
    rows = []
    for node in graph.nodes:
        if not node.tensors and node.op != "sign":
            continue
        step = steps_of_nodes[node.output]
        arrays = [graph.tensors[key] for key in node.tensors.values()]
        shape = tuple(node.attrs.get("shape", arrays[0].shape if arrays else ()))
        weights = math.prod(shape) if "weight" in node.tensors else 0
        size = sum(array.nbytes for array in arrays if array.ndim > 1 or not all_equal(array))
        rows.append(PackedLayer(node.output, node.op, _kind(step), shape, weights, size, _note(step)))
    return tuple(rows)


def _kind(step: Step) -> str:
    if step.op in GIVES:
        return "binary" if GIVES[step.op] == "sums" else "bits"
    return "binary weights" if "signs" in step.tensors else "real"


def _note(step: Step) -> str:
    if step.op == "affine":
        return f"one step for {_words([step.label, *step.folded])}"
    note = f"{_words(step.folded)} folded in" if step.folded else ""
    return "; ".join(part for part in (note, f"kept: {step.kept}" if step.kept else "") if part)


def _words(labels: Sequence[str]) -> str:
    distinct = list(dict.fromkeys(labels))
    return ", ".join(distinct[:-1]) + (" and " if len(distinct) > 1 else "") + distinct[-1]


def render(rows: Sequence[PackedLayer], file_bytes: int, float_bytes: int) -> str:
    """Render the table as text, followed by the file size."""
    cells = [
        (row.name, row.op, row.kind, shape_text(row.shape), row.note, f"{row.weights:,}" if row.weights else "",
         f"{row.bytes:,}") for row in rows
    ]  # fmt: skip
    binary = sum(row.weights for row in rows if row.kind.startswith("binary"))
    stored = sum(row.bytes for row in rows)
    packed = sum(-(-row.weights // 8) for row in rows if row.kind.startswith("binary"))
    total = ("total", "", "", "", "", f"{sum(row.weights for row in rows):,}", f"{stored:,}")
    kinds = Counter(row.kind for row in rows if row.weights)
    table = text_table(("node", "op", "kind", "shape", "folded", "weights", "bytes"), cells, total, right=2)
    return (
        f"{table}\n"
        f"layers: {kinds['binary']} binary, {kinds['binary weights']} with binary weights only, {kinds['real']} real\n"
        f"{binary:,} binary weights in {packed:,} bytes, other parameters {stored - packed:,} bytes, header "
        f"{file_bytes - stored:,} bytes\n"
        f"file {bytes_text(file_bytes)}, {float_bytes / file_bytes:.1f} times smaller than float32 parameters "
        f"({bytes_text(float_bytes)})"
    )
