"""A HybridOptimizer of more than two parts: the same steps as its optimizers apart, one state_dict."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD, AdamW, Optimizer, lr_scheduler

from zerocross.nn import BinaryLinear, Sign
from zerocross.optim import Bop, GradientFilter, HybridOptimizer, LatentSGD, ff_ratio, split_params

Parts = dict[str, Optimizer]


def make(weights: str = "theta") -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(6, 8), nn.BatchNorm1d(8), Sign(), BinaryLinear(8, 9, weights=weights), Sign(),
        BinaryLinear(9, 7, weights=weights), nn.Linear(7, 3),
    )  # fmt: skip


def four(model: nn.Module) -> Parts:
    binary, real, no_decay = split_params(model)
    return {
        "early": GradientFilter(binary[:1], alpha=0.05, ff_every=1),
        "late": Bop(binary[1:], gamma=0.1, tau=1e-4, ff_every=1),
        "decayed": AdamW(real, lr=1e-2, weight_decay=0.1),
        "no_decay": SGD(no_decay, lr=0.1, momentum=0.9),
    }


def backward(model: nn.Module, step: int) -> None:
    generator = torch.Generator().manual_seed(step)
    x, y = torch.randn(16, 6, generator=generator), torch.randint(0, 3, (16,), generator=generator)
    model.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()


def train(model: nn.Module, optimizer: Optimizer, steps: range) -> None:
    for step in steps:
        backward(model, step)
        optimizer.step()


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    return {name: p.detach().clone() for name, p in model.named_parameters()}


def assert_equal(one: nn.Module, other: nn.Module) -> None:
    for (name, a), b in zip(one.named_parameters(), other.parameters(), strict=True):
        assert torch.equal(a, b), name


def test_it_steps_as_its_parts_do_apart():
    model, twin = make(), make()
    optimizer, apart = HybridOptimizer(four(model), model=model), four(twin)
    for step in range(6):
        train(model, optimizer, range(step, step + 1))
        backward(twin, step)
        for part in apart.values():
            part.step()
    assert_equal(model, twin)
    assert optimizer.binary_parts == ("early", "late")
    assert (optimizer.binary, optimizer.real) == (optimizer.parts["early"], optimizer.parts["decayed"])
    assert [len(group["params"]) for group in optimizer.param_groups] == [1, 1, 2, 4]
    assert all(f"\n  {name}: " in repr(optimizer) for name in apart)


def test_the_ratio_is_over_all_binary_parts():
    model = make()
    optimizer = HybridOptimizer(four(model), model=model)
    before = weights_of(model)
    train(model, optimizer, range(1))
    flipped = {
        name: float((before[name] != model.get_parameter(name)).float().mean()) for name in ("3.weight", "5.weight")
    }
    assert ff_ratio(optimizer, per="parameter") == pytest.approx(flipped)
    assert ff_ratio(optimizer) == pytest.approx((72 * flipped["3.weight"] + 63 * flipped["5.weight"]) / 135)
    assert len(ff_ratio(optimizer, per="group")) == 2


@pytest.mark.parametrize("way", ["state_dict", "deepcopy", "pickle"])
def test_it_resumes(way: str):
    model = make()
    optimizer = HybridOptimizer(four(model), model=model)
    train(model, optimizer, range(4))
    if way == "state_dict":
        twin = make()
        twin.load_state_dict(model.state_dict())
        resumed = HybridOptimizer(four(twin), model=twin)
        resumed.load_state_dict(optimizer.state_dict())
    else:
        pair = (model, optimizer)
        twin, resumed = copy.deepcopy(pair) if way == "deepcopy" else pickle.loads(pickle.dumps(pair))
    train(model, optimizer, range(4, 8))
    train(twin, resumed, range(4, 8))
    assert_equal(model, twin)
    assert list(resumed.parts) == list(optimizer.parts)
    assert all(group is own for group, own in zip(resumed.param_groups, resumed._groups(), strict=True))


def test_a_state_of_other_parts_is_refused():
    model = make()
    saved = HybridOptimizer(four(model), model=model).state_dict()
    parts = four(model)
    swapped = {name: parts[name] for name in ("early", "late", "no_decay", "decayed")}
    with pytest.raises(ValueError, match="the parts early, late, decayed, no_decay, this optimizer early, late, no_d"):
        HybridOptimizer(swapped, model=model).load_state_dict(saved)


@pytest.mark.parametrize("schedule", [lr_scheduler.OneCycleLR, lr_scheduler.CosineAnnealingLR])
def test_schedulers_see_every_group(schedule: type):
    model = make()
    optimizer = HybridOptimizer(four(model), model=model)
    initial = [group["lr"] for group in optimizer.param_groups]
    if schedule is lr_scheduler.OneCycleLR:
        scheduler = schedule(optimizer, max_lr=initial, total_steps=10)
    else:
        scheduler = schedule(optimizer, 10)
    for step in range(9):
        train(model, optimizer, range(step, step + 1))
        scheduler.step()
    assert all(
        part.param_groups[0]["lr"] < 0.05 * lr for part, lr in zip(optimizer.parts.values(), initial, strict=True)
    )


def test_latent_parts_of_torch_are_counted_by_name():
    model = make("latent")
    binary, real, no_decay = split_params(model)
    parts: Parts = {
        "real": SGD([*real, *no_decay], lr=0.1),
        "binary early": LatentSGD(binary[:1], ff_every=1),
        "binary late": SGD(binary[1:], lr=0.5, momentum=0.9),
    }
    optimizer = HybridOptimizer(parts, model=model, ff_every=1)
    assert optimizer.binary_parts == ("binary early", "binary late")
    before = weights_of(model)
    train(model, optimizer, range(1))
    by_hand = {
        name: float((before[name].lt(0) != model.get_parameter(name).lt(0)).float().mean())
        for name in ("3.weight", "5.weight")
    }
    assert ff_ratio(optimizer, per="parameter") == pytest.approx(by_hand)
    assert by_hand["5.weight"] > 0


def test_a_skipped_step_skips_all_parts_and_is_counted_once():
    model = make()
    parts = four(model)
    reordered = {name: parts[name] for name in ("no_decay", "decayed", "early", "late")}
    optimizer = HybridOptimizer(reordered, model=model, nonfinite="skip")
    train(model, optimizer, range(2))
    backward(model, 2)
    gradient = model.get_parameter("0.weight").grad
    assert gradient is not None
    gradient[0, 0] = float("inf")
    before = weights_of(model)
    optimizer.step()
    assert all(torch.equal(p, before[name]) for name, p in model.named_parameters())
    assert optimizer.skipped_steps == 1


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            lambda p, _: p.pop("no_decay"),
            "given to none of early, late, decayed: 0.bias, 1.weight, 1.bias, 6.bias; add",
        ),
        (lambda p, m: p.update(more=SGD([m[0].bias], lr=0.1)), "given to more than one of .*: 0.bias; split_params"),
        (lambda p, m: p.update(late=SGD([m[5].weight], lr=0.1)), "SGD was given theta weights: 5.weight"),
    ],
    ids=["gap", "overlap", "kind"],
)
def test_claims_are_checked_over_all_parts(change: Callable[[Parts, nn.Sequential], object], says: str):
    model = make()
    parts = four(model)
    change(parts, model)
    with pytest.raises(ValueError, match=says):
        HybridOptimizer(parts, model=model)


def test_what_is_neither_two_optimizers_nor_a_mapping_is_refused():
    model = make()
    parts = four(model)
    for given in ((parts["early"],), (parts, parts["decayed"]), (parts, model)):
        with pytest.raises(
            ValueError, match=r"give two optimizers, HybridOptimizer\(binary, real, model\), or one map"
        ):
            HybridOptimizer(*given)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="no part trains binary weights: decayed, no_decay"):
        HybridOptimizer({name: parts[name] for name in ("decayed", "no_decay")})


def test_labels_of_groups_are_kept_and_other_keys_refused():
    model = make()
    groups = [{"params": p, "name": f"layer {i}", "tag": "binary"} for i, p in enumerate(split_params(model).binary)]
    optimizer = GradientFilter(groups)
    assert [group["name"] for group in optimizer.param_groups] == ["layer 0", "layer 1"]
    resumed = GradientFilter([{"params": group["params"]} for group in groups])
    resumed.load_state_dict(optimizer.state_dict())
    assert [group["name"] for group in resumed.param_groups] == ["layer 0", "layer 1"]
    with pytest.raises(ValueError, match="GradientFilter has no group option 'weight_decay'"):
        GradientFilter([{**groups[0], "weight_decay": 0.1}])
