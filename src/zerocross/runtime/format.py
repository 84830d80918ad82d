"""The file of a packed network (.zcb): one safetensors file.

Its metadata are `format`, `version`, `network` and `sha256`. `network` is a JSON text, compressed (zlib, base64), with
`input_size`, `output`, `nodes`, `preprocessing`, `classes` and `provenance`; a node is [op, output, inputs, attrs,
tensors], with default attributes and empty ends left out. Weights are tensors of their own; vectors (biases, scales,
thresholds) stand one after the other in a tensor per type, so that many short ones cost no header. In a node, a weight
is named by its key, a vector by its length, and one of equal numbers by [length, number] alone. `sha256` is that of the
tensors' bytes, of the header's other entries as compact JSON with sorted keys, and of `network`.

The reader takes a file for hostile until every part of it has been checked. It ends in a Graph or in a ValueError, and
allocates a small multiple of the file's own size, and at most 100 MB beyond it.
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
MAX_EQUAL = 1 << 22  # numbers, in all, in vectors of equal ones, which take room in memory but none in the file
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
    """Read a packed network; ValueError, with the reason, where the file is not a sound one."""
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist; make it with: zerocross pack RUN -o {path}")
    if not path.is_file():
        raise ValueError(f"{path} is not a file")
    size = path.stat().st_size
    if size > MAX_BYTES:
        raise ValueError(f"{path} has {size} bytes; a packed network has at most {MAX_BYTES}")
    with path.open("rb") as file:
        data = file.read(size + 1)
    try:
        return parse(data)
    except ValueError as wrong:
        raise ValueError(f"{path} is not a sound packed network: {wrong}") from None


def write(path: str | Path, graph: Graph) -> None:
    """Write a packed network, whole or not at all; an existing file is replaced."""
    data = serialize(graph)
    write_whole(Path(path), lambda file: file.write(data))


def parse(data: bytes) -> Graph:
    """Read a packed network from the bytes of its file."""
    text = _network_text(data)
    try:
        tensors = load_tensors(data)
    except (SafetensorError, ValueError, TypeError, KeyError, OverflowError) as wrong:
        raise ValueError(f"its tensors cannot be read ({wrong})") from None
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
    """The bytes of a packed network's file, the same for the same graph; one that could not be read back is refused."""
    graph = check(graph)
    tensors = {
        key: graph.tensors[key] for node in graph.nodes for role, key in node.tensors.items() if role == "weight"
    }
    vectors: dict[str, list[np.ndarray]] = {}
    nodes = [_compact(node, graph, vectors) for node in graph.nodes]
    if clash := tensors.keys() & set(_ROWS.values()):
        raise ValueError(f"a weight has the key {clash.pop()!r}, which is taken: name it otherwise")
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
    """The weights of a layer whose weights are bits: int8, -1 and +1, in the layer's shape (O, I / groups, kh, kw)."""
    shape = node.attrs["shape"]
    bits = np.unpackbits(graph.tensors[node.tensors["weight"]], count=math.prod(shape), bitorder="little")
    return (2 * bits.astype(np.int8) - 1).reshape(shape)


def real_weight(graph: Graph, node: Node) -> np.ndarray:
    """The weights of a conv2d or linear node as float32, whatever they are stored as."""
    stored = graph.tensors[node.tensors["weight"]]
    weight = (weight_signs(graph, node) if stored.dtype == np.uint8 else stored).astype(np.float32)
    scale = graph.tensor(node, "weight_scale")
    return weight if scale is None else weight * scale.reshape(-1, *(1,) * (weight.ndim - 1))


def all_equal(vector: np.ndarray) -> bool:
    """Whether a vector takes no room in the file but its length and its one number."""
    return len(vector) <= MAX_EQUAL // (4 * MAX_NODES) and vector.tobytes() == vector[:1].tobytes() * len(vector)


def _container(network: str, tensors: Mapping[str, np.ndarray]) -> bytes:
    """A safetensors file. Its own library writes metadata in an order that changes from run to run."""
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
    """The checksum of a file: of its tensors' bytes, of its header without metadata, and of its network's text."""
    header = json.dumps(entries, separators=(",", ":"), sort_keys=True)
    return hashlib.sha256(data + (header + network).encode("utf-8", "surrogatepass")).hexdigest()


