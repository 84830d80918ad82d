"""precision = "auto": resolved for the device before a run starts, and stored as the precision that was used."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
import torch

from zerocross import data, train
from zerocross.sweep.cache import RunCache
from zerocross.sweep.trainings import run_all
from zerocross.train.precision import best, settled
from zerocross.train.recipes import RECIPES

AUTO = train.changed(
    RECIPES["digits"].config,
    {"precision": "auto", "stages.0.epochs": "1", "model.options.width": "4", "batch_size": "256", "compile": "off"},
)


def able(monkeypatch: pytest.MonkeyPatch, **capabilities: bool) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities, raising=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


@pytest.mark.parametrize(
    ("capabilities", "expected"),
    [({"avx512_bf16": True}, "bf16"), ({"amx_bf16": True}, "bf16"), ({"avx512_bf16": False}, "32"), ({}, "32")],
)
def test_precision_depends_on_the_processor(
    monkeypatch: pytest.MonkeyPatch, capabilities: dict[str, bool], expected: str
) -> None:
    able(monkeypatch, **capabilities)
    assert best("cpu") == settled(AUTO).precision == expected


@pytest.mark.parametrize("names", [(), ("_is_avx512_bf16_supported",), ("_is_amx_tile_supported",)])
def test_precision_with_an_older_torch(monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...]) -> None:
    monkeypatch.delattr(torch.cpu, "get_capabilities", raising=False)
    for name in ("_is_avx512_bf16_supported", "_is_amx_tile_supported"):
        monkeypatch.setattr(torch.cpu, name, lambda name=name: name in names)
    assert best("cpu") == ("bf16" if names else "32")


def test_precision_on_cuda_depends_on_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    able(monkeypatch, avx512_bf16=True)
    assert best("cuda") == "32"  # there is no CUDA device
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: including_emulation)
    assert best("cuda") == settled(AUTO).precision == "32"  # emulation is slower than float32
    assert settled(AUTO, "cuda").precision == settled(AUTO, "gpu").precision == "32"
    assert settled(AUTO, "cpu").precision == "bf16"


def test_a_config_with_auto_precision_has_no_hash() -> None:
    with pytest.raises(ValueError, match="resolve it first"):
        _ = AUTO.hash


@pytest.mark.parametrize("expected", ["32", "bf16"])
def test_a_run_stores_the_precision_that_it_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expected: str
) -> None:
    able(monkeypatch, avx512_bf16=expected == "bf16")
    (result,) = run_all(
        [AUTO], train.Placement(), RunCache(tmp_path / "results", tmp_path / "work", keep=True), show=False
    )
    assert result["config"]["precision"] == expected
    (written,) = (tmp_path / "work").glob("*/config.json")
    assert json.loads(written.read_text())["precision"] == expected
    assert (tmp_path / "results" / f"{dataclasses.replace(AUTO, precision=expected).hash}.json").exists()


def test_a_run_is_not_resumed_in_another_precision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    able(monkeypatch, avx512_bf16=True)
    three = dataclasses.replace(AUTO, stages=(train.Stage(3),))

    def cut(epochs: int, scores: dict[str, float]) -> None:
        if epochs == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train.fit(settled(three), data.load("digits"), folder=tmp_path, show=False, on_epoch=cut)
    able(monkeypatch)
    with pytest.raises(ValueError, match="other settings"):
        train.fit(three, data.load("digits"), folder=tmp_path, show=False)
