"""The file of a packed network (.zcb): one safetensors file.

Its metadata keys are `format`, `version`, `network` and `sha256`. `network` is a JSON text, compressed (zlib, base64),
with `input_size`, `output`, `nodes`, `preprocessing`, `classes` and `provenance`. A node is [op, output, inputs, attrs,
tensors]; default attributes and empty trailing entries are left out. Each weight is a tensor of its own. Vectors
(biases, scales, thresholds) are concatenated into one tensor per data type, so that many short vectors need no headers.
A node refers to a weight by its key, to a vector by its length, and to a vector of equal numbers by [length, number].
`sha256` covers the bytes of the tensors, the header's other entries as compact JSON with sorted keys, and `network`.

The reader treats a file as hostile until every part has been checked. It either returns a Graph or raises a ValueError,
and allocates a small multiple of the size of the file plus at most 100 MB.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as load_tensors

from zerocross.files import write_whole
from zerocross.runtime.graph import MAX_NAME, MAX_NODES, MAX_SIZE, OPS, Graph, Node, short
from zerocross.runtime.infer import check, infer
from zerocross.runtime.preprocess import Preprocessing

__all__ = ["Graph", "all_equal", "Node", "infer", "parse", "read", "real_weight", "serialize", "weight_signs", "write"]

FORMAT, VERSION = "zerocross packed network", "1"
MAX_BYTES = 1 << 31
MAX_HEADER = MAX_TEXT = 1 << 22
MAX_CLASSES = 1 << 16
MAX_EQUAL = 1 << 22  # total length of vectors of equal numbers, which take space in memory but not in the file
DTYPES = {"float32": "F32", "int32": "I32", "float16": "F16", "int8": "I8", "uint8": "U8"}  # the widest come first
_METADATA = ("format", "version", "network", "sha256")
_NETWORK = ("input_size", "output", "nodes", "preprocessing", "classes", "provenance")
_VECTORS = {"threshold": "int32", "direction": "int8"}  # every other vector is float32
_ROWS = {dtype: f"vectors.{dtype}" for dtype in ("float32", "int32", "int8")}
_RANGE = {
    dtype: (float(info.min), float(info.max))
    for dtype, info in (("float32", np.finfo(np.float32)), ("int32", np.iinfo(np.int32)), ("int8", np.iinfo(np.int8)))
}


def read(path: str | Path) -> Graph:
    """Read a packed network; raise a ValueError with the reason if the file is not valid."""
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist; create it with: zerocross pack RUN -o {path}")
    if not path.is_file():
        raise ValueError(f"{path} is not a file")
    size = path.stat().st_size
    if size > MAX_BYTES:
        raise ValueError(f"{path} has {size} bytes; a packed network has at most {MAX_BYTES}")
    with path.open("rb") as file:
        data = file.read(size + 1)
    try:
        return parse(data)
    except ValueError as error:
        raise ValueError(f"{path} is not a valid packed network: {error}") from None


def write(path: str | Path, graph: Graph) -> None:
    """Write a packed network atomically; an existing file is replaced."""
    data = serialize(graph)
    write_whole(Path(path), lambda file: file.write(data))


def parse(data: bytes) -> Graph:
    """Read a packed network from the bytes of its file."""
    text = _network_text(data)
    try:
        tensors = load_tensors(data)
    except (SafetensorError, ValueError, TypeError, KeyError, OverflowError) as error:
        raise ValueError(f"its tensors cannot be read ({error})") from None
    values = _loads(text, "its network")
    if not isinstance(values, dict) or set(values) != set(_NETWORK):
        raise ValueError(f"its network must be an object with {', '.join(_NETWORK)}")
    nodes, tensors = _nodes(values["nodes"], tensors)
    return check(
        Graph(
            nodes=nodes,
            output=_name(values["output"], "the graph's output"),
            input_size=_sizes(values["input_size"]),
            tensors=tensors,
            preprocessing=Preprocessing.from_json(values["preprocessing"]),
            classes=_classes(values["classes"]),
            provenance=_provenance(values["provenance"]),
        )
    )


def serialize(graph: Graph) -> bytes:
    """Return the bytes of a packed file; they depend only on the graph.

    Raises a ValueError for a graph that could not be read back.
    """
    graph = check(graph)
    tensors = {
        key: graph.tensors[key] for node in graph.nodes for role, key in node.tensors.items() if role == "weight"
    }
    vectors: dict[str, list[np.ndarray]] = {}
    nodes = [_compact(node, graph, vectors) for node in graph.nodes]
    if clash := tensors.keys() & set(_ROWS.values()):
        raise ValueError(f"a weight has the key {clash.pop()!r}, which is reserved; rename the weight")
    tensors |= {row: np.concatenate(parts) for row, parts in vectors.items()}
    network = {
        "input_size": list(graph.input_size),
        "output": graph.output,
        "nodes": nodes,
        "preprocessing": None if graph.preprocessing is None else graph.preprocessing.to_json(),
        "classes": list(_classes(list(graph.classes))),
        "provenance": _provenance(dict(graph.provenance)),
    }
    text = json.dumps(network, separators=(",", ":"), allow_nan=False)
    data = _container(base64.b64encode(zlib.compress(text.encode(), 9)).decode(), tensors)
    if len(text) > MAX_TEXT or _header_end(data) > MAX_HEADER or len(data) > MAX_BYTES:
        raise ValueError(f"the network is too large for a file: {len(data)} bytes, {_header_end(data)} of them header")
    return data


def weight_signs(graph: Graph, node: Node) -> np.ndarray:
    """Return the weights of a layer that stores bits: int8, -1 and +1, in the layer's shape (O, I / groups, kh, kw)."""
    shape = node.attrs["shape"]
    bits = np.unpackbits(graph.tensors[node.tensors["weight"]], count=math.prod(shape), bitorder="little")
    return (2 * bits.astype(np.int8) - 1).reshape(shape)


