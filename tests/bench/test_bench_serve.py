"""`zerocross bench serve`: both servers answer, and the figures match their requests."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from zerocross.bench.serve import ServeTimes
from zerocross.cli import app


def test_figures_of_both_servers(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    out = tmp_path / "serve.json"
    words = ["bench", "serve", "zoo:digits", "--clients", "3", "--seconds", "0.3", "--rounds", "2", "--out", str(out)]
    assert app.run(words) == 0
    result = json.loads(out.read_text(encoding="utf-8"))
    assert set(result["servers"]) == {"batches up to 64", "one request at a time"}
    for server in result["servers"].values():
        assert server["requests"] >= 6, "every client of every turn gets an answer"
        assert len(server["rates"]) == 2
        assert 0 < server["p50_seconds"] <= server["p99_seconds"]
    assert result["servers"]["one request at a time"]["mean_batch"] == 1
    assert "99th" in capsys.readouterr().out
    assert app.run(words) == 2, "an existing file is not overwritten"


def test_percentiles():
    times = ServeTimes(latencies=[float(number) for number in range(101)], rates=[1.0, 3.0, 2.0])
    assert times.percentile(99) == 99
    assert times.as_dict()["requests_per_second"] == 2
