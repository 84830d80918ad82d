"""Batches are split so that ranks share an epoch without losing or repeating a sample."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from zerocross.data.order import BatchPlan, derived_seed, epoch_order

shapes = st.tuples(st.integers(0, 200), st.integers(1, 9), st.integers(1, 7))


@given(shapes)
def test_evaluation_covers_every_sample_exactly_once(shape: tuple[int, int, int]) -> None:
    count, per_rank, world = shape
    seen: list[int] = []
    for rank in range(world):
        plan = BatchPlan(count, per_rank * world, rank, world)
        for index in range(len(plan)):
            places = plan.places(index)
            assert 0 < places.stop - places.start <= per_rank
            seen += range(places.start, places.stop)
    assert sorted(seen) == list(range(count))


@given(shapes)
def test_training_batches_are_full_and_split_contiguously(shape: tuple[int, int, int]) -> None:
    count, per_rank, world = shape
    size = per_rank * world
    plans = [BatchPlan(count + size, size, rank, world, drop_last=True) for rank in range(world)]
    assert {len(plan) for plan in plans} == {(count + size) // size}
    for index in range(len(plans[0])):
        parts = [range(p.places(index).start, p.places(index).stop) for p in plans]
        assert [len(part) for part in parts] == [per_rank] * world
        assert [place for part in parts for place in part] == list(range(index * size, (index + 1) * size))


def test_a_rank_may_have_nothing_to_evaluate() -> None:
    assert [len(BatchPlan(1, 4, rank, 4)) for rank in range(4)] == [0, 0, 0, 1]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"batch_size": 10, "world_size": 4}, "multiple of world_size 4"),
        ({"batch_size": 0}, "batch_size 0"),
        ({"batch_size": 8, "rank": 2, "world_size": 2}, "rank 2 is outside 0..1"),
        ({"batch_size": 101, "drop_last": True}, "exceeds the 100 training samples"),
    ],
)
def test_impossible_plans_are_refused(arguments: dict, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        BatchPlan(100, **arguments)


@pytest.mark.parametrize(("epoch", "start"), [(-1, 0), (0, -1), (0, 11)])
def test_a_position_outside_the_epoch_is_refused(epoch: int, start: int) -> None:
    with pytest.raises(ValueError, match=r"0\.\.10"):
        BatchPlan(100, 10).check(epoch, start)


def test_order_is_a_permutation_that_depends_on_seed_and_epoch() -> None:
    orders = {(seed, epoch): epoch_order(500, seed, epoch) for seed in (0, 1) for epoch in (0, 1)}
    for order in orders.values():
        assert torch.equal(order.sort().values, torch.arange(500))
    assert len({tuple(order.tolist()) for order in orders.values()}) == 4
    assert torch.equal(orders[1, 1], epoch_order(500, 1, 1))


def test_seeds_are_distinct_and_never_negative() -> None:
    seeds = {derived_seed(a, b, c) for a in range(10) for b in range(10) for c in range(10)}
    assert len(seeds) == 1000
    assert min(seeds) >= 0
    with pytest.raises(ValueError, match="0 or more"):
        derived_seed(0, -1)
