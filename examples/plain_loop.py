"""A binary network trained on scanned digits with a plain PyTorch loop: python examples/plain_loop.py [EPOCHS]."""

import sys

import torch
from digits import load, network
from torch.nn import functional as F
from torch.utils.data import DataLoader

import zerocross


def main(epochs: int = 20) -> float:
    train, (x_test, y_test) = load()
    batches = DataLoader(train, batch_size=64, shuffle=True, generator=torch.Generator().manual_seed(0))
    model = network()
    binary, real, no_decay = zerocross.split_params(model)
    optimizer = zerocross.HybridOptimizer(
        zerocross.GradientFilter(binary, alpha=3e-3, ff_every=1),
        torch.optim.Adam([*real, *no_decay], lr=5e-3),
        model,
    )
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs * len(batches))
    for epoch in range(epochs):
        for x, y in batches:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            schedule.step()
        print(f"epoch {epoch + 1}: loss {loss:.3f}, {zerocross.ff_ratio(optimizer):.2%} of weights flipped")
    model.eval()
    accuracy = (model(x_test).argmax(1) == y_test).float().mean().item()
    print(f"test accuracy {accuracy:.1%}")
    return accuracy


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
