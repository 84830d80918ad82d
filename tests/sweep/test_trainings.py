"""Many runs: finished ones are read from the cache, others trained, and stopping at any moment loses nothing."""

from __future__ import annotations

import dataclasses
import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from filelock import FileLock

from forks import UNHURRIED, Command, Forks, until, updates
from zerocross import train
from zerocross.sweep import execute
from zerocross.sweep.cache import RunCache
from zerocross.sweep.execute import Interrupted
from zerocross.sweep.execution import Execution
from zerocross.sweep.handle import Handle
from zerocross.sweep.job import Job
from zerocross.sweep.progress import duration, seconds_left
from zerocross.sweep.trainings import guessed_seconds, run_all, training
from zerocross.train.config import Config, resolved, to_dict

SETTINGS = {
    "stages.0.epochs": "1", "compile": "off", "model.options.width": "4", "batch_size": "128", "log_every": "1",
}  # fmt: skip
# The same run as a command, with a checkpoint every 4 of its 33 updates.
COMPARE = (
    "compare", "--methods", "filter:2", "--epochs", "3", "--set", "compile=off", "--set", "model.options.width=4",
    "--set", "batch_size=128", "--set", "log_every=1", "--set", "checkpoint_every=4",
)  # fmt: skip


def small(method: str = "filter", **changes: str) -> Config:
    """Return the config of a run that takes a second."""
    config = train.with_method(train.RECIPES["digits"].config, method)
    return train.changed(config, {**SETTINGS, **{name.replace("__", "."): value for name, value in changes.items()}})


def diverging() -> Config:
    return small(real__lr="1e30", seed="7")


def cached(folder: Path, *, keep: bool = False) -> RunCache:
    return RunCache(folder / "results", folder / "work", keep)


def runs(configs: list[Config], folder: Path, *, keep: bool = False, jobs: int = 1) -> list[dict[str, Any]]:
    return run_all(configs, train.Placement(), cached(folder, keep=keep), Execution(jobs), show=False)


def figures(result: dict[str, Any]) -> dict[str, Any]:
    """Return all of a result that a repetition must reproduce."""
    return {key: result[key] for key in ("hash", "config", "final", "history", "ff_ratio", "train_loss")}


@pytest.fixture(scope="module")
def finished_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the results of two finished runs."""
    folder = tmp_path_factory.mktemp("finished_runs")
    runs([small(), small("latent-sgd")], folder)
    return folder


@pytest.fixture(scope="module")
def forks() -> Iterator[Forks]:
    """Real processes that run commands."""
    server = Forks()
    yield server
    server.close()


@pytest.fixture(scope="module")
def unbroken(forks: Forks, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return the figures of an uninterrupted comparison by hash."""
    folder = tmp_path_factory.mktemp("unbroken")
    command = forks.start(folder, *COMPARE)
    assert command.wait() == 0, command.output()
    return results_in(folder)


def results_in(folder: Path) -> dict[str, Any]:
    result = (folder / "results" / "runs").glob("*.json")
    return {path.stem: figures(json.loads(path.read_text(encoding="utf-8"))) for path in result}


def copied(finished_runs: Path, folder: Path) -> Path:
    """Copy the results to a folder where a test may damage them; return the path of the first."""
    (folder / "results").mkdir()
    for path in (finished_runs / "results").iterdir():
        (folder / "results" / path.name).write_bytes(path.read_bytes())
    return folder / "results" / f"{small().hash}.json"


def never(*words: object, **values: object) -> None:
    raise AssertionError("a run was begun")


# ---- finished runs are read


def test_results_are_written_by_hash_and_folders_of_finished_runs_are_removed(finished_runs: Path) -> None:
    names = {f"{config.hash}.json" for config in (small(), small("latent-sgd"))}
    assert {path.name for path in (finished_runs / "results").iterdir()} == names
    assert list((finished_runs / "work").iterdir()) == []


