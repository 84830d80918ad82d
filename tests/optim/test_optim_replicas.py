"""Two processes keep identical replicas: signs drawn at the start, weights and optimizer state, bit by bit."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import multiprocessing

from reference import replicas


def test_two_processes_stay_bit_identical(tmp_path: Path):
    multiprocessing.spawn(replicas.work, (str(tmp_path), 2), nprocs=2)  # type: ignore[attr-defined]
    one, other = (torch.load(tmp_path / f"rank{rank}.pt", weights_only=True) for rank in range(2))
    assert not torch.equal(one["data"], other["data"])  # each had its own data
    assert torch.equal(one["drawn"], other["drawn"])
    assert 0.2 < float((one["drawn"] == 1).float().mean()) < 0.8
    for part in ("model", "state"):
        assert one[part].keys() == other[part].keys()
        for name, value in one[part].items():
            assert torch.equal(value, other[part][name]), name
    assert not torch.equal(one["model"]["1.weight"], one["drawn"])
    assert "0.g" in one["state"]
