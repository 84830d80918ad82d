"""Exported C files give the outputs of packed networks, for random graphs of every operator and every compiler."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from export.harness import (
    STRICT,
    Case,
    build,
    compare,
    compiler,
    cut,
    difference,
    keyword_graph,
    random_case,
    run,
)
from reference.packed_graph import every_op
from reference.runtime_graphs import Builder
from zerocross.export.c.files import measure
from zerocross.export.c.model import CModel
from zerocross.runtime.graph import OPS, Graph, Node
from zerocross.runtime.infer import check
from zerocross.runtime.model import Model

GCC = ("gcc", "-O3")
SANITIZERS = ("-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")


def sums_of(case: Case) -> list[Case]:
    """Return the network up to its last binary layer, whose sums are integers."""
    layers = [node.output for node in case.graph.nodes if node.op.startswith("binary_")]
    return [Case(cut(case.graph, layers[-1]), case.x)] if layers else []


@pytest.mark.parametrize("program", ["gcc", "clang"])
def test_random_graphs(program: str, tmp_path: Path):
    cases = [random_case(seed) for seed in range(12)]
    compared, tied = compare(cases, tmp_path, (compiler(program), "-O3"))
    assert compared == 48
    assert tied <= 1


def test_sums_of_binary_layers_are_the_same_integers(tmp_path: Path):
    cases = [each for seed in range(60) for each in sums_of(random_case(seed))][:12]
    compiler("gcc")
    compared, tied = compare(cases, tmp_path, GCC, exact=True)
    assert compared == 48
    assert tied <= 1
    for case in cases:
        np.testing.assert_array_equal(Model(case.graph)(case.x), case.expected[case.graph.output])


def test_identical_steps_are_all_run(tmp_path: Path):
    """At -Os, GCC 12 merges identical functions and then drops calls of them, if the file has other networks, too."""
    cases = [random_case(seed) for seed in range(80, 100)]
    assert any([node.op for node in case.graph.nodes] == ["input", "sign", "sign"] for case in cases)
    assert compare(cases, tmp_path, (compiler("gcc"), "-Os"))[1] <= 1


def test_random_graphs_under_sanitizers(tmp_path: Path):
    cases = [random_case(seed) for seed in range(20, 30)]
    assert compare(cases, tmp_path, (compiler("gcc"), *SANITIZERS))[1] <= 1


@pytest.mark.slow
@pytest.mark.parametrize("command", [GCC, ("clang", "-O3"), ("gcc", "-Os"), ("gcc", *SANITIZERS)], ids=" ".join)
def test_two_hundred_random_graphs(command: tuple[str, ...], tmp_path: Path):
    compiler(command[0])
    cases = [random_case(seed) for seed in range(200)]
    assert {node.op for case in cases for node in case.graph.nodes} == set(OPS)
    cases += [each for case in cases for each in sums_of(case)]
    tied = 0
    for first in range(0, len(cases), 50):
        tied += compare(cases[first : first + 50], tmp_path / str(first), command)[1]
    assert tied <= 4


def test_a_graph_of_every_op_with_its_names_and_bytes(tmp_path: Path):
    graph = every_op()
    assert {node.op for node in graph.nodes} == set(OPS)
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (3, *graph.input_size), np.uint8)
    model = CModel(graph, "every")
    (tmp_path / "every.c").write_text(model.source())
    (tmp_path / "every.h").write_text(model.header())
    (tmp_path / "main.c").write_text(
        '#include <stdio.h>\n#include "every.h"\n'
        "int main(void)\n{\n"
        "    static uint8_t bytes[EVERY_INPUTS];\n    static float input[EVERY_INPUTS], output[EVERY_OUTPUTS];\n"
        "    while (fread(bytes, 1, EVERY_INPUTS, stdin) == EVERY_INPUTS) {\n"
        "        every_normalise(bytes, input);\n        every_predict(input, output);\n"
        "        for (int32_t i = -1; i <= EVERY_OUTPUTS; i++)\n"
        '            printf("%s %.9g\\n", every_class_name(i), i < 0 || i > 13 ? 0.0 : (double)output[i]);\n'
        "    }\n    return 0;\n}\n"
    )
    command = [compiler("gcc"), "-O3", *STRICT, "-o", "every", "every.c", "main.c"]
    subprocess.run(command, cwd=tmp_path, check=True)
    output = subprocess.run(
        [tmp_path / "every"], input=pixels.tobytes(), capture_output=True, check=True
    ).stdout.decode()
    lines = [line.split(" ") for line in output.splitlines()]
    names = ["", *graph.classes, ""]
    assert [line[0] for line in lines] == names * 3
    y = np.array([float(line[1]) for line in lines], np.float32).reshape(3, len(names))[:, 1:-1]
    assert difference(y, Model(graph)(pixels)).max() < 1e-5


def test_awkward_names_are_escaped(tmp_path: Path):
    """Names may contain any printable character: they must not end a comment or a string."""
    b = Builder(2, 3, 3)
    graph = b.graph(b.add("global_avg_pool", b.affine(b.conv("x", 3, (1, 1), binary=False))))
    awkward = {graph.nodes[1].output: '*/ int x; /* "??/', graph.nodes[2].output: "3\\ Ω %s", "x": "predict"}
    nodes = tuple(
        Node(node.op, tuple(awkward.get(each, each) for each in node.inputs), awkward.get(node.output, node.output),
             node.attrs, node.tensors)
        for node in graph.nodes
    )  # fmt: skip
    classes = ('"quoted\\', "??)Ω", "%s\x7f1")
    graph = check(replace(graph, nodes=nodes, classes=classes, provenance={"network": "*/ #error ??/"}))
    model = CModel(graph, "odd")
    program = build([model], 2, tmp_path, (compiler("gcc"), "-O1"))
    x = b.batch(2)
    assert difference(run(program, [model], [x])[0], Model(graph)(x)).max() < 1e-5
    bytes_ = "".join(classes).encode()
    assert all(name.encode() in program.read_bytes() for name in classes), bytes_


@pytest.mark.parametrize("name", ["", "2d", "int", "a-b", "a" * 41, "é", "_x"])
def test_a_name_that_is_not_a_c_identifier_is_refused(name: str):
    with pytest.raises(ValueError, match="C identifier"):
        CModel(every_op(), name)


def objects(folder: Path, graph: Graph, *command: str) -> Path:
    model = CModel(graph)
    (folder / "model.c").write_text(model.source())
    (folder / "model.h").write_text(model.header())
    subprocess.run([*command, "-std=c99", "-c", "model.c"], cwd=folder, check=True)
    return folder


def test_only_memcpy_and_memset_are_needed(tmp_path: Path):
    objects(tmp_path, every_op(), compiler("gcc"), "-O3")
    undefined = subprocess.run(["nm", "-u", "model.o"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert set(undefined.split()) - {"U"} <= {"memcpy", "memset"}
    includes = [line for line in (tmp_path / "model.c").read_text().splitlines() if line.startswith("#include")]
    assert includes == ['#include "model.h"', "#include <stdint.h>", "#include <string.h>"]


@pytest.mark.parametrize("level", ["-Os", "-O3"])
def test_the_stack_stays_below_a_kilobyte(level: str, tmp_path: Path):
    for number, graph in enumerate([every_op(), *(random_case(seed).graph for seed in range(4))]):
        folder = tmp_path / str(number)
        folder.mkdir()
        objects(folder, graph, compiler("gcc"), level, "-fstack-usage")
        rows = [line.split("\t") for line in (folder / "model.su").read_text().splitlines()]
        assert {row[2] for row in rows} <= {"static", "dynamic,bounded"}
        assert sum(sorted(int(row[1]) for row in rows)[-3:]) < 1024  # predict, a step, a kernel in it


@pytest.mark.parametrize("cc", ["gcc -O3", "gcc -Os", "clang -O2"])
def test_reported_flash_and_memory_match_the_object_file(cc: str):
    compiler(cc.split(maxsplit=1)[0])
    for graph in (every_op(), keyword_graph(), *(random_case(seed).graph for seed in range(6))):
        model = CModel(graph)
        sizes = measure(model, cc)
        assert (sizes.constants, sizes.memory) == (model.constant_bytes, model.memory_bytes)


def test_values_that_are_not_used_together_share_memory():
    """A chain of layers of one size takes the memory of two values, whatever its length."""
    sizes = []
    for layers in (2, 9):
        b = Builder(16, 8, 8)
        x = b.affine(b.conv("x", 16, (3, 3), binary=False, padding=(1, 1)))
        for _ in range(layers):
            x = b.prelu(b.add("add", b.affine(b.conv(b.sign(x), 16, (3, 3), padding=(1, 1))), x))
        sizes.append(CModel(b.graph(x)).memory_bytes)
    assert sizes[0] == sizes[1] < 4 * 16 * 64 * 2


def test_the_trace_shows_every_stored_value(tmp_path: Path):
    model = CModel(every_op(), "shown")
    graph = model.graph
    (tmp_path / "shown.h").write_text(model.header())
    sizes = [f"{{{s.step}, {int(s.kind == 'bits')}, {_elements(s.kind, s.size)}}}" for s in model.stored]
    (tmp_path / "all.c").write_text(
        "#include <stdio.h>\n" + model.source() + "static const int sizes[][3] = {" + ", ".join(sizes) + "};\n"
        "void shown_trace(int32_t step, const float *reals, const uint8_t *bits)\n{\n"
        f"    for (int i = 0; i < {len(sizes)}; i++)\n        if (sizes[i][0] == step)\n"
        "            fwrite(sizes[i][1] ? (const void *)bits : (const void *)reals, sizes[i][1] ? 1 : 4, "
        "(size_t)sizes[i][2], stdout);\n}\n"
        "int main(void)\n{\n    static float x[SHOWN_INPUTS], y[SHOWN_OUTPUTS];\n"
        "    if (fread(x, 4, SHOWN_INPUTS, stdin) == SHOWN_INPUTS)\n        shown_predict(x, y);\n    return 0;\n}\n"
    )
    command = [compiler("gcc"), "-O1", "-std=c99", "-DSHOWN_TRACE", "-o", "all", "all.c"]
    subprocess.run(command, cwd=tmp_path, check=True)
    x = np.random.default_rng(3).standard_normal((1, *graph.input_size)).astype(np.float32)
    data = subprocess.run([tmp_path / "all"], input=x.tobytes(), capture_output=True, check=True).stdout
    values, first, bits = Case(graph, x).expected, 0, 0
    # Concatenations are stored in parts.
    complete = {stored.value: number for number, stored in enumerate(model.stored)}
    for number, stored in enumerate(model.stored):
        count = _elements(stored.kind, stored.size) * (1 if stored.kind == "bits" else 4)
        part, first = data[first : first + count], first + count
        if complete[stored.value] != number:
            continue
        channels, height, width = stored.size
        reference = values[stored.value].reshape(channels, height, width).transpose(1, 2, 0)
        if stored.kind == "bits":
            rows = np.frombuffer(part, np.uint8).reshape(height, width, -1)
            result = np.unpackbits(rows, axis=2, bitorder="little")
            np.testing.assert_array_equal(result[:, :, :channels], reference > 0)
            assert not result[:, :, channels:].any()
            bits += 1
        else:
            np.testing.assert_allclose(np.frombuffer(part, np.float32).reshape(reference.shape), reference, 1e-5, 1e-5)
    assert first == len(data)
    assert bits >= 3


def _elements(kind: str, size: tuple[int, int, int]) -> int:
    return (-(-size[0] // 8) if kind == "bits" else size[0]) * size[1] * size[2]