def test_cached_results_are_read_and_not_trained_again(
    finished_runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = copied(finished_runs, tmp_path)
    result = json.loads(path.read_text(encoding="utf-8"))
    result["final"]["top1"] = 12.34
    path.write_text(json.dumps(result), encoding="utf-8")
    monkeypatch.setattr(train, "begin", never)
    first, second, third = runs([small("latent-sgd"), small(), small("latent-sgd")], tmp_path)
    assert second["final"]["top1"] == 12.34
    assert first == third
    assert first["config"]["method"] == "latent-sgd"


def test_equal_configs_are_run_once_and_only_if_missing(
    finished_runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied(finished_runs, tmp_path)
    begun, begin = [], train.begin

    def counted(config: Config, *words: Any, **values: Any) -> train.Finished:
        begun.append(config.seed)
        return begin(config, *words, **values)

    monkeypatch.setattr(train, "begin", counted)
    renamed = dataclasses.replace(small(seed="3"), recipe="another name")  # which does not affect the result
    results = runs([small(seed="3"), small(), renamed], tmp_path)
    assert begun == [3]
    assert results[0] == results[2]


def test_kept_folders_contain_the_weights(tmp_path: Path) -> None:
    runs([small()], tmp_path, keep=True)
    assert (tmp_path / "work" / small().hash / "model.safetensors").is_file()


def spoil_text(text: str) -> str:
    return text[: len(text) // 2]


def spoil_hash(text: str) -> str:
    return json.dumps({**json.loads(text), "hash": "0" * 16})


def spoil_config(text: str) -> str:
    return json.dumps({**json.loads(text), "config": to_dict(small(seed="9"))})


def spoil_field(text: str) -> str:
    values = json.loads(text)
    values["config"]["colour"] = "red"
    return json.dumps(values)


def spoil_parts(text: str) -> str:
    return json.dumps({key: value for key, value in json.loads(text).items() if key != "history"})


def spoil_score(text: str) -> str:
    return json.dumps({**json.loads(text), "final": {"top1": None}})


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (spoil_text, "is damaged"),
        (lambda _: "[]", "is not a JSON object"),
        (spoil_hash, "the result of another config"),
        (spoil_config, "the result of another config"),
        (spoil_field, "colour"),
        (spoil_parts, "it has no history"),
        (spoil_score, "remove the file to repeat this run"),
    ],
)
def test_damaged_result_is_refused_by_name_before_anything_runs(
    finished_runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spoil: Any, message: str
) -> None:
    path = copied(finished_runs, tmp_path)
    path.write_text(spoil(path.read_text(encoding="utf-8")), encoding="utf-8")
    monkeypatch.setattr(train, "begin", never)
    with pytest.raises(ValueError, match=message) as refused:
        runs([small(seed="5"), small()], tmp_path)
    assert str(path) in str(refused.value)


# ---- what fails


def test_failed_run_is_reported_not_cached_and_does_not_stop_the_others(tmp_path: Path) -> None:
    failed, good = runs([diverging(), small()], tmp_path)
    assert "training diverged at update" in failed["failed"]
    assert failed["hash"] == diverging().hash
    assert good["final"]["top1"] > 20
    assert [path.stem for path in (tmp_path / "results").iterdir()] == [small().hash]
    (again,) = runs([diverging()], tmp_path)
    assert "training diverged at update" in again["failed"]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"optimizer__alpha": "2"}, "alpha is 2"),
        ({"model__options__widht": "8"}, "did you mean 'width'"),
        ({"batch_size": "100000"}, "exceeds the 1438 training samples"),
        ({"data__name": "cifar10"}, "cifar10"),
    ],
)
def test_invalid_settings_of_later_runs_are_refused_first(tmp_path: Path, bad: dict[str, str], message: str) -> None:
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        runs([small(), small(**bad)], tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_invalid_numbers_of_processes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="jobs is 0"):
        runs([small()], tmp_path, jobs=0)
    with pytest.raises(ValueError, match="uses one device"):
        run_all([small()], train.Placement(devices=2), cached(tmp_path))


