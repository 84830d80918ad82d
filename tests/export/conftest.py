"""A browser for the playground."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from report.chromium import Chromium


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    program = next(filter(None, map(shutil.which, ("chromium", "google-chrome"))), None)
    if not program:
        pytest.skip("no chromium (Debian: .ci/chromium installs it): the playground's behaviour is not tested")
    chromium = Chromium(program, tmp_path_factory.mktemp("chromium") / "profile")
    yield chromium
    chromium.close()
