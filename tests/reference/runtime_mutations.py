"""Packed files with mutated sizes, wiring, ops and vectors, and a valid checksum."""

from __future__ import annotations

import json
import math
import random
import resource
import time
from typing import Any

import numpy as np

from reference.packed_graph import DATA, GRAPH, opened, sealed
from reference.runtime_random import RandomGraph
from zerocross.runtime.format import parse, serialize
from zerocross.runtime.graph import OPS, Graph, Node, checked_nodes
from zerocross.runtime.infer import Value, infer
from zerocross.runtime.model import Model

SIZES = (0, 1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 64, 100, 255, 1000, 1 << 12, 1 << 14, 1 << 16, 1 << 20, (1 << 20) + 1)
ADDED: tuple[tuple[str, dict[str, Any]], ...] = (
    ("relu", {}), ("sign", {}), ("flatten", {}), ("global_avg_pool", {}), ("hardtanh", {"min": -1.0, "max": 0.5}),
    ("subsample", {"stride": [2, 1]}), ("pad_channels", {"before": 3, "after": 14}), ("add", {}), ("concat", {}),
    ("max_pool2d", {"kernel": [3, 2], "padding": [1, 1]}), ("avg_pool2d", {"kernel": [2, 2], "ceil_mode": True}),
)  # fmt: skip
MAX_SECONDS = 20.0
CALLED = 1 << 26  # models with more work than this are built but not called


def mutated(rng: random.Random) -> bytes:
    """Return a file changed in one to four places; class names are removed, so that any output is allowed."""
    whole = DATA if rng.random() < 0.5 else serialize(RandomGraph(rng.randrange(500)).graph())
    header, network, tensors = opened(whole)
    network["classes"], network["preprocessing"] = [], None
    for _ in range(rng.randint(1, 4)):
        rng.choice((_resize, _resize, _rewire, _rename, _insert, _insert, _repeat, _stretch, _cut))(network, rng)
    return sealed(header, json.dumps(network).encode(), tensors)


def mutated_validly(rng: random.Random) -> bytes:
    """As `mutated`, but with tensors adapted to the changes, so that most files are valid networks of unusual sizes."""
    graph = GRAPH if rng.random() < 0.3 else RandomGraph(rng.randrange(500)).graph()
    size = tuple(
        rng.choice(SIZES[1:-1]) if rng.random() < 0.2 and not (axis and side == 1) else side
        for axis, side in enumerate(graph.input_size)
    )
    numbers = np.random.default_rng(rng.randrange(1 << 30))
    nodes, tensors, names = [Node("input", (), "x")], {}, {graph.nodes[0].output: "x"}
    values = {"x": Value(size)}
    for number, old in enumerate(graph.nodes[1:]):
        attrs = json.loads(json.dumps(dict(old.attrs)))
        for key, value in attrs.items():
            if isinstance(value, list) and key != "shape" and rng.random() < 0.1:
                value[rng.randrange(len(value))] = rng.choice(SIZES)
            elif key in ("before", "after") and rng.random() < 0.2:
                attrs[key] = rng.choice(SIZES)
        inputs = tuple(rng.choice(list(values)) if rng.random() < 0.05 else names.get(name, "x") for name in old.inputs)
        node = Node(old.op, inputs, f"n{number}", attrs, {role: f"n{number}.{role}" for role in old.tensors})
        try:
            node, own = _fitted(node, values[inputs[0]].shape, numbers, rng)
            infers = Graph(checked_nodes([*nodes, node]), "x", size, {**tensors, **own})
            values = infer(infers)
        except ValueError:
            names[old.output] = inputs[0]
            continue
        nodes.append(node)
        tensors |= own
        names[old.output] = node.output
    used, kept = {nodes[-1].output}, []
    for node in reversed(nodes):
        if node.output in used:
            kept.insert(0, node)
            used.update(node.inputs)
    keys = {key for node in kept for key in node.tensors.values()}
    return serialize(Graph(tuple(kept), nodes[-1].output, size, {key: tensors[key] for key in keys}))


