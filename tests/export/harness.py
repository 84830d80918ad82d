"""Build and run exported C files, many in one program, with any compiler, natively or under an emulator."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from reference.runtime_graphs import Builder
from reference.runtime_interpreter import interpret
from reference.runtime_random import RandomGraph
from zerocross.export.c.model import CModel, join_sources
from zerocross.runtime.graph import Graph
from zerocross.runtime.infer import check

STRICT = ("-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror")

_MAIN = """
static int run(void (*predict)(const float *, float *), unsigned inputs, unsigned outputs, unsigned samples)
{
    static float input[%(inputs)d], output[%(outputs)d];
    for (unsigned i = 0; i < samples; i++) {
        if (fread(input, sizeof(float), inputs, stdin) != inputs)
            return 1;
        predict(input, output);
        if (fwrite(output, sizeof(float), outputs, stdout) != outputs)
            return 1;
    }
    return 0;
}

int main(void)
{
    return %(calls)s;
}
"""


def compiler(program: str) -> str:
    """Return the program, or skip the test with a hint how to install it."""
    if shutil.which(program) is None:
        scripts = {"gcc": "Debian: build-essential", "clang": ".ci/wasm installs it", "wasm-ld": ".ci/wasm installs it"}
        pytest.skip(f"no {program} ({scripts.get(program, '.ci/arm installs it')})")
    return program


@dataclass
class Case:
    """A network and some inputs for it."""

    graph: Graph
    x: np.ndarray

    @property
    def expected(self) -> dict[str, np.ndarray]:
        """Every value, computed by the naive interpreter."""
        return interpret(self.graph, self.x)


def random_case(seed: int, samples: int = 4) -> Case:
    """Return a random graph; with odd seeds, some weights of real layers are stored as int8, float16 or bits."""
    generator = RandomGraph(seed)
    graph = generator.graph()
    x = generator.builder.batch(samples)
    return Case(with_other_dtypes(graph, seed) if seed % 2 else graph, x)


def with_other_dtypes(graph: Graph, seed: int) -> Graph:
    """Return the graph with the weights of real layers stored in other data types."""
    rng = np.random.default_rng(seed)
    nodes, tensors = [], dict(graph.tensors)
    for node in graph.nodes:
        if node.op in ("conv2d", "linear"):
            key, outputs = node.tensors["weight"], node.attrs["shape"][0]
            weight, kind = tensors[key], rng.choice(["float32", "float16", "int8", "bits", "scaled bits"])
            roles = dict(node.tensors)
            if kind == "float16":
                tensors[key] = weight.astype(np.float16)
            elif kind == "int8":
                tensors[key] = np.clip(np.rint(weight * 40), -127, 127).astype(np.int8)
            elif "bits" in kind:
                tensors[key] = np.packbits(weight.ravel() > 0, bitorder="little")
            if kind in ("int8", "scaled bits"):
                roles["weight_scale"] = f"{node.output}.weight_scale"
                tensors[roles["weight_scale"]] = rng.uniform(0.01, 0.03, outputs).astype(np.float32)
            nodes.append(replace(node, tensors=roles))
        else:
            nodes.append(node)
    return check(replace(graph, nodes=tuple(nodes), tensors=tensors))


def cut(graph: Graph, output: str) -> Graph:
    """Return the part of a graph on which one value depends."""
    nodes, needed = [], {output}
    for node in reversed(graph.nodes):
        if node.output in needed or node.op == "input":
            nodes.insert(0, node)
            needed.update(node.inputs)
    tensors = {key: graph.tensors[key] for node in nodes for key in node.tensors.values()}
    return check(Graph(tuple(nodes), output, graph.input_size, tensors))


def build(
    models: Sequence[CModel], samples: int, folder: Path, command: Sequence[str], flags: Sequence[str] = STRICT
) -> Path:
    """Build a program that reads inputs and writes outputs as raw floats, one network after the other."""
    folder.mkdir(parents=True, exist_ok=True)
    for model in models:
        (folder / f"{model.name}.h").write_text(model.header())
    calls = " ||\n        ".join(f"run({m.name}_predict, {m.inputs}, {m.outputs}, {samples})" for m in models)
    sizes = {"inputs": max(m.inputs for m in models), "outputs": max(m.outputs for m in models), "calls": calls}
    source = join_sources(models) + "\n#include <stdio.h>\n" + _MAIN % sizes
    (folder / "all.c").write_text(source)
    done = subprocess.run(
        [*command, *flags, "-o", "all", "all.c"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[:4000]
    return folder / "all"


def run(
    program: Path, models: Sequence[CModel], inputs: Sequence[np.ndarray], emulator: Sequence[str] = ()
) -> list[np.ndarray]:
    """Run the program and return the outputs of every network."""
    data = b"".join(np.ascontiguousarray(x, np.float32).tobytes() for x in inputs)
    done = subprocess.run([*emulator, str(program)], input=data, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr[:4000].decode()
    y, results, first = np.frombuffer(done.stdout, np.float32), [], 0
    for model, x in zip(models, inputs, strict=True):
        count = len(x) * model.outputs
        results.append(y[first : first + count].reshape(len(x), *model.program.output_size))
        first += count
    assert first == len(y)
    return results


def near_ties(case: Case) -> np.ndarray:
    """Return for each sample whether the input of some sign is nearly 0, so that rounding may change the sign."""
    values, tied = case.expected, np.zeros(len(case.x), bool)
    for node in case.graph.nodes:
        if node.op == "sign":
            x = values[node.inputs[0]].astype(np.float32)
            shift = case.graph.tensor(node, "shift")
            x = x if shift is None else x + shift.reshape(-1, *(1,) * (x.ndim - 2))
            size = np.abs(x[np.isfinite(x)]).max(initial=0)
            tied |= ((np.abs(x) < 1e-5 * size) & (x != 0)).reshape(len(x), -1).any(axis=1)
    return tied


def difference(y: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Return the largest difference of each sample, relative to the largest finite number if that is above 1.

    NaN and infinite numbers must be the same.
    """
    expected = expected.astype(np.float32)
    size = max(1.0, float(np.abs(expected[np.isfinite(expected)]).max(initial=0)))
    with np.errstate(invalid="ignore"):
        each = np.where((y == expected) | (np.isnan(y) & np.isnan(expected)), 0, np.abs(y - expected))
    return np.nan_to_num(each.reshape(len(y), -1).max(axis=1) / size, nan=np.inf)


