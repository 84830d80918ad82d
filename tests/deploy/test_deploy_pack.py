"""Packing: packed networks give the same outputs as PyTorch, within the promised file size."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from reference.runtime_interpreter import interpret
from zerocross.deploy import Packed, pack
from zerocross.models import create
from zerocross.nn import BINARIZERS, BinaryConv2d, BinaryLinear, RPReLU, RSign, Sign, sign, summary
from zerocross.runtime import Model
from zerocross.runtime.format import parse, read, real_weight, weight_signs


@pytest.fixture(autouse=True)
def fixed_seed() -> None:
    torch.manual_seed(0)


def randomized(model: nn.Module, seed: int = 0) -> nn.Module:
    """Randomize batch-norm statistics, shifts, slopes, scales, biases and latent weights; return the model."""
    generator = torch.Generator().manual_seed(seed)

    def draw(tensor: Tensor, low: float, high: float) -> None:
        with torch.no_grad():
            tensor.uniform_(low, high, generator=generator)

    for module in model.modules():
        if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
            draw(module.running_mean, -3, 3)  # type: ignore[arg-type]
            draw(module.running_var, 4, 30)  # type: ignore[arg-type]
            if module.affine:
                draw(module.weight, -1, 1.5)
        for name, parameter in module.named_parameters(recurse=False):
            if name in {"bias", "shift", "shift_in", "shift_out", "slope"}:
                draw(parameter, -0.7, 0.7)
            elif name == "scale":
                draw(parameter, -0.5, 1.5)
            elif getattr(module, "binary_kinds", {}).get(name) == "latent":
                draw(parameter, -1, 1)
    return model.eval()


class CustomNetwork(nn.Module):
    """A network outside the registry: branches, groups, dilation, pools, shared modules, plain functions."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 12, 5, stride=2, padding=2)
        self.stem_norm = nn.BatchNorm2d(12)
        self.sign = Sign()  # called in several places
        self.left = BinaryConv2d(12, 16, 3, padding=1, groups=2, bias=True)
        self.right = BinaryConv2d(12, 8, (3, 1), padding=(2, 0), dilation=2, weights="latent", scale="channel_mean")
        self.norm = nn.BatchNorm2d(24)
        self.pool = nn.MaxPool2d(3, stride=2, padding=1)
        self.rsign = RSign(24)
        self.deep = BinaryConv2d(24, 24, 3, padding=1, scale="learned")
        self.deep_norm = nn.BatchNorm2d(24, affine=False)
        self.bend = RPReLU(24)
        self.depthwise = nn.Conv2d(24, 24, 3, padding=1, groups=24, bias=False)
        self.dropout = nn.Dropout(0.5)
        self.shortcut = nn.Sequential(nn.AvgPool2d(2, ceil_mode=True), nn.Conv2d(24, 24, 1))
        self.strided = BinaryConv2d(24, 24, 3, stride=2, padding=1, sign_input="clip")
        self.wide = BinaryLinear(24 * 3 * 3, 40, sign_input="clip", bias=True)
        self.wide_norm = nn.BatchNorm1d(40)
        self.real_input = BinaryLinear(40, 20, weights="latent", scale="learned")
        self.head = nn.Linear(20, 7)

    def forward(self, x: Tensor) -> Tensor:
        x = F.leaky_relu(self.stem_norm(self.stem(x)), 0.1)
        bits = self.sign(x)
        x = torch.cat([self.left(bits), self.right(bits)], 1)
        x = self.pool(F.hardtanh(self.norm(x), -2.0, 2.0))
        x = self.bend(self.deep_norm(self.deep(self.rsign(x))) + x) * 0.5
        x = self.dropout(F.relu6(self.depthwise(x)) - 0.25)
        x = self.strided(x) / 8 + self.shortcut(x)
        x = self.wide_norm(self.wide(torch.flatten(x, 1)))
        return self.head(torch.clamp(self.real_input(x), max=3.0))


