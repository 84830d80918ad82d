from __future__ import annotations

from pathlib import Path

import pytest

from zerocross.cli.app import run

SGD = ["filter", "--lr", "0.1", "--momentum", "0.9"]


@pytest.fixture(autouse=True)
def _temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")


def row(text: str, label: str) -> list[str]:
    """Return the cells of one row of the table."""
    return next(line for line in text.splitlines() if line.strip().startswith(label)).split()[len(label.split()) :]


def test_an_sgd_as_a_filter(capsys: pytest.CaptureFixture[str]):
    assert run([*SGD, "--weight-decay", "1e-4"]) == 0
    text = capsys.readouterr().out
    assert row(text, "alpha")[:2] == ["0.00010009", "1e-05"]  # torch's actual alpha, and the paper's approximation
    assert row(text, "gamma")[:2] == ["0.09991", "0.1"]
    assert row(text, "mean delay, steps") == ["9,999.0", "100,008.0", "9,999.5"]
    assert "noise flips it 4.4 times as often" in " ".join(text.split())
    assert max(len(line) for line in text.splitlines()) <= 80
    assert Path("filter.png").read_bytes()[:4] == b"\x89PNG"
    assert "Plot: filter.png" in text
    assert [file.name for file in Path().iterdir()] == ["filter.png"]


def test_a_filter_as_an_sgd(capsys: pytest.CaptureFixture[str]):
    assert run(["filter", "--alpha", "1e-3", "--gamma", "0.1", "--out", "two.svg"]) == 0
    text = capsys.readouterr().out
    assert "SGD(params, lr=0.1, momentum=0.8991, weight_decay=0.001)" in text
    assert "lr=0.1, gamma=0.1, weight_decay=0.01" in text
    assert row(text, "window (95 %), steps")[0] == "3,004"
    assert "<svg" in Path("two.svg").read_text()


def test_an_integrator(capsys: pytest.CaptureFixture[str]):
    assert run(SGD) == 0
    text = capsys.readouterr().out
    assert row(text, "stability") == ["integrator", "integrator"]
    assert row(text, "half-life, steps") == ["infinite", "infinite"]
    assert row(text, "alpha") == ["0", "0"]
    assert Path("filter.png").exists()


def test_complex_poles(capsys: pytest.CaptureFixture[str]):
    assert run([*SGD, "--weight-decay", "0.5"]) == 0
    text = capsys.readouterr().out
    assert row(text, "alpha")[0] == "-"
    assert "0.925 +- 0.2107j" in text
    assert "complex poles" in text


def test_an_unstable_filter_has_a_table_but_no_picture(capsys: pytest.CaptureFixture[str]):
    assert run(["filter", "--lr", "5", "--weight-decay", "1"]) == 0
    assert "No plot: the filter is unstable" in capsys.readouterr().out
    assert not Path("filter.png").exists()


@pytest.mark.parametrize(("order", "poles"), [("1", "0.999"), ("2", "2 x 0.999"), ("5", "5 x 0.999")])
def test_equal_emas_in_series(order: str, poles: str, capsys: pytest.CaptureFixture[str]):
    assert run(["filter", "--alpha", "1e-3", "--order", order]) == 0
    text = capsys.readouterr().out
    assert " ".join(row(text, "poles")).startswith(poles)
    assert ("No SGD is equivalent to a filter of order 5" in text) == (order == "5")


@pytest.mark.parametrize("name", ["filter.png", "filter.svg"])
def test_a_picture_written_earlier_is_replaced(name: str):
    assert run([*SGD, "--weight-decay", "1e-4", "--out", name]) == 0
    before = Path(name).read_bytes()
    assert run([*SGD, "--weight-decay", "1e-3", "--out", name]) == 0
    assert Path(name).read_bytes() != before


def test_another_picture_is_replaced_only_with_force(capsys: pytest.CaptureFixture[str]):
    Path("filter.png").write_text("mine")
    assert run([*SGD, "--weight-decay", "1e-4"]) == 2
    assert "filter.png already exists" in capsys.readouterr().err
    assert Path("filter.png").read_text() == "mine"
    assert run([*SGD, "--weight-decay", "1e-4", "--force"]) == 0
    assert Path("filter.png").read_bytes()[:4] == b"\x89PNG"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "no option given"),
        (["--lr", "0.1", "--alpha", "0.1"], "not both"),
        (["--momentum", "0.9"], "--lr is required"),
        (["--nesterov"], "--lr is required"),
        (["--gamma", "0.1"], "--alpha with --gamma"),
        (["--alpha", "0.1"], "--alpha with --gamma"),
        (["--alpha", "0.1", "--gamma", "0.1", "--order", "2"], "--alpha with --order"),
        (["--alpha", "0.1", "--order", "0"], "--order 0"),
        (["--alpha", "2", "--gamma", "0.1"], "(0, 1]"),
        (["--lr", "-1"], "lr -1.0"),
        (["--lr", "0.1", "--out", "picture.jpg"], ".png or .svg"),
        (["--lr", "0.1", "--out", "nowhere/picture.png"], "folder nowhere does not exist"),
        (["--lr", "0.1", "--momentun", "0.9"], "--momentun"),
    ],
)
def test_invalid_options_give_a_one_line_error(options: list[str], message: str, capsys: pytest.CaptureFixture[str]):
    assert run(["filter", *options]) == 2
    shown = capsys.readouterr()
    assert message in shown.err
    assert shown.err.count("\n") == 1
    assert shown.out == ""
    assert not list(Path().iterdir())
