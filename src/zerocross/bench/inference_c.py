"""The exported C file of a network as a contender, built by the system's compiler and called through ctypes."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from zerocross.export.c.model import CModel
from zerocross.runtime.graph import Graph

BUILDS = {  # compiler flags by key of the contender
    "c": ("-O3",),
    "c-native": ("-O3", "-march=native", "-DZEROCROSS_FMA"),
}


def c_contenders(graph: Graph, x: np.ndarray) -> dict[str, Callable[[], object]]:
    """Return a call for each build of a network's C file, which predicts each sample of a batch on one thread.

    The result is empty if there is neither gcc nor clang.

    Args:
        graph: The packed network.
        x: The batch, float32.
    """
    cc = next(filter(None, map(shutil.which, ("gcc", "clang"))), None)
    if cc is None:
        return {}
    model = CModel(graph)
    x = np.ascontiguousarray(x, np.float32)
    calls: dict[str, Callable[[], object]] = {}
    for key, flags in BUILDS.items():
        with tempfile.TemporaryDirectory() as text:
            folder = Path(text)
            (folder / "model.c").write_text(model.source(), encoding="utf-8")
            (folder / "model.h").write_text(model.header(), encoding="utf-8")
            command = [cc, "-std=c99", *flags, "-shared", "-fPIC", "-o", "model.so", "model.c"]
            subprocess.run(command, cwd=folder, check=True)
            predict = ctypes.CDLL(str(folder / "model.so")).model_predict  # stays loaded after the file is deleted
        calls[key] = _caller(predict, x, model.outputs)
    return calls


def _caller(predict: Callable[[int, int], object], x: np.ndarray, outputs: int) -> Callable[[], np.ndarray]:
    y = np.empty((len(x), outputs), np.float32)
    predict.argtypes = (ctypes.c_void_p, ctypes.c_void_p)  # type: ignore[attr-defined]  # a function of ctypes

    def call() -> np.ndarray:
        for sample, result in zip(x, y, strict=True):
            predict(sample.ctypes.data, result.ctypes.data)
        return y

    return call
