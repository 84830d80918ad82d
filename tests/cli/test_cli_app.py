"""The command line as a whole: readable help, one-line errors with exit code 2, and fast --help."""

from __future__ import annotations

import subprocess
import sys

import pytest

import zerocross
from zerocross.cli import app

COMMANDS = [[], *([name] for name in app.COMMANDS), ["data", "fetch"], ["data", "check"]]


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from zerocross.cli import app; app.run(['--help']); "
        "print(*sorted({name.split('.')[0] for name in sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.splitlines()[-1].split())
    assert not loaded & {"torch", "scipy", "numpy", "matplotlib", "sklearn", "lightning_fabric", "PIL", "numba"}
    assert "zerocross" in loaded


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_help_of_every_command_fits_80_columns(
    words: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERMINAL_WIDTH", "80")
    for option in ("--help", "-h"):
        assert app.run([*words, option]) == 0
        output = capsys.readouterr().out
        assert f"Usage: {' '.join(['zerocross', *words])}" in output
        assert max(map(len, output.splitlines())) <= 80


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(["--version"]) == 0
    assert capsys.readouterr().out == f"zerocross {zerocross.__version__}\n"


def test_no_arguments_prints_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run([]) == 0
    output = capsys.readouterr().out
    for name in app.COMMANDS:
        assert name in output


def test_group_without_a_command_prints_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(["data"]) == 0
    assert "fetch" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["trian"], "train"),
        (["train", "--epoch", "3"], "--epochs"),
        (["train", "--epochs", "many"], "'--epochs'"),
        (["train", "--epochs", "0"], "greater than or equal to 1"),
        (["train", "--epochs"], "--epochs"),
        (["train", "digits", "cifar10"], "cifar10"),
        (["evaluate"], "RUN"),
        (["--colour"], "--colour"),
    ],
)
def test_typing_errors_give_one_line_and_exit_code_2(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert app.run(words) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("zerocross: ")
    assert captured.err.count("\n") == 1
    assert message in captured.err
    assert "--help)" in captured.err


def test_internal_errors_keep_their_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*words: object) -> None:
        raise KeyError("a bug")

    monkeypatch.setattr("zerocross.train.recipes.get", broken)
    with pytest.raises(KeyError):
        app.run(["recipes", "digits"])


def test_user_errors_show_the_traceback_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZEROCROSS_DEBUG", "1")
    with pytest.raises(ValueError, match="recipe"):
        app.run(["recipes", "digit"])


def test_interrupted_command_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*words: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("zerocross.train.recipes.get", interrupted)
    assert app.run(["recipes", "digits"]) == 130
