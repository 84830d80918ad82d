"""Every `zerocross` command in the documentation exists, with its options; those of the FAQ are also run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer

from docs.pages import DOCS, ROOT, Command, blocks, commands, inline_commands
from zerocross.cli.app import app, run

PAGES = sorted([ROOT / "README.md", *DOCS.rglob("*.md")])
PARSED = {page: [*commands(page), *inline_commands(page)] for page in PAGES}
PARSED = {page: found for page, found in PARSED.items() if found}
FAQ = DOCS / "faq.md"
COMMAND_LINE = typer.main.get_command(app)


def problem(command: Command) -> str | None:
    """What is wrong with a command, found without running it: an unknown subcommand or option."""
    node: Any = COMMAND_LINE
    words = list(command.words)
    while hasattr(node, "commands") and words and not words[0].startswith("-"):
        if words[0] not in node.commands:
            return f"{node.name} has no command {words[0]!r}"
        node = node.commands[words.pop(0)]
    known = {name for parameter in node.params for name in (*parameter.opts, *parameter.secondary_opts)}
    known |= {"-h", "--help"}
    unknown = [word for word in words if re.match(r"--?[a-z]", word) and word.partition("=")[0] not in known]
    return f"{command}: unknown option {unknown[0]}" if unknown else None


@pytest.mark.parametrize("page", PARSED, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_exists(page: Path) -> None:
    # `zerocross COMMAND --help` stands for any command.
    plain = [first_alternative(each) for each in PARSED[page] if each.words[0] != "COMMAND"]
    assert [wrong for command in plain if (wrong := problem(command))] == []


def first_alternative(command: Command) -> Command:
    """`data fetch | check` -> `data fetch`; the options of a command with alternatives are checked, too."""
    words = [word for index, word in enumerate(command.words) if "|" not in (word, command.words[index - 1])]
    return Command(words, command.comment)


@pytest.mark.parametrize(
    ("words", "message"),
    [(["trian"], "no command"), (["train", "--epoch", "1"], "--epoch"), (["suite", "rnk"], "no command")],
)
def test_a_wrong_command_is_found(words: list[str], message: str) -> None:
    assert message in str(problem(Command(words, "")))


def test_options_after_alternatives_are_checked() -> None:
    assert first_alternative(Command(["data", "fetch", "|", "check"], "")).words == ["data", "fetch"]
    wrong = first_alternative(Command(["suite", "run", "--tabel", "published", "|", "tuned"], ""))
    assert "unknown option --tabel" in str(problem(wrong))


def test_the_faq_answers_all_fifteen_questions_with_a_command() -> None:
    questions = re.split(r"^## ", FAQ.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    numbered = [question for question in questions if re.match(r"\d+\. ", question)]
    assert [int(question.partition(".")[0]) for question in numbered] == list(range(1, 16))
    assert [question.splitlines()[0] for question in questions if "zerocross " not in question] == []


def test_the_faq_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("heartbeats.npy", np.random.default_rng(0).normal(size=(2, 1, 140)).astype(np.float32))
    failed, ran = [], 0
    for command in commands(FAQ):
        if not command.comment.startswith("takes"):
            code = run(command.words)
            ran += 1
            failed += [f"{command}: {capsys.readouterr().err}"] if code else []
            capsys.readouterr()
    assert failed == []
    assert ran >= 20


@pytest.mark.parametrize("name", ["faq", "migrate", "caveats"])
def test_the_python_of_a_page_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = {"__name__": name}
    code = blocks(DOCS / f"{name}.md", "python")
    assert code
    for number, block in enumerate(code, 1):
        exec(compile(block, f"{name}.md block {number}", "exec"), names)
