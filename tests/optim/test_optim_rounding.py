"""bfloat16 state: rounded without bias, by a function of (seed, step, index); as eager so compiled, and on resuming."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from reference.optimizer_table import assert_same_bits, bits, make_grads, make_params, run, swinging
from zerocross.optim import GradientFilter
from zerocross.optim.rounding import RoundedGroup, filter_rounded_, mix, new_pairs, noise_factors, words

BF16 = torch.bfloat16


def noise(params: list[Tensor], seeds: list[int], step: int) -> list[Tensor]:
    """The random 32 bits of every element."""
    columns, rows = noise_factors(params, seeds, step)
    heights = [p.shape[0] for p in params]
    return [
        columns[: p.shape[1:].numel()].view(p.shape[1:]) * row.view(-1, *[1] * (p.dim() - 1))
        for p, row in zip(params, rows.split(heights), strict=True)
    ]


def halves(bits32: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """The 16 bits that round m, and the 16 that round g, as fractions in [0, 1)."""
    word = bits32.numpy().astype(np.int64).ravel() & 0xFFFFFFFF
    return ((word ^ (word >> 16)) & 0xFFFF) / 65536, (word >> 16) / 65536


def filtered(start: float, gradient: float, alpha: float, gamma: float, weights: tuple[int, int], step: int) -> Tensor:
    """The pairs of m and g after one step from m = g = start (exact in bfloat16), shape (*weights, 2)."""
    theta = -torch.sign(torch.full(weights, start))
    pairs = new_pairs(theta, torch.full(weights, start))
    pairs[..., 0] = start
    columns, rows = noise_factors([theta], [0], step)
    grad = torch.full(weights, gradient)
    filter_rounded_(
        [[theta]], [[grad]], [[words(pairs)]], [columns], [rows], [torch.tensor(alpha)], [torch.tensor(gamma)]
    )
    return pairs


@pytest.mark.parametrize(("start", "gradient"), [(1.0, 1.3), (-1.5, 2.0), (3.0 * 2.0**-100, -1e-30), (1.9921875, 2.1)])
def test_rounding_is_unbiased_and_to_a_neighbour(start: float, gradient: float):
    """Within 4.5 standard errors over 2 million weights: far below the distance of two bfloat16 numbers."""
    alpha, gamma = 1e-3, 0.01
    pairs = torch.cat([filtered(start, gradient, alpha, gamma, (1024, 512), step) for step in range(4)]).double()
    m = np.float32(start) + np.float32(gamma) * (np.float32(gradient) - np.float32(start))
    g = np.float32(start) + np.float32(alpha) * (np.float32(m) - np.float32(start))
    for values, exact in ((pairs[..., 0], float(m)), (pairs[..., 1], float(g))):
        taken = values.unique()
        low, high = float(taken.min()), float(taken.max())
        assert len(taken) == 2
        assert low <= exact <= high
        assert high - low <= 2.0**-7 * abs(exact)
        share = (exact - low) / (high - low)
        error = (high - low) * np.sqrt(share * (1 - share) / values.numel())
        assert abs(float(values.mean()) - exact) < 4.5 * error
    assert float(torch.tensor(g).to(BF16)) == start  # rounded to the nearest, g would not have moved


def test_the_random_bits_are_uniform_and_uncorrelated():
    weights = [torch.empty(64, 96), torch.empty(96, 4, 4, 4)]
    for_m, for_g = (
        np.stack(list(part))
        for part in zip(*(halves(n) for s in range(32) for n in noise(weights, [0, 1], s)), strict=True)
    )
    for part in (for_m, for_g):
        counts, _ = np.histogram(part, bins=64, range=(0, 1))
        assert ((counts - part.size / 64) ** 2 / (part.size / 64)).sum() < 125  # chi squared of 63: 1 in 100,000
    first, second = for_m[::2] - 0.5, for_m[1::2] - 0.5  # the two weights, steps x elements
    limit = 5 / np.sqrt(first.size)
    pairs = {
        "steps": (first[1:], first[:-1]), "columns": (first[:, 1:], first[:, :-1]),
        "rows": (first[:, 96:], first[:, :-96]), "weights": (first, second), "m and g": (for_m - 0.5, for_g - 0.5),
    }  # fmt: skip
    for name, (one, other) in pairs.items():
        assert abs((one * other).mean() * 12) < limit, name
    assert np.abs(first.mean(0)).max() < 6 * np.sqrt(1 / 12 / 32)  # no element is rounded up all the time


def test_the_random_bits_are_a_function_of_seed_step_and_index():
    weights = [torch.empty(6, 5), torch.empty(4, 3, 2, 2)]
    first = noise(weights, [3, 4], 7)
    assert all(torch.equal(a, b) for a, b in zip(first, noise(weights, [3, 4], 7), strict=True))
    assert torch.equal(noise(weights[1:], [4], 7)[0], first[1])  # not of the other weights
    assert torch.equal(noise([torch.empty(3, 5)], [3], 7)[0], first[0][:3])
    assert torch.equal(noise(weights, [3, 4], torch.tensor(7))[0], first[0])  # type: ignore[arg-type]
    for seeds, step in (([4, 4], 7), ([3, 4], 8)):
        assert (noise(weights, seeds, step)[0] != first[0]).float().mean() > 0.9
    assert mix(torch.arange(2**20, dtype=torch.int32)).unique().numel() == 2**20
    assert noise([torch.empty(2, 3)], [0], 0)[0].tolist() == GOLDEN  # the same in every version


GOLDEN = [[1445982368, 609921394, -617309405], [1547594784, -103521526, -262831065]]


@pytest.mark.parametrize("shape", [(256, 256), (4, 3)], ids=["many steps at a time", "one step at a time"])
def test_prepared_factors_are_those_of_each_step(shape: tuple[int, ...]):
    weights = [torch.empty(shape), torch.empty(64, 2)]
    group = RoundedGroup(weights, [new_pairs(w) for w in weights], [3, 9])
    for step in (*range(19), 500, 7, 8):
        for given in (step, torch.tensor(step)):
            for one, other in zip(group.factors(given), noise_factors(weights, [3, 9], step), strict=True):
                assert torch.equal(one, other)


@pytest.mark.parametrize("change", ["replaced", "moved", "frozen", "thawed"])
def test_what_is_prepared_follows_a_change(change: str):
    """A filter whose state or set of gradients changes gives the bits of one that prepares anew."""
    results = []
    for anew in (False, True):
        params = make_params()
        optimizer = GradientFilter(params, alpha=0.01, state_dtype=BF16)
        params[1].requires_grad_(change != "thawed")
        run(optimizer, params, range(3))
        state = optimizer.state[params[0]]
        if change == "replaced":
            state["mg"] = state["mg"].clone()
        elif change == "moved":
            state["mg"].data = state["mg"].data.clone()
        else:
            params[1].requires_grad_(change == "thawed")
        if anew:
            optimizer._rounded = None
        run(optimizer, params, range(3, 6))
        results.append(bits(optimizer, params))
    assert_same_bits(*results)
    assert optimizer._rounded is not None
    assert optimizer._rounded.groups[0].words[0].data_ptr() == state["mg"].data_ptr()


def test_state_is_four_bytes_a_weight_in_the_layout_of_the_weight():
    params = make_params()
    params[0] = nn.Parameter(params[0].detach().to(memory_format=torch.channels_last))
    optimizer = GradientFilter(params, state_dtype=BF16)
    run(optimizer, params, range(1))
    for param in params:
        pairs = optimizer.state[param]["mg"]
        assert (pairs.dtype, pairs.nbytes) == (BF16, 4 * param.numel())
        assert words(pairs).stride() == param.stride()
    assert set(optimizer.state[params[0]]) == {"mg", "flips"}


def test_signs_are_those_of_float32_state_nearly_everywhere():
    gradients = swinging(600, 4000).float()
    one, other = (nn.Parameter(torch.ones(40, 100)) for _ in range(2))
    rounded, exact = GradientFilter([one], alpha=0.01, state_dtype=BF16), GradientFilter([other], alpha=0.01)
    differing, flips, exact_flips = 0, 0, 0
    for gradient in gradients:
        before = one.detach().clone(), other.detach().clone()
        one.grad = other.grad = gradient.view(40, 100)
        rounded.step()
        exact.step()
        differing += int((one != other).sum())
        flips += int((one != before[0]).sum())
        exact_flips += int((other != before[1]).sum())
    assert differing < 0.01 * gradients.numel()
    assert flips == pytest.approx(exact_flips, rel=0.02)
    assert flips > 10_000


@pytest.mark.parametrize("way", ["state_dict", "deepcopy"])
def test_it_resumes_to_the_bit(way: str):
    params = make_params()
    optimizer = GradientFilter(params, alpha=0.01, state_dtype=BF16, seed=3)
    run(optimizer, params, range(6))
    if way == "deepcopy":
        twin, resumed = copy.deepcopy((params, optimizer))
    else:
        twin = [nn.Parameter(p.detach().clone()) for p in params]
        resumed = GradientFilter(twin, alpha=0.01, state_dtype=BF16, seed=3)
        resumed.load_state_dict(optimizer.state_dict())
    run(optimizer, params, range(6, 20))
    run(resumed, twin, range(6, 20))
    assert_same_bits(bits(optimizer, params), bits(resumed, twin))


def test_state_of_another_precision_is_refused():
    params = make_params()
    optimizer = GradientFilter(params)
    run(optimizer, params, range(1))
    with pytest.raises(ValueError, match=r"has g, m for a weight, this GradientFilter \(.*torch.bfloat16\) has mg"):
        GradientFilter(params, state_dtype=BF16).load_state_dict(optimizer.state_dict())


def test_a_zero_keeps_its_sign_through_cancellation():
    """g is set to exactly zero from either side, and theta stays; a gradient then moves it again."""
    theta = torch.tensor([[1.0, -1.0]])
    pairs = new_pairs(theta, -theta)
    columns, rows = noise_factors([theta], [0], 0)
    one = torch.ones(())
    for gradient, expected in ((0.0, theta), (0.0, theta), (-theta, theta), (theta, -theta)):
        grad = torch.zeros(1, 2) + gradient
        filter_rounded_([[theta]], [[grad]], [[words(pairs)]], [columns], [rows], [one], [one])
        assert torch.equal(theta, expected)
        assert torch.equal(pairs[..., 1].float(), grad)
        theta, pairs = theta.clone(), pairs.clone()


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_compiled_equals_eager_to_the_bit(dtype: torch.dtype):
    params, twin = make_params(dtype), make_params(dtype)
    params[0] = nn.Parameter(params[0].detach().to(memory_format=torch.channels_last))
    compiled = GradientFilter(params, alpha=0.01, state_dtype=BF16, compile=True)
    eager = GradientFilter(twin, alpha=0.01, state_dtype=BF16)
    for step in range(60):
        for optimizer, own in ((compiled, params), (eager, twin)):
            optimizer.param_groups[0]["lr"] = 0.01 * 0.97**step
            for param, grad in zip(own, make_grads(step, own), strict=True):
                param.grad = grad
            optimizer.step()
        assert_same_bits(bits(compiled, params), bits(eager, twin))


@pytest.mark.slow
def test_compiled_code_is_not_used_for_another_layout():
    """From the second step on torch's guards are not asked: what they would have noticed must still be."""
    params, twin = make_params(), make_params()
    compiled = GradientFilter(params, alpha=0.01, state_dtype=BF16, compile=True)
    eager = GradientFilter(twin, alpha=0.01, state_dtype=BF16)
    threads = torch.get_num_threads()

    def change(step: int, own: list[nn.Parameter]) -> None:
        if step == 4:
            own[0].data = own[0].data.to(memory_format=torch.channels_last)
        elif step == 8:
            own[0].data = own[0].data.to(BF16)
        elif step == 12:
            own[1].requires_grad_(False)
        elif step == 16:
            torch.set_num_threads(3 - min(threads, 2))

    try:
        for step in range(20):
            for optimizer, own in ((compiled, params), (eager, twin)):
                change(step, own)
                for param, grad in zip(own, make_grads(step, own), strict=True):
                    param.grad = (
                        grad.to(memory_format=torch.channels_last) if step % 3 == 2 and grad.dim() == 4 else grad
                    )
                optimizer.step()
            assert_same_bits(bits(compiled, params), bits(eager, twin))
            assert compiled._rounded is not None
            assert compiled._rounded._again is not None
    finally:
        torch.set_num_threads(threads)
