"""Batches of image files with Pillow: threads decode and crop; flip, lighting and normalisation run on the device."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from zerocross.data.augment import lighting, normalised, random_flips
from zerocross.data.order import AUGMENT, CROP, BatchPlan, derived_seed, epoch_order

try:
    from PIL import Image
except ModuleNotFoundError as missing:
    raise ValueError("image files are read with Pillow: pip install 'zerocross[train]'") from missing

SIZE, RESIZE = 224, 256
AREA, RATIO, ATTEMPTS = (0.08, 1.0), (3 / 4, 4 / 3), 10
LIGHTING = 0.1
AHEAD = 2  # batches decoded in advance
LONGEST = 64  # aspect ratio up to which the full image is resized

Box = tuple[int, int, int, int]  # left, top, right, bottom


@dataclass(frozen=True)
class DeviceTransform:
    """Convert decoded bytes to a batch on the device: flip, lighting, normalisation; used by both readers.

    Args:
        augment: flip each image with probability 1/2 and add PCA lighting of strength 0.1.
        mean: per channel, in 0..1.
        std: likewise.
        device: device of the batch.
        channels_last: memory format of the batch.
    """

    augment: bool
    mean: tuple[float, ...]
    std: tuple[float, ...]
    device: torch.device
    channels_last: bool

    def __call__(self, pixels: Tensor, seed: int) -> Tensor:
        """Convert (N, H, W, 3) uint8 to (N, 3, H, W) float32, with random draws from `seed`."""
        x, offset = pixels.to(self.device), None
        if self.augment:
            generator = torch.Generator(self.device).manual_seed(seed)
            x = torch.where(random_flips(len(x), generator)[:, None, None, None], x.flip(2), x)
            offset = lighting(len(x), LIGHTING, generator)
        x = normalised(x.permute(0, 3, 1, 2), self.mean, self.std, offset)
        return x.contiguous(memory_format=torch.channels_last if self.channels_last else torch.contiguous_format)


class ImageBatches:
    """Batches of image files, a pure function of (seed, epoch, rank, batch index).

    Args:
        files: paths.
        targets: (N,) int64.
        plan: how files are divided into batches and ranks.
        seed: 0 or more.
        transform: the steps on the device; with `transform.augment`, crops are random.
        workers: number of decoding threads.
        shuffle: use a new order in each epoch.
    """

    resumable = True

    def __init__(
        self,
        files: Sequence[str],
        targets: Tensor,
        plan: BatchPlan,
        seed: int,
        transform: DeviceTransform,
        workers: int,
        *,
        shuffle: bool,
    ) -> None:
        self.files, self.targets, self.plan, self.seed = files, targets, plan, seed
        self.transform, self.workers, self.shuffle = transform, workers, shuffle

    def __len__(self) -> int:
        return len(self.plan)

    def epoch(self, number: int = 0, start: int = 0) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield (images float32, targets) of epoch `number` from batch `start` on."""
        self.plan.check(number, start)
        return self._epoch(number, start)

    def _epoch(self, number: int, start: int) -> Iterator[tuple[Tensor, Tensor]]:
        order = epoch_order(len(self.files), self.seed, number) if self.shuffle else torch.arange(len(self.files))
        pool = ThreadPoolExecutor(self.workers)
        ahead: deque[tuple[int, Tensor, list[Future[np.ndarray]]]] = deque()
        try:
            for index in range(start, len(self) + AHEAD):
                if index < len(self):
                    chosen = order[self.plan.places(index)]
                    ahead.append((index, chosen, [pool.submit(self._pixels, i, number) for i in chosen.tolist()]))
                if ahead and index >= start + AHEAD:
                    yield self._batch(number, *ahead.popleft())
        finally:
            pool.shutdown(cancel_futures=True)

    def _pixels(self, index: int, epoch: int) -> np.ndarray:
        image = read_image(self.files[index])
        if not self.transform.augment:
            return np.asarray(centre_crop(image))
        rng = np.random.default_rng(derived_seed(CROP, self.seed, epoch, index))
        return np.asarray(random_resized_crop(image, rng))

    def _batch(
        self, epoch: int, index: int, chosen: Tensor, decoded: list[Future[np.ndarray]]
    ) -> tuple[Tensor, Tensor]:
        pixels = torch.from_numpy(np.stack([future.result() for future in decoded]))
        x = self.transform(pixels, derived_seed(AUGMENT, self.seed, epoch, self.plan.rank, index))
        return x, self.targets[chosen].to(self.transform.device)


def read_image(path: str) -> Image.Image:
    """Read an image file of any mode (grey-scale, CMYK, palettes) as RGB."""
    try:
        with Image.open(path) as image:
            return image.convert("RGB")
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise ValueError(f"{path} is not a readable image ({error}); replace or remove it") from error


def random_resized_crop(image: Image.Image, rng: np.random.Generator) -> Image.Image:
    """Return a random window of the image, resized to 224 x 224, bilinear and antialiased."""
    return image.resize((SIZE, SIZE), Image.Resampling.BILINEAR, box=random_box(*image.size, rng))


def random_box(width: int, height: int, rng: np.random.Generator) -> Box:
    """Draw a window with 0.08..1 of the area and aspect ratio 3/4..4/3 (log-uniform), as for Inception.

    After ten failed draws, return the largest centred window within these aspect ratios.
    """
    for _ in range(ATTEMPTS):
        area = width * height * rng.uniform(*AREA)
        ratio = math.exp(rng.uniform(math.log(RATIO[0]), math.log(RATIO[1])))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            left, top = int(rng.integers(width - w + 1)), int(rng.integers(height - h + 1))
            return left, top, left + w, top + h
    w, h = min(width, max(1, round(height * RATIO[1]))), min(height, max(1, round(width / RATIO[0])))
    left, top = (width - w) // 2, (height - h) // 2
    return left, top, left + w, top + h


def centre_crop(image: Image.Image) -> Image.Image:
    """Resize the shorter side to 256, bilinear and antialiased, and return the central 224 x 224.

    If the longer side exceeds LONGEST times the shorter, only the middle is resized, since the rest is cropped.
    """
    shorter = min(image.size)
    if max(image.size) > LONGEST * shorter:
        sides = [min(side, LONGEST * shorter) for side in image.size]
        left, top = ((length - side) // 2 for length, side in zip(image.size, sides, strict=True))
        image = image.crop((left, top, left + sides[0], top + sides[1]))
    width, height = (RESIZE * side // shorter for side in image.size)
    left, top = round((width - SIZE) / 2), round((height - SIZE) / 2)
    resized = image.resize((width, height), Image.Resampling.BILINEAR)
    return resized.crop((left, top, left + SIZE, top + SIZE))
