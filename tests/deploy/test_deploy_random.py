"""Random networks: packed networks equal PyTorch, in repeated calls and in batches with NaN and infinite samples."""

from __future__ import annotations

import copy
import random
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from zerocross.deploy import pack
from zerocross.nn import BinaryConv2d, BinaryLinear, RPReLU, RSign, Sign
from zerocross.runtime import Model
from zerocross.runtime.format import parse

CHANNELS = (1, 2, 3, 5, 8, 15, 16, 17, 24, 33)


class Residual(nn.Module):
    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    def forward(self, x: Tensor) -> Tensor:
        return x + self.body(x)


class Branches(nn.Module):
    def __init__(self, *branches: nn.Module) -> None:
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([branch(x) for branch in self.branches], 1)


class Function(nn.Module):
    """A function without parameters, by name."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def forward(self, x: Tensor) -> Tensor:
        if self.name == "leaky":
            return F.leaky_relu(x, 0.2)
        if self.name == "clamp":
            return torch.clamp(x, -1.5, 2.0)
        if self.name == "affine":
            return 0.75 * x - 0.125
        if self.name == "pad":
            return F.pad(x, (0, 0, 0, 0, 1, 3))
        return x[:, :, ::2, ::2]


def activation(rng: random.Random, channels: int) -> nn.Module:
    return rng.choice(
        (nn.ReLU(), nn.Hardtanh(), nn.ReLU6(), nn.PReLU(channels), nn.PReLU(), RPReLU(channels), nn.Identity(),
         Function("leaky"), Function("clamp"), Function("affine"))
    )  # fmt: skip


def layer(rng: random.Random, channels: int, *, same: bool = False) -> nn.Module:
    """Return a convolution with batch norm and activation, or a layer without weights."""
    outputs = channels if same else rng.choice(CHANNELS)
    kernel = rng.choice((1, 3))
    shape: dict[str, Any] = {"kernel_size": kernel, "padding": kernel // 2}
    if not same:
        shape |= {"stride": rng.choice((1, 1, 2)), "padding": rng.randint(0, 2), "dilation": rng.choice((1, 1, 2))}
    conv: list[nn.Module] = []
    kind = rng.choice(("real", "binary", "binary", "latent", "depthwise", "norm", "pool"))
    if kind in ("real", "depthwise"):
        groups = channels if kind == "depthwise" else 1
        outputs = channels if kind == "depthwise" else outputs
        conv = [nn.Conv2d(channels, outputs, groups=groups, bias=rng.random() < 0.5, **shape)]
    elif kind in ("binary", "latent"):
        sign = rng.choice((Sign(), RSign(channels)))
        options: dict[str, Any] = {"weights": "latent", "scale": "channel_mean"} if kind == "latent" else {}
        conv = [sign, BinaryConv2d(channels, outputs, bias=rng.random() < 0.3, **shape, **options)]
    elif kind == "pool" and not same:
        pools = nn.MaxPool2d(2, ceil_mode=True), nn.AvgPool2d(3, 2, 1)
        return rng.choice((*pools, Function("every"), Function("pad")))
    else:
        outputs = channels
    norm = [nn.BatchNorm2d(outputs)] if rng.random() < 0.8 else []
    return nn.Sequential(*conv, *norm, activation(rng, outputs))


def network(seed: int) -> tuple[nn.Module, tuple[int, int, int]]:
    """Return a random network and its random input size."""
    rng = random.Random(seed)
    torch.manual_seed(seed)
    size = rng.choice(CHANNELS), rng.randint(4, 11), rng.randint(4, 11)
    x = torch.randn(4, *size)
    parts: list[nn.Module] = []
    for _ in range(rng.randint(2, 6)):
        channels = x.shape[1]
        part = layer(rng, channels)
        if rng.random() < 0.4:
            part = Residual(layer(rng, channels, same=True))
        elif rng.random() < 0.2:
            part = Branches(layer(rng, channels, same=True), layer(rng, channels, same=True))
        try:
            with torch.no_grad():
                x = part(x)
        except RuntimeError:  # a window that does not fit
            continue
        parts.append(part)
    features = x[0].numel() if (flat := rng.random() < 0.4) else x.shape[1]
    parts.append(nn.Flatten() if flat else nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten()))
    binary = BinaryLinear(features, 9, sign_input="clip")
    parts.append(binary if rng.random() < 0.3 else nn.Linear(features, rng.choice((1, 10, 17))))
    model = nn.Sequential(*parts)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.uniform_(-1, 1)  # type: ignore[union-attr]
            module.running_var.uniform_(0.5, 9)  # type: ignore[union-attr]
            nn.init.uniform_(module.weight, -1, 1.5)
            nn.init.uniform_(module.bias, -0.7, 0.7)
        elif isinstance(module, RSign | RPReLU):
            for parameter in module.parameters():
                nn.init.uniform_(parameter, -0.7, 0.7)
    return model.eval(), size


def compare(seed: int) -> tuple[int, int]:
    """Compare a random network with its packed form; return the numbers of compared and of differing samples.

    Samples whose output in PyTorch differs between single and double precision are left out.
    """
    model, size = network(seed)
    run = Model(parse(pack(model, size).data))
    x = torch.randn(9, *size)
    with torch.no_grad():
        expected = model(x).numpy()
        exact = copy.deepcopy(model).double()(x.double()).numpy()
    near = 1e-4 * max(1.0, float(np.abs(expected).max()))
    clear = np.abs(expected - exact).max(axis=1) < near
    first = run(x.numpy())
    for count in (9, 5, 9):
        spoilt = x[:count].numpy().copy()
        spoilt[1::3] = np.random.default_rng(seed).choice([np.nan, np.inf, -np.inf], spoilt[1::3].shape)
        good = np.arange(count) % 3 != 1
        np.testing.assert_array_equal(run(spoilt)[good], first[:count][good], err_msg=f"seed {seed}")
    differing = np.abs(first - expected).max(axis=1)[clear] > near
    assert differing.sum() <= 1, f"seed {seed}: {differing.sum()} of {clear.sum()} samples differ\n{model}"
    return int(clear.sum()), int(differing.sum())


def test_a_few_random_networks_equal_pytorch():
    compared, differing = np.sum([compare(seed) for seed in range(4)], axis=0)
    assert compared > 20
    assert differing == 0


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_three_hundred_random_networks_equal_pytorch(part: int):
    compared, differing = np.sum([compare(seed) for seed in range(100 + 75 * part, 175 + 75 * part)], axis=0)
    assert compared > 8 * 75
    assert differing <= 2, "sums whose sign changes by rounding are rare"
