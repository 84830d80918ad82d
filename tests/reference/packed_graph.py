"""A packed network with every op, and functions that unpack and rebuild its file."""

from __future__ import annotations

import base64
import json
import zlib
from typing import Any

import numpy as np

from zerocross.runtime.format import (
    Graph,
    Node,
    checksum,
    serialize,
)
from zerocross.runtime.preprocess import Preprocessing

RNG = np.random.default_rng(0)


def vector(size: int) -> np.ndarray:
    return RNG.normal(size=size).astype(np.float32)


def bits(*shape: int) -> np.ndarray:
    return np.packbits(RNG.integers(0, 2, int(np.prod(shape))).astype(bool), bitorder="little")


def every_op() -> Graph:
    """Return a network that contains every op."""
    tensors = {
        "stem.weight": RNG.normal(size=(4, 1, 3, 3)).astype(np.float16),
        "stem.bias": vector(4),
        "first.shift": vector(4),
        "conv.weight": bits(4, 4, 3, 3),
        "norm.scale": vector(4),
        "norm.shift": np.full(4, -0.0, np.float32),
        "bent.slope": vector(4),
        "deep.weight": bits(6, 4, 3, 1),
        "cut.threshold": RNG.integers(-9, 9, 6).astype(np.int32),
        "cut.direction": np.array([1, -1, 1, 1, -1, 1], np.int8),
        "wide.weight": bits(5, 96),
        "head.weight": RNG.integers(-127, 127, (3, 5)).astype(np.int8),
        "head.weight_scale": vector(3),
        "head.bias": vector(3),
    }
    nodes = [
        Node("input", (), "x"),
        Node(
            "conv2d",
            ("x",),
            "stem",
            {"shape": (4, 1, 3, 3), "padding": (1, 1)},
            {"weight": "stem.weight", "bias": "stem.bias"},
        ),
        Node("relu", ("stem",), "positive"),
        Node("max_pool2d", ("positive",), "pooled", {"kernel": (3, 3), "stride": (2, 2), "padding": (1, 1)}),
        Node("sign", ("pooled",), "first", {}, {"shift": "first.shift"}),
        Node(
            "binary_conv2d", ("first",), "conv", {"shape": (4, 4, 3, 3), "padding": (1, 1)}, {"weight": "conv.weight"}
        ),
        Node("affine", ("conv",), "norm", {}, {"scale": "norm.scale", "shift": "norm.shift"}),
        Node("add", ("norm", "pooled"), "sum"),
        Node("prelu", ("sum",), "bent", {}, {"slope": "bent.slope"}),
        Node("hardtanh", ("bent",), "clipped", {"min": -2.0, "max": 2.0}),
        Node("sign", ("clipped",), "second"),
        Node(
            "binary_conv2d",
            ("second",),
            "deep",
            {"shape": (6, 4, 3, 1), "padding": (1, 0), "pad_value": 1},
            {"weight": "deep.weight"},
        ),
        Node("threshold", ("deep",), "cut", {}, {"threshold": "cut.threshold", "direction": "cut.direction"}),
        Node("flatten", ("cut",), "flat"),
        Node("binary_linear", ("flat",), "wide", {"shape": (5, 96)}, {"weight": "wide.weight"}),
        Node(
            "linear",
            ("wide",),
            "head",
            {"shape": (3, 5)},
            {"weight": "head.weight", "weight_scale": "head.weight_scale", "bias": "head.bias"},
        ),
        Node("subsample", ("clipped",), "every", {"stride": (2, 2)}),
        Node("avg_pool2d", ("clipped",), "mean", {"kernel": (2, 2), "stride": (2, 2)}),
        Node("concat", ("every", "mean"), "both"),
        Node("pad_channels", ("both",), "padded", {"before": 1, "after": 2}),
        Node("global_avg_pool", ("padded",), "global"),
        Node("concat", ("head", "global"), "all"),
    ]
    return Graph(
        tuple(nodes),
        "all",
        (1, 8, 8),
        tensors,
        Preprocessing("image", (0.5,), (0.25,), resize=8),
        tuple("abcdefghijklmn"),
        {"made by": "a test"},
    )


GRAPH = every_op()
DATA = serialize(GRAPH)


def opened(data: bytes) -> tuple[dict[str, Any], Any, bytes]:
    """Return (header, network, tensor bytes) of a file."""
    end = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:end])
    return header, json.loads(zlib.decompress(base64.b64decode(header["__metadata__"]["network"]))), data[end:]


def sealed(header: dict[str, Any], text: bytes, tensors: bytes) -> bytes:
    """Return a file with a valid checksum, whatever its content."""
    metadata = header["__metadata__"]
    entries = {key: entry for key, entry in header.items() if key != "__metadata__"}
    metadata["network"] = base64.b64encode(zlib.compress(text)).decode()
    metadata["sha256"] = checksum(metadata["network"], entries, tensors)
    head = json.dumps(header).encode()
    return len(head).to_bytes(8, "little") + head + tensors
