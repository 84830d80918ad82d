"""Worker that runs Larq Compute Engine: a script for a Python environment with TensorFlow and Larq.

`zerocross.bench.inference_lce` starts it; it imports nothing from zerocross. It reads one request per line from stdin
and writes one answer per line to stdout, both as JSON; the first line is written without a request:

    -> {"versions": {...}}                             the worker is ready
    <- {"build": {arguments of LarqEngine.build}}      -> {"model": number}
    <- {"time": {arguments of LarqEngine.time}}        -> {"seconds": median of a call}
    -> {"error": text}                                 instead of any answer
"""

from __future__ import annotations

import importlib
import itertools
import json
import os
import statistics
import sys
import time
from collections import Counter
from importlib import metadata
from typing import Any, TextIO

REACTNET_WIDTHS = (32, 64, 128, 128, 256, 256, 512, 512, 512, 512, 512, 512, 1024, 1024)


def main() -> None:
    """Answer requests until the input ends."""
    # TensorFlow prints to stdout, also from C++: redirect that to stderr, so that only answers go to the real stdout.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    try:
        engine = LarqEngine()
        packages = ("larq-compute-engine", "larq", "tensorflow", "tf-keras")
        _say(answers, {"versions": {package: metadata.version(package) for package in packages}})
    except Exception as error:  # a missing package, or incompatible versions
        _say(answers, {"error": f"it cannot be imported ({error})"})
        return
    for line in sys.stdin:
        try:
            [(what, arguments)] = json.loads(line).items()
            _say(answers, {"build": engine.build, "time": engine.time}[what](**arguments))
        except Exception as error:  # any error of TensorFlow is reported by the calling process
            _say(answers, {"error": f"{type(error).__name__}: {error}"})


def _say(answers: TextIO, answer: dict[str, Any]) -> None:
    answers.write(json.dumps(answer) + "\n")
    answers.flush()


class LarqEngine:
    """Networks converted by Larq, and their interpreters."""

    def __init__(self) -> None:
        self._numpy: Any = importlib.import_module("numpy")
        self._nets = Networks()
        self._lce: Any = importlib.import_module("larq_compute_engine")
        self._interpreter: Any = importlib.import_module("larq_compute_engine.tflite.python.interpreter").Interpreter
        self._schema: Any = importlib.import_module("larq_compute_engine.mlir.python.tflite_schema")
        self._converted: dict[str, bytes] = {}
        self._models: list[tuple[Any, Any]] = []

    def build(
        self, network: str, layers: list[list[Any]], parameters: int, threads: int, setting: dict[str, bool]
    ) -> dict[str, int]:
        """Build and convert a network, and create its interpreter.

        Args:
            network: A name that `Networks.build` accepts.
            layers: Convolutions and linear layers of the network in PyTorch, see `Networks.layers`.
            parameters: Number of trainable parameters, including those of batch norms and activations.
            threads: Threads of the interpreter.
            setting: Other arguments of the interpreter.
        """
        if network not in self._converted:
            self._converted[network] = self._convert(network, layers, parameters)
        interpreter = self._interpreter(self._converted[network], num_threads=threads, **setting)
        x = self._numpy.random.default_rng(0).standard_normal(interpreter.input_shapes[0], self._numpy.float32)
        self._models.append((interpreter, x))
        return {"model": len(self._models) - 1}

    def _convert(self, network: str, layers: list[list[Any]], parameters: int) -> bytes:
        """Convert a network; raise a ValueError if its layers differ or if LCE would not run it on bits."""
        model = self._nets.build(network)
        built = self._nets.layers(model)
        count = sum(weight.shape.num_elements() for weight in model.trainable_weights)
        if built != sorted(layers) or count != parameters:
            ours, theirs = (Counter(map(tuple, rows)) for rows in (built, layers))
            other = list((ours - theirs) + (theirs - ours))
            raise ValueError(f"{network} in Larq has {count} parameters, not {parameters}; layers that differ: {other}")
        flatbuffer = self._lce.convert_keras_model(model)
        binary, on_bits = sum(layer[0] for layer in layers), self._operators(flatbuffer)["LceBconv2d"]
        if on_bits != binary:
            raise ValueError(f"LCE would run only {on_bits} of the {binary} binary convolutions of {network} on bits")
        return flatbuffer

    def time(self, model: int, warm_up: int, calls: int) -> dict[str, float]:
        """Call a network on one image, wait until all threads are idle, and return the median seconds per call.

        Args:
            model: Number of the network.
            warm_up: Number of warm-up calls.
            calls: Number of timed calls.
        """
        interpreter, x = self._models[model]
        for _ in range(warm_up):
            interpreter.predict(x)
        seconds = []
        for _ in range(calls):
            began = time.perf_counter()
            interpreter.predict(x)
            seconds.append(time.perf_counter() - began)
        _settle()
        return {"seconds": statistics.median(seconds)}

    def _operators(self, flatbuffer: bytes) -> Counter[str]:
        """Count LCE's operators by kind; all operators of TensorFlow Lite count as one kind."""
        model = self._schema.Model.GetRootAsModel(flatbuffer, 0)
        graph = model.Subgraphs(0)
        codes = (model.OperatorCodes(graph.Operators(n).OpcodeIndex()) for n in range(graph.OperatorsLength()))
        return Counter((code.CustomCode() or b"TensorFlow Lite").decode() for code in codes)


