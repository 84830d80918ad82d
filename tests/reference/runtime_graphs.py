"""Small packed graphs with random parameters, for tests of the runtime."""

from __future__ import annotations

from typing import Any

import numpy as np

from zerocross.runtime.graph import Graph, Node
from zerocross.runtime.infer import check


class Builder:
    """Adds nodes one after the other; every method returns the name of the value that it adds."""

    def __init__(self, *input_size: int, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)
        self.input_size = input_size
        self.nodes = [Node("input", (), "x")]
        self.tensors: dict[str, np.ndarray] = {}
        self.channels = {"x": input_size[0]}

    def graph(self, output: str | None = None) -> Graph:
        output = output or self.nodes[-1].output
        return check(Graph(tuple(self.nodes), output, self.input_size, self.tensors))

    def add(self, op: str, *inputs: str, channels: int | None = None, tensors: Any = None, **attrs: Any) -> str:
        """Add any node; by default it has the channels of its first input."""
        name = f"{op}{len(self.nodes)}"
        keys = {role: f"{name}.{role}" for role in tensors or {}}
        self.tensors |= {keys[role]: array for role, array in (tensors or {}).items()}
        self.nodes.append(Node(op, inputs, name, attrs, keys))
        self.channels[name] = self.channels[inputs[0]] if channels is None else channels
        return name

    def reals(self, *shape: int) -> np.ndarray:
        return self.rng.standard_normal(shape).astype(np.float32)

    def conv(self, x: str, outputs: int, kernel: tuple[int, int], *, binary: bool = True, **attrs: Any) -> str:
        inputs = self.channels[x] // attrs.get("groups", 1)
        shape = (outputs, inputs, *kernel)
        if not binary:
            weight = {"weight": self.reals(*shape)} | ({"bias": self.reals(outputs)} if attrs.pop("bias", 0) else {})
            return self.add("conv2d", x, channels=outputs, tensors=weight, shape=shape, **attrs)
        return self.add("binary_conv2d", x, channels=outputs, tensors=self._bits(shape), shape=shape, **attrs)

    def byte_conv(self, x: str, outputs: int, kernel: tuple[int, int], **attrs: Any) -> str:
        """Add a real convolution with 8-bit weights."""
        shape = (outputs, self.channels[x] // attrs.get("groups", 1), *kernel)
        tensors = self._int8_weights(shape) | ({"bias": self.reals(outputs)} if attrs.pop("bias", 0) else {})
        return self.add("conv2d", x, channels=outputs, tensors=tensors, shape=shape, **attrs)

    def byte_linear(self, x: str, inputs: int, outputs: int) -> str:
        shape = (outputs, inputs)
        tensors = self._int8_weights(shape) | {"bias": self.reals(outputs)}
        return self.add("linear", x, channels=outputs, tensors=tensors, shape=shape)

    def _int8_weights(self, shape: tuple[int, ...]) -> dict[str, np.ndarray]:
        weight = self.rng.integers(-127, 128, shape).astype(np.int8)
        return {"weight": weight, "weight_scale": np.abs(self.reals(shape[0])) + np.float32(0.1)}

    def linear(self, x: str, inputs: int, outputs: int, *, binary: bool = True) -> str:
        shape = (outputs, inputs)
        weight = self._bits(shape) if binary else {"weight": self.reals(*shape), "bias": self.reals(outputs)}
        op = "binary_linear" if binary else "linear"
        return self.add(op, x, channels=outputs, tensors=weight, shape=shape)

    def sign(self, x: str, *, shifted: bool = False) -> str:
        return self.add("sign", x, tensors={"shift": self.reals(self.channels[x])} if shifted else None)

    def affine(self, x: str) -> str:
        size = self.channels[x]
        return self.add("affine", x, tensors={"scale": self.reals(size) / 8, "shift": self.reals(size)})

    def threshold(self, x: str) -> str:
        size = self.channels[x]
        limits = self.rng.integers(-9, 9, size).astype(np.int32)
        limits[: size // 8] = np.iinfo(np.int32).max
        limits[size // 8 : size // 4] = np.iinfo(np.int32).min
        direction = self.rng.choice([-1, 1], size).astype(np.int8)
        return self.add("threshold", x, tensors={"threshold": limits, "direction": direction})

    def prelu(self, x: str, *, single: bool = False) -> str:
        return self.add("prelu", x, tensors={"slope": self.reals(1 if single else self.channels[x])})

    def concat(self, *parts: str) -> str:
        return self.add("concat", *parts, channels=sum(self.channels[part] for part in parts))

    def pad_channels(self, x: str, before: int, after: int) -> str:
        return self.add("pad_channels", x, channels=self.channels[x] + before + after, before=before, after=after)

    def _bits(self, shape: tuple[int, ...]) -> dict[str, np.ndarray]:
        bits = self.rng.integers(0, 2, int(np.prod(shape))).astype(np.uint8)
        return {"weight": np.packbits(bits, bitorder="little")}

    def batch(self, count: int) -> np.ndarray:
        """Return inputs; every fourth number is exactly 0, whose sign must be +1."""
        x = self.reals(count, *self.input_size)
        x[self.rng.random(x.shape) < 0.25] = 0
        return x
