"""Worker that runs OpenVINO: a script for a Python environment with OpenVINO and numpy.

`zerocross.bench.inference_openvino` starts it; it imports nothing from zerocross. It reads one request per line from
stdin and writes one answer per line to stdout, both as JSON; the first line is written without a request:

    -> {"versions": {...}}                                 the worker is ready
    <- {"build": {arguments of OpenVinoEngine.build}}      -> {"model": number}
    <- {"time": {arguments of OpenVinoEngine.time}}        -> {"seconds": median of a call}
    <- {"output": {arguments of OpenVinoEngine.output}}    -> {"written": path}
    -> {"error": text}                                     instead of any answer
"""

from __future__ import annotations

import importlib
import json
import os
import re
import statistics
import sys
import time
from collections import Counter
from importlib import metadata
from typing import Any, TextIO

BITS = re.compile(r"jit_\w+_u1$")  # the primitive of a binary convolution: jit_avx512_u1 with AVX-512


def main() -> None:
    """Answer requests until the input ends."""
    answers = os.fdopen(os.dup(1), "w")  # only answers; other output, also from C++, is redirected to stderr
    os.dup2(2, 1)
    try:
        engine = OpenVinoEngine()
        _say(answers, {"versions": {"openvino": metadata.version("openvino")}})
    except Exception as error:  # a missing package, or incompatible versions
        _say(answers, {"error": f"it cannot be imported ({error})"})
        return
    requests = {"build": engine.build, "time": engine.time, "output": engine.output}
    for line in sys.stdin:
        try:
            [(what, arguments)] = json.loads(line).items()
            _say(answers, requests[what](**arguments))
        except Exception as error:  # any error of OpenVINO is reported by the calling process
            _say(answers, {"error": f"{type(error).__name__}: {error}"})


def _say(answers: TextIO, answer: dict[str, Any]) -> None:
    answers.write(json.dumps(answer) + "\n")
    answers.flush()


class OpenVinoEngine:
    """Networks in OpenVINO, compiled for the CPU."""

    def __init__(self) -> None:
        self._numpy: Any = importlib.import_module("numpy")
        self._ov: Any = importlib.import_module("openvino")
        self._core: Any = self._ov.Core()
        self._models: list[Any] = []
        self._tensors_in_use: list[Any] = []  # arrays that OpenVINO does not copy

    def build(
        self,
        nodes: list[list[Any]],
        arrays: str,
        output: str,
        layers: list[list[Any]],
        batch: int,
        setting: dict[str, Any],
    ) -> dict[str, int]:
        """Build and compile a network, and create a request for it.

        Args:
            nodes: Nodes [op, inputs, output, attributes, tensors] of a packed network, whose batch norms are folded.
            arrays: Path of an .npz file with the tensors and `input_size`; binary weights are packed eight per byte,
                lowest bit first.
            output: Name of the value that the network returns.
            layers: Convolutions and linear layers of the network in PyTorch: binary, channels in and out, kernel,
                stride, output size.
            batch: Images per call.
            setting: Properties of OpenVINO's CPU plugin.
        """
        with self._numpy.load(arrays) as file:
            tensors = dict(file)
        self._tensors_in_use.append(tensors)
        model = Translation(self._ov, self._numpy, tensors, batch).model(nodes, output)
        _check_layers(_layers(model), layers)
        compiled = self._core.compile_model(model, "CPU", setting)
        _check_primitives(compiled.get_runtime_model(), sum(layer[0] for layer in layers))
        request = compiled.create_infer_request()
        x = self._numpy.random.default_rng(0).standard_normal(request.get_input_tensor().shape, self._numpy.float32)
        request.get_input_tensor().data[:] = x
        self._models.append(request)
        return {"model": len(self._models) - 1}

    def time(self, model: int, warm_up: int, calls: int) -> dict[str, float]:
        """Call a network, wait until all threads are idle, and return the median seconds per call.

        Args:
            model: Number of the network.
            warm_up: Number of warm-up calls.
            calls: Number of timed calls.
        """
        infer = self._models[model].infer
        for _ in range(warm_up):
            infer()
        seconds = []
        for _ in range(calls):
            began = time.perf_counter()
            infer()
            seconds.append(time.perf_counter() - began)
        _settle()
        return {"seconds": statistics.median(seconds)}

    def output(self, model: int, x: str, y: str) -> dict[str, str]:
        """Read a batch from a file (.npy) and write its output to another; later timings use the same batch."""
        request = self._models[model]
        request.get_input_tensor().data[:] = self._numpy.load(x)
        request.infer()
        self._numpy.save(y, request.get_output_tensor().data)
        return {"written": y}


