"""The web application: /predict, /health, /metrics."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import numpy as np
import prometheus_client as prometheus
import python_multipart  # noqa: F401 - reads forms; imported here so that a missing package is reported with its extra
from fastapi import FastAPI, HTTPException, Query, Request, Response
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile

from zerocross.runtime import Model
from zerocross.runtime.preprocess import finite, read_input, suffixes
from zerocross.serve.batcher import Batcher
from zerocross.serve.limits import LimitsMiddleware, RequestLimits

# File name extensions by content type, for bodies that are the file itself.
BODIES = {
    "image/png": ".png", "image/jpeg": ".jpg", "image/bmp": ".bmp", "image/webp": ".webp", "image/tiff": ".tif",
    "audio/wav": ".wav", "audio/x-wav": ".wav", "audio/wave": ".wav", "audio/vnd.wave": ".wav",
    "application/x-npy": ".npy", "application/octet-stream": ".npy",
}  # fmt: skip
Upload = tuple[str, bytes]


def create_app(model: Model, name: str = "model", limits: RequestLimits | None = None) -> FastAPI:
    """Return the application for one packed network.

    Args:
        model: The packed network; called by one thread at a time.
        name: Name of the model, for /health.
        limits: Limits of requests.

    Examples:
        >>> from zerocross import zoo
        >>> from zerocross.serve import create_app
        >>> app = create_app(zoo.load("digits"), name="digits")
        >>> app.title
        'zerocross: digits'
    """
    if len(model.output_size) != 1:
        raise ValueError(f"{name} returns an output of shape {model.output_size} per input, not one score per class")
    limits = limits or RequestLimits()
    metrics = Metrics()
    batcher = Batcher(model, limits.max_batch, metrics.batch.observe)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await batcher.start()
        yield
        await batcher.stop()

    app = FastAPI(title=f"zerocross: {name}", lifespan=lifespan)
    app.add_middleware(LimitsMiddleware, limits=limits, on_end=metrics.request)

    @app.post("/predict", openapi_extra=_REQUEST_BODY)
    async def predict(request: Request, top: Annotated[int, Query(ge=1, le=1000)] = 3) -> dict[str, Any]:
        """Return the most probable classes of every uploaded sample, with scores and probabilities."""
        read = [await run_in_threadpool(_read, model, file) for file in await _files(request, model, limits)]
        samples = [(file, x) for file, x in read if not isinstance(x, str)]
        if not samples:
            raise HTTPException(422, "; ".join(str(x) for _, x in read))
        scores = iter(await batcher(np.concatenate([x for _, x in samples])))
        results: list[dict[str, Any]] = []
        for file, x in read:
            if isinstance(x, str):
                results.append({"file": file, "error": x})
                continue
            for index in range(len(x)):
                position = {"index": index} if len(x) > 1 else {}
                results.append({"file": file, **position, **_classes(model, next(scores), top)})
        return {"results": results}

    @app.get("/health")
    def health() -> dict[str, Any]:
        """Report that the server is running, and describe the network."""
        kind = model.graph.preprocessing.kind if model.graph.preprocessing else "array"
        about = {"input_size": model.input_size, "classes": model.classes, "takes": kind}
        return {"status": "ok", "model": name, **about}

    @app.get("/metrics")
    def show_metrics() -> Response:
        """Return counters and histograms in Prometheus format."""
        return Response(prometheus.generate_latest(metrics.registry), media_type=prometheus.CONTENT_TYPE_LATEST)

    return app


class Metrics:
    """The metrics of the server."""

    def __init__(self) -> None:
        self.registry = prometheus.CollectorRegistry()
        self.requests = prometheus.Counter(
            "zerocross_requests", "Responses of /predict by status.", ["status"], registry=self.registry
        )
        seconds = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
        self.seconds = prometheus.Histogram(
            "zerocross_request_seconds",
            "Duration of /predict including the upload.",
            registry=self.registry,
            buckets=seconds,
        )
        sizes = (1, 2, 4, 8, 16, 32, 64, 128, 256)
        self.batch = prometheus.Histogram(
            "zerocross_batch_samples", "Samples per batch.", registry=self.registry, buckets=sizes
        )

    def request(self, path: str, status: int, seconds: float) -> None:
        """Count a request."""
        if path == "/predict":
            self.requests.labels(str(status)).inc()
            self.seconds.observe(seconds)


async def _files(request: Request, model: Model, limits: RequestLimits) -> list[Upload]:
    """Return the uploads of a request: the parts of a form, or its body."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "multipart/form-data":
        async with request.form(max_files=limits.max_files, max_fields=0) as form:
            parts = [part for part in form.getlist("file") if isinstance(part, UploadFile)]
            uploads = [(PurePosixPath(part.filename or "").name or "upload", await part.read()) for part in parts]
        if not uploads:
            raise HTTPException(422, "the form has no file: send one or more parts named 'file'")
        return uploads
    if kind not in BODIES:
        takes = ", ".join(suffixes(model.graph.preprocessing))
        raise HTTPException(
            415, f"content type {kind or 'none'!r}: send a form with parts named 'file', or a file itself ({takes})"
        )
    return [(f"body{BODIES[kind]}", await request.body())]


def _read(model: Model, file: Upload) -> tuple[str, np.ndarray | str]:
    """Return the name and samples of an upload, or its name and an error message."""
    name, content = file
    with TemporaryDirectory(prefix="zerocross-") as folder:
        path = Path(folder) / f"upload{PurePosixPath(name).suffix.lower()[:8]}"
        path.write_bytes(content)
        try:
            x = np.array(finite(read_input(path, model.graph.preprocessing, model.input_size), name))
        except (ValueError, OSError) as error:
            return name, " ".join(str(error).replace(str(path), name).split())
    return name, x


def _classes(model: Model, scores: np.ndarray, top: int) -> dict[str, Any]:
    if not np.isfinite(scores).all():
        return {"error": "the network's scores are not finite; the input may contain numbers that are too large"}
    share = np.exp(scores.astype(np.float64) - scores.max())
    share /= share.sum()
    best = np.argsort(-share, kind="stable")[:top]
    names = model.classes or [str(index) for index in range(len(scores))]
    return {
        "classes": [
            {"class": names[index], "score": float(scores[index]), "probability": float(share[index])} for index in best
        ]
    }


_BINARY = {"type": "string", "format": "binary"}
_FORM = {"type": "object", "properties": {"file": {"type": "array", "items": _BINARY}}, "required": ["file"]}
_REQUEST_BODY = {
    "requestBody": {
        "required": True,
        "content": {"multipart/form-data": {"schema": _FORM}, **{kind: {"schema": _BINARY} for kind in BODIES}},
    }
}
