"""Stale results: those that the current code would compute differently, or store under another name."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zerocross.files import write_json
from zerocross.train.config import Config, from_dict, network_defaults, to_dict
from zerocross.train.folder import read_json

FIRST_REVISION = {"engine": 1, "method": 1}  # of results that do not record their revision


@dataclass(frozen=True)
class Stale:
    """A result that the current code does not use.

    Args:
        path: Its file.
        method: The method of the run; empty if the file cannot be read.
        seed: The seed of the run.
        reason: Why the result is not used.
        migratable: True if the current code computes the same, so that only the name of the file is out of date.
    """

    path: Path
    method: str
    seed: int | None
    reason: str
    migratable: bool


def stale(results: Path) -> list[Stale]:
    """Return all stale results of a folder, sorted by method and seed."""
    stale_results = [entry for path in sorted(results.glob("*.json")) if (entry := _inspect(path)) is not None]
    return sorted(stale_results, key=lambda entry: (entry.method, entry.seed or 0, entry.path))


def _inspect(path: Path) -> Stale | None:
    try:
        result = read_json(path.parent, path.name)
        config = as_computed(result)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        return Stale(path, "", None, f"its config cannot be read: {error}", migratable=False)
    was, now = result.get("revision", FIRST_REVISION), config.revision
    changed = [f"{part} revision {was.get(part)}, now {now[part]}" for part in now if was.get(part) != now[part]]
    if changed:
        return Stale(path, config.method, config.seed, "; ".join(changed), migratable=False)
    if config.hash == result["hash"] == path.stem:
        return None
    return Stale(path, config.method, config.seed, f"its config's hash is now {config.hash}", migratable=True)


def as_computed(result: Mapping[str, Any]) -> Config:
    """Return the config of a result; network options added since then take the value that changes nothing.

    That value is the default of the model, even if the method sets another one by now.
    """
    config = from_dict(result["config"])
    options = {**network_defaults(config.model.name), **config.model.options}
    return dataclasses.replace(config, model=dataclasses.replace(config.model, options=options))


def migrate(results: Path) -> Iterator[tuple[Path, Path]]:
    """Rename results that the current code would compute identically; yields (old file, new file).

    A config gains fields over time. Where the default of a new field is what was computed before, the result stays
    valid and only the name of its file is out of date. Nothing is overwritten.
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
    """Raise a ValueError that names the results whose revision differs from that of the current code."""
    old = []
    for result in results:
        config = from_dict(result["config"])
        was = result.get("revision", FIRST_REVISION)
        if was != config.revision:
            old.append(f"{config.method}, seed {config.seed} ({result['hash']}: {was}, now {config.revision})")
    if old:
        raise ValueError(
            f"{len(old)} results have another revision: {'; '.join(old[:5])}{' ...' * (len(old) > 5)}; list them "
            "with zerocross runs --stale, remove them, and run the command again"
        )


def present_runs(results: Path) -> set[str]:
    """Return the hashes of all results that the current code uses."""
    return {path.stem for path in results.glob("*.json")} - {each.path.stem for each in stale(results)}


def missing_runs(document: Mapping[str, Any], present: set[str]) -> list[str]:
    """List the trainings of an artefact that are not among the present results: removed, renamed, or stale.

    Args:
        document: The artefact's JSON.
        present: See `present_runs`.
    """
    runs = (run for run in document.get("data", {}).get("runs", []) if "evaluated_on" in run)
    return [f"{run['label']}, seed {run['seed']} ({run['hash']})" for run in runs if run["hash"] not in present]
