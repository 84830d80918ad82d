"""`zerocross serve` in its own process, over loopback: concurrent clients, bad uploads, limits, graceful stop."""

from __future__ import annotations

import http.client
import io
import json
import os
import re
import signal
import socket
import subprocess
import sys
import wave
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pytest
from PIL import Image

from zerocross import data, zoo

LIMIT = 60_000  # bytes per request


@dataclass
class Server:
    process: subprocess.Popen[str]
    port: int

    def ask(self, method: str, path: str, body: bytes | None = None, kind: str | None = None) -> tuple[int, dict | str]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, path, body, {"Content-Type": kind} if kind else {})
            answer = connection.getresponse()
            text = answer.read().decode()
        finally:
            connection.close()
        return answer.status, json.loads(text) if "json" in answer.headers["Content-Type"] else text

    def post(self, body: bytes, kind: str, path: str = "/predict") -> tuple[int, dict]:
        status, answer = self.ask("POST", path, body, kind)
        assert isinstance(answer, dict)
        return status, answer


@contextmanager
def started(*words: str) -> Iterator[Server]:
    command = [sys.executable, "-m", "zerocross", "serve", "zoo:digits", "--port", "0", *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        line = process.stdout.readline()
        result = re.search(r"zoo:digits at http://127\.0\.0\.1:(\d+);", line)
        assert result, line + process.stderr.read()
        yield Server(process, int(result[1]))
    finally:
        process.kill()
        process.wait(30)
        process.stdout.close()
        process.stderr.close()


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with started("--max-bytes", str(LIMIT), "--seconds", "2") as running:
        yield running


def npy(x: np.ndarray) -> bytes:
    out = io.BytesIO()
    np.save(out, x, allow_pickle=True)
    return out.getvalue()


def png(pixels: np.ndarray) -> bytes:
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "PNG")
    return out.getvalue()


def form(*files: tuple[str, bytes], field: str = "file") -> tuple[bytes, str]:
    head = '--cut\r\nContent-Disposition: form-data; name="{}"; filename="{}"\r\n\r\n'
    parts = [head.format(field, name).encode() + content + b"\r\n" for name, content in files]
    return b"".join(parts) + b"--cut--\r\n", "multipart/form-data; boundary=cut"


def digits(count: int) -> np.ndarray:
    return data.load("digits").evaluation.inputs[:count].numpy()  # type: ignore[attr-defined]


def test_health_describes_the_network(server: Server):
    status, answer = server.ask("GET", "/health")
    assert status == 200
    assert answer == {
        "status": "ok", "model": "zoo:digits", "input_size": [1, 8, 8], "classes": list("0123456789"), "takes": "image",
    }  # fmt: skip


def test_predictions_equal_those_of_the_network(server: Server):
    pixels = digits(5)
    scores = zoo.load("digits")(pixels)
    share = np.exp(scores - scores.max(1, keepdims=True))
    share /= share.sum(1, keepdims=True)
    body, kind = form(*((f"{index}.png", png(image[0])) for index, image in enumerate(pixels)))
    status, answer = server.post(body, kind, "/predict?top=2")
    assert status == 200
    assert [result["file"] for result in answer["results"]] == [f"{index}.png" for index in range(5)]
    for row, result in enumerate(answer["results"]):
        best = np.argsort(-scores[row])[:2]
        assert [each["class"] for each in result["classes"]] == [str(index) for index in best]
        assert [each["score"] for each in result["classes"]] == pytest.approx(scores[row, best].tolist(), abs=1e-4)
        assert [each["probability"] for each in result["classes"]] == pytest.approx(share[row, best].tolist(), abs=1e-5)
    status, batch = server.post(npy(pixels), "application/x-npy", "/predict?top=2")
    assert status == 200
    assert [result["classes"] for result in batch["results"]] == [result["classes"] for result in answer["results"]]
    assert [result["index"] for result in batch["results"]] == list(range(5))
    status, one = server.post(png(pixels[0, 0]), "image/png", "/predict?top=2")
    assert (status, one["results"][0]["classes"]) == (200, answer["results"][0]["classes"])


def test_concurrent_clients_each_get_their_own_answers(server: Server):
    pixels = digits(60)
    reference = zoo.load("digits")(pixels)
    before = counted(server, "zerocross_batch_samples_sum")

    def client(number: int) -> None:
        for index in range(number, 60, 6):
            some = pixels[index : index + 1 + number % 3]
            status, answer = server.post(npy(some), "application/octet-stream", "/predict?top=10")
            assert status == 200
            for row, result in enumerate(answer["results"]):
                actual = {each["class"]: each["score"] for each in result["classes"]}
                expected = {str(k): value for k, value in enumerate(reference[index + row].tolist())}
                assert actual == pytest.approx(expected, abs=1e-4)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(client, range(6)))
    sent = sum(len(pixels[i : i + 1 + n % 3]) for n in range(6) for i in range(n, 60, 6))
    assert counted(server, "zerocross_batch_samples_sum") - before == sent