def _network_text(data: bytes) -> bytes:
    """The text of the network; sizes, types and the checksum are looked at before the library reads any tensor."""
    if len(data) < 8 or _header_end(data) > len(data):
        raise ValueError(f"it is cut short, or some other file ({len(data)} bytes)")
    if _header_end(data) > MAX_HEADER:
        raise ValueError(f"its header has {_header_end(data)} bytes; at most {MAX_HEADER} are allowed")
    header = _loads(data[8 : _header_end(data)], "its header")
    metadata = header.pop("__metadata__", None) if isinstance(header, dict) else None
    if not isinstance(metadata, dict) or metadata.get("format") != FORMAT:
        raise ValueError("it is some other file: its metadata do not call it a packed network")
    if metadata.get("version") != VERSION:
        raise ValueError(
            f"its version is {short(metadata.get('version'))}; this program reads version {VERSION}: "
            "update zerocross (pip install --upgrade zerocross), or pack the network again"
        )
    if set(metadata) != set(_METADATA) or not all(isinstance(text, str) for text in metadata.values()):
        raise ValueError(f"its metadata must be the texts {', '.join(_METADATA)}")
    if metadata["sha256"] != checksum(metadata["network"], header, data[_header_end(data) :]):
        raise ValueError("its checksum is wrong: it was cut short, damaged or changed; pack the network again")
    for key, entry in header.items():
        if not isinstance(entry, dict) or entry.get("dtype") not in DTYPES.values():
            raise ValueError(f"tensor {short(key)} must be one of {', '.join(DTYPES.values())}")
        shape = entry.get("shape")
        if not isinstance(shape, list) or not all(type(size) is int and 1 <= size <= MAX_BYTES for size in shape):
            raise ValueError(f"tensor {short(key)} has the shape {short(shape)}")
    return _inflated(metadata["network"])


def _inflated(text: str) -> bytes:
    machine = zlib.decompressobj()
    try:
        inflated = machine.decompress(base64.b64decode(text, validate=True), MAX_TEXT)
    except (ValueError, zlib.error) as wrong:
        raise ValueError(f"its network cannot be decompressed ({wrong})") from None
    if not machine.eof or machine.unused_data:
        raise ValueError(f"its network is cut short, or longer than {MAX_TEXT} bytes")
    return inflated


def _loads(text: bytes, what: str) -> Any:
    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is no number")

    try:
        return json.loads(text, parse_constant=refuse)
    except (ValueError, RecursionError) as wrong:
        raise ValueError(f"{what} is not sound JSON ({short(str(wrong))})") from None


def _nodes(rows: Any, stored: Mapping[str, np.ndarray]) -> tuple[tuple[Node, ...], dict[str, np.ndarray]]:
    """The nodes, and their tensors by key, with every vector cut out of its row."""
    if not isinstance(rows, list) or len(rows) > MAX_NODES:
        raise ValueError(f"its nodes must be a list of at most {MAX_NODES}")
    vectors = {name: array for name, array in stored.items() if name in _ROWS.values()}
    tensors = {name: array for name, array in stored.items() if name not in vectors}
    taken = dict.fromkeys(vectors, 0)
    equal = 0
    nodes = []
    for row in rows:
        op, output, inputs, attrs, roles = _row(row)
        keys: dict[str, str] = {}
        for role, place in roles.items():
            if role == "weight":
                keys[role] = _name(place, "the key of a weight")
                continue
            keys[role] = f"{output}.{role}"
            if isinstance(place, list):
                tensors[keys[role]] = _equal(place, _vector_type(role), MAX_EQUAL - equal)
                equal += len(tensors[keys[role]])
                continue
            row_name = _ROWS[_vector_type(role)]
            array, first = vectors.get(row_name), taken.get(row_name, 0)
            if type(place) is not int or array is None or array.ndim != 1 or not 1 <= place <= len(array) - first:
                raise ValueError(f"node {short(output)}: its {short(role)} of length {short(place)} is not in the file")
            tensors[keys[role]] = array[first : first + place]
            taken[row_name] = first + place
        nodes.append(Node(op, tuple(inputs), output, attrs, keys))
    for name, count in taken.items():
        if count != len(vectors[name]):
            raise ValueError(f"{name} holds {len(vectors[name])} numbers, and the nodes use {count}")
    return tuple(nodes), tensors


def _row(row: Any) -> list[Any]:
    if isinstance(row, list) and 2 <= len(row) <= 5:
        whole = [*row, *([], {}, {})[len(row) - 2 :]]
        op, output, inputs, attrs, tensors = whole
        right = isinstance(inputs, list) and isinstance(attrs, dict) and isinstance(tensors, dict)
        if right and all(isinstance(text, str) for text in (op, output, *inputs)):
            return whole
    raise ValueError(f"a node is {short(row)}; it must be [op, output, inputs, attrs, tensors]")


def _equal(place: list[Any], dtype: str, room: int) -> np.ndarray:
    """A vector of equal numbers."""
    kinds = (int, float) if dtype == "float32" else (int,)
    count, number = place if len(place) == 2 and type(place[1]) in kinds else (0, 0)
    low, high = _RANGE[dtype]
    if type(count) is not int or not 1 <= count <= room or not low <= number <= high:
        raise ValueError(f"a vector of equal numbers is {short(place)}; it must be [length, number]")
    return np.full(count, number, dtype=dtype)


def _compact(node: Node, graph: Graph, vectors: dict[str, list[np.ndarray]]) -> list[Any]:
    """A node as the file has it; its vectors are added to those of its type, or, of equal numbers, written out."""
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