def _fitted(
    node: Node, shape: tuple[int, ...], numbers: np.random.Generator, rng: random.Random
) -> tuple[Node, dict[str, np.ndarray]]:
    """Return the node with a weight and vectors for an input of this shape; ValueError if they are too large."""
    attrs, outputs, count = dict(node.attrs), shape[0], 0
    if "shape" in attrs:
        groups = attrs["groups"] = rng.choice((1, 1, 1, shape[0])) if "groups" in attrs else 1
        outputs = groups * rng.choice((1, 2)) if groups > 1 else attrs["shape"][0]
        kernel = [rng.choice(SIZES[1:16]) if rng.random() < 0.1 else side for side in attrs["shape"][2:]]
        attrs["shape"] = [outputs, shape[0] // groups, *kernel]
        if "stride" not in attrs:
            del attrs["groups"]
        if (count := math.prod(attrs["shape"])) > 1 << 18:
            raise ValueError("too many weights for a small file")
    own: dict[str, np.ndarray] = {}
    for role, key in node.tensors.items():
        if role == "weight":
            bits = np.packbits(numbers.integers(0, 2, count).astype(np.uint8), bitorder="little")
            real = node.op in ("conv2d", "linear")
            own[key] = numbers.standard_normal(attrs["shape"]).astype(np.float32) if real else bits
        elif role == "direction":
            own[key] = np.ones(outputs, np.int8)
        elif role == "threshold":
            own[key] = np.full(outputs, rng.choice((0, 3, -(1 << 31), (1 << 31) - 1)), np.int32)
        elif role != "weight_scale":
            own[key] = np.full(outputs, rng.choice((1.0, -0.5)), np.float32)
    roles = {role: key for role, key in node.tensors.items() if key in own}
    return Node(node.op, node.inputs, node.output, attrs, roles), own


def _resize(network: Any, rng: random.Random) -> None:
    """Change a number of the input size or of an attribute."""
    places = [(network["input_size"], index) for index in range(len(network["input_size"]))]
    for row in network["nodes"]:
        for key, value in (row[3] if len(row) > 3 else {}).items():
            if isinstance(value, list):
                places += [(value, index) for index in range(len(value))]
            else:
                places.append((row[3], key))
    holder, key = rng.choice(places)
    number = holder[key]
    holder[key] = rng.choice(SIZES) if rng.random() < 0.7 or type(number) is bool else number + rng.choice((-1, 1))


def _rewire(network: Any, rng: random.Random) -> None:
    number = rng.randrange(1, len(network["nodes"])) if len(network["nodes"]) > 1 else 0
    row = network["nodes"][number]
    if len(row) > 2 and row[2]:
        row[2][rng.randrange(len(row[2]))] = rng.choice(network["nodes"][:number])[1]
    network["output"] = rng.choice((network["output"], network["output"], network["nodes"][-1][1]))


def _rename(network: Any, rng: random.Random) -> None:
    rng.choice(network["nodes"])[0] = rng.choice(list(OPS))


def _insert(network: Any, rng: random.Random) -> None:
    """Insert a node between another node and all its users."""
    number = rng.randrange(len(network["nodes"]))
    op, attrs = rng.choice(ADDED)
    source, name = network["nodes"][number][1], f"new{rng.randrange(1 << 30)}"
    for row in network["nodes"][number + 1 :]:
        if len(row) > 2:
            row[2] = [name if used == source else used for used in row[2]]
    network["output"] = name if network["output"] == source else network["output"]
    inputs = [source] * (2 if op in ("add", "concat") else 1)
    network["nodes"].insert(number + 1, [op, name, inputs, json.loads(json.dumps(attrs))])


def _repeat(network: Any, rng: random.Random) -> None:
    for _ in range(rng.choice((3, 30, 300))):
        _insert(network, rng)


def _stretch(network: Any, rng: random.Random) -> None:
    """Change the length of a vector; a vector of equal numbers needs no bytes for it."""
    roles = [(row[4], role) for row in network["nodes"] if len(row) > 4 for role in row[4] if role != "weight"]
    if roles:
        holder, role = rng.choice(roles)
        holder[role] = rng.choice((rng.choice(SIZES), [rng.choice(SIZES), rng.choice((0, 1, -1, 127, -(1 << 31)))]))


def _cut(network: Any, rng: random.Random) -> None:
    """Remove the last nodes."""
    number = rng.randrange(1, len(network["nodes"]) + 1)
    network["nodes"] = network["nodes"][:number]
    network["output"] = network["nodes"][-1][1]


def attack(seed: int) -> str:
    """Read, build and call a mutated file; return how far it got. Anything but a ValueError is a bug."""
    rng, began = random.Random(seed), time.process_time()
    outcome = "refused"
    try:
        graph = parse(mutated(rng) if rng.random() < 0.5 else mutated_validly(rng))
        outcome = "read"
        model = Model(graph, max_memory=rng.choice((None, 1 << 24, 1 << 26)), say=str)
        outcome = "made"
        if model.work < CALLED and 4 * np.prod(model.input_size) < 1 << 24:
            for count in (rng.randint(1, 3), rng.randint(1, 3)):
                result = model(np.ones((count, *model.input_size), np.float32))
                if result.shape != (count, *model.output_size):
                    raise AssertionError(f"seed {seed}: a result of shape {result.shape}")
            outcome = "called"
    except ValueError:
        pass
    except BaseException as error:
        raise AssertionError(f"seed {seed}: {type(error).__name__}") from error
    if (took := time.process_time() - began) > MAX_SECONDS:
        raise AssertionError(f"seed {seed} took {took:.1f} s ({outcome})")
    return outcome


def attack_many(first: int, count: int, gigabytes: float) -> dict[str, int]:
    """Attack with many files, in a process with limited memory; count how far they got."""
    limit = int(gigabytes * (1 << 30))
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    results: dict[str, int] = {}
    for seed in range(first, first + count):
        outcome = attack(seed)
        results[outcome] = results.get(outcome, 0) + 1
    return results