def test_a_run_of_another_process_is_waited_for(finished_runs: Path, tmp_path: Path) -> None:
    config, messages = small(), []
    (tmp_path / "work").mkdir()
    other = FileLock(tmp_path / "work" / f"{config.hash}.lock")
    other.acquire()

    def other_finishes(text: str) -> None:
        messages.append(text)
        copied(finished_runs, tmp_path)
        other.release()

    result = cached(tmp_path).finish(training(config, train.Placement()), show=False, say=other_finishes)
    assert "another process is working on this run" in messages[0]
    assert result == json.loads((finished_runs / "results" / f"{config.hash}.json").read_text(encoding="utf-8"))
    assert not (tmp_path / "work" / config.hash).exists()


# ---- what is cut


def begun(folder: Path) -> list[Path]:
    return [path.parent for path in (folder / "runs" / "by-hash").glob("*/config.json")]


def second_run_is_under_way(folder: Path) -> bool:
    results = list((folder / "results" / "runs").glob("*.json"))
    return len(results) == 1 and any(path.stem != results[0].stem and updates(path) >= 14 for path in begun(folder))


def resumes(forks: Forks, folder: Path) -> Command:
    command = forks.start(folder, *COMPARE)
    assert command.wait() == 0, command.output()
    assert "2 runs: 1 finished in results/runs, 1 to do" in command.output()
    assert "epoch 1 of 3" not in command.output()  # which had been done
    assert "epoch 3 of 3" in command.output()
    return command


def test_killed_comparison_resumes(forks: Forks, tmp_path: Path, unbroken: dict[str, Any]) -> None:
    command = forks.start(tmp_path, *COMPARE, patch=UNHURRIED)
    until(lambda: second_run_is_under_way(tmp_path))
    command.kill(signal.SIGKILL)
    assert command.wait() == -signal.SIGKILL
    resumes(forks, tmp_path)
    assert results_in(tmp_path) == unbroken
    assert begun(tmp_path) == []


def test_stopped_comparison_saves_a_checkpoint_and_prints_how_to_resume(
    forks: Forks, tmp_path: Path, unbroken: dict[str, Any]
) -> None:
    command = forks.start(tmp_path, *COMPARE, patch=UNHURRIED)
    until(lambda: second_run_is_under_way(tmp_path))
    command.kill(signal.SIGTERM)
    assert command.wait() == 143
    last = command.output().strip().splitlines()[-1]
    assert last.startswith("zerocross: stopped after ")
    assert last.endswith("checkpoint saved, with 1 of 2 runs finished; run the same command again to continue")
    resumes(forks, tmp_path)
    assert results_in(tmp_path) == unbroken


def test_interrupt_outside_of_a_run_is_reported_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*words: object, **values: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(train, "begin", interrupted)
    with pytest.raises(Interrupted, match="with 0 of 1 run finished; run the same command again") as stopped:
        runs([small()], tmp_path)
    assert stopped.value.exit_code == 130


# ---- side by side


def test_side_by_side_gives_the_same_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        one = runs([small(), diverging()], tmp_path / "one")
        torch.set_num_threads(2)  # of which two processes get one each
        two = run_all([small(), diverging()], train.Placement(), cached(tmp_path / "two"), Execution(jobs=2))
    finally:
        torch.set_num_threads(threads)
    assert figures(one[0]) == figures(two[0])
    assert two[0]["provenance"]["machine"]["threads"] == 1
    assert two[1]["failed"].split(".")[0] == one[1]["failed"].split(".")[0]
    assert [path.stem for path in (tmp_path / "two" / "results").iterdir()] == [small().hash]
    output = capsys.readouterr().out
    assert "run 1 of 2: filter, seed 0: epoch 1 of 1  test" in output
    assert "run 2 of 2: filter, seed 7 failed: training diverged" in output


