"""A comparison: its runs, the figures computed from them, and the table and picture drawn from its JSON."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from zerocross.methods import METHODS
from zerocross.suite import compare_picture, compare_text
from zerocross.suite.compare import KIND, configs, summarise, two_step_methods
from zerocross.train.config import Config, to_dict


def fake_result(config: Config, top1: list[float], flips: list[float], seconds: float = 10.0) -> dict[str, Any]:
    """Return a result in the form that a run writes: accuracies per epoch, FF ratios every tenth update."""
    stages = [number for number, stage in enumerate(config.stages) for _ in range(stage.epochs)]
    return {
        "hash": config.hash,
        "config": to_dict(config),
        "evaluated_on": "test",
        "data": "digits",
        "final": {"top1": top1[-1]},
        "history": [{"top1": value, "stage": stage} for value, stage in zip(top1, stages, strict=True)],
        "ff_ratio": [[10 * number, value] for number, value in enumerate(flips)],
        "seconds": seconds,
        "provenance": {"commit": "abc"},
    }


@pytest.fixture
def summary() -> dict[str, Any]:
    """Summarise three seeds of the filter, a run in two stages, a method that failed, and one that failed once."""
    all_runs = configs("digits", {"bop": 1, "filter": 3, "adambnn": 1, "latent-sgd": 2}, epochs=2)
    ended = []
    for config in all_runs:
        if config.method == "bop" or (config.method, config.seed) == ("latent-sgd", 1):
            ended.append({"hash": config.hash, "config": to_dict(config), "failed": "training has diverged"})
        elif config.method == "adambnn":
            ended.append(fake_result(config, [30.0, 60.0], [0.001]))
        elif config.method == "latent-sgd":
            ended.append(fake_result(config, [50.0, 95.0], [0.3, 0.0]))
        else:
            ended.append(fake_result(config, [60.0, 90.0 + config.seed], [0.5, 0.1 * (1 + config.seed)], 20.0))
    return summarise(ended, command="zerocross compare ...")


# ---- runs


def test_the_first_seed_of_all_methods_comes_first() -> None:
    order = [(each.method, each.seed) for each in configs("digits", {"filter": 3, "bop": 1, "ir-net": 2})]
    assert order == [("filter", 0), ("bop", 0), ("ir-net", 0), ("filter", 1), ("ir-net", 1), ("filter", 2)]


def test_all_runs_have_one_budget_and_each_method_its_own_settings() -> None:
    runs = configs("digits", dict.fromkeys(METHODS, 1), epochs=6, changes={"model.options.width": "4"})
    assert {sum(stage.epochs for stage in run.stages) for run in runs} == {6}
    assert all(run.model.options == {"width": 4} for run in runs)
    by_method = {run.method: run for run in runs}
    assert by_method["filter"].optimizer["alpha"] == 3e-3  # that of the recipe, whose own method it is
    assert by_method["bop"].real.name == "adam"
    assert [stage.binarize for stage in by_method["adambnn"].stages] == ["activations", "both"]
    for name in set(METHODS) - {"filter"}:
        assert by_method[name].optimizer == dict(METHODS[name].hyperparameters)


def test_two_steps_include_the_methods_that_support_them() -> None:
    able = two_step_methods("digits")
    assert {"filter", "latent-sgd", "recu"} <= set(able)
    assert not {"bop", "adambnn"} & set(able)
    runs = configs("digits", dict.fromkeys(able, 1), epochs=4, in_two_steps=True)
    assert all([stage.epochs for stage in run.stages] == [2, 2] for run in runs)


@pytest.mark.parametrize(
    ("methods", "options", "message"),
    [
        ({"filtre": 1}, {}, "did you mean 'filter'"),
        ({"filter": 1, "latent-sgd": 1}, {"changes": {"optimizer.alpha": "1e-3"}}, "latent-sgd: .*field 'alpha'"),
        ({"adambnn": 1}, {"epochs": 1}, "adambnn: epochs is 1"),
        ({"bop": 1}, {"in_two_steps": True}, "bop: .*two-step"),
        ({"filter": 1}, {"changes": {"method": "bop"}}, "--methods"),
        ({"filter": 1}, {"changes": {"seed": "3"}}, "--seeds"),
    ],
)  # fmt: skip
def test_incomparable_methods_are_refused_by_name(
    methods: dict[str, int], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        configs("digits", methods, **options)


# ---- figures


def test_rows_are_sorted_by_mean_with_failures_last(summary: dict[str, Any]) -> None:
    assert list(summary["methods"]) == ["latent-sgd", "filter", "adambnn", "bop"]
    row = summary["methods"]["filter"]
    assert (row["n"], row["mean"], row["sd"]) == (3, 91.0, statistics.stdev([90, 91, 92]))
    assert row["seeds"] == {"0": 90.0, "1": 91.0, "2": 92.0}
    assert row["seconds"] == 20.0
    assert row["to_tune"] == len(METHODS["filter"].tuned)
    assert row["config"]["seed"] == 0
    assert len(row["hashes"]) == 3
    assert summary["methods"]["latent-sgd"]["sd"] is None
    assert summary["methods"]["latent-sgd"]["failed"] == {"1": "training has diverged"}
    assert summary["methods"]["bop"]["mean"] is None
    assert (summary["kind"], summary["epochs"], summary["evaluated_on"]) == (KIND, 2, "test")
    assert summary["provenance"]["versions"]["torch"]


def test_curves_are_means_over_seeds_with_their_extremes(summary: dict[str, Any]) -> None:
    row = summary["methods"]["filter"]
    assert row["accuracy"] == {
        "epoch": [1, 2], "mean": [60.0, 91.0], "low": [60.0, 90.0], "high": [60.0, 92.0], "binary": [True, True],
    }  # fmt: skip
    assert row["ff_ratio"]["update"] == [0.0, 10.0]
    assert row["ff_ratio"]["mean"] == pytest.approx([0.5, 0.2])
    assert row["ff_ratio"]["high"] == pytest.approx([0.5, 0.3])
    assert summary["methods"]["adambnn"]["accuracy"]["binary"] == [False, True]


def test_long_curves_become_means_of_blocks() -> None:
    (config,) = configs("digits", {"filter": 1}, epochs=1)
    flips = [0.1 * (number % 2) for number in range(1000)]
    curve = summarise([fake_result(config, [50.0], flips)])["methods"]["filter"]["ff_ratio"]
    assert len(curve["update"]) == 100
    assert curve["update"][:2] == [45.0, 145.0]
    assert curve["mean"] == pytest.approx([0.05] * 100)


def test_runs_without_flips_have_no_flip_curve() -> None:
    (config,) = configs("digits", {"filter": 1}, epochs=1)
    assert summarise([fake_result(config, [50.0], [])])["methods"]["filter"]["ff_ratio"] is None


# ---- table and picture


def test_table_has_mean_spread_and_number(summary: dict[str, Any]) -> None:
    by_method = {row[0]: row[1:] for row in compare_text.rows(summary)}
    assert by_method["filter"] == ["91.00 ± 1.00 (3)", "2.0e-01", "3", "20 s"]
    assert by_method["latent-sgd"][0] == "95.00 (1 of 2)"
    assert by_method["bop"] == ["failed", "-", "3", "-"]


def test_page_shows_budget_failures_settings_and_changes(summary: dict[str, Any]) -> None:
    page = compare_text.markdown(json.loads(json.dumps(summary)), "picture.png")
    assert "| filter | 91.00 ± 1.00 (3) | 2.0e-01 | 3 | 20 s |" in page
    assert "budget: 2 epochs; the recipe has 20" in page
    assert "latent-sgd, seed 1 failed: training has diverged" in page
    assert "alpha 0.003" in page
    assert "changed from alpha 0.001" in page
    assert "1 epochs, binarize activations (real weight_decay 5e-06); 1 epochs, binarize both" in page
    assert "(picture.png)" in page
    for row in summary["methods"].values():
        assert row["source"] in page
        assert row["settings"] in page


def test_picture_is_drawn_from_the_json_only(summary: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "picture.png"
    compare_picture.draw(path, json.loads(json.dumps(summary)))
    with Image.open(path) as picture:
        assert picture.size[0] > 1000
        colours = {colour for _, colour in picture.convert("RGB").getcolors(1 << 24) or []}
    assert {(0x00, 0x72, 0xB2), (0xD5, 0x5E, 0x00), (0x00, 0x9E, 0x73)} <= colours
    assert (0xCC, 0x79, 0xA7) not in colours  # the method without a result has no curve
