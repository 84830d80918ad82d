"""zerocross doctor: what is missing is named with the command that adds it; the checklist for GPUs."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from zerocross import data, doctor, extras
from zerocross.cli.app import run
from zerocross.doctor import devices, processor
from zerocross.doctor import examination as examining
from zerocross.doctor.finding import Diagnosis

NO_TORCH = """
import sys
for name in {names!r}:
    sys.modules[name] = None
sys.argv = ["zerocross", "doctor", "--json"]
from zerocross.cli import main
main()
"""


def found(findings: list[Diagnosis], area: str, name: str) -> Diagnosis:
    [one] = [each for each in findings if (each.area, each.name) == (area, name)]
    return one


def test_everything_is_looked_at(tmp_path: Path) -> None:
    findings = doctor.examine(tmp_path)
    assert {each.area for each in findings} == {"python", "torch", "processor", "packed networks", "extras", "data"}
    assert found(findings, "torch", "torch").detail == metadata.version("torch")
    assert found(findings, "packed networks", "kernels").detail.startswith("level ")
    assert found(findings, "data", "mnist").fix == "zerocross data fetch mnist"
    assert found(findings, "data", "folder").state == "ok"
    assert doctor.healthy(findings)
    assert all(each.fix for each in findings if each.state != "ok" and each.area != "processor")


def test_all_datasets_are_looked_for() -> None:
    assert {*examining.FOLDERS, "digits"} == set(data.NAMES)


def test_datasets_are_found_where_they_are(tmp_path: Path) -> None:
    (tmp_path / "imdb").mkdir()
    (tmp_path / "imdb" / "train.jsonl").touch()
    assert found(doctor.examine(tmp_path), "data", "imdb") == Diagnosis("data", "imdb", "ok", str(tmp_path / "imdb"))


def test_a_folder_that_does_not_exist_is_named(tmp_path: Path) -> None:
    one = found(doctor.examine(tmp_path / "none"), "data", "folder")
    assert (one.state, one.detail) == ("missing", f"{tmp_path / 'none'} does not exist")
    assert "ZEROCROSS_DATA" in one.fix


def test_the_command_prints_text_and_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", "--data-dir", str(tmp_path)]) == 0
    text = capsys.readouterr().out
    assert "fix: zerocross data fetch cifar10" in text
    assert "nothing essential is broken" in text
    assert run(["doctor", "--json", "--data-dir", str(tmp_path)]) == 0
    values = json.loads(capsys.readouterr().out)
    assert values["healthy"] is True
    assert {"area", "name", "state", "detail", "fix"} == set(values["findings"][0])


@pytest.mark.parametrize("names", [("torch", "lightning_fabric"), ("torch", "numba", "llvmlite", "sklearn")])
def test_it_works_without_torch_and_without_numba(names: tuple[str, ...], tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", NO_TORCH.format(names=names)],
        cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    findings = {(each["area"], each["name"]): each for each in json.loads(done.stdout)["findings"]}
    assert findings["torch", "torch"]["state"] == "missing"
    assert findings["torch", "torch"]["fix"] == "pip install 'zerocross[train]'"
    if "numba" in names:
        assert findings["packed networks", "kernels"]["fix"] == "pip install 'zerocross[runtime]'"
        assert findings["extras", "runtime"]["detail"] == "without numba, llvmlite"


def test_what_is_essential_and_broken_gives_exit_code_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "spoilt.py").write_text("raise OSError('libspoilt.so: cannot open shared object file')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(examining, "_BASE", ("numpy", "spoilt"))
    assert run(["doctor"]) == 1
    text = capsys.readouterr().out
    assert "spoilt           broken   cannot be imported: OSError: libspoilt.so: cannot open" in text
    assert "something essential is broken" in text


@pytest.mark.parametrize(("package", "state"), [("torch", "broken"), ("onnx", "missing")])
def test_versions_out_of_bounds_are_named(monkeypatch: pytest.MonkeyPatch, package: str, state: str) -> None:
    lines = {"Provides-Extra": ["some"], "Requires-Dist": [f"{package}>=99.5; extra == 'some'", "numpy>=1"]}
    monkeypatch.setattr(metadata, "metadata", lambda _: SimpleNamespace(get_all=lines.get))
    [one] = examining._outdated()
    assert (one.name, one.state) == (package, state)
    assert one.detail == f"{metadata.version(package)} is installed, {package}>=99.5 is needed"


@pytest.mark.parametrize(
    ("missing", "fix"),
    [("no C++ compiler found", "apt install g++"), ("Python.h not found", "apt install python3-dev")],
)
def test_without_a_compiler_it_says_how_to_get_one(monkeypatch: pytest.MonkeyPatch, missing: str, fix: str) -> None:
    from zerocross import compiler

    monkeypatch.setattr(compiler, "missing", lambda: missing)
    one = found(list(examining._torch()), "torch", "C++ compiler")
    assert one.state == "missing"
    assert fix in one.fix


def test_a_cache_that_cannot_be_written_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from zerocross.runtime.kernels import native

    (tmp_path / "file").touch()
    monkeypatch.setattr(native, "_folders", lambda: [tmp_path / "file" / "cache"])
    assert found(list(examining._runtime()), "packed networks", "kernel cache").state == "missing"
    monkeypatch.setattr(native, "_folders", lambda: [tmp_path / "new" / "cache"])
    assert found(list(examining._runtime()), "packed networks", "kernel cache").state == "ok"
    assert not (tmp_path / "new").exists()


def test_features_of_a_processor_decide() -> None:
    states = {each.name: each.state for each in processor.examine_processor(frozenset({"popcnt", "avx2", "avxvnni"}))}
    assert states == {"popcount": "ok", "vector popcount": "missing", "AVX2": "ok", "AVX-512": "missing", "VNNI": "ok",
                      "BF16": "missing"}  # fmt: skip
    arm = {each.name: each.state for each in processor.examine_processor(frozenset({"neon", "dotprod"}))}
    assert arm == {"popcount": "ok", "vector popcount": "ok", "VNNI": "ok", "BF16": "missing"}
    [unknown] = processor.examine_processor(None)
    assert "zerocross[runtime]" in unknown.fix


def test_llvm_and_the_kernel_agree_about_this_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    if not Path("/proc/cpuinfo").exists():
        pytest.skip("/proc/cpuinfo is Linux's")
    by_llvm = processor.features()
    monkeypatch.setattr(processor, "find_spec", lambda _: None)
    by_kernel = processor.features()
    assert by_llvm is not None
    assert by_kernel is not None
    names = {name for alternatives, _ in processor.USES.values() for name in alternatives}
    assert by_llvm & names == by_kernel & names


def test_without_a_gpu_every_check_is_skipped_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert run(["doctor", "--cuda"]) == 0
    text = capsys.readouterr().out
    assert text.count("skip") == 7
    assert "ddp       needs 2 CUDA devices, 0 available" in text
    assert "0 passed, 0 failed, 6 skipped" in text
    assert run(["doctor", "--cuda", "--json"]) == 0
    assert [each["name"] for each in json.loads(capsys.readouterr().out)["checks"]] == [
        "layers", "signs", "bf16", "compile", "ddp", "dali"]  # fmt: skip


@pytest.mark.parametrize("check", [devices.binary_layers, devices.optimizer_signs, devices.bfloat16_training])
def test_checks_pass_with_the_cpu_in_place_of_the_gpu(check: object) -> None:
    outcome = devices.run_check("it", check, "cpu")  # type: ignore[arg-type]
    assert outcome.state == "pass", outcome


@pytest.mark.slow
def test_the_whole_list_passes_with_the_cpu_in_place_of_the_gpu() -> None:
    states = {each.name: each.state for each in devices.checklist("cpu")}
    dali = "pass" if extras.installed("nvidia.dali") else "skip"
    assert states == {"layers": "pass", "signs": "pass", "bf16": "pass", "compile": "pass", "ddp": "pass", "dali": dali}


def test_signs_may_differ_only_where_g_is_close_to_0() -> None:
    theta, g = torch.tensor([1.0, -1.0, 1.0]), torch.tensor([-1.0, 1.0, -1e-9])
    other, g_ = torch.tensor([1.0, -1.0, -1.0]), torch.tensor([-1.0, 1.0, 1e-9])
    assert devices.compare_signs((theta, g), (other, g_), "a", "b").startswith("1 of 3 signs differ")
    with pytest.raises(devices.CheckFailedError, match=r"1 of 3 signs differ.* 1 of them where .* not close to 0"):
        devices.compare_signs((theta, g), (-theta * torch.tensor([1, -1, -1]), g), "a", "b")


def test_a_check_that_fails_or_raises_is_a_failure_and_the_others_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def differs(device: str) -> str:
        raise devices.CheckFailedError(f"3 signs differ on {device}")

    def raises(device: str) -> str:
        raise RuntimeError(f"CUDA error\nno kernel image for {device}")

    assert devices.run_check("signs", differs, "cpu") == devices.DeviceCheck("signs", "fail", "3 signs differ on cpu")
    assert devices.run_check("x", raises, "cpu").detail == "RuntimeError: no kernel image for cpu"
    monkeypatch.setattr(devices, "checklist", lambda _: [devices.DeviceCheck("signs", "fail", "3 signs differ")])
    assert run(["doctor", "--cuda"]) == 1


def test_a_device_that_computes_wrongly_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    theta, g = devices._filtered("cpu", compiled=False)
    monkeypatch.setattr(
        devices, "_filtered", lambda device, **_: (theta, g) if device == "cpu" else (-theta, -g)
    )  # fmt: skip
    assert devices.run_check("signs", devices.optimizer_signs, "wrong").state == "fail"
