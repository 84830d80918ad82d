"""Fixtures of the training tests: processes that run commands, and uninterrupted runs for comparison."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from forks import SMALL, Forks


@pytest.fixture(scope="session")
def forks() -> Iterator[Forks]:
    """Real processes that run commands."""
    server = Forks()
    yield server
    server.close()


@pytest.fixture(scope="session")
def unbroken(forks: Forks, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an uninterrupted run of one process."""
    folder = tmp_path_factory.mktemp("unbroken")
    command = forks.start(folder, "train", *SMALL, "--out", "run")
    assert command.wait() == 0, command.output()
    return folder / "run"


@pytest.fixture(scope="session")
def unbroken_two(forks: Forks, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an uninterrupted run of two processes."""
    folder = tmp_path_factory.mktemp("unbroken_two")
    commands = forks.start_two(folder, "train", *SMALL, "--out", "run")
    assert [command.wait() for command in commands] == [0, 0], commands[0].output() + commands[1].output()
    return folder / "run"
