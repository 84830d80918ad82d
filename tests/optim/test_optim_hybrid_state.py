"""A HybridOptimizer passes its state to its parts, and a copy of an optimizer behaves like the original."""

from __future__ import annotations

import copy
import itertools
import pickle
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from reference.optimizer_table import make_params, run
from zerocross.nn import BinaryLinear
from zerocross.optim import (
    Bop,
    Bop2ndOrder,
    CascadeFilter,
    GradientFilter,
    HybridOptimizer,
    LatentSGD,
    clip_after_step,
    ff_ratio,
    split_params,
)

NAN = float("nan")
BINARY = {
    "filter": GradientFilter,
    "cascade": lambda p: CascadeFilter(p, gammas=(0.1,)),
    "bop": Bop,
    "bop2": Bop2ndOrder,
    "latent": LatentSGD,
}
REAL = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "adam": torch.optim.Adam,
    "adagrad": torch.optim.Adagrad,
    "rmsprop": torch.optim.RMSprop,
}


def hybrid(binary: Any = GradientFilter, real: Any = torch.optim.Adam, **options: Any):
    params = make_params()
    return HybridOptimizer(binary(params[:1]), real(params[1:]), **options), params


# ---- one decision on non-finite gradients


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("binary", [GradientFilter, torch.optim.SGD])
def test_one_decision_over_binary_and_real_gradients(which: int, binary: Any):
    for policy in ("raise", "skip"):
        optimizer, params = hybrid(binary, nonfinite=policy)
        run(optimizer, params, range(2))
        before = copy.deepcopy([p.detach() for p in params])
        state = copy.deepcopy(optimizer.state_dict()["state"])
        for p in params:
            p.grad = torch.ones_like(p)
        params[which].grad.flatten()[3] = NAN  # type: ignore[union-attr]
        if policy == "raise":
            with pytest.raises(
                ValueError, match=rf"parameter 0 of its group, shape .{params[which].shape[0]}, .*1 NaN"
            ):
                optimizer.step()
        else:
            optimizer.step()
            assert optimizer.skipped_steps == 1
        assert all(torch.equal(p, q) for p, q in zip(params, before, strict=True))
        for index, values in optimizer.state_dict()["state"].items():
            assert all(torch.equal(v, state[index][k]) for k, v in values.items() if isinstance(v, Tensor))
        run(optimizer, params, range(2, 4))
        assert all(p.isfinite().all() for p in params)


def test_the_policy_is_that_of_the_binary_optimizer_by_default():
    params = make_params()
    assert (
        HybridOptimizer(GradientFilter(params[:1], nonfinite="skip"), torch.optim.SGD(params[1:])).nonfinite == "skip"
    )
    assert hybrid(torch.optim.SGD)[0].nonfinite == "ignore"
    with pytest.raises(ValueError, match="nonfinite is 'warn'"):
        hybrid(nonfinite="warn")


@pytest.mark.parametrize("name", [*BINARY, "warm"])
def test_huge_finite_gradients_of_changing_sign_give_no_nan(name: str):
    params = make_params()
    build = BINARY.get(name) or (lambda p: GradientFilter(p, warm_start=0.1))
    optimizer = build(params)
    optimizer.nonfinite = "skip"
    for sign in [1.0, -1.0] * 20:
        for p in params:
            p.grad = torch.full_like(p, sign * 3e38)
        optimizer.step()
    assert optimizer.skipped_steps == 40
    run(optimizer, params, range(2))
    assert all(v.isfinite().all() for s in optimizer.state.values() for v in s.values())
    optimizer.nonfinite = "raise"
    params[0].grad = torch.full_like(params[0], 3e38)
    with pytest.raises(ValueError, match=r"108 NaN or infinite values of 108 \(beyond 8.5e\+37, too large to"):
        optimizer.step()


# ---- each part loads its own state


