"""Where runs are kept: a finished one as one JSON file named by its config's hash, an unfinished one as its folder."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from zerocross import train
from zerocross.files import write_json
from zerocross.train.config import Config, build_part, from_dict, to_dict
from zerocross.train.folder import read_json

_PARTS = ("hash", "config", "evaluated_on", "data", "final", "history", "ff_ratio", "seconds", "provenance")


def read_result(
    path: Path, what: str, parts: Sequence[str], check: Callable[[dict[str, Any]], None]
) -> dict[str, Any] | None:
    """What a finished run or search has left, or None where there is none; a damaged file is an error.

    Args:
        path: Its file.
        what: "run" or "search", for the message.
        parts: What it must hold.
        check: Raises ValueError, TypeError or KeyError where it holds something else.
    """
    if not path.exists():
        return None
    result = read_json(path.parent, path.name)
    try:
        if missing := [name for name in parts if name not in result]:
            raise ValueError(f"it has no {', '.join(missing)}")
        check(result)
    except (ValueError, TypeError, KeyError) as wrong:
        raise ValueError(f"{path} is damaged: {wrong}; remove it to have this {what} made again") from None
    return result


@dataclass(frozen=True)
class RunCache:
    """Two folders, and where runs take place.

    Args:
        place: Data and device.
        results: results/HASH.json: finished runs.
        work: work/HASH/: run folders of unfinished ones.
        keep: Keep the run folder (weights, metrics) of a finished run, too.
    """

    place: train.Placement
    results: Path
    work: Path
    keep: bool = False

    def path(self, config: Config) -> Path:
        """The file of a finished run."""
        return self.results / f"{config.hash}.json"

    def find(self, config: Config) -> dict[str, Any] | None:
        """The result of a config, or None where it has not been run; a damaged file is an error."""

        def check(result: dict[str, Any]) -> None:
            if result["hash"] != config.hash or from_dict(result["config"]).hash != config.hash:
                raise ValueError("it holds the result of another config")
            float(result["final"]["top1"])

        return read_result(self.path(config), "run", _PARTS, check)

    def finish(self, config: Config, *, show: bool, say: Callable[[str], None]) -> dict[str, Any]:
        """Train a config, from where an earlier attempt was cut, and put its result on the shelf."""
        folder = self.work / config.hash
        with self._alone(folder, say):
            if (result := self.find(config)) is None:
                if (folder / "config.json").exists():
                    result = train.resume(folder, data_dir=self.place.data_dir, show=show).result
                else:
                    result = train.begin(config, folder, self.place, show=show).result
                write_json(self.path(config), result)
            if not self.keep:
                shutil.rmtree(folder, ignore_errors=True)
        folder.with_suffix(".lock").unlink(missing_ok=True)  # whoever waited for it finds the result now
        return result

    def _alone(self, folder: Path, say: Callable[[str], None]) -> AbstractContextManager[object]:
        """Two processes in one run folder would spoil it; the lock of one that was killed is free."""
        self.work.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder.with_suffix(".lock"))
        try:
            return lock.acquire(timeout=0)
        except Timeout:
            say(f"another process is at this run, in {folder}: waiting for it")
            return lock.acquire()

    def as_dict(self) -> dict[str, Any]:
        """Plain containers, for another process."""
        return {
            "place": dataclasses.asdict(self.place),
            "results": str(self.results),
            "work": str(self.work),
            "keep": self.keep,
        }


def shelf_from(values: Mapping[str, Any]) -> RunCache:
    """The RunCache of such a dict."""
    place = build_part(train.Placement, values["place"], "place.")
    return RunCache(place, Path(values["results"]), Path(values["work"]), values["keep"])


def failure(config: Config, reason: str) -> dict[str, Any]:
    """What stands in place of a result where there is none."""
    return {"hash": config.hash, "config": to_dict(config), "failed": reason}