def real_weight(graph: Graph, node: Node) -> np.ndarray:
    """Return the weights of a conv2d or linear node as float32, regardless of how they are stored."""
    stored = graph.tensors[node.tensors["weight"]]
    weight = (weight_signs(graph, node) if stored.dtype == np.uint8 else stored).astype(np.float32)
    scale = graph.tensor(node, "weight_scale")
    return weight if scale is None else weight * scale.reshape(-1, *(1,) * (weight.ndim - 1))


def all_equal(vector: np.ndarray) -> bool:
    """Return True if a vector is stored in the file as its length and a single number."""
    return len(vector) <= MAX_EQUAL // (4 * MAX_NODES) and vector.tobytes() == vector[:1].tobytes() * len(vector)


def _container(network: str, tensors: Mapping[str, np.ndarray]) -> bytes:
    """Return a safetensors file. The safetensors library writes metadata in an order that varies between runs."""
    order = sorted(tensors, key=lambda key: (list(DTYPES).index(tensors[key].dtype.name), key))
    entries: dict[str, Any] = {}
    parts, end = [], 0
    for key in order:
        array = np.ascontiguousarray(tensors[key])
        begin, end = end, end + array.nbytes
        entries[key] = {
            "dtype": DTYPES[array.dtype.name],
            "shape": list(array.shape),
            "data_offsets": [begin, end],
        }
        parts.append(array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes())
    data = b"".join(parts)
    metadata = {"format": FORMAT, "version": VERSION, "network": network, "sha256": checksum(network, entries, data)}
    header = json.dumps({"__metadata__": metadata, **entries}, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)
    return len(header).to_bytes(8, "little") + header + data


def _header_end(data: bytes) -> int:
    return 8 + int.from_bytes(data[:8], "little")


