"""The file of a packed network: round trips, and files and graphs that are refused."""

from __future__ import annotations

import json
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reference.packed_graph import DATA, GRAPH, bits, opened, sealed, vector
from zerocross.runtime.format import (
    Graph,
    Node,
    infer,
    parse,
    read,
    real_weight,
    serialize,
    weight_signs,
    write,
)
from zerocross.runtime.preprocess import Audio, Preprocessing


def test_a_network_survives_a_round_trip(tmp_path: Path):
    write(tmp_path / "all.zcb", GRAPH)
    result = read(tmp_path / "all.zcb")
    assert [(n.op, n.inputs, n.output) for n in result.nodes] == [(n.op, n.inputs, n.output) for n in GRAPH.nodes]
    for node, original in zip(result.nodes, GRAPH.nodes, strict=True):
        assert {key: node.attrs[key] for key in original.attrs} == dict(original.attrs)
        for role in original.tensors:
            array, before = result.tensor(node, role), GRAPH.tensor(original, role)
            assert array is not None
            assert before is not None
            assert array.dtype == before.dtype
            assert array.tobytes() == before.tobytes()  # -0.0 stays -0.0
    assert (result.input_size, result.output, result.classes) == (GRAPH.input_size, GRAPH.output, GRAPH.classes)
    assert (result.preprocessing, result.provenance) == (GRAPH.preprocessing, GRAPH.provenance)
    assert serialize(result) == DATA, "the same network must give the same bytes"


def test_reading_fills_in_every_default():
    conv = next(node for node in parse(DATA).nodes if node.output == "stem")
    assert conv.attrs == {
        "shape": (4, 1, 3, 3), "stride": (1, 1), "padding": (1, 1), "dilation": (1, 1), "groups": 1,
    }  # fmt: skip


def test_shapes_and_kinds_are_inferred():
    values = infer(parse(DATA))
    assert (values["conv"].shape, values["conv"].kind) == ((4, 4, 4), "sums")
    assert (values["flat"].shape, values["flat"].kind) == ((96,), "bits")
    assert (values["all"].shape, values["all"].kind) == ((14,), "real")


