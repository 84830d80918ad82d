"""Every example runs: briefly, in a process of its own, as a user would start it."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from sweep.slurm import Cluster, missing

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"


def start(command: list[str], folder: Path) -> str:
    """Run a command in an empty folder; return what it printed."""
    source = str(ROOT / "src")
    path = os.pathsep.join(filter(None, (source, os.environ.get("PYTHONPATH"))))
    scripts = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", "")))
    environment = {**os.environ, "PYTHONPATH": path, "PATH": scripts, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def needs(module: str) -> None:
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"{module} is not installed: pip install 'zerocross[examples]'")


def test_a_plain_loop_takes_thirty_lines(tmp_path: Path):
    script = EXAMPLES / "plain_loop.py"
    output = start([sys.executable, str(script), "3"], tmp_path)
    found = re.search(r"test accuracy ([\d.]+)%", output)
    assert found is not None
    assert float(found[1]) > 90
    lines = [line for line in script.read_text(encoding="utf-8").splitlines() if line.strip()]
    assert len(lines) <= 32  # thirty, and two to start it from a shell


def test_lightning(tmp_path: Path):
    needs("pytorch_lightning")
    output = start([sys.executable, str(EXAMPLES / "lightning_module.py"), "2"], tmp_path)
    found = re.search(r"'accuracy': ([\d.]+)", output)
    assert found is not None
    assert float(found[1]) > 0.85
    (checkpoint,) = tmp_path.glob("runs/lightning/**/*.ckpt")
    import torch

    saved = torch.load(checkpoint, weights_only=True)
    (state,) = saved["optimizer_states"]
    assert list(state["parts"]) == ["binary", "real", "no_decay"]
    assert set(saved["state_dict"]["model.2.weight"].unique().tolist()) == {-1.0, 1.0}


def test_hugging_face_trainer(tmp_path: Path):
    needs("transformers")
    needs("accelerate")
    output = start([sys.executable, str(EXAMPLES / "hf_trainer.py"), "2"], tmp_path)
    found = re.search(r"test accuracy ([\d.]+)%", output)
    assert found is not None
    assert float(found[1]) > 85


def test_weight_averaging_keeps_weights_binary(tmp_path: Path):
    output = start([sys.executable, "-W", "ignore", str(EXAMPLES / "weight_averaging.py"), "4"], tmp_path)
    rows = re.findall(r"^(\w+(?: average)?)\s+test accuracy ([\d.]+)%, weights binary: (\w+)$", output, re.MULTILINE)
    binary = {name: (float(accuracy), word) for name, accuracy, word in rows}
    assert {name: word for name, (_, word) in binary.items()} == {
        "trained": "True",
        "zerocross average": "True",
        "torch average": "False",
    }
    assert binary["zerocross average"][0] > 90


def test_the_sweep_runs_here_and_then_finds_its_results(tmp_path: Path):
    """The same script as on a cluster, with the executor of this machine."""
    if shutil.which("sh") is None:
        pytest.skip("no POSIX shell")
    command = [
        "sh",
        str(EXAMPLES / "slurm_sweep.sh"),
        "here",
        "--jobs",
        "1",
        "--seeds",
        "1",
        "--epochs",
        "1",
        "--quiet",
    ]
    first = start(command, tmp_path)
    assert "filter" in first
    assert "bop" in first
    runs = sorted(tmp_path.glob("sweep/runs/*.json"))
    assert len(runs) == 2
    written = [path.stat().st_mtime_ns for path in runs]
    start(command, tmp_path)
    assert [path.stat().st_mtime_ns for path in runs] == written  # nothing was trained again
    assert (tmp_path / "sweep" / "compare.md").exists()


@pytest.mark.slow
@pytest.mark.skipif(bool(missing()), reason=missing() or "Slurm is here")
def test_the_sweep_runs_on_slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder = Path(tempfile.mkdtemp(prefix="zerocross-slurm-"))  # pytest's own folders have too long paths for a socket
    try:
        with Cluster(folder, cpus=2) as cluster:
            for name, value in cluster.environment.items():
                monkeypatch.setenv(name, value)
            command = ["sh", str(EXAMPLES / "slurm_sweep.sh"), "--seeds", "1", "--epochs", "1"]
            assert "submitted 2 runs to Slurm" in start(command, tmp_path)
            assert len(list(tmp_path.glob("sweep/runs/*.json"))) == 2
            assert "submitted" not in start(command, tmp_path)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def test_the_notebook_runs_from_data_to_packed_network():
    needs("nbclient")
    needs("ipykernel")
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(EXAMPLES / "data_to_packed.ipynb", as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells)  # results belong to a run, not to the repository
    NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(EXAMPLES)}}
    ).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    text = "".join(output.get("text", "") for output in outputs)
    pictures = [output for output in outputs if "image/png" in output.get("data", {})]
    assert len(pictures) == 4
    found = re.search(r"test accuracy ([\d.]+)%", text)
    assert found is not None
    assert float(found[1]) > 93
    assert "predicts the same digit for 100.0% of the test images" in text


def test_every_example_is_tested_and_listed():
    tests = Path(__file__).read_text(encoding="utf-8")
    listed = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    files = {path.name for path in EXAMPLES.iterdir() if path.is_file()} - {"README.md", "digits.py"}
    assert {name for name in files if name not in tests} == set()
    assert {name for name in files if name not in listed} == set()
