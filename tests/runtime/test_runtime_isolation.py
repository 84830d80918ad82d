"""The result of a sample depends on that sample alone, not on other samples of the batch or on earlier calls."""

from __future__ import annotations

import numpy as np
import pytest

from reference.runtime_graphs import Builder
from reference.runtime_interpreter import interpret
from reference.runtime_random import RandomGraph, without_weights
from zerocross.runtime.graph import Graph
from zerocross.runtime.model import Model
from zerocross.runtime.thread_pool import processors

BAD = np.array([np.nan, np.inf, -np.inf, 3e38], np.float32)


def residual(channels: int = 3) -> tuple[Builder, Graph]:
    """Build three values of one shape, whose buffers share memory, and a convolution that reads the last one."""
    b = Builder(channels, 7, 7)
    x = "x"
    for _ in range(2):
        x = b.add("add", x, b.add("relu", b.affine(x)))
    return b, b.graph(b.add("global_avg_pool", b.conv(x, 4, (3, 3), binary=False)))


def test_repeated_calls_give_the_same_results():
    builder, graph = residual()
    model, x = Model(graph), builder.batch(9)
    expected = interpret(graph, x)[graph.output]
    for _ in range(3):
        np.testing.assert_allclose(model(x), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("channels", [3, 16, 17])
@pytest.mark.parametrize("bad", BAD)
def test_other_samples_of_the_batch_do_not_matter(channels: int, bad: np.float32):
    builder, graph = residual(channels)
    model, x = Model(graph), builder.batch(5)
    expected = model(x)
    for index in range(5):
        spoilt = x.copy()
        spoilt[index] = bad
        others = np.arange(5) != index
        np.testing.assert_array_equal(model(spoilt)[others], expected[others])
        np.testing.assert_array_equal(model(x), expected)


def test_padding_after_the_last_channel_stays_zero():
    """Windows outside the image fill every lane with -inf, which relu turns into 0."""
    b = Builder(3, 2, 4)
    pooled = b.add("max_pool2d", "x", kernel=(2, 1), padding=(1, 0), dilation=(3, 1))
    scaled = b.add("affine", pooled, tensors={"scale": np.ones(3, np.float32), "shift": b.reals(3)})
    output = b.conv(b.add("relu", scaled), 2, (1, 2), binary=False)
    graph, batch = b.graph(output), b.batch(2)
    assert np.isinf(interpret(graph, batch)[pooled]).all()
    np.testing.assert_allclose(Model(graph)(batch), interpret(graph, batch)[output], rtol=1e-5, atol=1e-5)


def test_an_infinite_input_reaches_no_lane_beyond_the_last_channel():
    b = Builder(1, 3, 3)
    first = b.add("hardtanh", b.conv("x", 3, (1, 1), binary=False), min=-1.0, max=1.0)
    graph, batch = b.graph(b.conv(first, 2, (2, 2), binary=False)), b.batch(2)
    batch[0, 0, 1, 1] = np.inf
    np.testing.assert_allclose(Model(graph)(batch), interpret(graph, batch)[graph.output], rtol=1e-5, atol=1e-5)


def close_to_twin(graph: Graph, x: np.ndarray, result: np.ndarray) -> bool:
    """Compare with the naive twin unless a sign depends on rounding; return True if they were compared."""
    with np.errstate(all="ignore"):
        values = interpret(graph, x)
    largest = max(float(np.abs(value[np.isfinite(value)]).max(initial=1)) for value in values.values())
    for node in graph.nodes:
        if node.op == "sign":
            shift = graph.tensor(node, "shift")
            given = values[node.inputs[0]].astype(np.float32)
            given = given if shift is None else given + shift.reshape(-1, *(1,) * (given.ndim - 2))
            if ((np.abs(given) < 1e-5 * largest) & (given != 0)).any():
                return False
    np.testing.assert_allclose(result, values[graph.output], rtol=1e-4, atol=1e-5 * largest)
    return True


def survives_neighbours(seed: int) -> bool:
    """Call a random graph with batches of good and bad samples; return True if it was compared with its twin."""
    rng, random = np.random.default_rng(seed), RandomGraph(seed)
    graph = random.graph()
    good = random.builder.batch(11)
    threads = min(2, processors()) if seed % 8 == 0 else 1
    model, alone = Model(graph, threads), np.concatenate([Model(graph)(one[None]) for one in good])
    for _ in range(4):
        chosen = rng.choice(len(good), int(rng.integers(1, len(good) + 1)))
        x, spoilt = good[chosen], rng.random(len(chosen)) < 0.4
        bad = rng.random(x.shape) < rng.choice([0.05, 1.0])
        x = np.where(bad & spoilt.reshape(-1, *(1,) * (x.ndim - 1)), rng.choice(BAD, x.shape), x)
        np.testing.assert_array_equal(
            model(x)[~spoilt], alone[chosen][~spoilt], err_msg=f"seed {seed}: {without_weights(graph)}"
        )
    return close_to_twin(graph, good, alone)


def test_random_graphs_with_bad_neighbours():
    compared = sum(survives_neighbours(seed) for seed in range(40))
    assert compared > 20, "if most graphs depend on rounding, little is tested"


@pytest.mark.slow
def test_two_thousand_random_graphs_with_bad_neighbours():
    compared = sum(survives_neighbours(seed) for seed in range(1000, 3000))
    assert compared > 1000
