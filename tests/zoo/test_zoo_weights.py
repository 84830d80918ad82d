"""State dicts as small files: round trips are exact, and damaged files are refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save

from zerocross import deploy, models, runtime
from zerocross.zoo.network import quantise, weights_file
from zerocross.zoo.weights import encoded, from_levels, levels_of, read_state


@given(st.integers(0, 2**32 - 1), st.lists(st.integers(1, 9), min_size=2, max_size=4))
def test_round_trip_of_signs_levels_and_other_tensors(
    tmp_path_factory: pytest.TempPathFactory, seed: int, shape: list[int]
):
    rng = np.random.default_rng(seed)
    real = rng.standard_normal(shape).astype(np.float32)
    levels = levels_of(real)
    state = {
        "a.weight": rng.choice(np.array([-1, 1], np.float32), shape),
        "b.weight": real,
        "c.weight": from_levels(levels),
        "n.running_mean": rng.standard_normal(3).astype(np.float32),
        "n.signs": np.ones(3, np.float32),
        "n.num_batches_tracked": np.array(7, np.int64),
    }
    data = encoded(state, {"c.weight": levels})
    assert data == encoded(state, {"c.weight": levels})
    path = tmp_path_factory.mktemp("weights") / "w.safetensors"
    path.write_bytes(data)
    result = read_state(path)
    assert set(result) == set(state)
    for name, array in state.items():
        assert result[name].dtype == array.dtype
        np.testing.assert_array_equal(result[name], array)


def test_levels_are_rounded_to_the_nearest_per_output():
    weight = np.random.default_rng(0).standard_normal((5, 30)).astype(np.float32)
    rounded = from_levels(levels_of(weight))
    step = np.abs(weight).max(1, keepdims=True) / 127
    assert (np.abs(rounded - weight) <= step * 0.5001).all()
    assert (from_levels(levels_of(np.zeros((2, 3), np.float32))) == 0).all()


def test_a_binary_weight_takes_one_bit(tmp_path: Path):
    signs = np.random.default_rng(0).choice(np.array([-1, 1], np.float32), (256, 256))
    assert len(encoded({"weight": signs}, {})) < 256 * 256 / 8 + 300


def test_plain_state_dicts_are_read_too(tmp_path: Path):
    (tmp_path / "plain.safetensors").write_bytes(save({"w": np.ones((2, 2), np.float32)}))
    np.testing.assert_array_equal(read_state(tmp_path / "plain.safetensors")["w"], np.ones((2, 2)))


@pytest.mark.parametrize(
    "encoding",
    [
        '{"w": {"bits": [3, 9]}}', '{"w": {"bits": [-1, -8]}}', '{"w": {"bits": "88"}}', '{"w": {"smell": 1}}',
        '{"x": {"bits": [8, 1]}}', '{"w": {"int8": "s"}}', '{"w": {"int8": "none"}}', '{"w": 3}', "[1]", "{",
    ],
)  # fmt: skip
def test_damaged_encodings_are_refused(tmp_path: Path, encoding: str):
    tensors = {"w": np.zeros(1, np.uint8), "s": np.zeros(1, np.float32)}
    (tmp_path / "w.safetensors").write_bytes(save(tensors, metadata={"encoding": encoding}))
    with pytest.raises(ValueError, match=r"w\.safetensors is not a readable state dict"):
        read_state(tmp_path / "w.safetensors")


def test_truncated_files_are_refused(tmp_path: Path):
    (tmp_path / "w.safetensors").write_bytes(encoded({"w": np.ones((8, 8), np.float32)}, {})[:-2])
    with pytest.raises(ValueError, match="is not a readable state dict"):
        read_state(tmp_path / "w.safetensors")


@torch.no_grad()
def test_a_quantised_network_has_the_weights_of_its_int8_file(tmp_path: Path):
    torch.manual_seed(0)
    network = models.create("birealnet20", classes=10).eval()
    for buffer in (b for n, b in network.named_buffers() if n.endswith("running_mean")):
        buffer.normal_()
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    levels = quantise(network)
    assert levels
    changed = {name for name, tensor in network.state_dict().items() if not torch.equal(tensor, before[name])}
    assert changed == set(levels), "binary weights, norms and biases do not change"
    deploy.pack(network, real="int8").save(tmp_path / "net.zcb")
    stored = [array for array in runtime.load(tmp_path / "net.zcb").graph.tensors.values() if array.dtype == np.int8]
    for levels_of_one, _ in levels.values():
        assert any(np.array_equal(array, levels_of_one) for array in stored), "the packed file contains the same levels"
    (tmp_path / "w.safetensors").write_bytes(weights_file(network, levels))
    state = read_state(tmp_path / "w.safetensors")
    for name, tensor in network.state_dict().items():
        np.testing.assert_array_equal(state[name], tensor.numpy())
