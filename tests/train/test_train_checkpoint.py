"""Checkpoints and records as files: written atomically, the last two are kept, all damage is detected."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from zerocross.files import write_text, write_whole
from zerocross.train import checkpoint
from zerocross.train.checkpoint import Position
from zerocross.train.record import Record, read_lines


def state(value: float = 1.0) -> dict[str, Any]:
    return {"model": {"w": torch.full((64,), value), "n": torch.tensor(3)}, "random": [checkpoint.random_states()]}


def test_last_two_are_kept_and_the_newest_is_read(tmp_path: Path) -> None:
    for epoch in range(5):
        checkpoint.save(tmp_path, Position(epoch=epoch, step=epoch), state(float(epoch)))
    assert [path.name for path in checkpoint.paths(tmp_path)] == ["00-00003-0000000.pt", "00-00004-0000000.pt"]
    read, damaged = checkpoint.newest(tmp_path)
    assert read is not None
    assert read["model"]["w"][0] == 4
    assert Position(**read["position"]) == Position(epoch=4, step=4)
    assert not damaged


def test_file_names_sort_in_the_order_of_training(tmp_path: Path) -> None:
    order = [
        Position(0, 0, 9),
        Position(0, 0, 10),
        Position(0, 1, 0),
        Position(0, 9, 5),
        Position(0, 10, 0),
        Position(1),
    ]
    for position in order:
        written = checkpoint.save(tmp_path, position, state())
        assert checkpoint.paths(tmp_path)[-1] == written


@pytest.mark.parametrize("seed", range(60))
def test_a_changed_byte_anywhere_is_detected_or_harmless(tmp_path: Path, seed: int) -> None:
    """After changing any byte: an error that names the file, or the same values; never other values."""
    path = checkpoint.save(tmp_path, Position(), state())
    whole = bytearray(path.read_bytes())
    original = checkpoint.read(path)
    place = random.Random(seed).randrange(len(whole))
    whole[place] ^= 1 << (seed % 8)
    path.write_bytes(whole)
    read, damaged = checkpoint.newest(tmp_path)
    if read is None:
        assert len(damaged) == 1
        assert damaged[0].startswith(f"checkpoint {path} is damaged: ")
        return
    assert torch.equal(read["model"]["w"], original["model"]["w"])
    assert torch.equal(read["model"]["n"], original["model"]["n"])
    assert torch.equal(read["random"][0]["torch"], original["random"][0]["torch"])
    assert read["random"][0]["numpy"] == original["random"][0]["numpy"]
    assert read["position"] == original["position"]


def test_any_changed_byte_of_the_archive_is_detected(tmp_path: Path) -> None:
    """Regardless of how torch would read it."""
    path = checkpoint.save(tmp_path, Position(), state())
    whole = path.read_bytes()
    draw = random.Random(0)
    for _ in range(300):
        changed = bytearray(whole)
        changed[draw.randrange(len(whole) - 48)] ^= 1 << draw.randrange(8)
        path.write_bytes(changed)
        with pytest.raises(checkpoint.DamagedCheckpointError, match="it fails its checksum"):
            checkpoint.read(path)


def test_old_checkpoint_without_a_checksum_is_read(tmp_path: Path) -> None:
    """It has only the checksums of its archive's members, by which it is checked."""
    path = tmp_path / "00-00000-0000000.pt"
    torch.save({**state(2.0), "position": {}}, path)
    read, damaged = checkpoint.newest(tmp_path)
    assert read is not None
    assert read["model"]["w"][0] == 2
    assert not damaged
    whole = bytearray(path.read_bytes())
    whole[whole.index(b"\x00\x00\x00\x40" * 8)] ^= 1
    path.write_bytes(whole)
    read, (line,) = checkpoint.newest(tmp_path)
    assert read is None
    assert line.endswith("fails its checksum")


def test_torch_can_read_a_checkpoint(tmp_path: Path) -> None:
    path = checkpoint.save(tmp_path, Position(), state(3.0))
    assert torch.load(path, weights_only=True)["model"]["w"][0] == 3


def test_damaged_files_are_set_aside_and_never_replaced(tmp_path: Path) -> None:
    path = tmp_path / "00-00000-0000000.pt"
    for text in ("first", "second"):
        path.write_text(text, encoding="utf-8")
        checkpoint.set_aside(path)
    assert sorted(other.read_text(encoding="utf-8") for other in tmp_path.iterdir()) == ["first", "second"]
    assert checkpoint.paths(tmp_path) == []


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.999])
def test_truncated_file_is_detected(tmp_path: Path, share: float) -> None:
    path = checkpoint.save(tmp_path, Position(), state())
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    read, damaged = checkpoint.newest(tmp_path)
    assert read is None
    assert len(damaged) == 1


