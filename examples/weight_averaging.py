"""Weight averaging (EMA) of a binary network: python examples/weight_averaging.py [EPOCHS].

torch's AveragedModel averages every parameter, so that binary weights become real numbers between -1 and +1: another
network than the one that was trained, and one that cannot be packed. zerocross.nn.AveragedModel averages real
parameters and takes a majority vote on each binary weight. Batch-norm statistics are re-estimated for the average.

Averaging begins in the second half of the training: an average that begins at initialization votes for random signs
until it has seen several times 1 / (1 - DECAY) updates.
"""

from __future__ import annotations

import sys

import torch
from digits import load, network
from torch import nn
from torch.nn import functional as F
from torch.optim import swa_utils
from torch.utils.data import DataLoader

import zerocross

DECAY = 0.95  # averages over about 20 updates, an epoch


def main(epochs: int = 20) -> dict[str, tuple[float, bool]]:
    """Return, for the trained network and two averages of it, the accuracy and whether binary weights are binary."""
    train, (x_test, y_test) = load()
    batches = DataLoader(train, batch_size=64, shuffle=True, generator=torch.Generator().manual_seed(0))
    model = network()
    binary, real, no_decay = zerocross.split_params(model)
    optimizer = zerocross.HybridOptimizer(  # constant alpha and lr: averaging takes the place of their decay
        zerocross.GradientFilter(binary, alpha=3e-3), torch.optim.Adam([*real, *no_decay], lr=5e-3), model
    )
    averages: dict[str, swa_utils.AveragedModel] = {}
    for epoch in range(epochs):
        if epoch == epochs // 2:
            averages["zerocross average"] = zerocross.nn.AveragedModel(model, decay=DECAY)
            averages["torch average"] = swa_utils.AveragedModel(
                model, multi_avg_fn=swa_utils.get_ema_multi_avg_fn(DECAY)
            )
        for x, y in batches:
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
            for average in averages.values():
                average.update_parameters(model)
    results = {}
    for name, each in {"trained": model, **averages}.items():
        if each is not model:
            swa_utils.update_bn(batches, each)
        each.eval()
        accuracy = (each(x_test).argmax(1) == y_test).float().mean().item()
        results[name] = (accuracy, is_binary(each))
        print(f"{name:18} test accuracy {accuracy:.1%}, weights binary: {results[name][1]}")
    return results


def is_binary(model: nn.Module) -> bool:
    return all(bool((weight.abs() == 1).all()) for weight in zerocross.split_params(model).binary)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
