"""Fixtures of the runtime's tests."""

from __future__ import annotations

import pytest

from zerocross.runtime import worker


@pytest.fixture(autouse=True)
def threads_share_short_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let threads share the steps of the tests' networks, which are too short for it to save time."""
    monkeypatch.setattr(worker, "SHARED_WORK", 0)
