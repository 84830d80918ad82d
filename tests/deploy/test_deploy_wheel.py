"""The wheel installed as zerocross[runtime], without torch, loads a packed network and predicts the same numbers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from zerocross import deploy, models, runtime

ROOT = Path(__file__).resolve().parents[2]
OUTSIDE = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}  # only installed packages
PREDICT = """
import sys
import numpy as np
import zerocross.runtime
model = zerocross.runtime.load("model.zcb", cache="code")
np.save("found.npy", model(np.load("x.npy")))
assert "torch" not in sys.modules, "the runtime must not import torch"
"""


def run_command(*command: str | Path, cwd: Path) -> str:
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=cwd, env=OUTSIDE, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_wheel_predicts_without_torch(tmp_path: Path) -> None:
    torch.manual_seed(0)
    network = models.create("digits_net").eval()
    deploy.pack(network).save(tmp_path / "model.zcb")
    x = np.random.default_rng(0).standard_normal((5, 1, 8, 8)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    run_command(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path, cwd=ROOT)
    (wheel,) = tmp_path.glob("*.whl")
    run_command(sys.executable, "-m", "venv", "env", cwd=tmp_path)
    python = tmp_path / "env/bin/python"
    pip = (python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-c", ROOT / "constraints.txt")
    try:
        run_command(*pip, "numpy", "numba", "safetensors", cwd=tmp_path)
    except AssertionError as error:
        pytest.skip(f"no package registry can be reached: {str(error)[-200:]}")
    run_command(*pip, f"zerocross[runtime] @ {wheel.as_uri()}", cwd=tmp_path)
    run_command(python, "-c", PREDICT, cwd=tmp_path)
    result = np.load(tmp_path / "found.npy")
    expected = runtime.load(tmp_path / "model.zcb")(x)
    assert np.array_equal(result, expected)
    assert "torch" not in run_command(python, "-m", "pip", "list", cwd=tmp_path)

    command = tmp_path / "env/bin/zerocross"
    lines = run_command(command, "predict", "model.zcb", "x.npy", "--top", "1", cwd=tmp_path).splitlines()
    assert [line.split()[1] for line in lines] == [str(index) for index in expected.argmax(axis=1)]
    for words in (("train", "digits"), ("pack", "run", "-o", "other.zcb")):
        refused = subprocess.run(
            [command, *words], cwd=tmp_path, env=OUTSIDE, capture_output=True, text=True, check=False
        )
        assert refused.returncode == 2
        assert refused.stderr.endswith("is not installed: pip install 'zerocross[train]'\n")
        assert len(refused.stderr.splitlines()) == 1
    name = "import zerocross; zerocross.GradientFilter"
    refused = subprocess.run(
        [python, "-c", name], cwd=tmp_path, env=OUTSIDE, capture_output=True, text=True, check=False
    )
    assert refused.stderr.endswith("needs torch, which is not installed: pip install 'zerocross[train]'\n")
