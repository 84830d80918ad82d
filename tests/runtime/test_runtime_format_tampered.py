"""Packed files that were tampered with are either read or refused."""

from __future__ import annotations

import copy
import json
import random
import resource
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference.packed_graph import DATA, opened, sealed
from zerocross.runtime.format import (
    parse,
    serialize,
)

ODD = (
    None, True, False, -1, 0, 1, 2, 3, 7, 1 << 20, 1 << 31, 1 << 63, 1 << 200, -(1 << 63), 0.5, 1e308, "", "x",
    "weight",
    "\ud800", "input", "sign", "stem", [], [0], [1, 1], [1 << 40, 1.0], {}, {"a": 1}, [[]], "é" * 300,
)  # fmt: skip


def places(value: Any) -> list[tuple[Any, Any]]:
    """Return every (container, key) of a JSON value."""
    results = []
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in list(items):
        results.append((value, key))
        results += places(child)
    return results


def tampered(rng: random.Random) -> bytes:
    """Return a randomly changed file: raw bytes, or header, network or tensors with a valid checksum."""
    kind = rng.choice(("bytes", "header", "network", "numbers", "tensors"))
    if kind == "bytes":
        data = bytearray(DATA)
        for _ in range(rng.randint(1, 4)):
            _change_bytes(data, rng)
        return bytes(data)
    header, network, tensors = opened(DATA)
    if kind == "tensors":
        data = bytearray(tensors)
        for _ in range(rng.randint(1, 4)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        tensors = bytes(data) if rng.random() < 0.8 else tensors[: rng.randrange(len(tensors))]
    elif kind == "numbers":
        spots = [(container, key) for container, key in places(network) if type(container[key]) is int]
        container, key = rng.choice(spots)
        container[key] += rng.choice((-1, 1, 2, 1 << 20))
    else:
        for _ in range(rng.choice((1, 1, 2, 3))):
            _change_json(network if kind == "network" else header, rng)
    if not isinstance(header.get("__metadata__"), dict):
        return json.dumps(header).encode()
    return sealed(header, json.dumps(network).encode(), tensors)


def _change_bytes(data: bytearray, rng: random.Random) -> None:
    at = rng.randrange(len(data))
    choice = rng.randrange(4)
    if choice == 0:
        data[at] = rng.randrange(256)
    elif choice == 1:
        del data[at : at + rng.randint(1, 40)]
    elif choice == 2:
        data[at:at] = rng.randbytes(rng.randint(1, 40))
    else:
        data[at : at + 8] = rng.choice((0, 1 << 31, 1 << 63, (1 << 64) - 1)).to_bytes(8, "little")


def _change_json(value: Any, rng: random.Random) -> None:
    spots = places(value)
    container, key = rng.choice(spots)
    choice = rng.randrange(4)
    if choice == 0:
        del container[key]
    elif choice == 1:
        other, place = rng.choice(spots)
        container[key] = json.loads(json.dumps(other[place]))
    elif choice == 2 and isinstance(container, list):
        container.insert(key, copy.deepcopy(rng.choice(ODD)))
    else:
        container[key] = copy.deepcopy(rng.choice(ODD))


def survives(seed: int) -> bool:
    """Return True if a tampered file is read; check that such a network can be written and read again."""
    data = tampered(random.Random(seed))
    try:
        graph = parse(data)
    except ValueError:
        return False
    assert parse(serialize(graph)).output == graph.output
    return True


@settings(max_examples=400)
@given(st.integers(0, 1 << 62))
def test_a_file_that_was_tampered_with_is_read_or_refused(seed: int):
    survives(seed)


def test_some_tampered_files_are_valid_and_most_are_not():
    read_back = sum(survives(seed) for seed in range(600))
    assert 60 <= read_back <= 300, "a fuzzer that only ever sees one answer tests nothing"


@pytest.mark.slow
def test_a_hundred_thousand_files_that_were_tampered_with():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for seed in range(1 << 40, (1 << 40) + 100_000):
        survives(seed)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300_000, "KiB"
