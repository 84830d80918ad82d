"""Distillation: soft cross-entropy to a teacher at temperature 1, with teachers from runs and from other code."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from zerocross import data, train
from zerocross.data.dataset import Dataset
from zerocross.train import Config, ModelConfig, Stage, TaskConfig
from zerocross.train.build import build_model
from zerocross.train.task import build_loss, load_teacher

TEACHER = """
from torch import nn
def build():
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
def of_three():
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 3))
def of_large_images():
    return nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 10))
def with_words(word):
    return None
def nothing():
    return 3
"""


@pytest.fixture(scope="module")
def digits() -> Dataset:
    return data.load("digits")


@pytest.fixture
def user_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write a folder with a user's module and weights."""
    (tmp_path / "their_teacher.py").write_text(TEACHER, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "their_teacher", raising=False)
    torch.manual_seed(3)
    weights = nn.Sequential(nn.Flatten(), nn.Linear(64, 10)).state_dict()
    save_file(weights, tmp_path / "weights.safetensors")
    torch.save(weights, tmp_path / "weights.pt")
    return tmp_path


def no_run(path: Path) -> nn.Module:
    raise AssertionError(path)


def test_loss_is_the_soft_cross_entropy_at_temperature_1() -> None:
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(5, 4, generator=draw)
    student, teacher = nn.Linear(4, 3), nn.Linear(4, 3)
    loss = build_loss(TaskConfig("distillation"), teacher)(student, x, torch.zeros(5, dtype=torch.long))
    expected = 0.0
    for i in range(5):
        reference = torch.softmax(teacher(x)[i], 0)
        output = torch.log(torch.softmax(student(x)[i], 0))
        expected += -float((reference * output).sum().detach()) / 5
    assert float(loss.detach()) == pytest.approx(expected, rel=1e-5)
    loss.backward()
    assert student.weight.grad is not None
    assert teacher.weight.grad is None


def test_labels_are_smoothed_as_torch_does() -> None:
    logits, y = torch.randn(4, 10), torch.arange(4)
    identity = nn.Identity()
    smoothed = build_loss(TaskConfig(label_smoothing=0.1), None)(identity, logits, y)
    by_hand = -(0.9 * logits.log_softmax(1)[range(4), y] + 0.01 * logits.log_softmax(1).sum(1)).mean()
    torch.testing.assert_close(smoothed, by_hand)


@pytest.mark.parametrize("name", ["weights.safetensors", "weights.pt"])
def test_teacher_from_a_function_and_a_state_dict(user_module: Path, digits: Dataset, name: str) -> None:
    task = TaskConfig("distillation", teacher="their_teacher:build", teacher_weights=str(user_module / name))
    teacher = load_teacher(task, digits, no_run)
    assert teacher is not None
    assert not teacher.training
    assert not any(parameter.requires_grad for parameter in teacher.parameters())
    torch.manual_seed(3)
    assert torch.equal(nn.Linear(64, 10).weight, teacher.state_dict()["1.weight"])


@pytest.mark.parametrize(
    ("teacher", "weights", "words"),
    [
        (None, None, "distillation needs a teacher"),
        ("their_teacher:build", None, "random weights: provide trained ones"),
        ("their_teacher:missing", "weights.pt", "has no attribute 'missing'"),
        ("no_such_module:build", "weights.pt", "No module named 'no_such_module'"),
        ("their_teacher:with_words", "weights.pt", "missing 1 required positional argument"),
        ("their_teacher:nothing", "weights.pt", "returned a int, not an nn.Module"),
        ("their_teacher:of_three", "weights.pt", "does not match the teacher"),
        ("their_teacher:of_large_images", "large.pt", "does not accept the inputs of digits, (1, 8, 8)"),
        ("their_teacher:of_three", "three.pt", "returns (3,) outputs per sample; digits has 10 classes"),
        ("their_teacher:build", "missing.pt", "No such weights file"),
        ("their_teacher:build", "their_teacher.py", "is not a readable state dict"),
        ("their_teacher:build", "broken.safetensors", "is not a readable state dict"),
        ("no/such/run", None, "no/such/run is not a run folder"),
    ],
)
def test_invalid_teachers_give_a_one_line_error(
    user_module: Path, digits: Dataset, monkeypatch: pytest.MonkeyPatch, teacher: str, weights: str, words: str
) -> None:
    monkeypatch.chdir(user_module)
    torch.save(nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 10)).state_dict(), "large.pt")
    torch.save(nn.Sequential(nn.Flatten(), nn.Linear(64, 3)).state_dict(), "three.pt")
    Path("broken.safetensors").write_bytes(b"12345678 nonsense")
    task = TaskConfig("distillation", teacher=teacher, teacher_weights=weights)
    with pytest.raises((ValueError, FileNotFoundError)) as refused:
        load_teacher(task, digits, lambda run: train.load_model(run)[0])
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


def test_pickle_is_not_run(user_module: Path, digits: Dataset) -> None:
    class Trap:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return eval, ("open('trapped', 'w')",)

    bad = user_module / "bad.pt"
    bad.write_bytes(pickle.dumps(Trap(), protocol=2))
    task = TaskConfig("distillation", teacher="their_teacher:build", teacher_weights=str(bad))
    with pytest.raises(ValueError, match="is not a readable state dict"):
        load_teacher(task, digits, no_run)
    assert not Path("trapped").exists()


def test_a_run_can_be_the_teacher_of_another(unbroken: Path, digits: Dataset, tmp_path: Path) -> None:
    """A finished run as teacher: the student's loss is against its logits, not against the labels."""
    config = Config(
        model=ModelConfig("digits_net", {"width": 4}), task=TaskConfig("distillation", teacher=str(unbroken)),
        stages=(Stage(epochs=1),), batch_size=128, log_every=1, compile="off",
    )  # fmt: skip
    done = train.begin(config, tmp_path / "run", show=False)
    teacher, _ = train.load_model(unbroken)
    x, _ = next(digits.train_batches(128, seed=0, channels_last=True).epoch(0))
    student = train.fit(config, digits, teacher=teacher, show=False)
    assert student.record.of("train")[0]["loss"] == done.result["train_loss"][0][1]
    fresh = build_model(config, config.stages[0], digits).train().to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    loss = build_loss(config.task, teacher.eval())(fresh, x, torch.zeros(128, dtype=torch.long))
    assert float(loss.detach()) == pytest.approx(done.result["train_loss"][0][1], rel=1e-5)
