"""HybridOptimizer and split_params: every parameter belongs to exactly one of two optimizers that act as one."""

from __future__ import annotations

import copy
import io
import pickle

import pytest
import torch
from torch import Tensor, nn
from torch.optim import lr_scheduler

from reference.optimizers import flip_ratio
from zerocross.nn import BinaryConv2d, BinaryLinear
from zerocross.optim import GradientFilter, HybridOptimizer, LatentSGD, ff_ratio, split_params


class Net(nn.Module):
    def __init__(self, weights: str = "theta", *, tied: bool = False) -> None:
        super().__init__()
        self.stem = nn.Conv2d(1, 4, 3)
        self.norm = nn.BatchNorm2d(4)
        self.body = BinaryConv2d(4, 4, 3, weights=weights)
        self.body2 = BinaryConv2d(4, 4, 3, weights=weights)
        if tied:
            self.body2.weight = self.body.weight
        self.fc = BinaryLinear(16, 6, weights=weights)
        self.head = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.body2(self.body(self.norm(self.stem(x))))
        return self.head(self.fc(x.mean(3).flatten(1)))


def make(weights: str = "theta", **options) -> Net:
    torch.manual_seed(0)
    return Net(weights, **options)


def backward(model: nn.Module, step: int) -> None:
    generator = torch.Generator().manual_seed(step)
    x = torch.randn(8, 1, 10, 10, generator=generator)
    y = torch.randint(0, 3, (8,), generator=generator)
    model.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()


def adam(params) -> torch.optim.Optimizer:
    return torch.optim.Adam(params, lr=1e-2)


def build(model: nn.Module, **options) -> HybridOptimizer:
    binary, real, no_decay = split_params(model)
    groups = [{"params": real, "weight_decay": 1e-2}, {"params": no_decay}]
    return HybridOptimizer(GradientFilter(binary, alpha=0.01, **options), adam(groups), model)


def train(model: nn.Module, optimizer: torch.optim.Optimizer, steps: range) -> None:
    for step in steps:
        backward(model, step)
        optimizer.step()


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    return {name: p.detach().clone() for name, p in model.named_parameters()}


def assert_equal(one: nn.Module, other: nn.Module) -> None:
    for (name, a), b in zip(one.named_parameters(), other.parameters(), strict=True):
        assert torch.equal(a, b), name


# ---- which optimizer owns which parameters


def test_split_params_lists_every_trainable_parameter_once():
    model = make()
    model.head.bias.requires_grad_(False)
    names = {id(p): n for n, p in model.named_parameters()}
    split = [[names[id(p)] for p in part] for part in split_params(model)]
    assert split == [
        ["body.weight", "body2.weight", "fc.weight"],
        ["stem.weight", "head.weight"],
        ["stem.bias", "norm.weight", "norm.bias"],
    ]
    assert split_params(copy.deepcopy(model)).binary[0].shape == (4, 4, 3, 3)  # a property of a layer survives copies
    assert [len(part) for part in split_params(make(tied=True))] == [2, 2, 4]


def test_a_weight_tied_to_another_kind_is_refused():
    model = make()
    model.body2 = BinaryConv2d(4, 4, 3, weights="latent")
    model.body2.weight = model.body.weight
    with pytest.raises(ValueError, match=r"body2.weight is tied to a weight of another kind"):
        split_params(model)


def test_overlap_names_the_parameters():
    model = make()
    with pytest.raises(ValueError, match=r"given to both optimizers: body.weight; split_params"):
        HybridOptimizer(GradientFilter([model.body.weight]), adam(model.parameters()), model)
    with pytest.raises(ValueError, match=r"given to both optimizers: a parameter of shape \(4, 4, 3, 3\)"):
        HybridOptimizer(GradientFilter([model.body.weight]), adam(model.parameters()))


def test_a_gap_names_the_parameters_and_frozen_ones_are_listed():
    model = make()
    binary, real, no_decay = split_params(model)
    with pytest.raises(ValueError, match=r"given to neither optimizer: body.weight, head.weight; add them, or freeze"):
        HybridOptimizer(GradientFilter(binary[1:]), adam([*real[:1], *no_decay]), model)
    model.body.weight.requires_grad_(False)
    model.head.weight.requires_grad_(False)
    optimizer = HybridOptimizer(GradientFilter(binary[1:]), adam([*real[:1], *no_decay]), model)
    assert optimizer.frozen == ["body.weight", "head.weight"]
    assert "frozen: body.weight, head.weight" in repr(optimizer)


@pytest.mark.parametrize(
    ("weights", "binary", "message"),
    [
        (
            "latent",
            GradientFilter,
            r"GradientFilter was given latent weights: body.weight, body2.weight, fc.weight; build",
        ),
        ("theta", LatentSGD, r"LatentSGD was given theta weights: body.weight, .*away from -1 and \+1"),
        ("theta", adam, r"Adam was given theta weights: body.weight, .*away from -1 and \+1"),
    ],
)
def test_the_wrong_kind_names_the_parameters(weights: str, binary, message: str):
    model = make(weights)
    split = split_params(model)
    with pytest.raises(ValueError, match=message):
        HybridOptimizer(binary(split.binary), adam([*split.real, *split.real_no_decay]), model)


