"""ImageNet, or any tree of class folders: train/<class>/*.JPEG and val/<class>/*.JPEG, read file by file."""

from __future__ import annotations

import hashlib
import importlib.util
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from zerocross.data.dataset import BatchStream, Dataset
from zerocross.data.image_batches import RESIZE, SIZE, DeviceTransform, ImageBatches
from zerocross.data.layout import imagenet_folder, required
from zerocross.data.options import BatchOptions
from zerocross.data.order import BatchPlan
from zerocross.data.splits import held_out

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
READERS = ("auto", "dali", "pillow")
AUGMENTS = ("none", "resized-crop")
SUFFIXES = (".jpeg", ".jpg", ".png", ".bmp", ".webp", ".tif", ".tiff")
VALIDATION_SHARE = 0.04  # of each class: about 50 of ImageNet's 1,300, as many as the official validation part has


@dataclass(frozen=True)
class ImageFiles:
    """One split of a tree of class folders.

    Args:
        files: paths of the images.
        targets: (N,) int64, the class of each.
        reader: "dali" or "pillow", for training; evaluation always reads with Pillow, as the paper does.
        workers: number of decoding threads, 1 or more.
    """

    files: tuple[str, ...]
    targets: Tensor
    reader: str
    workers: int

    def __len__(self) -> int:
        return len(self.files)

    def fingerprint(self) -> bytes:
        """Return the SHA-256 of names and classes; the images, up to a million, are not read."""
        digest = hashlib.sha256(self.targets.numpy().data)
        for file in self.files:
            digest.update("/".join(Path(file).parts[-2:]).encode() + b"\n")
        return digest.digest()

    def batches(self, options: BatchOptions) -> BatchStream:
        """Return batches: random crops, flips and lighting for training; otherwise each file once, centre crop 224."""
        training, augment = options.training, options.augment
        if augment not in AUGMENTS:
            raise ValueError(f"augment {augment!r} is unknown for image files; choose one of {', '.join(AUGMENTS)}")
        plan = BatchPlan(len(self), options.batch_size, options.rank, options.world_size, drop_last=training)
        random_crops = training and augment == "resized-crop"
        device = torch.device(options.device)
        transform = DeviceTransform(random_crops, options.mean, options.std, device, options.channels_last)
        if random_crops and self.reader == "dali":
            from zerocross.data.dali import DaliBatches

            return DaliBatches(self.files, self.targets, plan, options.seed, transform, self.workers)
        return ImageBatches(self.files, self.targets, plan, options.seed, transform, self.workers, shuffle=training)


def load(
    data_dir: str | Path | None = None, *, validate: bool = False, reader: str = "auto", workers: int = 4
) -> Dataset:
    """List the files of train/ and val/; images are read while training.

    Args:
        data_dir: the folder with train/ and val/, or a folder with imagenet/ or imagenet-sample/.
        validate: evaluate on 4 % of each class of train/ and train on the rest; val/, on which published accuracies
            are measured, is not listed.
        reader: reader of training images: "dali" (NVIDIA DALI, fast), "pillow", or "auto" (DALI if installed). The two
            agree in distribution, but not bit for bit.
        workers: decoding threads per process.
    """
    if reader not in READERS or workers < 1:
        raise ValueError(f"reader {reader!r}, workers {workers}: choose one of {', '.join(READERS)}; 1 worker or more")
    installed = importlib.util.find_spec("nvidia") is not None and importlib.util.find_spec("nvidia.dali") is not None
    if reader == "dali" and not installed:
        raise ValueError("reader 'dali' needs NVIDIA DALI: pip install 'zerocross[imagenet]', or use reader 'pillow'")
    chosen = "dali" if installed and reader != "pillow" else "pillow"
    folder = required("imagenet", data_dir, imagenet_folder)
    classes = class_folders(folder / "train")
    files, targets = list_images(folder / "train", classes)
    if validate:
        kept, held = (indices.tolist() for indices in held_out(targets, VALIDATION_SHARE))
        trained, evaluated = ([files[i] for i in kept], targets[kept]), ([files[i] for i in held], targets[held])
    else:
        unknown = sorted(set(class_folders(folder / "val")) - set(classes))
        if unknown:
            raise ValueError(f"{folder}/val has class {unknown[0]}, which train/ does not have: the classes must agree")
        trained, evaluated = (files, targets), list_images(folder / "val", classes)
    return Dataset(
        name="imagenet",
        train=ImageFiles(tuple(trained[0]), trained[1], chosen, workers),
        evaluation=ImageFiles(tuple(evaluated[0]), evaluated[1], "pillow", workers),
        evaluated_on="validation" if validate else "test",
        num_classes=len(classes),
        class_names=tuple(classes),
        mean=MEAN,
        std=STD,
        augment="resized-crop",
        input_size=(3, SIZE, SIZE),
        source=f"class folders, {len(trained[0])} + {len(evaluated[0])} images, training read by {chosen}",
        preprocess={"kind": "image", "resize": RESIZE},
    )


def class_folders(folder: Path) -> list[str]:
    """Return the sorted names of the class folders; class k is the k-th of train/."""
    names = sorted(entry.name for entry in os.scandir(folder) if entry.is_dir() and not entry.name.startswith("."))
    if not names:
        raise ValueError(f"{folder} has no class folders: sort its images into {folder}/<class>/")
    return names


def list_images(folder: Path, classes: Sequence[str]) -> tuple[list[str], Tensor]:
    """Return the paths of the images in `folder`, by class, and their classes; some classes may be missing, not all."""
    files: list[str] = []
    counts = []
    for name in classes:
        inside = os.scandir(folder / name) if (folder / name).is_dir() else ()
        images = sorted(f.name for f in inside if f.name.lower().endswith(SUFFIXES) and not f.name.startswith("."))
        files += [f"{folder}/{name}/{file}" for file in images]
        counts.append(len(images))
    if not files:
        raise ValueError(f"{folder} has class folders but no images ({', '.join(SUFFIXES)})")
    return files, torch.arange(len(classes)).repeat_interleave(torch.tensor(counts))