class Functions(nn.Module):
    """A network written with functions, in-place operations and constants."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding="same")
        self.relu = nn.ReLU(inplace=True)
        self.binary = BinaryConv2d(8, 8, 3, padding=1, bias=True)
        self.factor = nn.Parameter(torch.linspace(-1, 1, 8).view(1, 8, 1, 1))
        self.head = nn.Linear(16, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = self.relu(self.conv(x))
        y = self.binary(torch.where(x - 0.3 >= 0, 1.0, -1.0))
        y += x
        y = -(1.5 - y * self.factor)
        y.clamp_(-4, 4)
        y = F.max_pool2d(F.avg_pool2d(y, 3, 2, 1, count_include_pad=False), 2, ceil_mode=True)
        y = F.pad(y[:, :, ::3, ::2], (0, 0, 0, 0, 3, 5))
        return self.head(y.mean((-1, -2), keepdim=True).squeeze(-1).squeeze(-1)).view(-1, 4)


def small(**options: Any) -> nn.Module:
    """A real convolution, a binary one and a real head."""
    return nn.Sequential(
        nn.Conv2d(2, 8, 3), nn.BatchNorm2d(8), Sign(), BinaryConv2d(8, 8, 3, padding=1, **options), nn.BatchNorm2d(8),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 3),
    )  # fmt: skip


def outputs(model: nn.Module, packed: Packed, size: tuple[int, ...], count: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """Return the outputs of the packed network and of PyTorch for a few random inputs."""
    x = torch.randn(count, *size, generator=torch.Generator().manual_seed(5))
    graph = parse(packed.data)
    with torch.no_grad():
        return interpret(graph, x.numpy())[graph.output], model(x).numpy()


def within_size(packed: Packed, model: nn.Module) -> bool:
    """Check the promised size: 1.02 bits per binary weight, 4 bytes per real parameter, and 16 KB."""
    total = summary(model).total
    return len(packed.data) <= 1.02 * total.binary / 8 + 4 * total.real + 16 * 1024


def test_a_custom_network_equals_pytorch():
    model = randomized(CustomNetwork())
    packed = pack(model, (3, 18, 18))
    result, expected = outputs(model, packed, (3, 18, 18))
    np.testing.assert_allclose(result, expected, atol=1e-4)
    assert within_size(packed, model)
    kinds = {layer.name: (layer.op, layer.kind) for layer in packed.layers}
    assert kinds["left"] == ("binary_conv2d", "binary")
    assert kinds["wide"] == ("binary_linear", "binary")
    assert kinds["real_input"] == ("linear", "binary weights")
    assert kinds["depthwise"] == ("conv2d", "real")


def test_functions_and_in_place_operations_equal_pytorch():
    model = randomized(Functions())
    packed = pack(model, (3, 11, 11))
    np.testing.assert_allclose(*outputs(model, packed, (3, 11, 11)), atol=1e-4)
    assert [layer.kind for layer in packed.layers if layer.weights] == ["real", "binary", "real"]


@pytest.mark.parametrize(("network", "size"), [(CustomNetwork, (3, 18, 18)), (Functions, (3, 11, 11))])
def test_the_runtime_equals_pytorch(network: type[nn.Module], size: tuple[int, ...]):
    model = randomized(network())
    x = torch.randn(3, *size)
    with torch.no_grad():
        np.testing.assert_allclose(Model(pack(model, size).graph)(x.numpy()), model(x).numpy(), atol=1e-4)


TINY = {"width": 8, "depth": 1}
SMALL: dict[str, tuple[str, tuple[int, ...], dict[str, Any]]] = {
    "digits_net": ("digits_net", (1, 8, 8), {"width": 8}),
    "digits_net, odd size, pool": ("digits_net", (1, 9, 7), {**TINY, "shortcut": "pool"}),
    "digits_net, conv, prelu": ("digits_net", (1, 8, 8), {**TINY, "shortcut": "conv", "activation": "prelu"}),
    "digits_net, rsign, learned": ("digits_net", (1, 8, 8), {**TINY, "surrogate": "rsign", "scale": "learned"}),
    "digits_net, real weights": ("digits_net", (1, 8, 8), {**TINY, "binarize": "activations"}),
    "digits_net, real": ("digits_net", (1, 8, 8), {**TINY, "binarize": "none"}),
    "audio_mlp": ("audio_mlp", (1, 40, 32), {"width": 24}),
}
LARGE = {name: (name, (3, 33, 33), {"classes": 7}) for name in ("birealnet18", "birealnet34", "reactnet_a")}


@pytest.mark.parametrize("case", [*SMALL, *(pytest.param(name, marks=pytest.mark.slow) for name in LARGE)])
def test_models_of_the_registry_equal_pytorch(case: str):
    name, size, options = (SMALL | LARGE)[case]
    model = randomized(create(name, **options))
    packed = pack(model, size)
    result, expected = outputs(model, packed, size, 1 if case in LARGE else 4)
    np.testing.assert_allclose(result, expected, atol=1e-4 * max(1, float(np.abs(expected).max())))
    assert within_size(packed, model)


@pytest.mark.parametrize("binarizer", [name for name in BINARIZERS if name != "adabin"])
def test_every_binarizer_packs_to_signs_and_a_scale(binarizer: str):
    model = randomized(small(weights="latent", binarizer=binarizer))
    packed = pack(model, (2, 6, 6))
    assert "layers: 1 binary, 0 with binary weights only, 2 real" in packed.table()
    result, expected = outputs(model, packed, (2, 6, 6))
    np.testing.assert_allclose(result, expected, atol=1e-4)


def test_bits_and_sums_of_every_binary_layer_equal_pytorch():
    model = randomized(create("birealnet20"))
    packed = pack(model, (3, 32, 32))
    graph = parse(packed.data)
    seen: dict[str, tuple[Tensor, Tensor]] = {}
    for name, module in model.named_modules():
        if isinstance(module, BinaryConv2d):
            module.register_forward_hook(lambda _, args, out, name=name: seen.update({name: (args[0], out)}))
    x = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        logits = model(x).numpy()
    values = interpret(graph, x.numpy())
    for node in graph.nodes:
        if node.op == "binary_conv2d":
            weight = model.get_submodule(node.output).weight  # type: ignore[union-attr]
            np.testing.assert_array_equal(weight_signs(graph, node), weight.detach().numpy())  # type: ignore[union-attr]
            np.testing.assert_array_equal(values[node.inputs[0]], seen[node.output][0].numpy())
            np.testing.assert_array_equal(values[node.output], seen[node.output][1].numpy())
    assert len(seen) == 18
    np.testing.assert_allclose(values[graph.output], logits, atol=1e-4)
    assert within_size(packed, model)


def test_a_network_without_shortcuts_folds_into_thresholds():
    model = randomized(nn.Sequential(
        Sign(), BinaryConv2d(4, 8, 3, bias=True), nn.BatchNorm2d(8), nn.Hardtanh(), Sign(),
        BinaryConv2d(8, 8, 3), nn.MaxPool2d(2), nn.BatchNorm2d(8), RSign(8), nn.Flatten(), BinaryLinear(72, 5),
    ))  # fmt: skip
    packed = pack(model, (4, 10, 10))
    assert [node.op for node in packed.graph.nodes] == [
        "input", "sign", "binary_conv2d", "threshold", "binary_conv2d", "max_pool2d", "threshold", "flatten",
        "binary_linear",
    ]  # fmt: skip
    result, expected = outputs(model, packed, (4, 10, 10))
    np.testing.assert_array_equal(result, expected)
    assert "bias, batch norm, hardtanh and sign folded in" in packed.table()


def test_a_sign_before_a_pool_moves_after_it():
    model = randomized(nn.Sequential(BinaryConv2d(3, 4, 3, sign_input="clip"), Sign(), nn.MaxPool2d(2, padding=1),
                                 BinaryConv2d(4, 2, 2)))  # fmt: skip
    packed = pack(model, (3, 9, 9))
    assert [node.op for node in packed.graph.nodes][-3:] == ["max_pool2d", "threshold", "binary_conv2d"]
    np.testing.assert_array_equal(*outputs(model, packed, (3, 9, 9)))


class OnePadded(nn.Module):
    def __init__(self, padding: float) -> None:
        super().__init__()
        self.conv, self.padding = BinaryConv2d(3, 4, 3), padding

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(F.pad(sign(x), (1, 1, 2, 2), value=self.padding))


@pytest.mark.parametrize("padding", [0.0, 1.0])
def test_padding_by_a_constant_is_folded_into_the_convolution(padding: float):
    model = OnePadded(padding)
    packed = pack(model, (3, 5, 5))
    conv = parse(packed.data).nodes[-1]
    assert (conv.attrs["padding"], conv.attrs["pad_value"]) == ((2, 1), int(padding))
    np.testing.assert_array_equal(*outputs(model, packed, (3, 5, 5)))


class Shared(nn.Module):
    """One layer, called twice."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = BinaryConv2d(64, 64, 3, padding=1, sign_input="clip")

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(self.conv(x) + x)


