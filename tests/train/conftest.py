"""What the tests of training share: processes to run commands in, and runs that nobody touched to compare with."""

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
    """A run of one process that nobody touched."""
    folder = tmp_path_factory.mktemp("unbroken")
    command = forks.start(folder, "train", *SMALL, "--out", "run")
    assert command.wait() == 0, command.said()
    return folder / "run"


@pytest.fixture(scope="session")
def unbroken_two(forks: Forks, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two processes that nobody touched."""
    folder = tmp_path_factory.mktemp("unbroken_two")
    commands = forks.start_two(folder, "train", *SMALL, "--out", "run")
    assert [command.wait() for command in commands] == [0, 0], commands[0].said() + commands[1].said()
    return folder / "run"
