"""Results as lines of a shared file."""

from __future__ import annotations

import json
import multiprocessing
from pathlib import Path

import pytest

from zerocross.sweep import lines


def test_lines_are_sorted_and_unique_per_hash(tmp_path: Path) -> None:
    path = tmp_path / "task.jsonl"
    assert lines.read(path) == {}
    for name, key, score in (("b", "1", 1.0), ("a", "2", 2.0), ("b", "1", 3.0)):
        lines.add(path, {"method": name, "hash": key, "score": score})
    assert [json.loads(line)["method"] for line in path.read_text().splitlines()] == ["a", "b"]
    assert lines.read(path)["1"]["score"] == 3.0


def test_a_line_that_is_too_long_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "task.jsonl"
    with pytest.raises(ValueError, match=r"takes .* bytes; at most 1024"):
        lines.add(path, {"hash": "1", "text": "x" * 1024})
    assert not path.exists()


@pytest.mark.parametrize("text", ["{", "[]", "3", '{"score": 1}'])
def test_a_damaged_line_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "task.jsonl"
    path.write_text('{"hash": "1"}\n' + text + "\n")
    with pytest.raises(ValueError, match=r"line 2 is damaged.*remove the line"):
        lines.read(path)
    with pytest.raises(ValueError, match="line 2"):
        lines.add(path, {"hash": "2"})
    assert path.read_text().endswith(text + "\n")


def _add(path: Path, first: int) -> None:
    for number in range(first, first + 20):
        lines.add(path, {"hash": str(number)})


def test_processes_can_share_a_file(tmp_path: Path) -> None:
    path = tmp_path / "task.jsonl"
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=_add, args=(path, first)) for first in (0, 20, 40)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert set(lines.read(path)) == {str(number) for number in range(60)}
