"""Time of a single binary layer: 256 -> 256, 3 x 3, at 14 x 14, with batch norm, shortcut, sign and packing."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from zerocross.bench.inference_lce import LarqComputeEngine
from zerocross.bench.inference_openvino import OpenVINO
from zerocross.bench.inference_turns import Contender, in_turn
from zerocross.deploy import pack
from zerocross.nn import BinaryConv2d, sign
from zerocross.runtime.model import Model

CHANNELS, SIZE = 256, 14
_MANY = 5  # number of layers in the longer of two chains


@dataclass(frozen=True)
class LayerTimes:
    """Seconds on one thread of a binary layer, of PyTorch's float convolution, and of other engines' layers."""

    ours: float
    convolution: float
    lce: float | None = None
    openvino: float | None = None

    @property
    def speedup(self) -> float:
        """Fastest time of the convolution divided by that of the binary layer."""
        return self.convolution / self.ours

    def milliseconds(self) -> dict[str, float]:
        """Return the times in milliseconds as plain values for a file."""
        times = {"zerocross": self.ours, "openvino": self.openvino, "convolution": self.convolution, "lce": self.lce}
        return {key: 1e3 * seconds for key, seconds in times.items() if seconds is not None}


class _Chain(nn.Module):
    """A chain of binary layers; each layer but the last stores its values and their signs for the next one."""

    def __init__(self, depth: int) -> None:
        super().__init__()
        self.convs = nn.ModuleList(BinaryConv2d(CHANNELS, CHANNELS, 3, padding=1) for _ in range(depth))
        self.norms = nn.ModuleList(nn.BatchNorm2d(CHANNELS) for _ in range(depth))

    def forward(self, x: Tensor) -> Tensor:
        for conv, norm in zip(self.convs, self.norms, strict=True):
            x = norm(conv(sign(x))) + x
        return x


def measure_layer(
    rounds: int = 100, lce: LarqComputeEngine | None = None, openvino: OpenVINO | None = None
) -> LayerTimes:
    """Time a fused binary layer inside a network, and the corresponding layers of other engines, on one thread.

    Args:
        rounds: Rounds of each contender, >= 1; the fastest is reported.
        lce: Larq Compute Engine, or None to leave it out.
        openvino: OpenVINO, or None to leave it out.
    """
    torch.set_num_threads(1)
    size = (CHANNELS, SIZE, SIZE)
    model = Model(pack(_Chain(2), size).graph)
    x = torch.randn(1, *size)
    weight = torch.randn(CHANNELS, CHANNELS, 3, 3)
    times, convolutions = [], []
    with torch.inference_mode():
        for layout in (torch.contiguous_format, torch.channels_last):
            image, kernel = x.to(memory_format=layout), weight.to(memory_format=layout)
            for _ in range(rounds):
                began = time.perf_counter()
                torch.conv2d(image, kernel, padding=1)
                convolutions.append(time.perf_counter() - began)
            steps = [seconds for kind, seconds in model.step_seconds(x.numpy(), rounds) if kind == "BINARY"]
            times.append(steps[0])
    rivals = {
        "lce": None if lce is None else _layer_of(lambda depth: _lce_chain(lce, depth), rounds),
        "openvino": None if openvino is None else _layer_of(lambda depth: _openvino_chain(openvino, depth), rounds),
    }
    return LayerTimes(min(times), min(convolutions), **rivals)


def _layer_of(chain: Callable[[int], Contender], rounds: int) -> float:
    # The cost of one more layer, which excludes the call from Python and the copy of the input.
    one, many = (min(seconds) for seconds in in_turn({str(n): chain(n) for n in (1, _MANY)}, rounds).values())
    return (many - one) / (_MANY - 1)


def _lce_chain(lce: LarqComputeEngine, depth: int) -> Contender:
    return lce.build(f"layers-{depth}", _Chain(depth).eval(), (CHANNELS, SIZE, SIZE), 1)


def _openvino_chain(openvino: OpenVINO, depth: int) -> Contender:
    network = _Chain(depth).eval()
    return openvino.build(pack(network, (CHANNELS, SIZE, SIZE)).graph, network, 1, 1).contender
