"""A self-contained page in which packed networks classify drawings, images and spoken words."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

import numpy as np

from zerocross.export.c.model import CModel
from zerocross.export.web.wasm import build, describe
from zerocross.runtime.format import serialize
from zerocross.runtime.graph import Graph

TITLES = {"digit": "Digits", "photo": "Photos", "voice": "Spoken digits"}
TASKS = {
    "digit": "Draw a digit from 0 to 9, or drop an image of one.",
    "photo": "Drop an image of one of the listed classes.",
    "voice": "Hold the button or the space bar and say a digit in English, or drop an audio file.",
}


def kind_of(graph: Graph) -> str:
    """Return the kind of input in the page: "digit" (grey images), "photo" (colour images) or "voice" (log-mel)."""
    preprocessing = graph.preprocessing
    if preprocessing is None or not graph.classes:
        raise ValueError("the playground needs a network's class names and preprocessing: pack the network with both")
    if preprocessing.kind == "image":
        if graph.input_size[1] != graph.input_size[2]:
            raise ValueError(f"the playground needs a network on square images, not on {graph.input_size[1:]}")
        return "digit" if graph.input_size[0] == 1 else "photo"
    if preprocessing.kind == "logmel":
        window = preprocessing.audio.window if preprocessing.audio else 0
        if window & (window - 1):
            raise ValueError(f"the playground needs windows whose length is a power of two, not {window} samples")
        return "voice"
    raise ValueError(f"the playground supports images and log-mel spectra, not inputs of kind {preprocessing.kind!r}")


def page(graphs: Sequence[Graph], *, clang: str = "clang") -> str:
    """Return the self-contained page as HTML.

    Args:
        graphs: Packed networks of different kinds, see `kind_of`; at least one.
        clang: The compiler for WebAssembly.
    """
    kinds = [kind_of(graph) for graph in graphs]
    if not kinds or len(set(kinds)) < len(kinds):
        raise ValueError(
            f"the networks are of kinds {', '.join(kinds) or 'none'}; pass at least one, each of a different kind"
        )
    networks = [_network(kind, graph, clang) for kind, graph in zip(kinds, graphs, strict=True)]
    parts = {
        "style": _text("page.css"),
        "networks": json.dumps(networks, separators=(",", ":")).replace("<", "\\u003c"),
        "script": _text("page.js"),
    }
    html = _text("page.html")
    for name, text in parts.items():
        html = html.replace("{{" + name + "}}", text.strip())
    return html


def _network(kind: str, graph: Graph, clang: str) -> dict[str, Any]:
    model = CModel(graph, kind)
    layers = [(node, graph.tensors[node.tensors["weight"]]) for node in graph.nodes if "weight" in node.tensors]
    binary = sum(math.prod(node.attrs["shape"]) for node, stored in layers if stored.dtype == np.uint8)
    real = sum(stored.size for _, stored in layers if stored.dtype != np.uint8)
    others = sum(
        graph.tensors[key].size for node in graph.nodes for role, key in node.tensors.items() if role != "weight"
    )
    known = graph.provenance
    about = ", trained on ".join(known[key] for key in ("network", "data") if key in known)
    return {
        **describe(model),
        "kind": kind,
        "title": TITLES[kind],
        "task": TASKS[kind],
        "about": about or "a binary network",
        "bytes": len(serialize(graph)),
        "float_bytes": 4 * (binary + real + others),
        "binary": binary,
        "real": real,
        "plain": base64.b64encode(build(model, simd=False, clang=clang)).decode(),
        "simd": base64.b64encode(build(model, simd=True, clang=clang)).decode(),
    }


def _text(name: str) -> str:
    return files("zerocross.export.web").joinpath(name).read_text(encoding="utf-8")
