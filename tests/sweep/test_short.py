"""Short trainings: the runs of a compiled network follow each other, and its code is forgotten afterwards."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import pytest

from zerocross import train
from zerocross.suite.tasks import TASKS
from zerocross.sweep import short
from zerocross.sweep.cache import RunCache
from zerocross.sweep.execution import Execution
from zerocross.sweep.job import Job


def job(width: int, seed: int, compile_: Literal["on", "off"]) -> Job:
    config = dataclasses.replace(TASKS["digits"].config(seed=seed, epochs=1), compile=compile_)
    config = dataclasses.replace(config, model=dataclasses.replace(config.model, options={"width": width}))
    about = {"task": "digits", "table": "test", "method": "filter", "settings": {"width": width}}
    return short.short_training(config, train.Placement(), file="digits.jsonl", about=about, metric="top1", seconds=1)


@pytest.mark.parametrize(("compile_", "widths"), [("on", [8, 8, 8, 16, 16, 16]), ("off", [8, 16, 8, 16, 8, 16])])
def test_runs_of_one_compiled_network_follow_each_other(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, compile_: Literal["on", "off"], widths: list[int]
) -> None:
    jobs = [job(width, seed, compile_) for seed in range(3) for width in (8, 16)]
    order: list[int] = []

    def run_jobs(jobs: Sequence[Job], *_: Any, **__: Any) -> list[dict[str, Any]]:
        order.extend(job.payload["config"]["model"]["options"]["width"] for job in jobs)
        return [{"key": job.key} for job in jobs]

    monkeypatch.setattr(short, "run_jobs", run_jobs)
    results = short.run_short(jobs, RunCache(tmp_path, tmp_path), Execution(), show=False)
    assert order == widths
    assert [result["key"] for result in results] == [job.key for job in jobs]


def test_compiled_code_is_forgotten_when_the_network_changes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Otherwise torch compiles later networks for variable shapes, and after a few of them no longer at all."""
    resets, trained = [], SimpleNamespace(scores={"top1": 90.0, "loss": 0.1, "update": 1})
    monkeypatch.setattr(short.torch.compiler, "reset", lambda: resets.append(1))
    monkeypatch.setattr(short.train, "fit", lambda *_, **__: trained)
    short._forget_compiled.cache_clear()
    counts = []
    for width, seed in ((8, 0), (8, 1), (16, 0), (16, 1), (8, 2)):
        short.run_short([job(width, seed, "on")], RunCache(tmp_path, tmp_path), Execution(), show=False)
        counts.append(len(resets))
    assert counts == [1, 1, 2, 2, 3]