def test_a_weight_used_twice_is_stored_once():
    model = Shared()
    packed = pack(model, (64, 6, 6))
    assert len(packed.data) < 64 * 64 * 9 / 8 + 2000
    np.testing.assert_array_equal(*outputs(model, packed, (64, 6, 6)))


def test_a_plain_layer_of_signs_is_binary():
    model = nn.Sequential(Sign(), nn.Conv2d(3, 8, 3, bias=False))
    with torch.no_grad():
        model[1].weight.copy_(sign(model[1].weight))  # type: ignore[union-attr, operator, arg-type]
    packed = pack(model, (3, 6, 6))
    assert packed.graph.nodes[-1].op == "binary_conv2d"
    np.testing.assert_array_equal(*outputs(model, packed, (3, 6, 6)))


def test_real_weights_in_16_and_8_bits():
    model = randomized(small())
    packed = {real: pack(model, (2, 6, 6), real=real) for real in ("float32", "float16", "int8")}
    assert len(packed["float32"].data) > len(packed["float16"].data) > len(packed["int8"].data)
    for real, bound in (("float16", 1e-3), ("int8", 1 / 254 + 1e-6)):
        graph, exact = parse(packed[real].data), parse(packed["float32"].data)
        for node, same in zip(graph.nodes, exact.nodes, strict=True):
            if node.op in {"conv2d", "linear"}:
                weight, expected = real_weight(graph, node), real_weight(exact, same)
                largest = np.abs(expected).reshape(len(expected), -1).max(axis=1)
                error = np.abs(weight - expected).reshape(len(expected), -1).max(axis=1)
                assert (error <= bound * largest).all()
    with pytest.raises(ValueError, match="real = 'int4': it must be one of float32, float16, int8"):
        pack(model, (2, 6, 6), real="int4")


