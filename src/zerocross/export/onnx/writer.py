"""Build an ONNX graph: nodes, initializers and names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import NodeProto, TensorProto, helper, numpy_helper

QONNX_DOMAIN = "qonnx.custom_op.general"


class OnnxWriter:
    """Collects nodes and initializers; every method that adds a node returns the name of its output.

    Args:
        bipolar: Write signs and binary weights as QONNX's BipolarQuant.
        used_names: Names of values, which must not be used for anything else.
    """

    def __init__(self, *, bipolar: bool, used_names: Sequence[str]) -> None:
        self.bipolar = bipolar
        self.nodes: list[NodeProto] = []
        self.initializers: list[TensorProto] = []
        self._used_names = set(used_names)
        self._constants: dict[tuple[str, tuple[int, ...], bytes], str] = {}

    def name(self, base: str) -> str:
        """Return an unused name, derived from the given one."""
        name, count = base, 1
        while name in self._used_names:
            count += 1
            name = f"{base}_{count}"
        self._used_names.add(name)
        return name

    def constant(self, base: str, array: Any, dtype: Any = np.float32) -> str:
        """Add an initializer and return its name; equal ones are written once."""
        array = np.ascontiguousarray(array, dtype)
        key = (array.dtype.name, array.shape, array.tobytes())
        if key not in self._constants:
            self._constants[key] = self.name(base)
            self.initializers.append(numpy_helper.from_array(array, self._constants[key]))
        return self._constants[key]

    def add(self, op: str, inputs: Sequence[str], output: str, **attrs: Any) -> str:
        """Add a node whose output is a value of the packed graph or an unused name."""
        domain = QONNX_DOMAIN if op == "BipolarQuant" else ""
        names: list[str] = []
        for name in inputs:  # when qonnx renames tensors, it loses an input that a node has twice
            twice = self.bipolar and name in names
            names.append(self.step("Identity", [name], output) if twice else name)
        self.nodes.append(helper.make_node(op, names, [output], output, domain=domain, **attrs))
        return output

    def step(self, op: str, inputs: Sequence[str], near: str, **attrs: Any) -> str:
        """Add an intermediate node of the value `near`, with an unused name."""
        return self.add(op, inputs, self.name(f"{near}/{op}"), **attrs)

    def sign(self, x: str, output: str) -> str:
        """Add a sign with values -1 and +1; the sign of 0 is +1, unlike that of ONNX's Sign."""
        if self.bipolar:
            return self.add("BipolarQuant", [x, self.constant("one", 1.0)], output)
        above = self.step("GreaterOrEqual", [x, self.constant("zero", 0.0)], output)
        return self.add("Where", [above, self.constant("one", 1.0), self.constant("minus_one", -1.0)], output)

    def binary_weight(self, signs: np.ndarray, near: str) -> str:
        """Add weights of -1 and +1: int8 in the file, or float followed by a BipolarQuant."""
        base = f"{near}/weight"
        if self.bipolar:
            stored = self.constant(base, signs)
            return self.step("BipolarQuant", [stored, self.constant("one", 1.0)], f"{near}/weight")
        stored = self.constant(base, signs, np.int8)
        return self.step("Cast", [stored], f"{near}/weight", to=TensorProto.FLOAT)