def test_random_states_survive_a_round_trip(tmp_path: Path) -> None:
    def draw() -> tuple[float, float, float, float]:
        # randn caches half a pair, in torch and in Python: the cache must be restored, too
        return float(torch.randn(1)), float(torch.rand(1)), float(np.random.randn()), random.gauss(0, 1)  # noqa: NPY002

    checkpoint.seed_random_states(5)
    draw()
    path = checkpoint.save(tmp_path, Position(), {"random": checkpoint.random_states()})
    expected = [draw() for _ in range(3)]
    checkpoint.restore_random_states(checkpoint.read(path)["random"])
    assert [draw() for _ in range(3)] == expected
    checkpoint.seed_random_states(5)
    first = draw()
    checkpoint.seed_random_states(5)
    assert draw() == first


@pytest.mark.parametrize("writes", range(8))
def test_a_full_disk_is_reported_as_such(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writes: int) -> None:
    """torch itself would report an archive in an unexpected position."""

    class Full:
        def __init__(self, file: Any) -> None:
            self.file, self.left = file, writes

        def write(self, data: Any) -> int:
            if self.left == 0:
                raise OSError(28, "No space left on device")
            self.left -= 1
            return self.file.write(data)

        def __getattr__(self, name: str) -> Any:
            return getattr(self.file, name)

    monkeypatch.setattr(
        checkpoint, "write_whole", lambda path, write: write_whole(path, lambda file: write(Full(file)))
    )
    with pytest.raises(OSError, match="No space left on device"):
        checkpoint.save(tmp_path, Position(), state())
    assert not list(tmp_path.iterdir())


# ---- files


def test_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "file"
    write_text(path, "old")

    def fail(file: Any) -> None:
        file.write(b"half of the n")
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        write_whole(path, fail)
    assert path.read_text(encoding="utf-8") == "old"
    assert [result.name for result in path.parent.iterdir()] == ["file"]


# ---- metrics


def test_record_resumes_from_the_state_of_the_checkpoint(tmp_path: Path) -> None:
    record = Record(tmp_path)
    record.write("train", update=0, loss=1.5)
    seen = record.seen(1)
    record.write("train", update=1, loss=1.25)
    record.close()
    with (tmp_path / "metrics.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"kind": "train", "upd')  # truncated by a kill
    assert len(read_lines(tmp_path / "metrics.jsonl")) == 2
    again = Record(tmp_path, seen)
    assert again.of("train") == [{"kind": "train", "update": 0, "loss": 1.5}]
    again.write("train", update=1, loss=1.25)
    again.close()
    assert [line["update"] for line in read_lines(tmp_path / "metrics.jsonl")] == [0, 1]
    assert again.seconds >= seen["seconds"]


def test_without_a_checkpoint_the_record_starts_from_scratch(tmp_path: Path) -> None:
    first = Record(tmp_path)
    first.write("train", update=0, loss=1.0)
    first.close()
    Record(tmp_path).close()
    assert (tmp_path / "metrics.jsonl").read_bytes() == b""


def test_tensorboard_events_on_request(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    record = Record(tmp_path, log=["tensorboard"])
    for update in range(4):
        record.write("train", update=update, loss=1.0 / (1 + update), ff_ratio=0.5)
    seen = {**record.seen(2), "bytes": 0}
    record.close()
    again = Record(tmp_path, seen, log=["tensorboard"])
    # Written again after a resume: it replaces the earlier entry.
    again.write("train", update=2, loss=0.25, ff_ratio=0.5)
    again.close()
    events = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert events.Tags()["scalars"] == ["train/loss", "train/ff_ratio"]
    result = [(event.step, event.value) for event in events.Scalars("train/loss")]
    assert result == [(0, 1.0), (1, 0.5), (2, 0.25)]


def test_lines_are_standard_json(unbroken: Path) -> None:
    for text in (unbroken / "metrics.jsonl").read_text(encoding="utf-8").splitlines():
        line = json.loads(text, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))
        assert math.isfinite(line["loss"])
    train = [line for line in read_lines(unbroken / "metrics.jsonl") if line["kind"] == "train"]
    assert set(train[0]) == {
        "kind", "update", "stage", "epoch", "loss", "lr", "images_per_second", "alpha", "ff_ratio", "ff_ratio_by_layer",
    }  # fmt: skip
    layers = train[0]["ff_ratio_by_layer"]
    assert list(layers) == [f"blocks.{i}.conv.weight" for i in range(4)]
    assert all(0 <= ratio <= 1 for ratio in layers.values())