def answered(folder: Path, **answer: Any) -> Handle:
    """Return a job in another process that has ended with this answer."""
    job = training(small(), train.Placement())
    folder.mkdir()
    if answer:
        (folder / f"{job.key}.answer.json").write_text(json.dumps(answer))
    (folder / "7_0_log.out").write_text("submitit INFO - starting\nKeyError: 'x'\n")
    return Handle(job, "7", folder)


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        ({"refused": "no such teacher"}, ValueError, "no such teacher"),
        ({"os_error": [28, "No space left on device"]}, OSError, "No space left"),
        ({"broke": "KeyError: 'x'"}, RuntimeError, "raised:\nKeyError: 'x'"),
    ],
)
def test_errors_in_another_process_are_raised(
    tmp_path: Path, answer: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        execute._outcome(answered(tmp_path / "jobs", **answer), cached(tmp_path))


def test_a_repeatedly_killed_process_is_a_failed_run(tmp_path: Path) -> None:
    handle = answered(tmp_path / "jobs")
    assert execute._outcome(handle, cached(tmp_path)) is None
    assert execute._lost(handle).endswith("(killed, or out of memory?); its last output: KeyError: 'x'")
    handle.tidy(keep_log=True)
    assert [path.name for path in (tmp_path / "jobs").iterdir()] == ["7_0_log.out"]


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_processes_end_with_their_parent_and_resume_later(forks: Forks, tmp_path: Path, number: int) -> None:
    long = tuple("400" if word == "3" else word for word in COMPARE)
    command = forks.start(tmp_path, *long, "--jobs", "2", OMP_NUM_THREADS="2")
    until(lambda: len([run for run in begun(tmp_path) if updates(run) >= 6]) == 2)
    children = Path(f"/proc/{command.pid}/task").glob("*/children")
    pids = [int(pid) for path in children for pid in path.read_text(encoding="utf-8").split()]
    assert len(pids) >= 2
    command.kill(number)
    assert command.wait() == (-number if number == signal.SIGKILL else 128 + number)
    until(lambda: not [pid for pid in pids if is_alive(pid)], timeout=120)
    if number != signal.SIGKILL:
        assert "stopped and saved, with 0 of 2 runs finished; run the same command again" in command.output()
    seen = {run.name: updates(run) for run in begun(tmp_path)}
    again = forks.start(tmp_path, *long, "--jobs", "2", OMP_NUM_THREADS="2")
    until(lambda: all(updates(run) > seen[run.name] + 5 for run in begun(tmp_path)))
    again.kill(signal.SIGTERM)
    assert again.wait() == 143
    assert "epoch 1 of 400" not in again.output() or min(seen.values()) < 11


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


# ---- time left


def finished(config: Config, seconds: float) -> dict[str, Any]:
    return {"config": to_dict(resolved(config)), "seconds": seconds}


def job(config: Config) -> Job:
    return training(config, train.Placement())


def test_time_left_is_estimated_from_the_most_similar_runs() -> None:
    known = [finished(small(), 10.0), finished(small("bop"), 30.0), finished(small(seed="2"), 20.0)]
    assert guessed_seconds(small(seed="5"), known) == 15.0
    assert guessed_seconds(small(seed="5", stages__0__epochs="4"), known) == 60.0
    assert guessed_seconds(small("latent-sgd"), known) == 20.0
    assert guessed_seconds(small(model__options__width="9"), known) is None
    todo = [job(small(seed="5")), job(small("bop", seed="1")), job(small(model__options__width="9"))]
    done = [(job(small()), result) for result in known]
    assert seconds_left(todo, done, {}) == 15.0 + 30.0 + 22.5
    assert seconds_left(todo, done, {todo[0].key: 5.0, todo[1].key: 99.0}) == 10.0 + 0.0 + 22.5
    assert seconds_left(todo, [], {}) is None


def test_durations_as_text() -> None:
    assert [duration(s) for s in (0.4, 42, 307, 3907)] == ["0 s", "42 s", "5:07 min", "1:05:07 h"]
