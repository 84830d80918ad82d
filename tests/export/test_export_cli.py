"""`zerocross export`: files, printed notes and invalid options."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from export.harness import compiler
from reference.packed_graph import every_op
from zerocross.cli.app import run
from zerocross.export import TARGETS, export
from zerocross.runtime.format import write
from zerocross.runtime.graph import OPS


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "every.zcb"
    write(path, every_op())
    return path


def test_it_writes_both_files_and_prints_memory_requirements(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert run(["export", str(model), "--to", "c", "-o", str(tmp_path / "new" / "c"), "--name", "net"]) == 0
    output = capsys.readouterr().out
    assert sorted(path.name for path in (tmp_path / "new" / "c").iterdir()) == ["net.c", "net.h"]
    assert "flash: " in output
    assert "RAM: " in output
    assert "void net_predict(const float *input, float *output);" in (tmp_path / "new" / "c" / "net.h").read_text()


def test_existing_files_are_not_replaced_without_force(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "model.h").write_text("mine")
    words = ["export", str(model), "--to", "c", "-o", str(tmp_path)]
    assert run(words) == 2
    assert "--force" in capsys.readouterr().err
    assert (tmp_path / "model.h").read_text() == "mine"
    assert not (tmp_path / "model.c").exists()
    assert run([*words, "--force"]) == 0
    assert "mine" not in (tmp_path / "model.h").read_text()


def test_the_list_names_every_target_and_operator(capsys: pytest.CaptureFixture[str]):
    assert run(["export", "--list"]) == 0
    output = capsys.readouterr().out
    assert all(f"{name} " in output for name in TARGETS)
    assert all(op in output for op in OPS)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "--to TARGET"),
        (["--to", "onxn", "-o", "x"], "one of c"),
        (["--to", "c", "-o", "x", "--name", "a b"], "C identifier"),
        (["--to", "c", "-o", "x", "--cc", "no-such-compiler -O2"], "no-such-compiler"),
    ],
)
def test_invalid_options_are_reported(
    words: list[str], message: str, model: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
):  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert run(["export", str(model), *words]) == 2
    assert message in capsys.readouterr().err
    assert not Path("x").exists()


def test_an_unsupported_operator_is_named_with_its_module(tmp_path: Path, monkeypatch):
    without = replace(TARGETS["c"], unsupported={"prelu": "for a test"})
    monkeypatch.setitem(TARGETS, "c", without)
    with pytest.raises(ValueError, match=r"'bent' \(prelu\).*for a test"):
        export(every_op(), "c", tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_compiler_measures_the_object_file(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    words = ["export", str(model), "--to", "c", "-o", str(tmp_path / "c"), "--cc", f"{compiler('gcc')} -Os"]
    assert run(words) == 0
    assert "bytes of code" in capsys.readouterr().out
