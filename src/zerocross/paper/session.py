"""Where an artefact is made: its folders, its devices, and what has been made before."""

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
        out: Where artefacts are written; finished runs are in out/runs.
        work: Where unfinished runs have their folders, and single parts their files.
        execution: How many runs at a time, and where.
        show: Progress on the terminal.
    """

    place: train.Placement
    out: Path
    work: Path
    execution: Execution = field(default_factory=Execution)
    show: bool = True

    @property
    def results(self) -> Path:
        """Where finished runs are."""
        return self.out / "runs"

    @property
    def here(self) -> train.Placement:
        """Data and device of what is trained in this process, wherever the runs are."""
        return dataclasses.replace(self.place, accelerator="auto") if self.execution.cluster != "local" else self.place

    @property
    def cache(self) -> RunCache:
        """Where trainings are kept."""
        return RunCache(self.results, self.work)

    def find(self, config: Config) -> Result | None:
        """The result of a finished training, or None."""
        return self.cache.find(training(config, self.place))

    def search(self, searches: Sequence[Search]) -> list[Result]:
        """The results of all searches, made where they are not there yet."""
        cache = RunCache(self.out / "searches", self.work)
        return run_searches(searches, self.place, cache, self.execution, show=self.show)

    def run(self, groups: Groups) -> dict[str, list[Result]]:
        """The results of all runs, group by group, trained where they are not there yet.

        Args:
            groups: Label -> runs that differ in their seed alone. A run may stand in several groups.

        Raises:
            train.RunError: after all others have been made, if one failed.
        """
        labels: dict[str, str] = {}
        for label, configs in groups.items():
            for config in configs:
                labels.setdefault(config.hash, label)
        every = [config for configs in groups.values() for config in configs]
        made = run_all(
            sorted(every, key=lambda config: config.seed),  # one of each group first
            self.place,
            self.cache,
            self.execution,
            show=self.show,
            describe=lambda config: f"{labels[config.hash]}, seed {config.seed}",
        )
        if failed := [f"{labels[result['hash']]}: {result['failed']}" for result in made if "failed" in result]:
            raise train.RunError(f"{len(failed)} of {len(made)} runs failed: {'; '.join(failed)}")
        check_revisions(made)
        found = {result["hash"]: result for result in made}
        return {label: [found[config.hash] for config in configs] for label, configs in groups.items()}

    def once(self, name: str, about: Mapping[str, Any], make: Callable[[], Any]) -> Any:
        """What `make` gives, read from a file where it has been made before from the same settings.

        Args:
            name: Of the file, before the hash of `about`.
            about: All that decides the result; plain containers.
            make: Makes it, as plain containers.
        """
        decides = {"about": about, "engine": ENGINE_REVISION}
        key = hashlib.sha256(json.dumps(decides, sort_keys=True).encode()).hexdigest()[:16]
        path = self.work / f"{name}-{key}.json"
        if path.exists():
            try:
                return json.loads(path.read_text(encoding="utf-8"))
            except ValueError as wrong:
                raise ValueError(f"{path} is damaged: {wrong}; remove it to have it made again") from None
        made = make()
        write_json(path, made)
        return json.loads(json.dumps(made))
