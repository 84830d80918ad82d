"""The wheel in an environment without torch: it loads a packed network, and predicts the same numbers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from zerocross import deploy, models, runtime

ROOT = Path(__file__).resolve().parents[2]
PREDICT = """
import sys
import numpy as np
import zerocross.runtime
model = zerocross.runtime.load("model.zcb", cache="code")
np.save("found.npy", model(np.load("x.npy")))
assert not {"torch", "scipy"} & set(sys.modules), "more was imported than the runtime may need"
"""


def carry_out(*command: str | Path, cwd: Path) -> str:
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=cwd, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_wheel_predicts_without_torch(tmp_path: Path) -> None:
    torch.manual_seed(0)
    network = models.create("digits_net").eval()
    deploy.pack(network).save(tmp_path / "model.zcb")
    x = np.random.default_rng(0).standard_normal((5, 1, 8, 8)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    carry_out(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path, cwd=ROOT)
    (wheel,) = tmp_path.glob("*.whl")
    carry_out(sys.executable, "-m", "venv", "env", cwd=tmp_path)
    python = tmp_path / "env/bin/python"
    pip = (python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-c", ROOT / "constraints.txt")
    try:
        carry_out(*pip, "numpy", "numba", "safetensors", cwd=tmp_path)
    except AssertionError as wrong:
        pytest.skip(f"no package registry can be reached: {str(wrong)[-200:]}")
    carry_out(*pip, "--no-deps", wheel, cwd=tmp_path)
    carry_out(python, "-c", PREDICT, cwd=tmp_path)
    found = np.load(tmp_path / "found.npy")
    assert np.array_equal(found, runtime.load(tmp_path / "model.zcb")(x))
    assert "torch" not in carry_out(python, "-m", "pip", "list", cwd=tmp_path)
