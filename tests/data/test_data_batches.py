"""Batches of data in memory: order, ranks, resume, augmentation, evaluation."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from zerocross.data import Batches, BatchOptions, Split

UNIT: dict[str, Any] = {"mean": (0.0,), "std": (1 / 255,)}  # bytes are returned unchanged


def numbered(count: int) -> Split:
    """Return samples of which number i has constant pixels with the bytes of i, and target i."""
    number = torch.arange(count)
    images = torch.stack([number % 256, number // 256, torch.zeros_like(number)], 1).to(torch.uint8)
    return Split(images[:, :, None, None].expand(count, 3, 32, 32).contiguous(), number)


def batches_of(split: Split, batch_size: int, **options: Any) -> Batches:
    return split.batches(BatchOptions(batch_size, **options))


def collected(batches: Batches, epoch: int = 0, start: int = 0) -> list[tuple[Tensor, Tensor]]:
    return list(batches.epoch(epoch, start))


def assert_same(a: list[tuple[Tensor, Tensor]], b: list[tuple[Tensor, Tensor]]) -> None:
    assert len(a) == len(b)
    for (x, y), (u, v) in zip(a, b, strict=True):
        assert torch.equal(x, u)
        assert torch.equal(y, v)


@pytest.mark.parametrize("augment", ["none", "crop-flip", "shift"])
@pytest.mark.parametrize("rank", [0, 1])
def test_an_epoch_entered_in_the_middle_is_bit_identical(augment: str, rank: int) -> None:
    batches = batches_of(numbered(100), 16, seed=7, augment=augment, rank=rank, world_size=2, **UNIT)
    whole = collected(batches, 3)
    assert len(whole) == len(batches) == 6
    again = batches_of(numbered(100), 16, seed=7, augment=augment, rank=rank, world_size=2, **UNIT)
    for start in range(7):
        assert_same(collected(again, 3, start), whole[start:])


def test_images_and_targets_stay_together() -> None:
    split = numbered(600)
    for x, y in batches_of(split, 50, seed=1, **UNIT).epoch(2):
        torch.testing.assert_close(x[:, 0, 9, 9] + 256 * x[:, 1, 9, 9], y.float())


def test_ranks_split_the_batches_of_one_process() -> None:
    split = numbered(250)
    alone = collected(batches_of(split, 24, seed=5, **UNIT), 4)
    ranks = [collected(batches_of(split, 24, seed=5, rank=r, world_size=3, **UNIT), 4) for r in range(3)]
    for index, (x, y) in enumerate(alone):
        assert torch.equal(torch.cat([part[index][0] for part in ranks]), x)
        assert torch.equal(torch.cat([part[index][1] for part in ranks]), y)


def test_order_and_draws_depend_on_seed_epoch_rank_and_batch() -> None:
    split = Split(torch.arange(32, dtype=torch.uint8).expand(64, 3, 32, 32), torch.arange(64))
    make = lambda **k: batches_of(split, 16, **({"seed": 1, "augment": "crop-flip"} | UNIT | k))  # noqa: E731
    targets = {tuple(torch.cat([y for _, y in make(seed=s).epoch(e)]).tolist()) for s in (1, 2) for e in (0, 1)}
    assert len(targets) == 4
    ranks = [collected(make(rank=r, world_size=2)) for r in (0, 1)]
    # All images are equal: only the random draws differ.
    draws = {x.numpy().tobytes() for part in ranks for x, _ in part}
    assert len(draws) == 8


def test_training_drops_the_partial_batch_and_repeats_no_sample() -> None:
    seen = torch.cat([y for _, y in batches_of(numbered(103), 20, seed=0, **UNIT).epoch(0)])
    assert len(seen) == len(seen.unique()) == 100


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 40), st.integers(1, 5), st.integers(1, 6))
def test_evaluation_sees_every_sample_once_in_order(count: int, per_rank: int, world: int) -> None:
    split = Split(torch.arange(count, dtype=torch.float32)[:, None], torch.arange(count))
    parts = []
    for rank in range(world):
        batches = batches_of(split, per_rank * world, training=False, rank=rank, world_size=world)
        got = collected(batches)
        assert len(got) == len(batches)
        parts += [y for x, y in got if torch.equal(x[:, 0].long(), y)]
    assert sorted(torch.cat(parts).tolist()) == list(range(count))


def test_data_do_not_change_and_batches_are_float32() -> None:
    split = Split(torch.randn(40, 3, 32, 32), torch.zeros(40, dtype=torch.int64))
    before = split.inputs.clone()
    for x, y in batches_of(split, 10, seed=0, augment="crop-flip", mean=(0.3,), std=(2.0,)).epoch(0):
        assert x.dtype == torch.float32
        assert y.dtype == torch.int64
    assert torch.equal(split.inputs, before)


def test_memory_format() -> None:
    plain, last = (batches_of(numbered(32), 32, seed=0, channels_last=c, **UNIT) for c in (False, True))
    (a, _), (b, _) = collected(plain)[0], collected(last)[0]
    assert a.is_contiguous()
    assert b.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(a, b)


def test_invalid_arguments_are_reported() -> None:
    flat = Split(torch.zeros(10, 4), torch.zeros(10, dtype=torch.int64))
    with pytest.raises(ValueError, match="'cutout' is unknown; choose one of none, crop-flip, shift"):
        batches_of(numbered(10), 5, seed=0, augment="cutout", **UNIT)
    with pytest.raises(ValueError, match=r"needs \(N, C, H, W\)"):
        batches_of(flat, 5, seed=0, augment="shift", **UNIT)
    with pytest.raises(ValueError, match="multiple of world_size 3"):
        batches_of(flat, 5, seed=0, world_size=3, **UNIT)
    with pytest.raises(ValueError, match="start must lie within"):
        batches_of(flat, 5, seed=0, **UNIT).epoch(0, 3)  # raised before the first batch is requested