def counted(server: Server, name: str) -> float:
    status, text = server.ask("GET", "/metrics")
    assert status == 200
    result = re.search(rf"^{re.escape(name)} ([\d.e+]+)$", str(text), re.MULTILINE)
    return float(result[1]) if result else 0.0


def silence() -> bytes:
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setparams((1, 2, 8000, 0, "NONE", ""))
        file.writeframes(bytes(1600))
    return out.getvalue()


NAN = np.full((1, 8, 8), np.nan, np.float32)


@pytest.mark.parametrize(
    ("body", "kind", "status", "reason"),
    [
        (b"", "image/png", 422, "body.png is not a readable image"),
        (png(np.zeros((8, 8), np.uint8))[:40], "image/png", 422, "body.png is not a readable image"),
        (silence(), "audio/wav", 422, "body.wav: this network takes .png"),
        (npy(np.zeros((3, 3), np.uint8)), "application/x-npy", 422, "has shape (3, 3); the network takes (N, 1, 8, 8)"),
        (npy(np.array([{}], object)), "application/x-npy", 422, "body.npy is not a readable array"),
        (npy(NAN), "application/x-npy", 422, "body.npy contains 64 numbers that are NaN or infinite"),
        (b"{}", "application/json", 415, "content type 'application/json': send a form"),
        (*form(("a.png", b"x"), field="other"), 422, "the form has no file"),
        (*form(("../../etc/a.exe", b"x")), 422, "a.exe: this network takes .png"),
        (b"--cut\r\nnonsense", "multipart/form-data; boundary=cut", 422, "the form has no file"),
        (b"--cut\r\nnonsense", "multipart/form-data", 400, "boundary"),
    ],
)
def test_bad_uploads_are_refused_with_the_reason(server: Server, body: bytes, kind: str, status: int, reason: str):
    result, answer = server.post(body, kind)
    assert result == status, answer
    assert reason in answer["detail"]
    assert "/tmp" not in answer["detail"]


def test_one_bad_file_does_not_affect_the_others(server: Server):
    body, kind = form(("good.png", png(digits(1)[0, 0])), ("bad.png", b"no image"))
    status, answer = server.post(body, kind)
    assert status == 200
    good, bad = answer["results"]
    assert len(good["classes"]) == 3
    assert bad["file"] == "bad.png"
    assert "is not a readable image" in bad["error"]


def test_wrong_paths_methods_and_options(server: Server):
    assert server.ask("GET", "/predict")[0] == 405
    assert server.ask("GET", "/none")[0] == 404
    assert server.post(npy(digits(1)), "application/x-npy", "/predict?top=0")[0] == 422


def test_large_requests_are_refused_with_and_without_content_length(server: Server):
    status, answer = server.post(bytes(LIMIT + 1), "application/x-npy")
    assert (status, answer["detail"]) == (413, "the request is larger than 60,000 bytes")
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as line:
        line.sendall(b"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-npy\r\n"
                     b"Transfer-Encoding: chunked\r\n\r\n")  # fmt: skip
        line.sendall((b"4e20\r\n" + bytes(20_000) + b"\r\n") * 4)
        assert b"413" in line.recv(100).split(b"\r\n")[0]
    before = counted(server, 'zerocross_requests_total{status="413"}')
    server.post(bytes(LIMIT + 1), "application/x-npy")
    assert counted(server, 'zerocross_requests_total{status="413"}') == before + 1


def test_slow_uploads_are_ended(server: Server):
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as line:
        line.sendall(b"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Type: image/png\r\nContent-Length: 100\r\n\r\nabc")
        # Head and body may arrive separately; the server closes the connection.
        answer = b"".join(iter(lambda: line.recv(10_000), b""))
    assert answer.startswith(b"HTTP/1.1 504 ")
    assert b"took longer than 2 s" in answer
    assert server.ask("GET", "/health")[0] == 200


def test_stop_completes_requests_in_progress():
    with started() as server:
        body = npy(digits(1))
        head = "POST /predict HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-npy\r\n"
        head += f"Content-Length: {len(body)}\r\n\r\n"
        with socket.create_connection(("127.0.0.1", server.port), timeout=60) as line:
            line.sendall(head.encode() + body[:10])
            assert server.ask("GET", "/health")[0] == 200  # by now the first request has been accepted, too
            os.kill(server.process.pid, signal.SIGTERM)
            with pytest.raises(subprocess.TimeoutExpired):
                server.process.wait(1)
            line.sendall(body[10:])
            answer = line.recv(10_000)
        assert answer.startswith(b"HTTP/1.1 200 ")
        assert server.process.wait(30) == 0


def test_a_port_in_use_gives_a_one_line_error():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
        command = [sys.executable, "-m", "zerocross", "serve", "zoo:digits", "--port", port]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2
    assert f"cannot listen on 127.0.0.1:{port}: " in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_serving_needs_no_torch():
    code = "import sys, zerocross.serve; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
