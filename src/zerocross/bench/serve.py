"""Throughput and latency of a packed network behind HTTP, with and without batches of concurrent requests."""

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
    """Measurements of one server: seconds of each request, and total seconds of its turns."""

    latencies: list[float] = field(default_factory=list)
    seconds: float = 0.0
    rates: list[float] = field(default_factory=list)  # requests per second in each turn
    mean_batch: float = 0.0

    def percentile(self, share: float) -> float:
        """Return the seconds within which a share (0..100) of the requests was answered."""
        return float(np.percentile(self.latencies, share))

    def as_dict(self) -> dict[str, Any]:
        """Return all measurements as plain values for a file."""
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
    """Time servers of the same network in turn, each in its own process on loopback.

    Args:
        model: The MODEL argument of `zerocross serve`.
        network: The same network, for its input size.
        clients: Number of client threads; each sends one sample after the other over one connection.
        seconds: Duration of a turn.
        rounds: Turns of each server.
        say: Called with progress messages.
    """
    if clients < 1 or rounds < 1 or not seconds > 0:
        raise ValueError(f"clients, rounds, seconds are {clients}, {rounds}, {seconds}; they must be positive")
    body = io.BytesIO()
    np.save(body, np.random.default_rng(0).standard_normal(network.input_size).astype(np.float32))
    times = {label: ServeTimes() for label in SERVERS}
    with _started(model, 64) as batching, _started(model, 1) as single:
        ports = dict(zip(SERVERS, (batching, single), strict=True))
        for port in ports.values():
            _turn(port, body.getvalue(), clients, 0.3)  # warm-up, not counted: connections and compiled code
        for number in range(rounds):
            say(f"round {number + 1} of {rounds}")
            for label, port in ports.items():
                began = time.perf_counter()
                latencies = _turn(port, body.getvalue(), clients, seconds)
                elapsed = time.perf_counter() - began
                times[label].latencies += latencies
                times[label].seconds += elapsed
                times[label].rates.append(len(latencies) / elapsed)
        for label, port in ports.items():
            times[label].mean_batch = _mean_batch(port)
    return times


@contextmanager
def _started(model: str, max_batch: int) -> Iterator[int]:
    """Start a server and yield its port; stop it at the end."""
    words = ["serve", model, "--port", "0", "--max-batch", str(max_batch)]
    process = subprocess.Popen([sys.executable, "-m", "zerocross", *words], stdout=subprocess.PIPE, text=True)
    try:
        line = process.stdout.readline() if process.stdout else ""
        match = re.search(r"at http://[\d.]+:(\d+);", line)
        if match is None:
            raise RuntimeError(f"the server did not start: {line or 'see above'}")
        yield int(match[1])
    finally:
        process.terminate()
        process.wait(START_SECONDS)
        if process.stdout:
            process.stdout.close()


def _turn(port: int, body: bytes, clients: int, seconds: float) -> list[float]:
    """Return the latency in seconds of every request of a turn."""
    until = time.perf_counter() + seconds

    def client(_: int) -> list[float]:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        latencies = []
        while time.perf_counter() < until:
            began = time.perf_counter()
            connection.request("POST", "/predict?top=1", body, {"Content-Type": "application/x-npy"})
            answer = connection.getresponse()
            answer.read()
            if answer.status != 200:
                raise RuntimeError(f"the server answered {answer.status}")
            latencies.append(time.perf_counter() - began)
        connection.close()
        return latencies

    with ThreadPoolExecutor(clients) as pool:
        return [latency for latencies in pool.map(client, range(clients)) for latency in latencies]


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
