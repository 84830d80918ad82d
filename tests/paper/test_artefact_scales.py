"""The scales: what is reduced, what it costs, and that all configs can be trained."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from zerocross import data, train
from zerocross.data import cifar10
from zerocross.data.dataset import from_tensors
from zerocross.data.layout import CIFAR10_TEST, CIFAR10_TRAIN
from zerocross.optim import GradientFilter, LatentSGD
from zerocross.paper import curves, exact, fig2, judge, scales, table2, table3
from zerocross.paper.artefact import SCALES, Scale
from zerocross.paper.registry import ARTEFACTS
from zerocross.paper.session import Session
from zerocross.suite import compare
from zerocross.sweep import cost
from zerocross.sweep.cache import RunCache
from zerocross.sweep.job import Job
from zerocross.train.build import check
from zerocross.train.config import Config

RESULT = {
    "hash": "a" * 16,
    "config": {"seed": 0, "stages": [{"epochs": 2}]},
    "evaluated_on": "test",
    "final": {"top1": 50.0},
    "history": [{"top1": 40.0}, {"top1": 50.0}],
    "ff_ratio": [[0, 0.5], [1, 0.3], [2, 0.1], [3, 0.0]],
    "seconds": 3.0,
    "provenance": {"commit": "abc"},
}


def every(scale: Scale) -> dict[str, Config]:
    return {config.hash: config for artefact in ARTEFACTS.values() for config in artefact.configs(scale)}


@pytest.mark.parametrize("scale", ["reduced", "paper"])
def test_every_config_can_be_built(scale: Scale) -> None:
    zeros, labels = torch.zeros(256, 3, 32, 32, dtype=torch.uint8), torch.arange(256) % 10
    dataset = from_tensors(zeros, labels, zeros, labels)
    kinds = {(c.method, str(c.model), str(c.stages), c.optimizer.get("start") == 0): c for c in every(scale).values()}
    assert len(kinds) >= 7
    for config in kinds.values():
        check(config, dataset, processes=1)


def test_smoke_needs_no_files_and_reduced_only_the_real_ones() -> None:
    assert {config.data.name for config in every("smoke").values()} == {"digits"}
    assert {config.data.name for config in every("reduced").values()} == {"cifar10"}


def test_reduced_fits_into_three_hours_on_two_cores() -> None:
    """Estimated from the speed of one core; the two artefacts that are not in the cache are added manually."""
    beyond = {config.hash for config in ARTEFACTS["precision"].configs("reduced") if config.precision == "32"}
    cifar10 = {config.hash for config in ARTEFACTS["one-number"].configs("reduced")}
    seconds = {key: cost.by_arithmetic(config) for key, config in every("reduced").items()}
    recorded = cost.by_arithmetic(fig2.recorded_config("reduced"))
    paper = [taken for key, taken in seconds.items() if key not in beyond | cifar10]
    assert sum(paper) / 2 + recorded / 2 + 120 < 180 * 60
    assert max(paper) < 600
    assert sum(taken for key, taken in seconds.items() if key in cifar10) / 2 < 120 * 60  # 15 epochs, beyond the paper
    assert sum(taken for key, taken in seconds.items() if key in beyond) / 2 < 60 * 60  # float32, beyond the paper


def test_the_paper_scale_has_the_papers_settings() -> None:
    config = scales.base("paper")
    assert (config.data.name, config.model.name, config.batch_size) == ("cifar10", "birealnet20", 256)
    assert (config.stages[0].epochs, config.optimizer["gamma"], config.optimizer["schedule"]) == (400, 0.1, "cosine")
    real = config.real
    assert (real.name, real.lr, real.momentum, real.weight_decay, real.schedule) == ("sgd", 0.1, 0.9, 1e-4, "cosine")
    assert not config.data.options
    assert not config.data.validate
    imagenet = table3.config("paper")
    assert (imagenet.batch_size, imagenet.optimizer["alpha"], imagenet.real.lr) == (510, 1e-5, 2.5e-3)


def test_reduced_values_are_not_marked_as_stated() -> None:
    for name in ("data", "epochs", "batch"):
        messages = {scale: next(each for each in scales.shared(scale) if each.name == name) for scale in SCALES}
        assert [messages[scale].stated for scale in SCALES] == [False, False, True]


def test_table2_reduced_equals_the_runs_of_compare() -> None:
    same = {"epochs": 5, "changes": {"precision": "bf16"}}
    compared = compare.configs("cifar10-birealnet20", {"dorefa": 1, "dsq": 1, "filter": 3}, **same)
    two_steps = compare.configs("cifar10-birealnet20", {"torch-sgd": 3}, **same, in_two_steps=True)
    expected = {config.hash for config in table2.configs("reduced")}
    assert {config.hash for config in (*compared, *two_steps)} <= expected


def test_methods_keep_the_settings_of_real_parameters() -> None:
    assert scales.varied(scales.base("smoke"), "adambnn").real == scales.base("smoke").real


# ---- figures


def test_curves_have_means_extremes_and_counts() -> None:
    curve = curves.curve("a", [1, 2], [[1.0, 3.0], [5.0]])
    assert (curve.mean, curve.low, curve.high, curve.n) == ([2.0, 5.0], [1.0, 5.0], [3.0, 5.0], [2, 1])
    assert curves.curve("a", [1], [[1.0]]).low is None
    assert curves.accuracy("a", [RESULT, RESULT]).mean == [40.0, 50.0]
    assert curves.flips("a", [RESULT]).mean == [0.5, 0.3, 0.1, 0.0]
    assert curves.mean_flips(RESULT) == pytest.approx(0.225)
    assert curves.last_flips(RESULT, 0.5) == pytest.approx(0.05)
    assert curves.run_rows({"x": [RESULT]})[0]["epochs"] == 2


def test_the_interval_of_a_difference_is_a_students_t_interval() -> None:
    one, other = [60.1, 61.0, 59.2, 60.4], [58.0, 58.8, 59.9]
    expected = stats.ttest_ind(one, other).confidence_interval(0.95)
    result = judge.gain(one, other)
    assert (result.low, result.high) == pytest.approx((expected.low, expected.high))
    assert judge.gain([1.0], [2.0]).high == float("inf")


def test_exact_loop_detects_a_difference() -> None:
    small = exact.Small(updates=12, width=2)

    def filtered(alpha: float) -> np.ndarray:
        return exact.signs(small, "theta", lambda w: GradientFilter(w, alpha=alpha))

    same = exact.signs(small, "latent", lambda w: LatentSGD(w, lr=0.5, weight_decay=2e-3, start=0.0))
    assert exact.compared(filtered(1e-3), same)["differ"] == 0
    other = exact.compared(filtered(1e-3), filtered(0.5))
    assert other["differ"] > 0
    assert other["first"] is not None
    assert "signs differ" in exact.describe(other)


def test_session_computes_a_part_once(tmp_path: Path) -> None:
    session = Session(train.Placement(), tmp_path, tmp_path / "work", show=False)
    assert session.once("part", {"a": 1}, lambda: {"value": (1, 2)}) == {"value": [1, 2]}
    assert session.once("part", {"a": 1}, lambda: pytest.fail("computed again")) == {"value": [1, 2]}
    assert session.once("part", {"a": 2}, lambda: 3) == 3
    for path in (tmp_path / "work").iterdir():
        path.write_text("{")
    with pytest.raises(ValueError, match="is damaged"):
        session.once("part", {"a": 1}, lambda: 4)


def test_cost_excludes_cached_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session = Session(train.Placement(), tmp_path, tmp_path, show=False)
    configs = list(every("smoke").values())
    whole = cost.estimate(configs, session.cache, session.place)
    assert (whole.runs, whole.finished) == (len(configs), 0)

    def find(self: RunCache, job: Job) -> dict[str, Any] | None:
        return RESULT if job.payload["config"]["method"] == "filter" else None

    monkeypatch.setattr(RunCache, "find", find)
    part = cost.estimate(configs, session.cache, session.place)
    assert part.finished > 0
    assert 0 < part.seconds < whole.seconds


# ---- a part of CIFAR-10


@pytest.fixture
def small_cifar10(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(cifar10, "IMAGES_PER_FILE", 40)
    folder = tmp_path / "cifar10" / "cifar-10-batches-bin"
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    for name in (*CIFAR10_TRAIN, CIFAR10_TEST):
        rows = rng.integers(0, 256, (40, 3073), dtype=np.uint8)
        rows[:, 0] = np.arange(40) % 10
        (folder / f"{name}.bin").write_bytes(rows.tobytes())
    return tmp_path


def test_train_size_is_balanced_and_reproducible(small_cifar10: Path) -> None:
    one, other = (data.load("cifar10", small_cifar10, validate=True, train_size=50) for _ in range(2))
    assert torch.bincount(one.train.targets).tolist() == [5] * 10
    assert torch.equal(one.train.targets, other.train.targets)
    whole = data.load("cifar10", small_cifar10, validate=True)
    assert len(one.evaluation) == len(whole.evaluation)
    assert "50 training images" in one.source


@pytest.mark.parametrize("size", [0, 5, 55, 200, 100_000])
def test_train_size_out_of_range_is_refused(small_cifar10: Path, size: int) -> None:
    with pytest.raises(ValueError, match=f"train_size is {size}; it must be a multiple of 10 below the 200 samples"):
        data.load("cifar10", small_cifar10, train_size=size)