def compare(
    cases: Sequence[Case], folder: Path, command: Sequence[str], *, emulator: Sequence[str] = (), exact: bool = False,
    flags: Sequence[str] = STRICT,
) -> tuple[int, int]:  # fmt: skip
    """Export, build, run and compare networks; return the numbers of compared samples and of ties."""
    models = [CModel(case.graph, f"g{number}") for number, case in enumerate(cases)]
    program = build(models, len(cases[0].x), folder, command, flags)
    tied = compared = 0
    for case, y in zip(cases, run(program, models, [case.x for case in cases], emulator), strict=True):
        far = difference(y, case.expected[case.graph.output]) > (0 if exact else 1e-4)
        if far.any():
            assert not (far & ~near_ties(case)).any(), [f"{node.op} {node.output}" for node in case.graph.nodes]
        tied += int(far.sum())
        compared += len(far)
    return compared, tied


def keyword_graph(hidden: int = 128) -> Graph:
    """Return a network for keyword spotting on log-mel spectra: 40 x 32 -> hidden -> hidden -> 10, int8 weights."""
    b = Builder(1, 40, 32, seed=1)
    flat = b.add("flatten", "x", channels=1280)
    weight = b.rng.integers(-127, 128, (hidden, 1280)).astype(np.int8)
    tensors = {"weight": weight, "weight_scale": np.full(hidden, 1e-3, np.float32), "bias": b.reals(hidden)}
    x = b.add("linear", flat, channels=hidden, tensors=tensors, shape=(hidden, 1280))
    x = b.threshold(b.linear(b.sign(x), hidden, hidden))
    return b.graph(b.affine(b.linear(b.sign(b.affine(b.linear(x, hidden, hidden))), hidden, 10)))