@pytest.mark.parametrize("part", ["binary", "real"])
def test_a_state_that_one_part_refuses_is_refused_and_changes_nothing(part: str):
    choices = BINARY if part == "binary" else REAL
    for saved, here in itertools.permutations(choices, 2):
        built = []
        for name in (saved, here):
            chosen = {part: choices[name]}
            optimizer, params = hybrid(**chosen)
            run(optimizer, params, range(3))
            built.append((optimizer, params))
        (one, _), (other, params) = built
        before = copy.deepcopy(other.state_dict())
        if type(getattr(one, part)) is type(getattr(other, part)):
            continue
        with pytest.raises(ValueError, match=r"this state_dict was saved with \w+ as the (binary|real) optimizer"):
            other.load_state_dict(one.state_dict())
        assert str(other.state_dict()) == str(before)
        untagged = {key: one.state_dict()[key] for key in ("state", "param_groups")}
        alone = copy.deepcopy(getattr(other, part))
        groups = {"binary": untagged["param_groups"][:1], "real": untagged["param_groups"][1:]}[part]
        states = {i: s for i, s in untagged["state"].items() if i in groups[0]["params"]}
        try:
            alone.load_state_dict({"state": states, "param_groups": groups})
        except (ValueError, KeyError):
            with pytest.raises((ValueError, KeyError)):
                other.load_state_dict(untagged)
            assert str(other.state_dict()) == str(before)


def test_the_type_of_a_filter_is_in_its_own_state_dict():
    one, other = CascadeFilter(make_params(), gammas=(0.1,)), Bop(make_params())
    one.load_state_dict(one.state_dict())
    with pytest.raises(ValueError, match="not that of a CascadeFilter: it was saved by a Bop"):
        one.load_state_dict(other.state_dict())