class Translation:
    """Translation of the nodes of a packed network to OpenVINO's operators."""

    def __init__(self, ov: Any, numpy: Any, tensors: dict[str, Any], batch: int) -> None:
        self._ov, self._np, self._tensors, self._batch = ov, numpy, tensors, batch
        self._ops: Any = importlib.import_module("openvino.opset1")

    def model(self, nodes: list[list[Any]], output: str) -> Any:
        """Return an OpenVINO model; raise a ValueError for an op without a counterpart."""
        values: dict[str, Any] = {}
        for op, inputs, name, attrs, keys in nodes:
            translate = getattr(self, f"_{op}", None)
            if translate is None:
                raise ValueError(f"the op {op!r} cannot be translated to OpenVINO")
            tensors = {role: self._tensors[key] for role, key in keys.items()}
            values[name] = translate(*(values[source] for source in inputs), **attrs, **tensors)
        return self._ov.Model([self._ops.result(values[output])], [values[nodes[0][2]]], "network")

    def _input(self) -> Any:
        shape = [self._batch, *(int(size) for size in self._tensors["input_size"])]
        return self._ops.parameter(shape, self._np.float32, name="x")

    def _per_channel(self, vector: Any, like: Any) -> Any:
        return self._np.reshape(vector, [1, -1] + [1] * (len(like.get_output_shape(0)) - 2)).astype(self._np.float32)

    def _conv2d(self, x: Any, shape: Any, weight: Any, bias: Any = None, **window: Any) -> Any:
        if window.pop("groups", 1) != 1:
            raise ValueError("a grouped convolution cannot be translated to OpenVINO")
        y = self._ops.convolution(x, weight.reshape(shape), *_window(window))
        return y if bias is None else self._ops.add(y, self._per_channel(bias, y))

    def _binary_conv2d(self, x: Any, shape: Any, weight: Any, pad_value: int = 0, **window: Any) -> Any:
        if window.pop("groups", 1) != 1 or pad_value != 0:
            raise ValueError("a grouped binary convolution, or one padded by 1, cannot be translated to OpenVINO")
        # Eight weights per byte, lowest bit first.
        bits = self._ov.Tensor(weight, self._ov.Shape(shape), self._ov.Type.u1)
        return self._ops.binary_convolution(x, self._ov.op.Constant(bits), *_window(window), "xnor-popcount", 0.0)

    def _linear(self, x: Any, shape: Any, weight: Any, bias: Any = None) -> Any:
        y = self._ops.matmul(x, weight.reshape(shape), False, True)
        return y if bias is None else self._ops.add(y, self._per_channel(bias, y))

    def _sign(self, x: Any, shift: Any = None) -> Any:
        # A bit: 0, which the convolution reads as -1, up to and including a limit, and 1 above it. (With levels -1 and
        # +1, OpenVINO stores no bits and returns NaN.) The sign of 0 is +1, so the limit is the next smaller number.
        limit = self._np.zeros(1) if shift is None else -shift
        limit = self._np.nextafter(limit.astype(self._np.float32), self._np.float32("-inf"))
        limit = self._per_channel(limit, x)
        return self._ops.fake_quantize(x, limit, limit, self._np.float32(0), self._np.float32(1), 2)

    def _affine(self, x: Any, scale: Any, shift: Any) -> Any:
        return self._ops.add(self._ops.multiply(x, self._per_channel(scale, x)), self._per_channel(shift, x))

    def _prelu(self, x: Any, slope: Any) -> Any:
        return self._ops.prelu(x, slope.astype(self._np.float32))

    def _hardtanh(self, x: Any, **limits: float) -> Any:
        return self._ops.clamp(x, limits["min"], limits["max"])

    def _relu(self, x: Any) -> Any:
        return self._ops.relu(x)

    def _add(self, x: Any, other: Any) -> Any:
        return self._ops.add(x, other)

    def _concat(self, *parts: Any) -> Any:
        return self._ops.concat(list(parts), 1)

    def _pad_channels(self, x: Any, before: int, after: int) -> Any:
        return self._ops.pad(x, [0, before, 0, 0], [0, after, 0, 0], "constant", self._np.float32(0))

    def _avg_pool2d(self, x: Any, count_include_pad: bool, **window: Any) -> Any:
        kernel, rounding = window.pop("kernel"), "ceil" if window.pop("ceil_mode") else "floor"
        strides, begin, end, _ = _window(window)
        return self._ops.avg_pool(x, strides, begin, end, kernel, not count_include_pad, rounding)

    def _max_pool2d(self, x: Any, **window: Any) -> Any:
        kernel, rounding = window.pop("kernel"), "ceil" if window.pop("ceil_mode") else "floor"
        strides, begin, end, _ = _window(window)
        return self._ops.max_pool(x, strides, begin, end, kernel, rounding)

    def _global_avg_pool(self, x: Any) -> Any:
        return self._ops.reduce_mean(x, self._np.array([2, 3]), False)


