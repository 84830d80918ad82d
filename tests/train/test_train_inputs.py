"""inputs.json: the description of a network's inputs and classes in the run folder."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from forks import Forks
from zerocross import data, deploy, nn, runtime, train
from zerocross.runtime.preprocess import Preprocessing
from zerocross.train.inputs import NAME, inputs_of, read_inputs

DIGITS = {
    "input_size": [1, 8, 8],
    "class_names": list("0123456789"),
    "preprocessing": {"kind": "image", "resize": 8},
    "source": "scikit-learn digits",
}


def written(folder: Path) -> dict[str, object]:
    return json.loads((folder / NAME).read_text(encoding="utf-8"))


def test_a_run_stores_the_inputs_that_packing_needs(unbroken: Path) -> None:
    digits = data.load("digits")
    kept = written(unbroken)
    preprocessing = {**DIGITS["preprocessing"], "mean": list(digits.mean), "std": list(digits.std)}
    assert kept == {**DIGITS, "preprocessing": preprocessing}
    assert read_inputs(unbroken) == inputs_of(digits)


def test_two_processes_store_the_same_inputs(unbroken_two: Path, unbroken: Path) -> None:
    assert written(unbroken_two) == written(unbroken)


def test_inputs_are_added_to_a_resumed_run_of_an_older_version(forks: Forks, unbroken: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(unbroken, run)
    for name in (NAME, "result.json", "model.safetensors"):
        (run / name).unlink()
    max((run / "checkpoints").iterdir()).unlink()
    command = forks.start(tmp_path, "train", "--resume", "run")
    assert command.wait() == 0, command.output()
    assert written(run) == written(unbroken)


def test_a_network_is_loaded_without_its_dataset(unbroken: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unreadable(*words: object, **values: object) -> None:
        raise AssertionError("a dataset was read")

    monkeypatch.setattr(data, "load", unreadable)
    model, which = train.load_model(unbroken)
    assert which == "final weights"
    assert model(torch.zeros(2, 1, 8, 8)).shape == (2, 10)


def test_custom_tensors_model_and_preprocessing(tmp_path: Path) -> None:
    x = torch.randint(0, 256, (96, 3, 6, 6), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    y = (x[:, 0].float().mean((1, 2)) > 127).long()
    mine = data.from_tensors(
        x[:64], y[:64], x[64:], y[64:], class_names=("dark", "light"), preprocess={"kind": "image", "resize": 7}
    )
    network = torch.nn.Sequential(
        torch.nn.Flatten(), torch.nn.Linear(108, 16), torch.nn.BatchNorm1d(16),
        nn.BinaryLinear(16, 16, sign_input="clip"), torch.nn.BatchNorm1d(16), torch.nn.Linear(16, 2),
    )  # fmt: skip
    config = train.Config(stages=(train.Stage(epochs=1),), optimizer={"alpha": 0.01}, batch_size=32, compile="off")
    model = train.fit(config, mine, model=network, folder=tmp_path, show=False).model
    kept = train.read_inputs(tmp_path)
    assert kept is not None
    assert kept == inputs_of(mine)
    assert kept.num_classes == 2
    packed = deploy.pack(
        model, kept.input_size, preprocessing=Preprocessing.from_json(kept.preprocessing), classes=kept.class_names
    )
    packed.save(tmp_path / "net.zcb")
    run = runtime.load(tmp_path / "net.zcb")
    expected, _ = next(iter(mine.eval_batches(8).epoch()))
    np.testing.assert_array_equal(run.preprocess(x[64:72].numpy()), expected.numpy())
    assert run.classes == ("dark", "light")


def test_without_preprocess_the_inputs_are_arrays(tmp_path: Path) -> None:
    x, y = torch.randn(8, 5), torch.arange(8) % 2
    assert inputs_of(data.from_tensors(x, y, x, y)).preprocessing["kind"] == "array"


@pytest.mark.parametrize(
    ("preprocess", "reason"),
    [
        ({"resize": 8}, "it must be a dict with a kind"),
        ("image", "it must be a dict with a kind"),
        ({"kind": "array", "mean": [0.0]}, "preprocess has mean: leave them out"),
        ({"kind": "array", "x": torch.zeros(1)}, "must contain only numbers, texts, lists and dicts"),
        ({"kind": "array", "x": float("nan")}, "must contain only numbers, texts, lists and dicts"),
    ],
)
def test_invalid_declarations_are_refused(preprocess: dict[str, object], reason: str) -> None:
    x, y = torch.randn(8, 5), torch.arange(8) % 2
    good = data.from_tensors(x, y, x, y)
    with pytest.raises(ValueError, match=reason):
        type(good)(**{**vars(good), "preprocess": preprocess})


@pytest.mark.parametrize(
    "content", ["[]", "{", '{"input_size": [1, 8, 8]}', json.dumps({**DIGITS, "input_size": ["1"]}),
                json.dumps({**DIGITS, "class_names": []})],
)  # fmt: skip
def test_a_damaged_file_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / NAME).write_text(content, encoding="utf-8")
    with pytest.raises(ValueError, match=r"inputs\.json is damaged"):
        read_inputs(tmp_path)
