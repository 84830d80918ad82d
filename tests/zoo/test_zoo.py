"""The networks of the zoo: complete, consistent with their cards, and equal in PyTorch and packed form."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from zerocross import data, train, zoo
from zerocross.train.config import from_dict
from zerocross.zoo.add import compare
from zerocross.zoo.card import read_card, table
from zerocross.zoo.command import train_command

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "results" / "runs"
NAMES = {"digits", "mnist", "fashion-mnist", "audiomnist", "cifar10", "ecg5000", "hapt"}


def result_of(name: str) -> dict:
    return json.loads((RESULTS / f"{zoo.card(name).config}.json").read_text(encoding="utf-8"))


def test_the_zoo_is_small_and_complete():
    assert set(zoo.names()) >= NAMES
    expected = {f"{name}.{end}" for name in zoo.names() for end in ("json", "zcb", "safetensors")}
    assert {path.name for path in zoo.FILES.iterdir()} == expected
    assert sum(path.stat().st_size for path in zoo.FILES.iterdir()) < 1_000_000


@pytest.mark.parametrize("name", zoo.names())
def test_card_matches_its_files_and_the_result_of_its_run(name: str):
    card, result = zoo.card(name), result_of(name)
    config = from_dict(result["config"])
    run = zoo.load(name)
    assert card.name == name
    assert card.packed_bytes == (zoo.FILES / card.packed_file).stat().st_size
    assert card.weights_bytes == (zoo.FILES / card.weights_file).stat().st_size
    assert tuple(card.class_names) == run.classes
    series = len(card.input_size) == 2  # packed as images one pixel high
    assert run.input_size == ((card.input_size[0], 1, card.input_size[1]) if series else tuple(card.input_size))
    assert card.config == config.hash == run.graph.provenance["config"]
    assert card.trained_top1 == pytest.approx(result["final"]["top1"], abs=1e-4)
    assert (card.recipe, card.method, card.seed) == (config.recipe, config.method, config.seed)
    assert card.epochs == sum(stage.epochs for stage in config.stages)
    assert card.evaluated_on == result["evaluated_on"] == "test"
    assert card.command == train_command(config)
    assert card.command.startswith(f"zerocross train {config.recipe}")
    assert card.agreeing >= 0.995 * card.samples > 0
    assert f"**{card.top1:.2f} %** of {card.samples:,} test samples" in card.markdown()


@pytest.mark.parametrize("name", zoo.names())
def test_accuracy_matches_the_card(name: str, request: pytest.FixtureRequest):
    card, config = zoo.card(name), from_dict(result_of(name)["config"])
    folder = None if config.data.name == "digits" else str(request.getfixturevalue("real_data"))
    dataset = train.load_data(config, train.Placement(folder))
    samples, correct, agreeing = compare(zoo.load(name), zoo.model(name), dataset)
    assert samples == card.samples
    # rounding on another processor may change a few signs
    assert correct == pytest.approx(card.correct, abs=max(1, 0.001 * samples))
    assert agreeing >= 0.995 * samples


@pytest.mark.parametrize("name", zoo.names())
def test_both_forms_compute_the_same(name: str):
    packed, network = zoo.load(name), zoo.model(name)
    assert not network.training
    x = np.random.default_rng(0).standard_normal((64, *zoo.card(name).input_size)).astype(np.float32)
    with torch.no_grad():
        expected = network(torch.from_numpy(x)).numpy()
    result = packed(x)
    near = np.abs(result - expected).max(1) <= 1e-3
    # rounding changes few signs; with int8 weights, activations are rounded to bytes, too, and more signs change
    assert near.mean() >= (0.8 if zoo.card(name).real == "int8" else 0.95)
    assert (result.argmax(1) == expected.argmax(1)).mean() >= 0.95
    for module in network.modules():
        if kinds := getattr(module, "binary_kinds", {}):
            assert set(kinds) == {"weight"}
            assert (module.weight.abs() == 1).all()  # type: ignore[operator,union-attr]


def test_the_documentation_contains_the_table_of_the_cards():
    text = (ROOT / "docs" / "zoo.md").read_text(encoding="utf-8")
    assert table(map(zoo.card, zoo.names())) in text


def test_unknown_name_is_refused_with_a_suggestion():
    with pytest.raises(ValueError, match=r"has no network 'cifar'; it has .*digits.*; did you mean 'cifar10'\?"):
        zoo.load("cifar")
    with pytest.raises(ValueError, match=r"the zoo has no network '\.\./digits'"):
        zoo.card("../digits")


def test_changed_and_missing_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    files = tmp_path / "files"
    shutil.copytree(zoo.FILES, files)
    monkeypatch.setattr(zoo, "FILES", files)
    for end, use in (("zcb", zoo.load), ("safetensors", zoo.model)):
        path = files / f"digits.{end}"
        content = path.read_bytes()
        path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        with pytest.raises(ValueError, match=r"does not match its card \(sha256 .*install zerocross again"):
            use("digits")
        path.unlink()
        with pytest.raises(FileNotFoundError, match="is missing: install zerocross again"):
            use("digits")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"epochs": "20"}, "epochs is '20', not of type int"),
        ({"more": 1}, "not a card of this version: more missing or unknown"),
        ({"class_names": 3}, "class_names is 3, not of type list"),
    ],
)
def test_cards_are_read_strictly(tmp_path: Path, change: dict[str, object], reason: str):
    values = json.loads((zoo.FILES / "digits.json").read_text(encoding="utf-8"))
    (tmp_path / "card.json").write_text(json.dumps({**values, **change}), encoding="utf-8")
    with pytest.raises(ValueError, match=reason):
        read_card(tmp_path / "card.json")
    (tmp_path / "card.json").write_text("{", encoding="utf-8")
    with pytest.raises(ValueError, match="is not a card"):
        read_card(tmp_path / "card.json")


def test_packed_networks_need_no_torch():
    code = (
        "import sys, numpy, zerocross; run = zerocross.zoo.load('digits');"
        "assert run(numpy.zeros((1, 1, 8, 8), numpy.float32)).shape == (1, 10);"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_fine_tuning_starts_from_the_trained_weights():
    config = train.Config(
        stages=(train.Stage(epochs=1),), optimizer={"alpha": 1e-4, "warm_start": 0.03}, real=train.RealConfig(lr=1e-3),
        compile="off",
    )  # fmt: skip
    fitted = train.fit(config, data.load("digits"), model=zoo.model("digits"), show=False)
    assert fitted.scores["top1"] > 98


def test_wheel_contains_the_networks(tmp_path: Path):
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as file:
        for path in zoo.FILES.iterdir():
            assert file.read(f"zerocross/zoo/files/{path.name}") == path.read_bytes()


def test_command_reproduces_the_config():
    cifar = train.RECIPES["cifar10-birealnet20"].config
    for changes, words in (
        ({"precision": "32"}, "--precision 32"),
        ({"precision": "bf16", "seed": "3", "data.options.train_size": "500"}, "--set data.options.train_size=500"),
        ({"precision": "32", "optimizer.alpha": "3e-4", "real.name": "adam"}, "--set real.name=adam"),
        ({"precision": "32", "method": "torch-sgd"}, "--method torch-sgd"),
        ({"precision": "32", "model.options.shortcut": "subsample"}, "--set model.options.shortcut=subsample"),
    ):
        command = train_command(train.changed(cifar, changes))
        assert words in command
        assert command.startswith("zerocross train cifar10-birealnet20 ")
    in_two = train.changed(cifar, {"precision": "32"}, in_two_steps=True)
    assert train_command(in_two).startswith("zerocross train config.json (the config in results/runs/")