def test_packing_is_reproducible_and_does_not_change_the_model():
    model = randomized(CustomNetwork()).train()
    before = copy.deepcopy(model.state_dict())
    first, second = (pack(model, (3, 18, 18)) for _ in range(2))
    assert first.data == second.data
    assert model.training
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())


def test_the_input_size_comes_from_a_batch_or_from_the_model(tmp_path: Path):
    model = randomized(small())
    by_batch = pack(model, torch.zeros(5, 2, 6, 6))
    model.input_size = (2, 6, 6)  # type: ignore[assignment]
    pack(model).save(tmp_path / "net.zcb")
    assert (tmp_path / "net.zcb").read_bytes() == by_batch.data
    assert read(tmp_path / "net.zcb").input_size == (2, 6, 6)
    with pytest.raises(FileExistsError, match=r"net\.zcb already exists"):
        by_batch.save(tmp_path / "net.zcb")
    by_batch.save(tmp_path / "net.zcb", overwrite=True)


def test_the_table_describes_each_layer_and_adds_up():
    model = randomized(create("digits_net", width=8))
    packed = pack(model, (1, 8, 8))
    text = packed.table()
    assert "layers: 4 binary, 0 with binary weights only, 2 real" in text
    assert "one step for batch norm" in text
    assert "kept: its input is real" in text
    assert sum(layer.weights for layer in packed.layers if layer.kind == "binary") == summary(model).total.binary
    stored = sum(layer.bytes for layer in packed.layers)
    assert f"header {len(packed.data) - stored:,} bytes" in text


def test_a_packed_network_gives_the_same_result_at_every_call():
    """Buffers of three channels share memory, and the last tile is only partly filled."""

    class Residual(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second, self.conv = nn.BatchNorm2d(3), nn.BatchNorm2d(3), nn.Conv2d(3, 4, 3)

        def forward(self, x: Tensor) -> Tensor:
            x = x + torch.relu(self.first(x))
            x = x + torch.relu(self.second(x))
            return self.conv(x).mean((2, 3))

    model, x = Residual().eval(), torch.randn(9, 3, 7, 7)
    run = Model(pack(model, (3, 7, 7)).graph)
    with torch.no_grad():
        expected = model(x).numpy()
    for _ in range(3):
        np.testing.assert_allclose(run(x.numpy()), expected, atol=1e-5)
