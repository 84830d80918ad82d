"""Local processes: their environment."""

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from zerocross import train
from zerocross.sweep.cache import RunCache
from zerocross.sweep.local import LocalPool
from zerocross.sweep.progress import Progress
from zerocross.sweep.trainings import training


@pytest.mark.parametrize(("given", "expected"), [(None, "glibc.malloc.hugetlb=1"), ("glibc.malloc.perturb=3",) * 2])
def test_processes_use_huge_pages_unless_malloc_is_tuned_already(
    given: str | None, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[str, str]] = []

    class Executor:
        def __init__(self, folder: Path) -> None:
            del folder

        def update_parameters(self, **options: Any) -> None:
            del options

        def submit(self, *work: Any) -> Any:
            del work
            seen.append((os.environ["OMP_NUM_THREADS"], os.environ["GLIBC_TUNABLES"]))
            return SimpleNamespace(job_id="1")

    monkeypatch.setattr("submitit.LocalExecutor", Executor)
    monkeypatch.delenv("GLIBC_TUNABLES", raising=False)
    if given is not None:
        monkeypatch.setenv("GLIBC_TUNABLES", given)
    cache = RunCache(tmp_path / "results", tmp_path / "work")
    job = training(train.RECIPES["digits"].config, train.Placement())
    progress = Progress([job], [], cache.results, parallel=1, noun="run", show=False)
    with LocalPool(1, cache, progress, tmp_path) as pool:
        pool.submit([job])
    assert [tunables for _, tunables in seen] == [expected]
    assert os.environ.get("GLIBC_TUNABLES") == given