def test_real_weights_are_not_latent_weights():
    """Given as `binary` to an optimizer of latent weights, a real layer would be counted but never become signs."""
    model = make("latent")
    binary, real, no_decay = split_params(model)
    for optimizer in (LatentSGD, adam):
        with pytest.raises(ValueError, match=r"was given real weights: head.weight; their layers do not take signs"):
            HybridOptimizer(optimizer([*binary, real[1]]), adam([real[0], *no_decay]), model)
    plain = nn.Sequential(nn.Linear(3, 3, bias=False), nn.Linear(3, 3))
    # This makes the weight binary.
    HybridOptimizer(GradientFilter([plain[0].weight]), adam(plain[1].parameters()), plain)


def test_groups_cannot_be_added_later():
    optimizer = build(make())
    with pytest.raises(ValueError, match=r"cannot add a param group.* add it to .binary or .real and construct"):
        optimizer.add_param_group({"params": nn.Parameter(torch.ones(2))})


# ---- two optimizers that act as one


def test_it_equals_the_two_optimizers():
    together, apart = make(), make()
    hybrid = build(together)
    binary, real, no_decay = split_params(apart)
    one = GradientFilter(binary, alpha=0.01)
    other = adam([{"params": real, "weight_decay": 1e-2}, {"params": no_decay}])
    for step in range(6):
        train(together, hybrid, range(step, step + 1))
        backward(apart, step)
        one.step()
        other.step()
    assert_equal(together, apart)
    assert {len(group["params"]) for group in hybrid.param_groups} == {3, 2, 4}
    assert hybrid.param_groups[0]["param_names"] == ["body.weight", "body2.weight", "fc.weight"]


def test_a_closure_is_called_once():
    model, twin = make(), make()
    optimizer = build(model)
    calls = []

    def closure() -> float:
        calls.append(torch.is_grad_enabled())
        backward(model, 0)
        return 1.5

    assert optimizer.step(closure) == 1.5
    train(twin, build(twin), range(1))
    assert calls == [True]
    assert_equal(model, twin)


def test_zero_grad_and_hooks_apply_to_both():
    model = make()
    optimizer = build(model)
    heard: list[str] = []
    optimizer.register_step_post_hook(lambda *_: heard.append("hybrid"))
    optimizer.binary.register_step_post_hook(lambda *_: heard.append("binary"))
    optimizer.real.register_step_post_hook(lambda *_: heard.append("real"))
    train(model, optimizer, range(1))
    assert heard == ["binary", "real", "hybrid"]
    optimizer.zero_grad()
    assert all(p.grad is None for p in model.parameters())


def test_schedulers_apply_to_both():
    model, twin = make(), make()
    optimizer, by_hand = build(model), build(twin)
    scheduler = lr_scheduler.CosineAnnealingLR(optimizer, T_max=8)
    for step in range(6):
        train(model, optimizer, range(step, step + 1))
        for group, now in zip(by_hand.param_groups, optimizer.param_groups, strict=True):
            group["lr"] = now["lr"]
        train(twin, by_hand, range(step, step + 1))
        scheduler.step()
    assert_equal(model, twin)
    assert optimizer.binary.param_groups[0]["lr"] == optimizer.param_groups[0]["lr"] < 0.005
    assert optimizer.real.param_groups[0]["lr"] < 0.005
    cycle = lr_scheduler.OneCycleLR(build(model), [0.02, 0.1, 0.1], total_steps=10, cycle_momentum=False)
    assert cycle.get_last_lr() == pytest.approx([0.02 / 25, 0.1 / 25, 0.1 / 25])


