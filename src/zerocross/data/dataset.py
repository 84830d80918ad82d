"""The dataset interface of the training loop, and datasets from tensors."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import torch
from torch import Tensor

from zerocross.data.batches import Split
from zerocross.data.options import BatchOptions


class BatchStream(Protocol):
    """Batches of one split: their number on this rank, and an iterator over an epoch, from any batch if `resumable`.

    Examples:
        >>> from zerocross import data
        >>> batches = data.load("digits").train_batches(64, seed=0)
        >>> x, y = next(batches.epoch(0))
        >>> len(batches), x.shape, y.shape
        (22, torch.Size([64, 1, 8, 8]), torch.Size([64]))
    """

    resumable: bool

    def __len__(self) -> int: ...

    def epoch(self, number: int = 0, start: int = 0) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield (inputs float32, targets int64) of epoch `number` from batch `start` on."""
        ...


class Samples(Protocol):
    """The interface of a split of a dataset: a `Split` in memory, or files that are read on demand.

    An optional method `fingerprint() -> bytes` returns a digest of the samples; by default the targets are hashed.
    """

    @property
    def targets(self) -> Tensor:
        """The class of each sample, (N,) int64."""
        ...

    def __len__(self) -> int: ...

    def batches(self, options: BatchOptions) -> BatchStream:
        """Return batches for training, or every sample exactly once for evaluation, depending on `options.training`."""
        ...


