"""Results whose config would be computed otherwise, or under another name, by the present code."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zerocross.files import write_json
from zerocross.train.config import Config, from_dict, network_defaults, to_dict
from zerocross.train.folder import read_json

FIRST_REVISION = {"engine": 1, "method": 1}  # of results that do not say theirs


@dataclass(frozen=True)
class Stale:
    """A result that the present code does not find.

    Args:
        path: Its file.
        method: The method that made it; empty where the file cannot be read.
        seed: Its seed.
        reason: Why it is not found.
        migratable: Whether the arithmetic is that of the present code, so that only its name is old.
    """

    path: Path
    method: str
    seed: int | None
    reason: str
    migratable: bool


def stale(results: Path) -> list[Stale]:
    """All results of a folder that the present code does not find, sorted by method and seed."""
    found = [each for path in sorted(results.glob("*.json")) if (each := _look(path)) is not None]
    return sorted(found, key=lambda each: (each.method, each.seed or 0, each.path))


def _look(path: Path) -> Stale | None:
    try:
        result = read_json(path.parent, path.name)
        config = as_computed(result)
    except (ValueError, TypeError, KeyError, AttributeError) as wrong:
        return Stale(path, "", None, f"its config cannot be read: {wrong}", migratable=False)
    was, now = result.get("revision", FIRST_REVISION), config.revision
    changed = [f"{part} revision {was.get(part)}, now {now[part]}" for part in now if was.get(part) != now[part]]
    if changed:
        return Stale(path, config.method, config.seed, "; ".join(changed), migratable=False)
    if config.hash == result["hash"] == path.stem:
        return None
    return Stale(path, config.method, config.seed, f"its config's hash is now {config.hash}", migratable=True)


def as_computed(result: Mapping[str, Any]) -> Config:
    """The config of a result, with options that its network has gained since at the value that changes nothing.

    That is the model's default, whatever the method asks for by now.
    """
    config = from_dict(result["config"])
    options = {**network_defaults(config.model.name), **config.model.options}
    return dataclasses.replace(config, model=dataclasses.replace(config.model, options=options))


def migrate(results: Path) -> Iterator[tuple[Path, Path]]:
    """Give results whose arithmetic is that of the present code their present name; yields (old file, new file).

    A config gains fields over time. Where their defaults are what was computed before, the result stays valid and
    only the name of its file is old. Nothing is overwritten.
    """
    for each in stale(results):
        if not each.migratable:
            continue
        result = read_json(results, each.path.name)
        config = as_computed(result)
        path = results / f"{config.hash}.json"
        if path.exists() and path != each.path:
            raise FileExistsError(f"{path} already holds the result of the config of {each.path}; remove one of them")
        revision = result.get("revision", FIRST_REVISION)
        write_json(path, {**result, "hash": config.hash, "config": to_dict(config), "revision": revision})
        if path != each.path:
            each.path.unlink()
        yield each.path, path


def check_revisions(results: Iterable[Mapping[str, Any]]) -> None:
    """Refuse results of different revisions, or of another than the present code's, naming them."""
    old = []
    for result in results:
        config = from_dict(result["config"])
        was = result.get("revision", FIRST_REVISION)
        if was != config.revision:
            old.append(f"{config.method}, seed {config.seed} ({result['hash']}: {was}, now {config.revision})")
    if old:
        raise ValueError(
            f"{len(old)} results are of another revision: {'; '.join(old[:5])}{' ...' * (len(old) > 5)}; list them "
            "with zerocross runs --stale, remove them, and run the command again"
        )


def present_runs(results: Path) -> set[str]:
    """The hashes of all results that the present code finds."""
    return {path.stem for path in results.glob("*.json")} - {each.path.stem for each in stale(results)}


def missing_runs(document: Mapping[str, Any], present: set[str]) -> list[str]:
    """The trainings behind an artefact that are not among the present results: removed, renamed, or stale.

    Args:
        document: The artefact's JSON.
        present: See `present_runs`.
    """
    runs = (run for run in document.get("data", {}).get("runs", []) if "evaluated_on" in run)
    return [f"{run['label']}, seed {run['seed']} ({run['hash']})" for run in runs if run["hash"] not in present]
