"""Workers in separate processes: how they end, how many threads they use, and real kills with real databases."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
import urllib.request
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from forks import free_port, until
from tune import objectives
from tune.objectives import TWO, hill, notes
from zerocross import tune
from zerocross.tune import StudyPlan, history, workers


@pytest.mark.slow
def test_workers_share_the_cores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    assert [ended.code for ended in workers.run(2, objectives.count_threads, str(tmp_path))] == [0, 0]
    threads = [int(path.read_text(encoding="utf-8")) for path in tmp_path.iterdir()]
    assert len(threads) == 2
    assert sum(threads) <= max(2, workers.cores())


@pytest.mark.slow
def test_the_end_of_workers_is_reported(tmp_path: Path) -> None:
    refused, killed = (workers.run(1, target, str(tmp_path))[0] for target in (objectives.refuse, objectives.die))
    assert (refused.code, str(refused)) == (1, f"ValueError: not in {tmp_path}")
    assert (killed.code, str(killed)) == (-signal.SIGKILL, "killed by SIGKILL")
    with pytest.raises(ValueError, match="workers is 0"):
        workers.run(0, objectives.succeed)


def test_a_long_message_of_a_worker_is_read() -> None:
    """A message of 1 MB does not fit into a pipe: its worker ends only after the message has been read."""
    context = multiprocessing.get_context("fork")
    reader, writer = context.Pipe(duplex=False)
    process = context.Process(target=writer.send, args=("x" * 2**20,))
    process.start()
    writer.close()
    output = {reader: ""}
    workers._wait_for([process], output)
    assert process.exitcode == 0
    assert len(output[reader]) == 2**20


@pytest.mark.slow
def test_long_errors_of_workers_are_read(tmp_path: Path) -> None:
    ended = workers.run(2, objectives.refuse_at_length, str(tmp_path))
    assert [one.code for one in ended] == [1, 1]
    assert all(len(one.error) > 700_000 for one in ended)


def _survive_kills(url: str, log: Path) -> None:
    """Four workers, two of which are killed during a trial: no trial is lost or counted twice, and theirs run again."""
    study = tune.begin_or_join(tune.connect(url, beat=1, grace=10), "killed", StudyPlan(TWO, "random", 5))
    tune.extend(study, 16)
    context = multiprocessing.get_context("spawn")
    running = [
        context.Process(target=objectives.work, args=(url, "killed", str(log), 1.0 if index < 2 else 0.3))
        for index in range(4)
    ]
    for process in running:
        process.start()
    victims = running[:2]

    def amid(process: BaseProcess) -> bool:
        mine = [what for what, _, pid in notes(log) if pid == str(process.pid)]
        return bool(mine) and mine[-1] == "begin"

    lost = []
    for process in victims:
        until(lambda process=process: amid(process), 120)
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        lost += [a for what, a, pid in notes(log) if pid == str(process.pid) and what == "begin"][-1:]
    for process in running[2:]:
        process.join()
    assert [process.exitcode for process in running] == [-signal.SIGKILL] * 2 + [0, 0]

    result = history.read(study.load())
    assert sorted(one.number for one in result.outcomes) == list(range(16))  # none lost, none counted twice
    assert (result.failed, result.open) == (0, 0)
    trials = study.load().get_trials()
    failed = {repr(trial.params["a"]) for trial in trials if trial.state.name == "FAIL"}
    assert set(lost) <= failed
    done = [repr(one.settings["a"]) for one in result.outcomes]
    assert set(lost) <= set(done)  # with their settings
    assert len(set(done)) == 16
    survivors = {str(process.pid) for process in running[2:]}
    for a in lost:
        assert [pid for what, b, pid in notes(log) if b == a and what == "end"][-1] in survivors
    expected = tune.search(hill, TWO, 16, "random", 5)  # as if no worker had been killed
    assert sorted(done) == sorted(repr(one.settings["a"]) for one in expected.outcomes)


@pytest.mark.slow
def test_killed_workers_on_postgresql(postgres: str, tmp_path: Path) -> None:
    _survive_kills(postgres, tmp_path / "log")


@pytest.mark.slow
def test_killed_workers_on_sqlite(tmp_path: Path) -> None:
    _survive_kills(f"sqlite:///{tmp_path / 'tune.db'}", tmp_path / "log")


@pytest.mark.slow
def test_eight_processes_start_the_same_study_at_once(postgres: str) -> None:
    import psycopg

    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("CREATE DATABASE rush")
    url = postgres.replace("/postgres", "/rush")
    context = multiprocessing.get_context("spawn")
    running = [context.Process(target=objectives.begin_and_work, args=(url, "rush", 20)) for _ in range(8)]
    for process in running:
        process.start()
    for process in running:
        process.join()
    assert [process.exitcode for process in running] == [0] * 8
    study = tune.join(tune.connect(url), "rush")
    result = history.read(study.load())
    assert sorted(one.number for one in result.outcomes) == list(range(20))
    states = [trial.state.name for trial in study.load().get_trials()]
    assert states.count("COMPLETE") == 20


@pytest.mark.slow
def test_dashboard_opens_on_the_same_storage(tmp_path: Path) -> None:
    pytest.importorskip("optuna_dashboard")
    url, port = f"sqlite:///{tmp_path / 'tune.db'}", free_port()
    study = tune.begin_or_join(tune.connect(url), "shown", StudyPlan(TWO, "random"))
    tune.extend(study, 2)
    tune.work(study, hill)
    program = Path(sys.executable).with_name("optuna-dashboard")
    dashboard = subprocess.Popen([program, url, "--host", "127.0.0.1", "--port", str(port)])
    try:
        deadline = time.monotonic() + 120
        answer = b""
        while not answer and time.monotonic() < deadline and dashboard.poll() is None:
            try:
                answer = urllib.request.urlopen(f"http://127.0.0.1:{port}/api/studies", timeout=10).read()
            except OSError:
                time.sleep(0.2)
        assert b'"shown"' in answer
    finally:
        dashboard.terminate()
        dashboard.wait(timeout=60)