@pytest.mark.parametrize("way", ["dict", "file", "parts"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_resuming_is_bit_exact(way: str, dtype: torch.dtype):
    model = make()
    for layer in (model.body, model.body2, model.fc):
        layer.weight.data = layer.weight.data.to(dtype)
        layer.register_forward_pre_hook(lambda layer, args: (args[0].to(layer.weight.dtype),))
        layer.register_forward_hook(lambda *call: call[-1].float())
    twin = copy.deepcopy(model)
    optimizer = build(model)
    train(model, optimizer, range(4))
    resumed = build(twin)
    if way == "parts":  # each saved by itself
        resumed.binary.load_state_dict(optimizer.binary.state_dict())
        resumed.real.load_state_dict(copy.deepcopy(optimizer.real.state_dict()))
    else:
        saved = optimizer.state_dict()
        if way == "file":
            file = io.BytesIO()
            torch.save(saved, file)
            file.seek(0)
            saved = torch.load(file, weights_only=True)
        resumed.load_state_dict(saved)
        assert ff_ratio(resumed) == ff_ratio(optimizer)
    twin.load_state_dict(model.state_dict())
    train(model, optimizer, range(4, 8))
    train(twin, resumed, range(4, 8))
    assert_equal(model, twin)
    theta = twin.body.weight
    assert resumed.state[theta]["g"].dtype == resumed.binary.state[theta]["g"].dtype == torch.float32
    assert not torch.equal(weights_of(make())["body.weight"], theta.float())
    resumed.param_groups[0]["lr"] = 0.5  # groups are still those of the parts
    assert resumed.binary.param_groups[0]["lr"] == 0.5


@pytest.mark.parametrize("way", ["deepcopy", "pickle"])
def test_a_copy_shares_with_its_own_parts_only(way: str):
    model = make()
    optimizer = build(model, ff_every=1)
    train(model, optimizer, range(3))
    pair = (model, optimizer)
    twin, copied = copy.deepcopy(pair) if way == "deepcopy" else pickle.loads(pickle.dumps(pair))
    before = weights_of(model)
    train(twin, copied, range(3, 6))
    assert all(torch.equal(p, before[name]) for name, p in model.named_parameters())
    train(model, optimizer, range(3, 6))
    assert_equal(model, twin)
    assert copied.param_groups[0] is copied.binary.param_groups[0]
    assert copied.param_groups[0] is not optimizer.param_groups[0]
    assert copied.state[twin.body.weight] is copied.binary.state[twin.body.weight]
    assert ff_ratio(copied) == ff_ratio(optimizer)


def test_grad_scaler_sees_one_optimizer():
    model, twin = make(), make()
    optimizer, other = build(model), build(twin)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**8)
    for step in range(4):
        backward(model, step)
        for p in model.parameters():
            assert p.grad is not None
            p.grad.mul_(scaler.get_scale() if step != 2 else float("inf"))
        scaler.scale(torch.ones(()))  # initialises the scaler
        before = weights_of(model)
        scaler.step(optimizer)
        scaler.update()
        if step == 2:
            assert all(torch.equal(p, before[name]) for name, p in model.named_parameters())
        else:
            train(twin, other, range(step, step + 1))
    assert_equal(model, twin)


def test_a_non_finite_gradient_of_a_binary_weight_stops_both():
    model = make()
    optimizer = build(model)
    train(model, optimizer, range(2))
    backward(model, 2)
    assert model.fc.weight.grad is not None
    model.fc.weight.grad[0, 0] = float("nan")
    before = weights_of(model)
    with pytest.raises(ValueError, match=r"gradient of 'fc.weight' contains 1 NaN"):
        optimizer.step()
    assert all(torch.equal(p, before[name]) for name, p in model.named_parameters())


# ---- counting flips


def test_the_ratio_counts_only_binary_weights_and_tied_ones_once():
    model = make(tied=True)
    optimizer = build(model, ff_every=1)
    for step in range(3):
        before = weights_of(model)
        train(model, optimizer, range(step, step + 1))
        by_hand = {
            name: flip_ratio(before[name].numpy(), model.get_parameter(name).detach().numpy())
            for name in ("body.weight", "fc.weight")
        }
        assert ff_ratio(optimizer, per="parameter") == pytest.approx(by_hand)
        assert ff_ratio(optimizer) == pytest.approx((144 * by_hand["body.weight"] + 96 * by_hand["fc.weight"]) / 240)
        assert len(ff_ratio(optimizer, per="group")) == 1


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("ff_every", [1, 2])
def test_flips_of_latent_weights_under_a_torch_optimizer_are_counted(momentum: float, ff_every: int):
    model = make("latent")
    binary, real, no_decay = split_params(model)
    sgd = torch.optim.SGD(binary, lr=0.1, momentum=momentum)
    optimizer = HybridOptimizer(sgd, adam([*real, *no_decay]), model, ff_every=ff_every)
    expected = {}
    for step in range(5):
        before = weights_of(model)
        train(model, optimizer, range(step, step + 1))
        if step % ff_every == 0:
            expected = {
                name: float((before[name].lt(0) != model.get_parameter(name).lt(0)).float().mean())
                for name in ("body.weight", "body2.weight", "fc.weight")
            }
        assert ff_ratio(optimizer, per="parameter") == pytest.approx(expected)
    assert sum(expected.values()) > 0
    resumed_model = make("latent")
    resumed_model.load_state_dict(model.state_dict())
    binary, real, no_decay = split_params(resumed_model)
    sgd = torch.optim.SGD(binary, lr=0.1, momentum=momentum)
    resumed = HybridOptimizer(sgd, adam([*real, *no_decay]), resumed_model, ff_every=ff_every)
    resumed.load_state_dict(optimizer.state_dict())
    train(model, optimizer, range(5, 8))
    train(resumed_model, resumed, range(5, 8))
    assert_equal(model, resumed_model)
    assert ff_ratio(resumed, per="parameter") == ff_ratio(optimizer, per="parameter")
