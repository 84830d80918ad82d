"""Packed files of the first version are read, and give the outputs that it gave."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from zerocross import runtime
from zerocross.runtime.format import VERSION, read, serialize

FOLDER = Path(__file__).parents[1] / "reference" / "first_version"
FILES = sorted(FOLDER.glob("*.zcb"))


def test_there_are_files() -> None:
    assert [path.stem for path in FILES] == ["convs-float16", "convs-float32", "convs-int8", "mlp"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_outputs_are_those_of_the_first_version(path: Path) -> None:
    with np.load(FOLDER / "outputs.npz") as arrays:
        x, expected = arrays[f"{path.stem}.input"], arrays[f"{path.stem}.output"]
    model = runtime.load(path)
    # With int8, real layers also compute with bytes now, which flips signs close to 0: see docs/versions.md.
    tolerance = 0.1 * np.abs(expected).max() if path.stem == "convs-int8" else 1e-5
    np.testing.assert_allclose(model(x), expected, rtol=0, atol=tolerance)
    assert (np.argmax(model(x), 1) == np.argmax(expected, 1)).all()


def test_what_a_file_says_of_itself_is_kept() -> None:
    graph = read(FOLDER / "convs-float32.zcb")
    assert graph.classes == ("a", "b", "c", "d")
    assert graph.preprocessing is not None
    assert (graph.preprocessing.kind, graph.preprocessing.resize) == ("image", 12)
    assert graph.provenance["zerocross"] == "0.1.0"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_same_bytes_are_written_while_the_version_is_the_same(path: Path) -> None:
    """A change of the bytes is a change of the format: it needs another version (docs/versions.md)."""
    assert VERSION == "1"
    assert serialize(read(path)) == path.read_bytes()
