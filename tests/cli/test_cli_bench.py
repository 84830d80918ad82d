"""`zerocross bench optimizer`: a table, a Markdown table, and a file that is not overwritten."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from zerocross.bench import optimizer as bench
from zerocross.cli.app import run
from zerocross.optim import GradientFilter

QUICK = ["bench", "optimizer", "--quick", "--rounds", "1", "--threads", "1"]


@pytest.fixture(autouse=True)
def _temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setitem(bench.BUILDERS, "compiled", GradientFilter)


def test_the_table_fits_the_terminal(capsys: pytest.CaptureFixture[str]):
    assert run(QUICK) == 0
    text = capsys.readouterr().out
    assert max(len(line) for line in text.splitlines()) <= 80
    for label in ("SGD, foreach", "SGD, fused", "Adam, fused", "GradientFilter, compiled", "nonfinite='raise'"):
        assert label in text
    row = next(line for line in text.splitlines() if "SGD, fused" in line).split()
    assert row[4:6] == ["1.00", row[5]]
    assert row[-2:] == ["4.0", "-"]
    assert "not representative of real networks" in text
    assert "target" not in text
    assert not [*Path().iterdir()]


def test_the_full_run_prints_targets_and_load(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(bench, "reactnet_shapes", lambda: [(4, 4)])
    monkeypatch.setattr(bench, "_in_new_process", lambda *_: 1.25)
    monkeypatch.setattr(bench, "_load", lambda: 3.0)
    assert run(["bench", "optimizer", "--rounds", "2", "--markdown", "--out", "results/bench.json"]) == 0
    text = capsys.readouterr().out
    assert (
        text.splitlines()[0]
        == "| step | median ms | fastest ms | x SGD fused | x SGD foreach | state bytes | temp. bytes |"
    )
    assert len([line for line in text.splitlines() if line.startswith("|")]) == 2 + len(bench.CONTENDERS)
    assert "16 weights; 2 rounds, contenders in turn; 2 threads; load average 3.0 before, 3.0 after." in text
    assert "The machine was busy" in text
    assert "nonfinite='raise', GradientFilter's default, costs" in text
    assert "target 1.45: m" in text
    assert "target 10.0%: m" in text
    figures = json.loads(Path("results/bench.json").read_text())
    assert figures["steps"]["filter"]["temporary_bytes_per_weight"] == 1.25
    assert set(figures["provenance"]) >= {"versions", "machine", "date"}
    assert figures["provenance"]["machine"]["cpu"]
    assert figures["threads"] == 2


def test_a_file_is_replaced_only_with_force(capsys: pytest.CaptureFixture[str]):
    file = Path("figures.json")
    file.write_text("mine")
    assert run([*QUICK, "--out", "figures.json"]) == 2
    assert (
        capsys.readouterr().err
        == "zerocross: figures.json already exists: choose another file, or use --force to replace it\n"
    )
    assert file.read_text() == "mine"
    assert run([*QUICK, "--out", "figures.json", "--force"]) == 0
    assert "steps" in json.loads(file.read_text())


def test_invalid_numbers_give_a_one_line_error(capsys: pytest.CaptureFixture[str]):
    assert run([*QUICK[:3], "--rounds", "0"]) == 2
    assert capsys.readouterr().err.splitlines()[-1] == "zerocross: 0 rounds on 2 threads: both must be at least 1"


def test_help_needs_no_torch():
    code = "import sys; from zerocross.cli.app import run; run(['bench', '--help']); sys.exit('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "optimizer" in done.stdout