def test_weights_are_decoded():
    graph = parse(DATA)
    nodes = {node.output: node for node in graph.nodes}
    signs = weight_signs(graph, nodes["conv"])
    assert signs.shape == (4, 4, 3, 3)
    packed = GRAPH.tensors["conv.weight"]
    for index in (0, 7, 8, 143):  # bit i of byte i // 8, least significant first
        assert (signs.ravel()[index] == 1) == bool(packed[index // 8] >> index % 8 & 1)
    np.testing.assert_array_equal(
        real_weight(graph, nodes["head"]), GRAPH.tensors["head.weight"] * GRAPH.tensors["head.weight_scale"][:, None]
    )
    assert real_weight(graph, nodes["stem"]).dtype == np.float32


def test_layers_with_real_inputs_may_have_binary_weights():
    nodes = (
        Node("input", (), "x"),
        Node("linear", ("x",), "y", {"shape": (3, 5)}, {"weight": "w", "weight_scale": "s"}),
    )
    graph = parse(serialize(Graph(nodes, "y", (5,), {"w": bits(3, 5), "s": vector(3)})))
    magnitude = np.abs(real_weight(graph, graph.nodes[1]))
    assert (magnitude == np.abs(graph.tensors["y.weight_scale"])[:, None]).all()


# ---- invalid graphs and files are refused, with the reason


def with_node(name: str, **fields: Any) -> Graph:
    return replace(GRAPH, nodes=tuple(replace(n, **fields) if n.output == name else n for n in GRAPH.nodes))


def with_tensor(key: str, array: np.ndarray) -> Graph:
    return replace(GRAPH, tensors={**GRAPH.tensors, key: array})


INVALID: dict[str, tuple[Graph, str]] = {
    "unknown op": (with_node("positive", op="tanh"), "op 'tanh' is unknown"),
    "unknown attribute": (with_node("positive", attrs={"size": 1}), "attribute 'size' is unknown; known: none"),
    "missing attribute": (with_node("every", attrs={}), "attribute 'stride' is missing"),
    "boolean for a number": (with_node("pooled", attrs={"kernel": (True, 3)}), "it must be of type int"),
    "float for a number": (with_node("every", attrs={"stride": (2.0, 2)}), "it must be of type int"),
    "number for a pair": (with_node("every", attrs={"stride": 2}), "it must be 2 numbers"),
    "stride of 0": (with_node("every", attrs={"stride": (0, 2)}), "it must be within 1.."),
    "infinite bound": (with_node("clipped", attrs={"max": float("inf")}), "it must be within"),
    "NaN bound": (with_node("clipped", attrs={"max": float("nan")}), "it must be within"),
    "crossed bounds": (with_node("clipped", attrs={"min": 3.0}), "min = 3.0 is above max = 1.0"),
    "unknown tensor role": (with_node("norm", tensors={"gain": "norm.scale"}), "tensor 'gain' is unknown"),
    "missing tensor role": (with_node("norm", tensors={"scale": "norm.scale"}), "tensor 'shift' is missing"),
    "tensor not in the file": (with_node("conv", tensors={"weight": "nowhere"}), "'nowhere' \\(weight\\) is not in"),
    "input from a later node": (with_node("positive", inputs=("bent",)), "is not the output of an earlier node"),
    "input from itself": (with_node("positive", inputs=("positive",)), "is not the output of an earlier node"),
    "too many inputs": (with_node("positive", inputs=("stem", "stem")), "has 2 inputs; it must have 1..1"),
    "one name twice": (with_node("positive", output="stem"), "two nodes are named 'stem'"),
    "no name": (with_node("positive", output=""), "is not a valid name"),
    "second input": (with_node("positive", op="input", inputs=()), "exactly one 'input' node"),
    "no such output": (replace(GRAPH, output="y"), "output 'y' is not the output of a node"),
    "unused node": (replace(GRAPH, output="head", classes=()), "is never used"),
    "unused tensor": (with_tensor("more", vector(3)), "tensor 'more' is never used"),
    "wrong length": (with_tensor("norm.scale", vector(5)), "scale is float32 of shape \\(5,\\)"),
    "wrong type": (with_tensor("norm.scale", np.ones(4)), "scale is float64"),
    "not finite": (with_tensor("norm.scale", np.array([1, 2, np.nan, 4], np.float32)), "not finite"),
    "bits of no weight": (with_tensor("conv.weight", np.full(19, 255, np.uint8)), "must be uint8 of shape \\(18,\\)"),
    "direction of 0": (with_tensor("cut.direction", np.zeros(6, np.int8)), "only -1 and \\+1"),
    "scale for float16": (
        with_node("stem", tensors={"weight": "stem.weight", "weight_scale": "stem.bias"}),
        "weight_scale must not be given for float16 weights",
    ),
    "int8 without scale": (with_node("head", tensors={"weight": "head.weight"}), "weight_scale is missing"),
    "channels that do not fit": (with_node("conv", attrs={"shape": (4, 3, 3, 3)}), "uint8 of shape \\(14,\\)"),
    "groups that do not fit": (
        with_node("stem", attrs={"shape": (4, 1, 3, 3), "groups": 2}),
        "does not fit 1 channels",
    ),
    "window beyond the image": (with_node("mean", attrs={"kernel": (9, 9)}), "does not fit 4 \\+ 2 x 0 pixels"),
    "huge padding": (
        with_node("stem", attrs={"shape": (4, 1, 3, 3), "padding": (1 << 20, 1 << 20)}),
        "at most 67108864",
    ),
    "huge channels": (with_node("padded", attrs={"after": 1 << 20}), "sizes must be within 1.."),
    "padding of half a window": (with_node("pooled", attrs={"kernel": (2, 2), "padding": (2, 2)}), "more than half"),
    "sizes that cannot be added": (with_node("sum", inputs=("norm", "stem")), "cannot be added"),
    "sizes that cannot be joined": (with_node("both", inputs=("every", "stem")), "differ beyond their channels"),
    "a pool of features": (with_node("global", inputs=("flat",)), "must be \\(channels, height, width\\)"),
    "real input of a binary layer": (
        with_node("conv", inputs=("pooled",)),
        "its input is real; a binary layer needs bits",
    ),
    "threshold of real values": (with_node("cut", inputs=("clipped",)), "a threshold needs the sums"),
    "features that do not fit": (with_node("head", inputs=("flat",)), "its input has shape \\(96,\\)"),
    "four dimensions": (replace(GRAPH, input_size=(1, 1, 8, 8)), "1 to 3 dimensions"),
    "a class too few": (replace(GRAPH, classes=GRAPH.classes[1:]), "13 class names for an output of shape \\(14,\\)"),
    "a class without name": (replace(GRAPH, classes=("", *GRAPH.classes[1:])), "a class name is ''"),
    "provenance of numbers": (replace(GRAPH, provenance={"a": 1}), "provenance 'a' must be a text"),  # type: ignore[dict-item]
    "unknown preprocessing": (replace(GRAPH, preprocessing=Preprocessing("smell")), "kind must be one of"),
    "std of 0": (
        replace(GRAPH, preprocessing=Preprocessing("image", std=(0.0,), resize=8)),
        "std = 0.0 must be within",
    ),
    "resized below its size": (replace(GRAPH, preprocessing=Preprocessing("image", resize=7)), "resize = 7 must be"),
    "audio preprocessing for images": (
        replace(GRAPH, preprocessing=Preprocessing("logmel", audio=Audio(8000, 8000))),
        "clips become arrays of shape \\(40, 32\\)",
    ),
    "windows that do not span the clip": (
        replace(GRAPH, preprocessing=Preprocessing("logmel", audio=Audio(8000, 9000))),
        "do not span 9000 samples",
    ),
}


@pytest.mark.parametrize("name", INVALID)
def test_a_graph_that_could_not_be_read_is_not_written(name: str):
    graph, reason = INVALID[name]
    with pytest.raises(ValueError, match=reason):
        serialize(graph)


def test_bits_beyond_the_last_weight_are_refused():
    nodes = (Node("input", (), "x"), Node("linear", ("x",), "y", {"shape": (1, 5)}, {"weight": "w"}))
    with pytest.raises(ValueError, match="unused bits in the last byte of weight must be 0"):
        serialize(Graph(nodes, "y", (5,), {"w": np.array([32], np.uint8)}))


def test_every_shorter_and_every_longer_file_is_refused():
    for length in range(len(DATA)):
        with pytest.raises(ValueError, match=r"."):
            parse(DATA[:length])
    for more in (b"\0", b"more", DATA):
        with pytest.raises(ValueError, match=r"."):
            parse(DATA + more)


def test_other_files_and_versions_are_refused_with_the_reason():
    header, network, tensors = opened(DATA)
    text = json.dumps(network).encode()
    for key, value, reason in (
        ("format", "pt", "a different kind of file"),
        ("version", "2", "its version is '2'; this program reads version 1"),
        ("version", None, "its version is None"),
        ("more", "text", "its metadata must be the texts"),
    ):
        other = json.loads(json.dumps(header))
        other["__metadata__"][key] = value
        with pytest.raises(ValueError, match=reason):
            parse(sealed(other, text, tensors))


def test_a_flipped_bit_anywhere_is_detected():
    for at in range(len(DATA)):
        damaged = bytearray(DATA)
        damaged[at] ^= 1
        with pytest.raises(ValueError, match=r"."):
            parse(bytes(damaged))


def test_errors_name_the_file_and_the_command_that_creates_it(tmp_path: Path):
    (tmp_path / "bad.zcb").write_bytes(DATA[:-1])
    with pytest.raises(ValueError, match=r"bad\.zcb is not a valid packed network"):
        read(tmp_path / "bad.zcb")
    with pytest.raises(FileNotFoundError, match="zerocross pack"):
        read(tmp_path / "none.zcb")
    with pytest.raises(ValueError, match="is not a file"):
        read(tmp_path)


@pytest.mark.parametrize(
    "network",
    [
        b"[" * 100_000,
        b'{"nodes":' * 50_000,
        b" " * (1 << 25),
        b"1" * 100_000,
        b"[" + b"0," * 100_000 + b"0]",
        b"null",
        b"\xff",
        b"",
    ],
    ids=["deep", "deep objects", "bomb", "long number", "long list", "null", "not UTF-8", "empty"],
)
def test_reading_a_small_file_takes_little_memory(network: bytes):
    header, _, tensors = opened(DATA)
    data = sealed(header, network, tensors)
    tracemalloc.start()
    with pytest.raises(ValueError, match=r"."):
        parse(data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100e6


def test_vectors_of_equal_numbers_take_no_space_in_the_file_and_little_memory():
    header, network, tensors = opened(DATA)
    norm = next(row for row in network["nodes"] if row[1] == "norm")
    assert norm[4]["shift"] == [4, -0.0]
    for length in (1 << 22, 1 << 40, 0, -1, 1.5, True, None):
        norm[4]["shift"] = [length, 0.0]
        with pytest.raises(ValueError, match=r"."):
            parse(sealed(header, json.dumps(network).encode(), tensors))
