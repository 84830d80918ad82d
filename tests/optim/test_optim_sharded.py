"""Sharded weights (FSDP2, DTensor): two processes over gloo take the signs of one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import multiprocessing

from reference import sharded
from reference.optimizer_table import OPTIMIZERS


def on_both_ranks(folder: Path, what: str) -> Any:
    """Run a job of `sharded` in two processes; return its result, which both must have."""
    multiprocessing.spawn(sharded.work, (str(folder), what), nprocs=sharded.RANKS)  # type: ignore[attr-defined]
    one, other = (torch.load(folder / f"rank{rank}.pt", weights_only=True) for rank in range(sharded.RANKS))
    assert one == other
    return one


FSDP2_ON_CPUS = hasattr(torch.cpu.Stream, "record_event")  # PyTorch's own fully_shard calls it; 2.6 has it on GPUs only


@pytest.mark.skipif(not FSDP2_ON_CPUS, reason="this version of PyTorch has no FSDP2 on CPUs")
def test_fsdp2_takes_the_signs_of_an_unsharded_run(tmp_path: Path):
    results = on_both_ranks(tmp_path, "signs")
    assert set(results) == set(sharded.FILTERS)
    for name, (differing, flips, ratios_agree) in results.items():
        assert differing == 0, name
        assert flips >= 5, name
        assert ratios_agree, name


@pytest.mark.slow
def test_every_optimizer_is_bit_exact_on_sharded_weights(tmp_path: Path):
    differing = on_both_ranks(tmp_path, "rows")
    assert differing == dict.fromkeys(differing, 0)
    assert {key.split()[0] for key in differing} == set(OPTIMIZERS)


@pytest.mark.slow
def test_every_rank_reads_the_ratio_of_the_whole_sharded_weight(tmp_path: Path):
    result = on_both_ranks(tmp_path, "nan")
    assert 0 < result["ratio"] <= 1
    assert result["ratio"] == result["by_hand"]
    assert result["skipped"] == 1  # NaN was in the part of one rank alone
