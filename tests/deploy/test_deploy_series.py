"""Networks on series are packed as images one pixel high, and give the same outputs as PyTorch."""

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
from zerocross.nn import BinaryConv1d, BinaryLinear, RPReLU, RSign, Sign
from zerocross.runtime import Model
from zerocross.runtime.format import parse
from zerocross.runtime.preprocess import Preprocessing

CHANNELS = (1, 2, 3, 5, 8, 16, 17, 33)


class Residual(nn.Module):
    def __init__(self, body: nn.Module, stride: int = 1, new_channels: int = 0) -> None:
        super().__init__()
        self.body, self.stride, self.new_channels = body, stride, new_channels

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x) + F.pad(x[:, :, :: self.stride], (0, 0, 0, self.new_channels))


class Mean(nn.Module):
    def __init__(self, *, keepdim: bool) -> None:
        super().__init__()
        self.keepdim = keepdim

    def forward(self, x: Tensor) -> Tensor:
        return x.mean(-1, keepdim=self.keepdim).flatten(1)


def layer(rng: random.Random, channels: int) -> nn.Module:
    outputs, kernel = rng.choice(CHANNELS), rng.choice((1, 3, 5, 8))
    kind = rng.choice(("real", "binary", "binary", "latent", "depthwise", "max", "average", "residual", "padded"))
    shape: dict[str, Any] = {"kernel_size": kernel, "stride": rng.choice((1, 1, 2)), "dilation": rng.choice((1, 1, 3))}
    shape["padding"] = rng.choice((0, 1, kernel // 2))
    if kind == "max":
        return nn.MaxPool1d(3, rng.choice((None, 2)), 1, ceil_mode=rng.random() < 0.5)
    if kind == "average":
        return nn.AvgPool1d(3, 2, 1, ceil_mode=rng.random() < 0.5, count_include_pad=rng.random() < 0.5)
    if kind == "residual":
        conv = BinaryConv1d(channels, channels + 3, 5, stride=2, padding=2, sign_input="clip")
        return Residual(nn.Sequential(conv, nn.BatchNorm1d(channels + 3)), 2, 3)
    if kind == "padded":
        return nn.Sequential(nn.ConstantPad1d(2, 0.0), nn.Conv1d(channels, outputs, kernel))
    if kind == "depthwise":
        conv = [nn.Conv1d(channels, outputs := channels, groups=channels, **shape)]
    elif kind == "real":
        conv = [nn.Conv1d(channels, outputs, bias=rng.random() < 0.5, **shape)]
    else:
        options: dict[str, Any] = {"weights": "latent", "scale": "channel_mean"} if kind == "latent" else {}
        conv = [rng.choice((Sign(), RSign(channels))), BinaryConv1d(channels, outputs, **shape, **options)]
    activation = rng.choice((nn.ReLU(), nn.Hardtanh(), nn.PReLU(outputs), RPReLU(outputs), nn.Identity()))
    return nn.Sequential(*conv, nn.BatchNorm1d(outputs), activation)


def network(seed: int) -> tuple[nn.Module, tuple[int, int]]:
    rng = random.Random(seed)
    torch.manual_seed(seed)
    size = rng.choice(CHANNELS), rng.randint(12, 70)
    x, parts = torch.randn(4, *size), []
    for _ in range(rng.randint(2, 6)):
        part = layer(rng, x.shape[1])
        try:
            with torch.no_grad():
                x = part(x)
        except RuntimeError:  # a window that does not fit
            continue
        parts.append(part)
    end = rng.choice(
        (nn.Flatten(), nn.Sequential(nn.AdaptiveAvgPool1d(1), nn.Flatten()), Mean(keepdim=False), Mean(keepdim=True))
    )
    features = x[0].numel() if isinstance(end, nn.Flatten) else x.shape[1]
    last = rng.choice((nn.Linear(features, 7), BinaryLinear(features, 7, sign_input="clip")))
    model = nn.Sequential(nn.Conv1d(size[0], size[0], 3, padding=1), *parts, end, last)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm1d):
            nn.init.uniform_(module.running_mean, -1, 1)  # type: ignore[arg-type]
            nn.init.uniform_(module.running_var, 0.5, 9)  # type: ignore[arg-type]
            nn.init.uniform_(module.weight, -1, 1.5)
            nn.init.uniform_(module.bias, -0.7, 0.7)
        elif isinstance(module, RSign | RPReLU):
            for parameter in module.parameters():
                nn.init.uniform_(parameter, -0.7, 0.7)
    return model.eval(), size


def compare(seed: int) -> int:
    """Compare a random network with its packed form; return the number of compared samples.

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
    result = run(x.numpy())
    np.testing.assert_array_equal(run(x.numpy()[:, :, None]), result)
    assert (np.abs(result - expected).max(axis=1)[clear] <= near).all(), f"seed {seed}\n{model}"
    return int(clear.sum())


def test_random_networks_equal_pytorch() -> None:
    assert sum(compare(seed) for seed in range(12)) > 80


@pytest.mark.slow
def test_many_random_networks_equal_pytorch() -> None:
    assert sum(compare(seed) for seed in range(100, 250)) > 1000


def small() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv1d(2, 8, 5, padding="same"), nn.BatchNorm1d(8), Sign(), BinaryConv1d(8, 8, 3, padding="same"),
        nn.BatchNorm1d(8), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(8, 3),
    ).eval()  # fmt: skip


def test_the_graph_has_a_binary_convolution_one_pixel_high() -> None:
    packed = pack(small(), (2, 20))
    (node,) = [node for node in packed.graph.nodes if node.op == "binary_conv2d"]
    assert (node.attrs["shape"], node.attrs["padding"]) == ((8, 8, 1, 3), (0, 1))
    assert packed.graph.input_size == (2, 1, 20)
    assert "binary_conv2d" in packed.table()


def test_inputs_may_be_series_or_images_one_pixel_high() -> None:
    model = small()
    run = Model(parse(pack(model, (2, 20), preprocessing=Preprocessing("array", (0.5,), (0.25,))).data))
    x = torch.rand(4, 2, 20)
    expected = model(x).detach().numpy()
    for shaped in (x.numpy(), x[:, :, None].numpy()):
        np.testing.assert_allclose(run(shaped), expected, atol=1e-5)
        np.testing.assert_array_equal(run.preprocess(shaped), x[:, :, None].numpy())
        np.testing.assert_array_equal(run.preprocess(shaped[0]), x[:1, :, None].numpy())
    codes = np.arange(80, dtype=np.uint8).reshape(2, 2, 20)
    prepared = torch.from_numpy((codes / np.float32(255) - 0.5) / 0.25).float()
    np.testing.assert_allclose(run(codes), model(prepared).detach().numpy(), atol=1e-4)
    with pytest.raises(ValueError, match=r"shape \(4, 20, 2\); this network takes \(N, 2, 1, 20\)"):
        run(x.transpose(1, 2).numpy())


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (nn.Conv1d(2, 3, 3), r"returns a series \(3, 18\) per sample: pool or flatten it"),
        (nn.Sequential(nn.Conv1d(2, 3, 3, padding=1, padding_mode="circular"), nn.Flatten()), "padding by circular"),
        (nn.Sequential(nn.Conv1d(2, 3, 2, padding="same"), nn.Flatten()), "'same' with an even kernel"),
        (nn.Sequential(nn.Conv1d(2, 3, 3), nn.AdaptiveAvgPool1d(4), nn.Flatten()), "an adaptive pool from"),
        (nn.Sequential(nn.Conv1d(2, 3, 3), nn.ConvTranspose1d(3, 3, 3), nn.Flatten()), "is not supported"),
    ],
)
def test_unsupported_networks_are_refused_with_the_reason(model: nn.Module, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        pack(model, (2, 20))