class Lookahead(torch.optim.Optimizer):
    """A wrapper whose state_dict has a different form."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self.optimizer = optimizer
        self.param_groups = optimizer.param_groups
        self.state, self.defaults = optimizer.state, optimizer.defaults
        self.slow = [p.detach().clone() for group in self.param_groups for p in group["params"]]
        self.steps = 0

    @torch.no_grad()
    def step(self, closure=None):  # type: ignore[override]  # noqa: ARG002
        self.optimizer.step()
        self.steps += 1
        if self.steps % 3 == 0:
            for slow, p in zip(self.slow, (p for g in self.param_groups for p in g["params"]), strict=True):
                p.copy_(slow.lerp_(p, 0.5))

    def state_dict(self):
        return {"inner": self.optimizer.state_dict(), "slow": self.slow, "steps": self.steps}

    def load_state_dict(self, state_dict):
        self.optimizer.load_state_dict(state_dict["inner"])
        self.param_groups, self.state = self.optimizer.param_groups, self.optimizer.state
        self.slow, self.steps = state_dict["slow"], state_dict["steps"]


def nested(params: list[nn.Parameter]) -> HybridOptimizer:
    inner = HybridOptimizer(LatentSGD(params[1:2]), torch.optim.Adam(params[2:]))
    return HybridOptimizer(GradientFilter(params[:1], alpha=0.02, ff_every=1), inner)


def wrapped(params: list[nn.Parameter]) -> HybridOptimizer:
    return HybridOptimizer(GradientFilter(params[:1], alpha=0.02), Lookahead(torch.optim.Adam(params[1:])))


@pytest.mark.parametrize("build", [nested, wrapped])
def test_nested_hybrids_and_wrappers_resume_bit_exactly(build: Any):
    params, twin = ([*make_params(), *make_params(seed=1)] for _ in range(2))
    optimizer, resumed = build(params), build(twin)
    run(optimizer, params, range(5))
    resumed.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    for p, q in zip(params, twin, strict=True):
        q.data.copy_(p)
    run(optimizer, params, range(5, 10))
    run(resumed, twin, range(5, 10))
    assert all(torch.equal(p, q) for p, q in zip(params, twin, strict=True))
    resumed.param_groups[-1]["lr"] = 0.125
    part = resumed.real.param_groups[-1] if build is wrapped else resumed.real.real.param_groups[-1]
    assert part["lr"] == 0.125


def test_flips_of_nested_hybrids_are_all_counted():
    params = [*make_params(), *make_params(seed=1)]
    optimizer = nested(params)
    run(optimizer, params, range(1))
    assert len(ff_ratio(optimizer, per="group")) == 2


# ---- copies


def copied(way: str, pair: Any) -> Any:
    return copy.deepcopy(pair) if way == "deepcopy" else pickle.loads(pickle.dumps(pair))


@pytest.mark.parametrize("way", ["deepcopy", "pickle"])
def test_a_copy_keeps_clipping(way: str):
    (param,) = params = [nn.Parameter(torch.zeros(3, 2))]
    optimizer = clip_after_step(torch.optim.SGD(params, lr=1.0), 1.0)
    assert type(optimizer).__name__ == "SGD"
    assert isinstance(optimizer, torch.optim.SGD)
    for _ in range(2):  # a copy, and a copy of the copy
        (param,), optimizer = copied(way, (params, optimizer))
        params = [param]
        optimizer.load_state_dict(optimizer.state_dict())
        param.grad = torch.full_like(param, -10.0)
        optimizer.step()
        assert (param == 1).all()
        assert len(optimizer._optimizer_step_post_hooks) == 1


@pytest.mark.parametrize("way", ["deepcopy", "pickle"])
@pytest.mark.parametrize("build", [LatentSGD, lambda p: clip_after_step(torch.optim.SGD(p, lr=0.1), 1.0)])
def test_a_copy_counts_flips_before_the_sign_of_its_layer(way: str, build: Any):
    torch.manual_seed(0)
    model = nn.Sequential(BinaryLinear(6, 5, weights="latent", binarizer="ir-net"), nn.Linear(5, 2))
    binary, real, rest = split_params(model)
    optimizer = HybridOptimizer(build(binary), torch.optim.SGD([*real, *rest], lr=0.1), model, ff_every=1)
    twin, other = copied(way, (model, optimizer))
    pairs: Any = ((optimizer, model), (other, twin))
    for each, net in pairs:
        before = net[0].before_sign() < 0
        with torch.no_grad():
            net[0].weight.grad = torch.zeros_like(net[0].weight)
            net[0].weight.grad[:, 0] = 50.0  # moves the mean of each filter, and with it the signs of the others
        each.step()
        assert ff_ratio(each) == pytest.approx(float(((net[0].before_sign() < 0) != before).float().mean()))
        assert ff_ratio(each) > 0


# ---- theta recognised by its values; vectors


def test_without_a_model_theta_is_recognised_by_its_values():
    theta, real = nn.Parameter(torch.tensor([[1.0, -1.0], [1.0, 1.0]])), nn.Parameter(torch.randn(3, 3))
    for binary, other in (([theta], [real]), ([real], [theta])):
        with pytest.raises(
            ValueError, match=r"Adam was given what looks like theta weights.*shape \(2, 2\).*pass the mo"
        ):
            HybridOptimizer(torch.optim.Adam(binary), torch.optim.Adam(other))
    HybridOptimizer(GradientFilter([theta]), torch.optim.Adam([real, nn.Parameter(torch.ones(1, 4, 1, 1))]))


def test_vectors_are_refused_unless_requested():
    net: Any = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    before = copy.deepcopy(net.state_dict())
    for build in (GradientFilter, CascadeFilter, Bop, Bop2ndOrder):
        with pytest.raises(ValueError, match=r"0.bias, shape \(4,\), is a vector.*vectors=True"):
            build(net.named_parameters())
        assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    GradientFilter(net.parameters(), vectors=True)
    assert (net[0].bias.abs() == 1).all()
    Bop([{"params": [nn.Parameter(torch.randn(3))], "vectors": True}])
    LatentSGD([nn.Parameter(torch.randn(3))])
