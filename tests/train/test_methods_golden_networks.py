"""Whole networks in their published form: ResNet-20 of IR-Net and ReCU against the authors' code."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from reference.golden_numbers import load
from zerocross import models
from zerocross.methods import METHODS
from zerocross.nn import set_progress

WIDTHS = (16, 32, 64)


def drawn(name: str) -> dict[str, Tensor]:
    """Return the convolutions of the authors' network, initialised as theirs from torch's seed 0; no file is needed."""
    torch.manual_seed(0)
    drawn, sizes = {}, {"conv1": (3, 16)}
    for group, (narrow, wide) in enumerate(zip((16, *WIDTHS), WIDTHS, strict=False), start=1):
        for block in range(3):
            sizes[f"layer{group}.{block}.conv1"] = (wide if block else narrow, wide)
            sizes[f"layer{group}.{block}.conv2"] = (wide, wide)
    for key, (inputs, outputs) in sizes.items():
        drawn[f"{key}.weight"] = nn.Conv2d(inputs, outputs, 3, bias=False).weight.detach()
        if name == "recu" and key != "conv1":
            drawn[f"{key}.alpha"] = torch.rand(outputs)
    nn.Linear(64, 10)
    for key in sizes:
        nn.init.kaiming_normal_(drawn[f"{key}.weight"])
    return drawn


def orders() -> list[list[int]]:
    """Return the order of channels per group: they put half of the new channels first, we put all of them last."""
    results = [list(range(16))]
    for wide in WIDTHS[1:]:
        quarter = wide // 4
        results.append([quarter + c for c in results[-1]] + [*range(quarter), *range(wide - quarter, wide)])
    return results


def renamed(theirs: str) -> tuple[str, Callable[[Tensor], Tensor]]:
    """Return our name of a published tensor, and the permutation of its channels."""
    channels = orders()
    first, _, rest = theirs.partition(".")
    if first in ("conv1", "bn1"):
        return f"stem.{('conv1', 'bn1').index(first)}.{rest}", lambda value: value
    if first == "bn2":
        return f"head_norm.{rest}", lambda value: value[channels[2]]
    if first == "linear":
        return f"head.{rest}", (lambda value: value[:, channels[2]]) if rest == "weight" else lambda value: value
    group, block, (layer, key) = int(first[-1]) - 1, int(rest[0]), rest[2:].split(".")
    number = int(layer[-1]) - 1
    prefix = f"blocks.{6 * group + 2 * block + number}"
    outputs, inputs = channels[group], channels[max(group - 1, 0) if block == number == 0 else group]
    if layer.startswith("bn"):
        return f"{prefix}.norm.{key}", lambda value: value[outputs]
    if key == "alpha":
        return f"{prefix}.conv.binarizer.scale", lambda value: value.flatten()[outputs]
    return f"{prefix}.conv.weight", lambda value: value[outputs][:, inputs]


def network(name: str) -> nn.Module:
    """Return our network with the published weights."""
    method, numbers = METHODS[name], load(str(METHODS[name].golden))
    model = models.create("birealnet20", **method.model_options, **method.network)
    prefix = "net20__state__"
    stored = {key.removeprefix(prefix): torch.tensor(v) for key, v in numbers.items() if key.startswith(prefix)}
    assert torch.equal(stored["conv1.weight"], drawn(name)["conv1.weight"])  # initialised identically
    state = {}
    for key, value in (drawn(name) | stored).items():
        ours, permute = renamed(key)
        state[ours] = permute(value)
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert not unexpected
    assert all(key.endswith("num_batches_tracked") for key in missing)
    set_progress(model, int(numbers["net20__epoch"]) / int(numbers["epochs__total"]))
    return model


@pytest.mark.parametrize("name", ["ir-net", "recu"])
def test_outputs_and_gradients_equal_the_published_ones(name: str) -> None:
    numbers, model = load(str(METHODS[name].golden)), network(name)
    x = torch.tensor(numbers["net20__x"])

    def close(result: Tensor, expected: Tensor) -> None:
        torch.testing.assert_close(result, expected, rtol=0, atol=1e-5 * float(expected.abs().max()))

    close(model.eval()(x), torch.tensor(numbers["net20__out_eval"]))
    out = model.train()(x)
    close(out, torch.tensor(numbers["net20__out_train"]))
    out.backward(torch.tensor(numbers["net20__upstream"]))
    gradients = {key: value.grad for key, value in model.named_parameters() if value.grad is not None}
    keys = [key.removeprefix("net20__grad__") for key in numbers if key.startswith("net20__grad__")]
    assert len(keys) >= 6
    for key in keys:
        ours, permute = renamed(key)
        close(gradients[ours], permute(torch.tensor(numbers[f"net20__grad__{key}"])))


def test_orders_of_channels_are_permutations() -> None:
    for order, width in zip(orders(), WIDTHS, strict=True):
        assert np.array_equal(np.sort(order), np.arange(width))
