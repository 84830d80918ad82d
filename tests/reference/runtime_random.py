"""Random packed graphs: any op on any earlier value, with unusual sizes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from reference.runtime_graphs import Builder
from zerocross.runtime.graph import Graph, checked_nodes
from zerocross.runtime.infer import Value, check, infer

CHANNELS = (1, 2, 3, 5, 7, 15, 16, 17, 20, 32, 33)


class RandomGraph:
    """A graph that grows by random nodes; an invalid node is removed again.

    Args:
        seed: Seed; the same seed gives the same graph.
        nodes: Number of nodes to try to add.
    """

    def __init__(self, seed: int, nodes: int = 12) -> None:
        self.rng = np.random.default_rng(seed)
        size = (self._channels(), *(int(side) for side in self.rng.integers(1, 10, 2)))
        self.builder = Builder(*size[: 3 if self.rng.random() < 0.9 else 1], seed=seed)
        self.values = {"x": Value(self.builder.input_size)}
        for _ in range(nodes):
            self._grow()

    def graph(self) -> Graph:
        """Return the part of the graph on which the last value depends."""
        output = list(self.values)[-1]
        nodes, expected = [], {output}
        for node in reversed(self.builder.nodes):
            if node.output in expected or node.op == "input":
                nodes.insert(0, node)
                expected.update(node.inputs)
        tensors = {key: self.builder.tensors[key] for node in nodes for key in node.tensors.values()}
        return check(Graph(tuple(nodes), output, self.builder.input_size, tensors))

    def _grow(self) -> None:
        before = list(self.builder.nodes)
        try:
            self.rng.choice(np.array(ADDITIONS, object))(self)
            graph = Graph(checked_nodes(self.builder.nodes), "x", self.builder.input_size, self.builder.tensors)
            self.values = infer(graph)
        except ValueError:
            self.builder.nodes = before
        for name, value in self.values.items():
            self.builder.channels[name] = value.shape[0]

    def _channels(self) -> int:
        return int(self.rng.choice(CHANNELS))

    def _pick(self, kind: str | None = None) -> str:
        """Return a value, most often the last one."""
        names = [name for name, value in self.values.items() if kind in (None, value.kind)]
        if not names:
            raise ValueError(f"no value of kind {kind}")
        return names[-1] if self.rng.random() < 0.7 else str(self.rng.choice(names))

    def _pair(self, low: int, high: int) -> tuple[int, int]:
        first, second = self.rng.integers(low, high + 1, 2)
        return int(first), int(second)

    def _bits(self) -> str:
        return self.builder.sign(self._pick(), shifted=self.rng.random() < 0.5)

    # Each method adds one or two nodes.

    def convolution(self) -> None:
        binary = self.rng.random() < 0.5
        x = self._bits() if binary else self._pick()
        groups = int(self.rng.choice([1, 1, 1, self.builder.channels[x]]))
        outputs = groups * int(self.rng.integers(1, 3)) if groups > 1 else self._channels()
        attrs = {"pad_value": int(self.rng.integers(0, 2))} if binary else {"bias": int(self.rng.integers(0, 2))}
        self.builder.conv(
            x, outputs, self._pair(1, 3), binary=binary, groups=groups, stride=self._pair(1, 2),
            padding=self._pair(0, 2), dilation=self._pair(1, 2), **attrs,
        )  # fmt: skip

    def linear(self) -> None:
        binary, x = self.rng.random() < 0.5, self._pick()
        shape = self.values[x].shape
        x = self.builder.sign(x) if binary else x
        x = self.builder.add("flatten", x) if len(shape) > 1 else x
        self.builder.linear(x, int(np.prod(shape)), self._channels(), binary=binary)

    def sign(self) -> None:
        self._bits()

    def threshold(self) -> None:
        self.builder.threshold(self._pick("sums"))

    def affine(self) -> None:
        self.builder.affine(self._pick())

    def prelu(self) -> None:
        self.builder.prelu(self._pick(), single=self.rng.random() < 0.3)

    def clamp(self) -> None:
        x = self._pick()
        self.builder.add("relu", x) if self.rng.random() < 0.6 else self.builder.add("hardtanh", x, min=-1.5, max=2.0)

    def residual(self) -> None:
        x = self._pick()
        bent = self.builder.affine(x)
        bent = self.builder.add("relu", bent) if self.rng.random() < 0.7 else self.builder.prelu(bent)
        self.builder.add("add", x, bent)

    def add(self) -> None:
        x = self._pick()
        like = [name for name, value in self.values.items() if value.shape == self.values[x].shape]
        self.builder.add("add", x, str(self.rng.choice(like)))

    def concat(self) -> None:
        x = self._pick()
        like = [name for name, value in self.values.items() if value.shape[1:] == self.values[x].shape[1:]]
        self.builder.concat(x, *(str(name) for name in self.rng.choice(like, int(self.rng.integers(1, 3)))))

    def pool(self) -> None:
        kind = str(self.rng.choice(["avg_pool2d", "max_pool2d"]))
        attrs: dict[str, Any] = {"dilation": self._pair(1, 2)}
        if kind == "avg_pool2d":
            attrs = {"count_include_pad": bool(self.rng.random() < 0.5)}
        self.builder.add(
            kind, self._pick(), kernel=self._pair(1, 3), stride=self._pair(1, 2), padding=self._pair(0, 1),
            ceil_mode=bool(self.rng.random() < 0.5), **attrs,
        )  # fmt: skip

    def global_pool(self) -> None:
        self.builder.add("global_avg_pool", self._pick())

    def flatten(self) -> None:
        self.builder.add("flatten", self._pick())

    def subsample(self) -> None:
        self.builder.add("subsample", self._pick(), stride=self._pair(1, 2))

    def pad_channels(self) -> None:
        self.builder.pad_channels(self._pick(), *self._pair(0, 17))


ADDITIONS: list[Callable[[RandomGraph], None]] = [
    RandomGraph.convolution, RandomGraph.convolution, RandomGraph.residual, RandomGraph.residual, RandomGraph.linear,
    RandomGraph.sign, RandomGraph.threshold, RandomGraph.affine, RandomGraph.prelu, RandomGraph.clamp, RandomGraph.add,
    RandomGraph.concat, RandomGraph.pool, RandomGraph.global_pool, RandomGraph.flatten, RandomGraph.subsample,
    RandomGraph.pad_channels,
]  # fmt: skip


def without_weights(graph: Graph) -> Graph:
    """Return the same nodes without their tensors, for messages."""
    return replace(graph, tensors={})
