"""Fixtures: a results folder with every kind of file, its page, and a browser."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from report.chromium import Chromium
from zerocross.report.page import build
from zerocross.report.results import read
from zerocross.suite.compare import configs, summarise
from zerocross.train.config import Config, to_dict


@pytest.fixture(scope="session")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a folder of results: all verdicts, styles of curves, awkward texts, a comparison, files of other kinds."""
    folder = tmp_path_factory.mktemp("results")
    rng = np.random.default_rng(0)
    x = np.geomspace(1e-5, 1e-1, 9).tolist()
    y = [60 + 20 * float(np.exp(-((np.log10(each) + 3) ** 2))) for each in x]
    low, high = [each - 1 for each in y], [each + 1 for each in y]
    write(folder / "fig5-reduced.json", {
        **artefact("fig5", "FF ratio and accuracy over alpha"),
        "claims": [
            {"sentence": "FF ratio grows with alpha", "holds": True, "figures": "1.2e-4 at 1e-5, 3.1e-2 at 1e-1"},
            {"sentence": "Accuracy has an optimum inside: a < b & c", "holds": False, "figures": "best at the edge"},
            {"sentence": "Seeds agree", "holds": None, "figures": "one seed; not judged"},
        ],
        "paper": {"figure": "Fig. 5", "best alpha": 1e-3},
        "data": {
            "panels": [
                {"title": "Accuracy", "x": "alpha", "y": "accuracy, %", "x_scale": "log", "y_scale": "linear",
                 "curves": [{"label": "filter", "x": x, "mean": y, "low": low, "high": high, "n": 3, "style": "line"},
                            {"label": "a <b>bold</b> name", "x": x, "mean": [*y[:4], float("nan"), *y[5:]], "low": None,
                             "high": None, "n": 1, "style": "points"}],
                 "lines": [{"label": "the paper: 78.1", "y": 78.1}]},
                {"title": "By method", "x": "", "y": "accuracy, %", "x_scale": "linear", "y_scale": "linear",
                 "curves": [{"label": "ours", "x": ["full precision", "DoReFa", "filter"], "mean": [91.0, 79.0, 86.0],
                             "low": [90.0, 78.0, 85.5], "high": [91.5, 80.0, 86.5], "n": [3, 3, 2], "style": "bars"}],
                 "lines": []},
            ],
            "tables": [{"title": "Accuracy", "columns": ["method", "%"],
                        "rows": [["filter", 86.04], ["<i>x</i>", None]], "notes": ["cited where marked"]}],
            "runs": [{"hash": "0123456789abcdef", "label": "alpha 1e-3", "seed": 0, "seconds": 61.5}],
        },
    })  # fmt: skip
    write(folder / "fig5-smoke.json", {**artefact("fig5", "the smaller scale"), "scale": "smoke"})
    gradients = (rng.normal(size=300) - 0.3 * np.sin(np.arange(300) / 40)).round(5).tolist()
    write(folder / "fig2-reduced.json", {
        **artefact("fig2", "A weight's gradients, filtered"),
        "data": {"trace": {"label": "layer 3, weight 17", "gradients": gradients}, "panels": "another form"},
    })  # fmt: skip
    circle = '<svg xmlns="http://www.w3.org/2000/svg" width="90" height="90"><circle cx="45" cy="45" r="40"/></svg>'
    (folder / "fig2-reduced.svg").write_text(f'<?xml version="1.0"?>\n{circle}')
    write(folder / "table9-odd.json", {"name": "table9", "scale": "odd", "claims": [], "data": None})
    write(folder / "compare-digits-2epochs.json", comparison())
    write(folder / "bench_train.json", {"rows": []})
    (folder / "broken.json").write_text("{")
    return folder


def write(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value))


def artefact(name: str, title: str) -> dict[str, Any]:
    return {
        "name": name,
        "title": title,
        "caption": "What is seen, in a sentence.",
        "scale": "reduced",
        "claims": [{"sentence": "Second order flips less often", "holds": True, "figures": "12 against 31"}],
        "paper": {},
        "settings": [
            {"name": "batch size", "value": "256", "stated": True, "why": "Sec. 4"},
            {"name": "epochs", "value": "8", "stated": False, "why": "time"},
        ],
        "command": f"zerocross reproduce {name} --scale reduced",
        "provenance": {"commit": "0123456789abcdef", "versions": {"python": "3.11"}},
        "seconds": 754.0,
    }


def comparison() -> dict[str, Any]:
    ended = []
    for config in configs("digits", {"filter": 2, "latent-sgd": 1, "bop": 1}, epochs=2):
        if config.method == "bop":
            ended.append({"hash": config.hash, "config": to_dict(config), "failed": "diverged"})
        else:
            ended.append(fake_result(config))
    return summarise(ended, command="zerocross compare --recipe digits")


def fake_result(config: Config) -> dict[str, Any]:
    """Return a result in the form that a run writes."""
    return {
        "hash": config.hash,
        "config": to_dict(config),
        "evaluated_on": "test",
        "data": "digits",
        "final": {"top1": 90.0 + config.seed},
        "history": [{"top1": value + config.seed, "stage": 0} for value in (60.0, 90.0)],
        "ff_ratio": [[10 * number, 0.1 / (1 + number)] for number in range(20)],
        "seconds": 12.0,
        "provenance": {"commit": "abc"},
    }


@pytest.fixture(scope="session")
def page(results: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(build(read(results)), encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    program = next(filter(None, map(shutil.which, ("chromium", "google-chrome"))), None)
    if not program:
        pytest.skip("no chromium (Debian: .ci/chromium installs it): the page's behaviour is not tested")
    chromium = Chromium(program, tmp_path_factory.mktemp("chromium") / "profile")
    yield chromium
    chromium.close()