def checksum(network: str, entries: Mapping[str, Any], data: bytes) -> str:
    """Return the checksum of a file: over the tensors' bytes, the header without metadata, and the network's text."""
    header = json.dumps(entries, separators=(",", ":"), sort_keys=True)
    return hashlib.sha256(data + (header + network).encode("utf-8", "surrogatepass")).hexdigest()


def _network_text(data: bytes) -> bytes:
    """Return the text of the network after checking sizes, types and the checksum, before any tensor is read."""
    if len(data) < 8 or _header_end(data) > len(data):
        raise ValueError(f"it is truncated or not a packed network ({len(data)} bytes)")
    if _header_end(data) > MAX_HEADER:
        raise ValueError(f"its header has {_header_end(data)} bytes; at most {MAX_HEADER} are allowed")
    header = _loads(data[8 : _header_end(data)], "its header")
    metadata = header.pop("__metadata__", None) if isinstance(header, dict) else None
    if not isinstance(metadata, dict) or metadata.get("format") != FORMAT:
        raise ValueError(f"it is a different kind of file: its metadata does not contain the format {FORMAT!r}")
    if metadata.get("version") != VERSION:
        raise ValueError(
            f"its version is {short(metadata.get('version'))}; this program reads version {VERSION}: "
            "update zerocross (pip install --upgrade zerocross), or pack the network again"
        )
    if set(metadata) != set(_METADATA) or not all(isinstance(text, str) for text in metadata.values()):
        raise ValueError(f"its metadata must be the texts {', '.join(_METADATA)}")
    if metadata["sha256"] != checksum(metadata["network"], header, data[_header_end(data) :]):
        raise ValueError("its checksum is wrong: it was truncated, damaged or changed; pack the network again")
    for key, entry in header.items():
        if not isinstance(entry, dict) or entry.get("dtype") not in DTYPES.values():
            raise ValueError(f"the type of tensor {short(key)} must be one of {', '.join(DTYPES.values())}")
        shape = entry.get("shape")
        if not isinstance(shape, list) or not all(type(size) is int and 1 <= size <= MAX_BYTES for size in shape):
            raise ValueError(f"tensor {short(key)} has the invalid shape {short(shape)}")
    return _inflated(metadata["network"])


def _inflated(text: str) -> bytes:
    decompressor = zlib.decompressobj()
    try:
        inflated = decompressor.decompress(base64.b64decode(text, validate=True), MAX_TEXT)
    except (ValueError, zlib.error) as error:
        raise ValueError(f"its network cannot be decompressed ({error})") from None
    if not decompressor.eof or decompressor.unused_data:
        raise ValueError(f"its network is truncated or longer than {MAX_TEXT} bytes")
    return inflated