def _window(window: dict[str, Any]) -> tuple[Any, Any, Any, Any]:
    """Return strides, padding before, padding after, and dilations."""
    return window["stride"], window["padding"], window["padding"], window.get("dilation", [1, 1])


def _layers(model: Any) -> list[list[Any]]:
    """Return the convolutions and linear layers of an OpenVINO model, in the form of `OpenVinoEngine.build`."""
    rows = []
    for op in model.get_ops():
        kind = op.get_type_name()
        if kind in ("Convolution", "BinaryConvolution"):
            outputs, inputs, kernel, _ = op.input_value(1).get_shape()
            stride, size = op.get_attributes()["strides"][0], op.get_output_shape(0)[2]
            rows.append([kind == "BinaryConvolution", inputs, outputs, kernel, stride, size])
        elif kind == "MatMul":
            outputs, inputs = op.input_value(1).get_shape()
            rows.append([False, inputs, outputs, 1, 1, 1])
    return rows


def _check_layers(built: list[list[Any]], expected: list[list[Any]]) -> None:
    """Raise a ValueError if the layers differ from the expected ones."""
    ours, theirs = (Counter(map(tuple, layers)) for layers in (built, expected))
    if ours != theirs:
        other = list((ours - theirs) + (theirs - ours))
        raise ValueError(f"not the same network: layers that differ: {other}")


def _check_primitives(runtime_model: Any, binary: int) -> None:
    """Raise a ValueError if the binary convolutions would not run on bits."""
    kinds = Counter()
    for op in runtime_model.get_ops():
        info = {key: str(value.value if hasattr(value, "value") else value) for key, value in op.get_rt_info().items()}
        if info.get("layerType") == "BinaryConvolution":
            kinds[info["primitiveType"]] += 1
    on_bits = sum(count for kind, count in kinds.items() if BITS.match(kind))
    if on_bits != binary or len(kinds) > 1:
        raise ValueError(f"OpenVINO would run only {on_bits} of {binary} binary convolutions on bits: {dict(kinds)}")


def _settle() -> None:
    """Wait until OpenVINO's threads stop polling for work, which would slow down the next contender."""
    for _ in range(50):
        worked = time.process_time()
        time.sleep(0.01)
        if time.process_time() - worked < 0.001:
            return


if __name__ == "__main__":
    main()