class Networks:
    """The networks of zerocross in Larq: the same layers, but with padding of +1 instead of 0."""

    def __init__(self) -> None:
        self._tf: Any = importlib.import_module("tensorflow")
        self._larq: Any = importlib.import_module("larq")
        self._keras: Any = self._tf.keras
        self._of: Any = self._keras.layers
        # Random, as in a trained network: the converter could drop shifts of 0 and slopes of 1.
        self._random: Any = self._keras.initializers.RandomUniform(0.2, 0.8)
        self._shift_layer = _shift_layer(self._keras, self._random)

    def build(self, name: str) -> Any:
        """Return a Keras model for one image: birealnet18, birealnet20, reactnet_a, or layers-N."""
        self._keras.utils.set_random_seed(0)
        if name.startswith("layers-"):
            x = image = self._keras.Input((14, 14, 256), batch_size=1)
            for _ in range(int(name.removeprefix("layers-"))):
                x = self._norm(self._binary(x, 256, 3)) + x
            return self._keras.Model(image, x)
        image = self._keras.Input((32, 32, 3) if name == "birealnet20" else (224, 224, 3), batch_size=1)
        body = {"birealnet18": self._birealnet18, "birealnet20": self._birealnet20, "reactnet_a": self._reactnet_a}
        return self._keras.Model(image, body[name](image))

    def layers(self, model: Any) -> list[list[Any]]:
        """Return the sorted convolutions and linear layers: binary, inputs, outputs, kernel, stride, output size."""
        rows = []
        for layer in model.layers:
            if isinstance(layer, self._of.Conv2D):
                binary = bool(getattr(layer, "kernel_quantizer", None) and getattr(layer, "input_quantizer", None))
                inputs, outputs = layer.input_shape[-1], layer.output_shape[-1]
                rows.append([binary, inputs, outputs, layer.kernel_size[0], layer.strides[0], layer.output_shape[1]])
            elif isinstance(layer, self._of.Dense):
                rows.append([False, layer.input_shape[-1], layer.output_shape[-1], 1, 1, 1])
        return sorted(rows)

    def _birealnet18(self, x: Any) -> Any:
        x = self._of.MaxPool2D(3, 2, padding="same")(self._norm(self._real(x, 64, 7, 2)))
        for width, index in itertools.product((64, 128, 256, 512), range(4)):
            halve = width > 64 and index == 0
            shortcut = self._norm(self._real(self._of.AveragePooling2D(2)(x), width, 1)) if halve else x
            x = self._norm(self._binary(x, width, 3, 2 if halve else 1)) + shortcut
        return self._of.Dense(1000)(self._of.GlobalAveragePooling2D()(x))

    def _birealnet20(self, x: Any) -> Any:
        x = self._prelu(self._norm(self._real(x, 16, 3)))
        for width, index in itertools.product((16, 32, 64), range(6)):
            halve = width > 16 and index == 0
            shortcut = x
            if halve:  # the new channels are zero
                shortcut = self._tf.pad(self._of.AveragePooling2D(2)(x), [[0, 0], [0, 0], [0, 0], [0, width // 2]])
            x = self._prelu(self._norm(self._binary(x, width, 3, 2 if halve else 1)) + shortcut)
        return self._of.Dense(10)(self._norm(self._of.GlobalAveragePooling2D()(x)))

    def _reactnet_a(self, x: Any) -> Any:
        x = self._norm(self._real(x, 32, 3, 2))
        for narrow, wide in itertools.pairwise(REACTNET_WIDTHS):
            halve = wide > narrow > 32
            shortcut = self._of.AveragePooling2D(2)(x) if halve else x
            x = self._rprelu(self._norm(self._binary(self._shift(x), narrow, 3, 2 if halve else 1)) + shortcut)
            shifted = self._shift(x)
            sums = [self._norm(self._binary(shifted, narrow, 1)) + x for _ in range(wide // narrow)]
            x = self._rprelu(self._of.Concatenate()(sums) if len(sums) > 1 else sums[0])
        return self._of.Dense(1000)(self._of.GlobalAveragePooling2D()(x))

    def _binary(self, x: Any, width: int, kernel: int, stride: int = 1) -> Any:
        # LCE pads by +1; for a border of 0 it corrects the sums afterwards, which takes longer.
        layer = self._larq.layers.QuantConv2D(
            width, kernel, strides=stride, padding="same", pad_values=1.0, use_bias=False,
            input_quantizer="ste_sign", kernel_quantizer="ste_sign", kernel_constraint="weight_clip",
        )  # fmt: skip
        return layer(x)

    def _real(self, x: Any, width: int, kernel: int, stride: int = 1) -> Any:
        return self._of.Conv2D(width, kernel, strides=stride, padding="same", use_bias=False)(x)

    def _norm(self, x: Any) -> Any:
        return self._of.BatchNormalization(beta_initializer=self._random, gamma_initializer=self._random)(x)

    def _prelu(self, x: Any) -> Any:
        return self._of.PReLU(alpha_initializer=self._random, shared_axes=[1, 2] if len(x.shape) == 4 else None)(x)

    def _shift(self, x: Any) -> Any:
        return self._shift_layer()(x)

    def _rprelu(self, x: Any) -> Any:
        return self._shift(self._prelu(self._shift(x)))


def _settle() -> None:
    """Wait until the interpreter's threads stop polling for work, which would slow down the next contender."""
    for _ in range(50):
        worked = time.process_time()
        time.sleep(0.01)
        if time.process_time() - worked < 0.001:
            return


def _shift_layer(keras: Any, initializer: Any) -> Any:
    """Return a layer class that Keras lacks: it adds one learned number per channel."""

    class Shift(keras.layers.Layer):
        def build(self, shape: Any) -> None:
            self.shift = self.add_weight("shift", (shape[-1],), initializer=initializer)

        def call(self, x: Any) -> Any:
            return x + self.shift

    return Shift


if __name__ == "__main__":
    main()
