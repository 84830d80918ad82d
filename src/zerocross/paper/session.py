"""A session of `reproduce`: folders, devices, and the caches of finished runs and searches."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from zerocross import train
from zerocross.files import write_json
from zerocross.sweep.cache import RunCache
from zerocross.sweep.execution import Execution
from zerocross.sweep.job import Result
from zerocross.sweep.searches import Search, run_searches
from zerocross.sweep.stale import check_revisions
from zerocross.sweep.trainings import run_all, training
from zerocross.train.config import ENGINE_REVISION, Config

Groups = Mapping[str, Sequence[Config]]


@dataclass(frozen=True)
class Session:
    """Folders and devices of a call of `reproduce`.

    Args:
        place: Data and device.
        out: Folder of artefacts; finished runs are in out/runs.
        work: Folder of unfinished runs and of cached intermediate results.
        execution: How many runs at a time, and where.
        show: Show progress on the terminal.
    """

    place: train.Placement
    out: Path
    work: Path
    execution: Execution = field(default_factory=Execution)
    show: bool = True

    @property
    def results(self) -> Path:
        """The folder of finished runs."""
        return self.out / "runs"

    @property
    def here(self) -> train.Placement:
        """Data and device of trainings in this process, even if other runs are on a cluster."""
        return dataclasses.replace(self.place, accelerator="auto") if self.execution.cluster != "local" else self.place

    @property
    def cache(self) -> RunCache:
        """The cache of trainings."""
        return RunCache(self.results, self.work)

    def find(self, config: Config) -> Result | None:
        """Return the result of a finished training, or None."""
        return self.cache.find(training(config, self.place))

    def search(self, searches: Sequence[Search]) -> list[Result]:
        """Return the results of all searches, running those that are not cached."""
        cache = RunCache(self.out / "searches", self.work)
        return run_searches(searches, self.place, cache, self.execution, show=self.show)

    def run(self, groups: Groups) -> dict[str, list[Result]]:
        """Return the results of all runs by group, training those that are not cached.

        Args:
            groups: Label -> runs that differ only in their seed. A run may be in several groups.

        Raises:
            train.RunError: if a run failed; raised after all other runs have finished.
        """
        labels: dict[str, str] = {}
        for label, configs in groups.items():
            for config in configs:
                labels.setdefault(config.hash, label)
        every = [config for configs in groups.values() for config in configs]
        results = run_all(
            sorted(every, key=lambda config: config.seed),  # the first seed of each group first
            self.place,
            self.cache,
            self.execution,
            show=self.show,
            describe=lambda config: f"{labels[config.hash]}, seed {config.seed}",
        )
        if failed := [f"{labels[result['hash']]}: {result['failed']}" for result in results if "failed" in result]:
            raise train.RunError(f"{len(failed)} of {len(results)} runs failed: {'; '.join(failed)}")
        check_revisions(results)
        by_hash = {result["hash"]: result for result in results}
        return {label: [by_hash[config.hash] for config in configs] for label, configs in groups.items()}

    def once(self, name: str, about: Mapping[str, Any], compute: Callable[[], Any]) -> Any:
        """Return the result of `compute`, cached in a file by its settings.

        Args:
            name: Name of the file, before the hash of `about`.
            about: All settings that determine the result, as plain containers.
            compute: Computes the result, as plain containers.
        """
        settings = {"about": about, "engine": ENGINE_REVISION}
        key = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:16]
        path = self.work / f"{name}-{key}.json"
        if path.exists():
            try:
                return json.loads(path.read_text(encoding="utf-8"))
            except ValueError as error:
                raise ValueError(f"{path} is damaged: {error}; remove the file to compute it again") from None
        result = compute()
        write_json(path, result)
        return json.loads(json.dumps(result))
