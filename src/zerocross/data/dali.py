"""Training batches of image files, decoded by NVIDIA DALI on the CPU or on a GPU (extra `imagenet`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from zerocross.data.image_batches import AHEAD, AREA, ATTEMPTS, RATIO, SIZE, DeviceTransform, read_image
from zerocross.data.order import AUGMENT, CROP, BatchPlan, derived_seed, epoch_order

# An optional package whose names are created at run time, which type checkers cannot follow.
dali: Any = import_module("nvidia.dali")
feed_ndarray: Any = import_module("nvidia.dali.plugin.pytorch").feed_ndarray


class DaliBatches:
    """The batches of `ImageBatches` with random crops, decoded by DALI: same files, order, ranks, flips and lighting.

    DALI draws the crops from a generator that runs through the epoch: an epoch can be repeated, but not started in the
    middle.

    Args:
        files: paths.
        targets: (N,) int64.
        plan: how files are divided into batches and ranks; all batches are full.
        seed: 0 or more.
        transform: the steps on the device.
        workers: threads of DALI.
    """

    resumable = False

    def __init__(
        self,
        files: Sequence[str],
        targets: Tensor,
        plan: BatchPlan,
        seed: int,
        transform: DeviceTransform,
        workers: int,
    ) -> None:
        self.files, self.targets, self.plan, self.seed = files, targets, plan, seed
        self.transform, self.workers = transform, workers

    def __len__(self) -> int:
        return len(self.plan)

    def epoch(self, number: int = 0, start: int = 0) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield (images float32, targets) of epoch `number`; `start` must be 0."""
        if start != 0:
            raise ValueError(
                f"start {start}: DALI cannot start in the middle of an epoch; start at 0, or use reader 'pillow'"
            )
        self.plan.check(number, start)
        return self._epoch(number)

    def _epoch(self, number: int) -> Iterator[tuple[Tensor, Tensor]]:
        order = epoch_order(len(self.files), self.seed, number)
        mine = torch.cat([order[self.plan.places(index)] for index in range(len(self))])
        files = [self.files[int(i)] for i in mine.tolist()]
        device, size = self.transform.device, self.plan.batch_size // self.plan.world_size
        pipeline = _crops(
            files,
            self.targets[mine].tolist(),
            decoder="cpu" if device.type == "cpu" else "mixed",
            batch_size=size,
            num_threads=self.workers,
            device_id=None if device.type == "cpu" else device.index or 0,
            seed=derived_seed(CROP, self.seed, number, self.plan.rank),
        )
        pipeline.build()
        for index in range(len(self)):
            try:
                images, labels = pipeline.run()
            except RuntimeError as error:
                self._blame(files[index * size : (index + 1 + AHEAD) * size])
                raise ValueError(f"DALI failed in batch {index} of epoch {number}: {error}") from error
            x = self.transform(_tensor(images, device), derived_seed(AUGMENT, self.seed, number, self.plan.rank, index))
            yield x, _tensor(labels, torch.device("cpu")).flatten().long().to(device)

    @staticmethod
    def _blame(files: list[str]) -> None:
        """Find the first unreadable file with Pillow: DALI reads ahead, and does not report which file failed."""
        for path in files:
            read_image(path)


@dali.pipeline_def(prefetch_queue_depth=AHEAD)
def _crops(files: list[str], labels: list[int], decoder: str) -> Any:
    """Read in the given order, decode only a random window, resize it to 224 x 224: uint8 (H, W, 3) and label."""
    encoded, label = dali.fn.readers.file(files=files, labels=labels)
    image = dali.fn.decoders.image_random_crop(
        encoded,
        device=decoder,
        output_type=dali.types.RGB,
        random_area=list(AREA),
        random_aspect_ratio=list(RATIO),
        num_attempts=ATTEMPTS,
    )
    return dali.fn.resize(image, size=[SIZE, SIZE], interp_type=dali.types.INTERP_LINEAR, antialias=True), label


def _tensor(output: Any, device: torch.device) -> Tensor:
    """Copy DALI's output, whose buffer the next run overwrites."""
    dense = output.as_tensor()
    dtype = torch.uint8 if dense.dtype == dali.types.UINT8 else torch.int32
    out = torch.empty(tuple(dense.shape()), dtype=dtype, device=device)
    feed_ndarray(dense, out)
    return out
