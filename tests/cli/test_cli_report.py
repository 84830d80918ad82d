from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from zerocross.cli.app import run


@pytest.fixture(autouse=True)
def _temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("results").mkdir()
    claims = [{"sentence": "It is so", "holds": holds, "figures": ""} for holds in (True, True, False, None)]
    Path("results/fig2-smoke.json").write_text(json.dumps({"name": "fig2", "scale": "smoke", "claims": claims}))


def test_a_page_is_written_and_replaced(capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        assert run(["report"]) == 0
        output = capsys.readouterr().out
        assert "docs/report.html: 1 artefact, 4 claims (2 hold, 1 fail, 1 not judged)" in output
    assert Path("docs/report.html").read_text(encoding="utf-8").count("It is so") == 8


def test_other_files_are_not_replaced(capsys: pytest.CaptureFixture[str]) -> None:
    Path("page.html").write_text("<html>mine</html>")
    assert run(["report", "--out", "page.html"]) == 2
    assert run(["report", "--out", "results"]) == 2
    assert Path("page.html").read_text() == "<html>mine</html>"
    messages = capsys.readouterr().err.splitlines()
    assert "exists and is not a report" in messages[0]
    assert "is a folder" in messages[1]


def test_a_missing_package_is_named(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    assert run(["report"]) == 2
    assert "pip install 'zerocross[report]'" in capsys.readouterr().err
    assert not Path("docs").exists()


def test_a_wrong_folder_gives_a_one_line_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["report", "--results", "nowhere"]) == 2
    assert run(["report", "--results", "."]) == 2
    output = capsys.readouterr().err.splitlines()
    assert len(output) == 2
    assert all("zerocross reproduce" in line for line in output)
    assert not Path("docs").exists()
