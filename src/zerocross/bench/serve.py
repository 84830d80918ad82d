"""A packed network behind HTTP: requests a second and latency, with batches of concurrent requests and without."""

from __future__ import annotations

import http.client
import io
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from zerocross import runtime

SERVERS = {"batches up to 64": 64, "one request at a time": 1}  # label -> max_batch
START_SECONDS = 120.0


@dataclass
class ServeTimes:
    """Requests of one server: seconds of each, and of the turns together."""

    latencies: list[float] = field(default_factory=list)
    seconds: float = 0.0
    rates: list[float] = field(default_factory=list)  # requests a second in each turn
    mean_batch: float = 0.0

    def percentile(self, share: float) -> float:
        """Seconds within which that share (0..100) of requests was answered."""
        return float(np.percentile(self.latencies, share))

    def as_dict(self) -> dict[str, Any]:
        """Plain containers, for JSON."""
        return {
            "requests": len(self.latencies),
            "requests_per_second": statistics.median(self.rates),
            "rates": self.rates,
            "p50_seconds": self.percentile(50),
            "p99_seconds": self.percentile(99),
            "mean_batch": self.mean_batch,
        }


def measure(
    model: str,
    network: runtime.Model,
    *,
    clients: int = 16,
    seconds: float = 3.0,
    rounds: int = 3,
    say: Callable[[str], object] = print,
) -> dict[str, ServeTimes]:
    """Time servers of the same network, in turn, each a process of its own on loopback.

    Args:
        model: as `zerocross serve` takes it.
        network: the same, for the shape of its input.
        clients: threads that ask, each for one sample after the other over one connection.
        seconds: of a turn.
        rounds: turns of each server.
        say: told of progress.
    """
    if clients < 1 or rounds < 1 or not seconds > 0:
        raise ValueError(f"clients, rounds, seconds are {clients}, {rounds}, {seconds}; they must be positive")
    body = io.BytesIO()
    np.save(body, np.random.default_rng(0).standard_normal(network.input_size).astype(np.float32))
    times = {label: ServeTimes() for label in SERVERS}
    with _started(model, 64) as batching, _started(model, 1) as single:
        ports = dict(zip(SERVERS, (batching, single), strict=True))
        for port in ports.values():
            _turn(port, body.getvalue(), clients, 0.3)  # connections, compiled code: not counted
        for number in range(rounds):
            say(f"round {number + 1} of {rounds}")
            for label, port in ports.items():
                began = time.perf_counter()
                found = _turn(port, body.getvalue(), clients, seconds)
                passed = time.perf_counter() - began
                times[label].latencies += found
                times[label].seconds += passed
                times[label].rates.append(len(found) / passed)
        for label, port in ports.items():
            times[label].mean_batch = _mean_batch(port)
    return times


@contextmanager
def _started(model: str, max_batch: int) -> Iterator[int]:
    """The port of a server of its own."""
    words = ["serve", model, "--port", "0", "--max-batch", str(max_batch)]
    process = subprocess.Popen([sys.executable, "-m", "zerocross", *words], stdout=subprocess.PIPE, text=True)
    try:
        line = process.stdout.readline() if process.stdout else ""
        found = re.search(r"at http://[\d.]+:(\d+);", line)
        if found is None:
            raise RuntimeError(f"the server did not start: {line or 'see above'}")
        yield int(found[1])
    finally:
        process.terminate()
        process.wait(START_SECONDS)
        if process.stdout:
            process.stdout.close()


def _turn(port: int, body: bytes, clients: int, seconds: float) -> list[float]:
    """Seconds of every request that was answered."""
    until = time.perf_counter() + seconds

    def client(_: int) -> list[float]:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        found = []
        while time.perf_counter() < until:
            began = time.perf_counter()
            connection.request("POST", "/predict?top=1", body, {"Content-Type": "application/x-npy"})
            answer = connection.getresponse()
            answer.read()
            if answer.status != 200:
                raise RuntimeError(f"the server answered {answer.status}")
            found.append(time.perf_counter() - began)
        connection.close()
        return found

    with ThreadPoolExecutor(clients) as pool:
        return [latency for found in pool.map(client, range(clients)) for latency in found]


def _mean_batch(port: int) -> float:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", "/metrics")
    text = connection.getresponse().read().decode()
    connection.close()
    total, count = (
        float(re.findall(rf"^zerocross_batch_samples_{end} ([\d.e+]+)$", text, re.MULTILINE)[0])
        for end in ("sum", "count")
    )
    return total / count
