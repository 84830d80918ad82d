"""Without an extra: code that needs it names the extra in one line, and other code works."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from zerocross.extras import _EXTRAS

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # pyright: ignore[reportMissingImports]

WITHOUT = """
import sys
for name in {names!r}:
    sys.modules[name] = None  # as if it were not installed
sys.argv = ["zerocross", *{words!r}]
{code}
"""
COMMAND = "from zerocross.cli import main; main()"
TORCH = ("torch", "lightning_fabric")
NUMBA = ("numba", "llvmlite")


def run(names: tuple[str, ...], code: str, words: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    script = WITHOUT.format(names=names, words=words, code=code)
    return subprocess.run(
        [sys.executable, "-c", script], cwd=folder, capture_output=True, text=True, timeout=300, check=False
    )


@pytest.mark.parametrize(
    ("names", "code", "extra"),
    [
        (TORCH, "import zerocross; zerocross.GradientFilter", "train"),
        (TORCH, "import zerocross; zerocross.train.fit", "train"),
        (TORCH, "from zerocross.nn import BinaryLinear", "train"),
        (TORCH, "from zerocross.optim import GradientFilter", "train"),
        (TORCH, "import zerocross.deploy", "train"),
        (NUMBA, "from zerocross.runtime import load", "runtime"),
        (NUMBA, "import zerocross; zerocross.runtime", "runtime"),
    ],
)
def test_names_that_need_an_extra_name_it(names: tuple[str, ...], code: str, extra: str, tmp_path: Path) -> None:
    done = run(names, code, [], tmp_path)
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.endswith(f"which is not installed: pip install 'zerocross[{extra}]'")
    assert done.stderr.count("Traceback") == 1


def test_parts_without_torch_work_without_it(tmp_path: Path) -> None:
    code = "import zerocross.runtime, zerocross.filters, zerocross.data.layout; print(zerocross.__version__)"
    assert run((*TORCH, "sklearn", "matplotlib"), code, [], tmp_path).returncode == 0


@pytest.mark.parametrize(
    ("names", "words", "extra"),
    [
        (TORCH, ["train", "digits"], "train"),
        (NUMBA, ["predict", "model.zcb", "x.npy"], "runtime"),
        (("fastapi",), ["serve", "zoo:digits"], "serve"),
        (("typer",), ["--help"], "train"),
        pytest.param(NUMBA, ["pack", "run", "-o", "model.zcb"], "runtime", marks=pytest.mark.slow),
    ],
)
def test_commands_that_need_an_extra_name_it(
    names: tuple[str, ...], words: list[str], extra: str, tmp_path: Path
) -> None:
    done = run(names, COMMAND, words, tmp_path)
    assert done.returncode == 2
    assert done.stderr.endswith(f"which is not installed: pip install 'zerocross[{extra}]'\n")
    assert len(done.stderr.splitlines()) == 1


def test_help_works_without_torch(tmp_path: Path) -> None:
    done = run((*TORCH, "matplotlib", "sklearn", "filelock", "optuna"), COMMAND, ["predict", "--help"], tmp_path)
    assert done.returncode == 0, done.stderr


def test_extras_contain_the_documented_packages() -> None:
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras: dict[str, list[str]] = project["optional-dependencies"]

    def brought(extra: str) -> set[str]:
        result: set[str] = set()
        for line in extras[extra]:
            name, bracket, inner = line.partition("[")
            if name == "zerocross" and bracket:
                result |= {each for other in inner.rstrip("]").split(",") for each in brought(other)}
            else:
                result.add(line.partition(">")[0].partition("[")[0])
        return result

    packages = {"lightning_fabric": "lightning-fabric", "sklearn": "scikit-learn", "PIL": "pillow",
                "llvmlite": "numba", "gpytorch": "botorch", "optuna_integration": "optuna-integration",
                "starlette": "fastapi", "prometheus_client": "prometheus-client",
                "python_multipart": "python-multipart", "mlflow": "mlflow-skinny"}  # fmt: skip
    for extra, modules in _EXTRAS.items():
        assert {packages.get(module, module) for module in modules} <= brought(extra)
    assert "torch" not in brought("runtime")
    assert not [line for line in project["dependencies"] if line.startswith("torch")]
    assert {"torch", "numba", "optuna", "plotly"} <= brought("dev")
