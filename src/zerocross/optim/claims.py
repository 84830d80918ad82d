"""Check that each parameter belongs to exactly one optimizer, and to one that trains its kind."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from torch import Tensor, nn
from torch.optim import Optimizer

from zerocross.optim.base import BinaryOptimizer

Leaves = Iterable[tuple[Optimizer, bool]]  # an optimizer, and whether it trains binary weights
_ADVICE = {
    "latent": "build their layers with weights='theta', or train them with LatentSGD or a torch optimizer",
    "theta": "a real-valued update would move them away from -1 and +1: train them with GradientFilter, or build their "
    "layers with weights='latent'",
    "real": "their layers do not take signs: give them to the real optimizer, or build layers with weights='latent'",
}


def refuse_overlap(parts: Mapping[str, Optimizer], names: dict[int, str]) -> None:
    """Raise ValueError if two optimizers have the same parameter."""
    taken: set[int] = set()
    shared: list[str] = []
    for part in parts.values():
        own = {id(p): p for p in _all_params(part)}
        shared += [_name(p, names) for key, p in own.items() if key in taken]
        taken |= set(own)
    if shared:
        several = "both optimizers" if len(parts) == 2 else f"more than one of {', '.join(parts)}"
        raise ValueError(f"given to {several}: {', '.join(shared)}; split_params(model) lists each exactly once")


def refuse_gaps(parts: Mapping[str, Optimizer], model: nn.Module) -> None:
    """Raise ValueError if a trainable parameter is in no optimizer."""
    taken = {id(p) for part in parts.values() for p in _all_params(part)}
    if missed := [name for name, p in model.named_parameters() if p.requires_grad and id(p) not in taken]:
        none = "neither optimizer" if len(parts) == 2 else f"none of {', '.join(parts)}"
        raise ValueError(f"given to {none}: {', '.join(missed)}; add them, or freeze them with requires_grad_(False)")


def refuse_wrong_kind(leaves: Leaves, kinds: dict[int, str], names: dict[int, str]) -> None:
    """Raise ValueError if an optimizer has parameters of a kind that it cannot train."""
    for optimizer, is_binary in leaves:
        takes = _takes(optimizer)
        wrong = {"theta"} if takes == "latent" else {"latent"}
        if takes == "latent" and is_binary:
            wrong.add(
                "real"
            )  # an optimizer of theta makes any layer binary; of latent weights the layer takes the sign
        for kind in sorted(wrong):
            if found := [_name(p, names) for p in _all_params(optimizer) if kinds.get(id(p), "real") == kind]:
                raise ValueError(
                    f"{type(optimizer).__name__} was given {kind} weights: {', '.join(found)}; {_ADVICE[kind]}"
                )


def refuse_theta_by_value(leaves: Leaves) -> None:
    """Without a model, detect theta weights by their values; raise ValueError if a torch optimizer has them."""
    for optimizer, _ in leaves:
        if _takes(optimizer) == "theta":
            continue
        if found := [_name(p, {}) for p in _all_params(optimizer) if _looks_like_theta(p)]:
            raise ValueError(
                f"{type(optimizer).__name__} was given what looks like theta weights (only -1 and +1): "
                f"{', '.join(found)}; {_ADVICE['theta']}. If they are not theta weights, pass the model, whose layers "
                "declare their kind: HybridOptimizer(binary, real, model)"
            )


def _takes(optimizer: Optimizer) -> str:
    return optimizer.kind if isinstance(optimizer, BinaryOptimizer) else "latent"


def _looks_like_theta(param: Tensor) -> bool:
    values = param.detach()
    if values.dim() < 2 or values.is_meta or not values.is_floating_point():
        return False
    return bool((values.abs() == 1).all() & (values < 0).any() & (values > 0).any())


def _all_params(optimizer: Optimizer) -> list[Tensor]:
    return [p for group in optimizer.param_groups for p in group["params"]]


def _name(param: Tensor, names: dict[int, str]) -> str:
    return names.get(id(param), f"a parameter of shape {tuple(param.shape)}")
