"""Build a PyTorch network from a card and its weights, and write weights."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

from zerocross import models
from zerocross.zoo.card import Card
from zerocross.zoo.weights import Levels, encoded, from_levels, levels_of, read_state


def build(card: Card, weights: Path) -> nn.Module:
    """Return the network of a card with the weights of a file, in evaluation mode."""
    try:
        network = models.create(card.network, **card.options)
    except (TypeError, RuntimeError) as error:
        raise ValueError(f"the network {card.network} of the card {card.name} cannot be built: {error}") from None
    state = {name: torch.from_numpy(array) for name, array in read_state(weights).items()}
    try:
        network.load_state_dict(state)
    except RuntimeError as error:
        reason = " ".join(str(error).split())[:160]
        raise ValueError(f"{weights} does not fit the network {card.network} of its card: {reason}") from None
    network.input_size = tuple(card.input_size)  # type: ignore[assignment]
    return network.eval()


@torch.no_grad()
def quantise(model: nn.Module) -> dict[str, Levels]:
    """Round the weights of real layers to 255 levels per output, in place; return the levels by name.

    A packed file with int8 weights then contains the same levels; it also rounds the inputs of these layers to bytes.
    """
    quantised = {}
    for path, module in model.named_modules():
        if isinstance(module, nn.Conv1d | nn.Conv2d | nn.Linear) and "weight" not in getattr(
            module, "binary_kinds", {}
        ):
            levels = levels_of(module.weight.numpy())
            module.weight.copy_(torch.from_numpy(from_levels(levels)))
            quantised[f"{path}.weight".lstrip(".")] = levels
    return quantised


def weights_file(model: nn.Module, quantised: dict[str, Levels]) -> bytes:
    """Return the bytes of a file with a network's weights."""
    state: dict[str, Tensor] = model.state_dict()
    return encoded({name: tensor.detach().cpu().numpy() for name, tensor in state.items()}, quantised)