@dataclass(frozen=True)
class Dataset:
    """A training split and an evaluation split.

    `evaluation` is the official test split or, with `validate=True`, held-out training data, in which case test data is
    not read. `evaluated_on` says which.

    Args:
        name: name of the dataset.
        train: the training split.
        evaluation: the evaluation split.
        evaluated_on: "test" or "validation".
        num_classes: targets are 0..num_classes-1.
        class_names: one per class.
        mean: per channel, or one for all; uint8 is read as 0..1, floats are in any unit.
        std: likewise.
        augment: augmentation of training batches: "crop-flip", "shift", "resized-crop" (image files only) or "none".
        input_size: size of one sample: (C, H, W), (C, L) or (F,).
        source: a description of the data, stored with results.
        preprocess: how a file becomes an input in evaluation, for packed networks: the fields of
            zerocross.runtime.preprocess.Preprocessing except `mean` and `std`, such as {"kind": "image", "resize": 32}.

    Examples:
        >>> from zerocross import data
        >>> digits = data.load("digits")
        >>> digits
        Dataset('digits': 1,438 training and 359 test samples of (1, 8, 8), 10 classes)
        >>> digits.num_classes, digits.input_size, digits.evaluated_on
        (10, (1, 8, 8), 'test')
    """

    name: str
    train: Samples
    evaluation: Samples
    evaluated_on: str
    num_classes: int
    class_names: tuple[str, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    augment: str
    input_size: tuple[int, ...]
    source: str
    preprocess: Mapping[str, Any] = field(default_factory=lambda: {"kind": "array"})

    def __post_init__(self) -> None:
        _check_preprocess(self.preprocess)

    def __repr__(self) -> str:
        sizes = f"{len(self.train):,} training and {len(self.evaluation):,} {self.evaluated_on} samples"
        return f"Dataset({self.name!r}: {sizes} of {self.input_size}, {self.num_classes} classes)"

    @cached_property
    def fingerprint(self) -> str:
        """Sixteen hex digits that identify the data; independent of the location of files."""
        seen = (self.evaluated_on, self.num_classes, self.mean, self.std, self.augment, self.input_size)
        parts = (_digest(self.train), _digest(self.evaluation), repr(seen).encode())
        return hashlib.sha256(b"".join(parts)).hexdigest()[:16]

    def train_batches(self, batch_size: int, *, seed: int, **options: Any) -> BatchStream:
        """Return shuffled, augmented batches for training; a last partial batch is dropped.

        Args:
            batch_size: Samples per batch, over all ranks together.
            seed: Seed of order and augmentation.
            options: Further fields of `BatchOptions`: rank, world_size, device, channels_last.
        """
        return self.train.batches(self._options(batch_size, training=True, seed=seed, **options))

    def eval_batches(self, batch_size: int, **options: Any) -> BatchStream:
        """Return batches with each sample of `evaluation` exactly once over all ranks; a rank may have fewer, or none.

        Args:
            batch_size: Samples per batch, over all ranks together.
            options: Further fields of `BatchOptions`: rank, world_size, device, channels_last.
        """
        return self.evaluation.batches(self._options(batch_size, training=False, **options))

    def _options(self, batch_size: int, *, training: bool, **options: Any) -> BatchOptions:
        augment = self.augment if training else "none"
        return BatchOptions(batch_size, training, augment=augment, mean=self.mean, std=self.std, **options)


def _digest(part: Any) -> bytes:
    if hasattr(part, "fingerprint"):
        return part.fingerprint()
    return hashlib.sha256(part.targets.cpu().contiguous().numpy().data).digest()


def from_tensors(
    train_x: Any,
    train_y: Any,
    test_x: Any,
    test_y: Any,
    *,
    name: str = "tensors",
    class_names: Sequence[str] | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    augment: str = "none",
    evaluated_on: str = "test",
    source: str = "tensors",
    preprocess: Mapping[str, Any] | None = None,
) -> Dataset:
    """Create a dataset from tensors (or numpy arrays).

    Args:
        train_x: (N, C, H, W), (N, C, L) or (N, F), uint8 (read as 0..1) or floating point.
        train_y: (N,) integers, the classes 0..K-1.
        test_x: inputs of the evaluation split, like `train_x`.
        test_y: its classes.
        name: name of the dataset, stored with results.
        class_names: K names; by default K is the largest label + 1.
        mean: one value, or one per channel or feature; by default measured on `train_x`.
        std: likewise.
        augment: "none", "crop-flip" or "shift" (images only).
        evaluated_on: "test" or "validation": the kind of the evaluation split.
        source: a description of the data, stored with results.
        preprocess: how a file becomes an input, see `Dataset`, such as {"kind": "image", "resize": 32}; by default
            packed networks accept arrays only.

    Examples:
        >>> import torch
        >>> from zerocross import data
        >>> x, y = torch.randn(100, 20), torch.randint(0, 2, (100,))
        >>> dataset = data.from_tensors(x[:80], y[:80], x[80:], y[80:], class_names=("no", "yes"))
        >>> dataset.num_classes, dataset.input_size
        (2, (20,))
    """
    train, test = _split("train", train_x, train_y), _split("test", test_x, test_y)
    if train.inputs.shape[1:] != test.inputs.shape[1:] or train.inputs.dtype != test.inputs.dtype:
        raise ValueError(
            f"train_x has {train.inputs.dtype} samples of shape {tuple(train.inputs.shape[1:])}, "
            f"test_x {test.inputs.dtype} of {tuple(test.inputs.shape[1:])}: make them the same"
        )
    highest = int(max(train.targets.max(), test.targets.max()))
    names = tuple(str(n) for n in (class_names if class_names is not None else range(highest + 1)))
    if highest >= len(names):
        raise ValueError(f"label {highest} is outside 0..{len(names) - 1} ({len(names)} classes)")
    if mean is None or std is None:
        measured = statistics(train.inputs)
        mean, std = measured[0] if mean is None else mean, measured[1] if std is None else std
    _check_statistics(mean, std, train.inputs.shape[1])
    return Dataset(
        name=name,
        train=train,
        evaluation=test,
        evaluated_on=evaluated_on,
        num_classes=len(names),
        class_names=names,
        mean=tuple(mean),
        std=tuple(std),
        augment=augment,
        input_size=tuple(train.inputs.shape[1:]),
        source=source,
        preprocess={"kind": "array"} if preprocess is None else dict(preprocess),
    )


def statistics(inputs: Tensor) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return mean and standard deviation: per channel for images and series, else one for all; uint8 is 0..1.

    For uint8 they are computed from a histogram, so that they do not depend on the number of threads. A constant
    channel has std 1.
    """
    channels = inputs.transpose(0, 1).flatten(1) if inputs.ndim > 2 else inputs.reshape(1, -1)
    means, stds = [], []
    for channel in channels:
        if inputs.dtype == torch.uint8:
            share = torch.bincount(channel, minlength=256).double() / len(channel)
            value = torch.arange(256, dtype=torch.float64) / 255
        else:
            value, share = channel.double(), 1 / len(channel)
        mean = (value * share).sum()
        std = ((value - mean).square() * share).sum().sqrt()
        means.append(float(mean))
        stds.append(float(std) or 1.0)
    return tuple(means), tuple(stds)


def _split(part: str, x: Any, y: Any) -> Split:
    inputs, targets = torch.as_tensor(x), torch.as_tensor(y)
    if inputs.is_floating_point():
        inputs = inputs.float()
        if not torch.isfinite(inputs).all():
            raise ValueError(f"{part}_x contains values that are not finite: remove them first")
    elif inputs.dtype != torch.uint8:
        raise ValueError(f"{part}_x is {inputs.dtype}; it must be uint8 (read as 0..1) or floating point")
    if inputs.ndim not in {2, 3, 4} or (inputs.ndim == 3 and inputs.dtype == torch.uint8):  # images without channels
        raise ValueError(f"{part}_x has shape {tuple(inputs.shape)}; it must be (N, C, H, W), (N, C, L) or (N, F)")
    if targets.is_floating_point() or targets.is_complex() or targets.dtype == torch.bool:
        raise ValueError(f"{part}_y is {targets.dtype}; it must have integers, the classes 0..K-1")
    if targets.shape != inputs.shape[:1] or not len(targets):
        raise ValueError(
            f"{part}_y has shape {tuple(targets.shape)} for {len(inputs)} samples; give at least one, each with a label"
        )
    if int(targets.min()) < 0:
        raise ValueError(f"{part}_y contains label {int(targets.min())}; labels start at 0")
    return Split(inputs, targets.long())


def _check_statistics(mean: Sequence[float], std: Sequence[float], channels: int) -> None:
    if any(len(values) not in {1, channels} for values in (mean, std)):
        raise ValueError(f"mean and std have {len(mean)} and {len(std)} values; they must have 1 or {channels}")
    if min(std) <= 0:
        raise ValueError(f"std {tuple(std)} must be above 0")


def _check_preprocess(preprocess: Mapping[str, Any]) -> None:
    """Check that `preprocess` can be stored as JSON; the runtime checks the rest when a network is packed."""
    if not isinstance(preprocess, Mapping) or not isinstance(preprocess.get("kind"), str):
        raise ValueError(f'preprocess is {preprocess!r}; it must be a dict with a kind, such as {{"kind": "array"}}')
    if twice := {"mean", "std"} & set(preprocess):
        raise ValueError(f"preprocess has {' and '.join(sorted(twice))}: leave them out, since the dataset has its own")
    try:
        json.dumps(dict(preprocess), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ValueError(f"preprocess must contain only numbers, texts, lists and dicts ({error})") from None
