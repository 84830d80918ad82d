"""A packed, trained Bi-RealNet-20 gives the predictions of the float32 network on all test images of CIFAR-10."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

import reference.runtime_interpreter as reference_module
from zerocross import data, deploy, models, runtime
from zerocross.nn import Sign

WEIGHTS = Path(reference_module.__file__).parent / "birealnet20.safetensors"  # 15 epochs of the filter; 73.23 %
TINY = 1e-5  # inputs of a sign below this, where others are of order 1, may change sign by rounding


@pytest.fixture(scope="module")
def network() -> nn.Module:
    model = models.create("birealnet20", classes=10)
    model.load_state_dict({key: value.float() if value.dtype == torch.int8 else value for key, value in
                           load_file(WEIGHTS).items()})  # fmt: skip
    return model.eval()


def smallest_before_signs(network: nn.Module, x: Tensor) -> Tensor:
    """Return for each image the smallest magnitude at the input of any sign."""
    seen: list[Tensor] = []

    def look(_: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        seen.append(inputs[0].abs().flatten(1).amin(1))

    hooks = [m.register_forward_pre_hook(look) for m in network.modules() if isinstance(m, Sign)]
    network(x)
    for hook in hooks:
        hook.remove()
    return torch.stack(seen).amin(0)


@torch.no_grad()
def test_packed_network_predicts_as_the_float_network(network: nn.Module, real_data: Path, tmp_path: Path) -> None:
    deploy.pack(network).save(tmp_path / "model.zcb")
    run = runtime.load(tmp_path / "model.zcb")
    dataset = data.load("cifar10", real_data)
    same, close, right, count = 0, 0, 0, 0
    for x, y in dataset.eval_batches(500).epoch():
        expected = network(x).numpy()
        result = run(x.numpy())
        equal = result.argmax(1) == expected.argmax(1)
        near = np.abs(result - expected).max(1) <= 1e-4
        same, close, count = same + equal.sum(), close + (equal & near).sum(), count + len(x)
        right += (result.argmax(1) == y.numpy()).sum()
        if not (others := ~(equal & near)).any():
            continue
        assert (smallest_before_signs(network, x[others]) < TINY).all()
    assert count == 10_000
    assert same >= 0.998 * count
    assert close >= 0.995 * count  # the rest have the same prediction with different logits: a sign changed by rounding
    assert right / count == pytest.approx(0.7323, abs=0.001)
