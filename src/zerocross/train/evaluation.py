"""Evaluation on every sample exactly once, over all ranks; and re-estimation of batch-norm statistics."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from zerocross.data.dataset import BatchStream
from zerocross.nn import check


@torch.no_grad()
def evaluate(
    model: nn.Module,
    batches: BatchStream,
    *,
    forward: Callable[[Tensor], Tensor] | None = None,
    total: Callable[[Tensor], Tensor] = lambda x: x,
) -> dict[str, float]:
    """Return loss, top-1 and top-5 accuracy in percent, and the number of samples.

    Args:
        model: Set to evaluation mode during the call; its mode is restored afterwards.
        batches: The batches of this rank.
        forward: Called instead of the model, e.g. a compiled version or one under autocast.
        total: Sums a tensor over all ranks.

    Examples:
        >>> from zerocross import data, train, zoo
        >>> scores = train.evaluate(zoo.model("digits"), data.load("digits").eval_batches(256))
        >>> round(scores["top1"], 1), scores["count"]
        (99.7, 359.0)
    """
    check(model)
    was_training = model.training
    model.eval()
    sums = torch.zeros(4, dtype=torch.float64, device=next(model.parameters()).device)
    size = 0
    for x, y in batches.epoch():
        # Pad the last, smaller batch, so that a compiled network sees one shape only; the padding is cut off again.
        size = max(size, len(x))
        filled = torch.cat([x, x.new_zeros(size - len(x), *x.shape[1:])]) if len(x) < size else x
        logits = (forward or model)(_in_format(filled, x))[: len(x)].float()
        right = logits.topk(min(5, logits.shape[1])).indices == y[:, None]
        right &= ~logits.isnan().any(dim=1, keepdim=True)  # topk ranks NaN first, which must not count as correct
        loss = F.cross_entropy(logits, y, reduction="sum")
        sums += torch.stack([loss, right[:, 0].sum(), right.sum(), torch.ones_like(y).sum()]).double()
    model.train(was_training)
    loss, top1, top5, count = total(sums).tolist()
    if count == 0:
        raise ValueError("nothing to evaluate on: the evaluation split is empty")
    return {"loss": loss / count, "top1": 100 * top1 / count, "top5": 100 * top5 / count, "count": count}


def _in_format(filled: Tensor, like: Tensor) -> Tensor:
    channels_last = like.ndim == 4 and like.is_contiguous(memory_format=torch.channels_last)
    return filled.contiguous(memory_format=torch.channels_last) if channels_last else filled


@torch.no_grad()
def recalibrate_batch_norm(model: nn.Module, batches: BatchStream, count: int) -> int:
    """Re-estimate batch-norm statistics in place, as plain means over `count` batches; return how many were used.

    Running statistics average over recent steps, in which signs still flipped, so they lag behind the final network.

    Examples:
        >>> from zerocross import data, train, zoo
        >>> model = zoo.model("digits")
        >>> train.recalibrate_batch_norm(model, data.load("digits").train_batches(64, seed=0), 10)
        10
    """
    if count < 1:
        raise ValueError(f"count is {count}; re-estimating batch norm needs at least 1 batch")
    norms = [m for m in model.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm) and m.track_running_stats]
    if not norms:
        raise ValueError("the network has no batch norm with running statistics to estimate")
    momenta = [norm.momentum for norm in norms]
    was_training = model.training
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # in torch, this means a plain mean
    model.train()
    used = 0
    for used, (x, _) in enumerate(batches.epoch(), start=1):
        model(x)
        if used == count:
            break
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum
    model.train(was_training)
    return used
