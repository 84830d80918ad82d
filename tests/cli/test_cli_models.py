"""`zerocross models` on the command line."""

from __future__ import annotations

import subprocess
import sys

from zerocross.cli.app import run
from zerocross.models import names


def test_the_list_contains_every_model_and_the_published_counts(capsys):
    assert run(["models"]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in names())
    assert "267,264" in out
    assert "28,253,184" in out


def test_one_model_is_shown_layer_by_layer_with_its_options(capsys):
    assert run(["models", "birealnet20"]) == 0
    out = capsys.readouterr().out
    assert "blocks.17.conv" in out
    assert "267,264 binary weights" in out
    assert "shortcut = 'pool'" in out


def test_a_typing_error_gives_one_line_and_exit_code_2(capsys):
    assert run(["models", "birealnet21"]) == 2
    error = capsys.readouterr().err
    assert "did you mean 'birealnet20'?" in error
    assert len(error.strip().splitlines()) == 1


def test_torch_is_imported_only_when_the_command_runs():
    code = "import sys, zerocross.cli.models; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