def _loads(text: bytes, what: str) -> Any:
    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is not a number")

    try:
        return json.loads(text, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{what} is not valid JSON ({short(str(error))})") from None


def _nodes(rows: Any, stored: Mapping[str, np.ndarray]) -> tuple[tuple[Node, ...], dict[str, np.ndarray]]:
    """Return the nodes, and their tensors by key, with every vector sliced from the tensor of its type."""
    if not isinstance(rows, list) or len(rows) > MAX_NODES:
        raise ValueError(f"its nodes must be a list of at most {MAX_NODES}")
    vectors = {name: array for name, array in stored.items() if name in _ROWS.values()}
    tensors = {name: array for name, array in stored.items() if name not in vectors}
    used = dict.fromkeys(vectors, 0)
    equal = 0
    nodes = []
    for row in rows:
        op, output, inputs, attrs, roles = _row(row)
        keys: dict[str, str] = {}
        for role, reference in roles.items():
            if role == "weight":
                keys[role] = _name(reference, "the key of a weight")
                continue
            keys[role] = f"{output}.{role}"
            if isinstance(reference, list):
                tensors[keys[role]] = _equal(reference, _vector_type(role), MAX_EQUAL - equal)
                equal += len(tensors[keys[role]])
                continue
            row_name = _ROWS[_vector_type(role)]
            array, first = vectors.get(row_name), used.get(row_name, 0)
            if (
                type(reference) is not int
                or array is None
                or array.ndim != 1
                or not 1 <= reference <= len(array) - first
            ):
                raise ValueError(
                    f"node {short(output)}: its {short(role)} of length {short(reference)} is not in the file"
                )
            tensors[keys[role]] = array[first : first + reference]
            used[row_name] = first + reference
        nodes.append(Node(op, tuple(inputs), output, attrs, keys))
    for name, count in used.items():
        if count != len(vectors[name]):
            raise ValueError(f"{name} has {len(vectors[name])} numbers, but the nodes use {count}")
    return tuple(nodes), tensors


def _row(row: Any) -> list[Any]:
    if isinstance(row, list) and 2 <= len(row) <= 5:
        complete = [*row, *([], {}, {})[len(row) - 2 :]]
        op, output, inputs, attrs, tensors = complete
        valid = isinstance(inputs, list) and isinstance(attrs, dict) and isinstance(tensors, dict)
        if valid and all(isinstance(text, str) for text in (op, output, *inputs)):
            return complete
    raise ValueError(f"a node is {short(row)}; it must be [op, output, inputs, attrs, tensors]")


def _equal(reference: list[Any], dtype: str, room: int) -> np.ndarray:
    """Return a vector of equal numbers."""
    kinds = (int, float) if dtype == "float32" else (int,)
    count, number = reference if len(reference) == 2 and type(reference[1]) in kinds else (0, 0)
    low, high = _RANGE[dtype]
    if type(count) is not int or not 1 <= count <= room or not low <= number <= high:
        raise ValueError(f"a vector of equal numbers is {short(reference)}; it must be [length, number]")
    return np.full(count, number, dtype=dtype)


def _compact(node: Node, graph: Graph, vectors: dict[str, list[np.ndarray]]) -> list[Any]:
    """Return a node as stored in the file; append its vectors to those of their type, unless all numbers are equal."""
    spec = OPS[node.op].attrs
    attrs = {key: value for key, value in node.attrs.items() if value != spec[key].default}
    tensors: dict[str, Any] = {}
    for role, key in node.tensors.items():
        array = graph.tensors[key]
        if role == "weight":
            tensors[role] = key
        elif all_equal(array):
            tensors[role] = [len(array), array[0].item()]
        else:
            tensors[role] = len(array)
            vectors.setdefault(_ROWS[_vector_type(role)], []).append(array)
    row = [node.op, node.output, list(node.inputs), attrs, tensors]
    while not row[-1]:
        row.pop()
    return row


def _vector_type(role: str) -> str:
    return _VECTORS.get(role, "float32")


def _name(value: Any, what: str) -> str:
    if not isinstance(value, str) or not 1 <= len(value) <= MAX_NAME or not value.isprintable():
        raise ValueError(f"{what} is {short(value)}; it must be 1..{MAX_NAME} printable characters")
    return value


def _sizes(value: Any) -> tuple[int, ...]:
    if not isinstance(value, list) or not all(type(size) is int and 1 <= size <= MAX_SIZE for size in value):
        raise ValueError(f"input_size is {short(value)}; it must be sizes within 1..{MAX_SIZE}")
    return tuple(value)


def _classes(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or len(value) > MAX_CLASSES:
        raise ValueError(f"classes must be a list of at most {MAX_CLASSES} names")
    return tuple(_name(name, "a class name") for name in value)


def _provenance(value: Any) -> dict[str, str]:
    if not isinstance(value, dict) or len(value) > 64:
        raise ValueError("provenance must be an object of at most 64 texts")
    for key, text in value.items():
        if not isinstance(text, str) or len(key) > MAX_NAME or len(text) > 1000 or not (key + text).isprintable():
            raise ValueError(f"provenance {short(key)} must be a text of at most 1000 printable characters")
    return value
