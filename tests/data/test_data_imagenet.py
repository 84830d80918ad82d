"""Image files: both readers, unusual files, ranks, resuming, evaluation as published."""

from __future__ import annotations

import importlib.util
import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from zerocross.data import Dataset, load
from zerocross.data.image_batches import centre_crop, random_box, read_image
from zerocross.data.imagenet import ImageFiles

DALI = bool(importlib.util.find_spec("nvidia")) and bool(importlib.util.find_spec("nvidia.dali"))
READERS = ["pillow", pytest.param("dali", marks=pytest.mark.skipif(not DALI, reason="NVIDIA DALI is not installed"))]


def smooth(width: int, height: int, channels: int, seed: int) -> np.ndarray:
    """Return a picture that survives JPEG: a different gradient for each seed and channel."""
    y, x = np.mgrid[0 : 1 : height * 1j, 0 : 1 : width * 1j]
    slopes = np.random.default_rng(seed).uniform(-1, 1, (channels, 2))
    return np.stack([127 + 60 * (a * x + b * y) for a, b in slopes], -1).astype(np.uint8)


def save(path: Path, width: int, height: int, mode: str = "RGB", seed: int = 0, kind: str = "JPEG") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = smooth(width, height, len(mode), seed)
    Image.fromarray(pixels[..., 0] if mode == "L" else pixels, mode).save(path, format=kind)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write three classes with 10 training images and 5, 3 and 1 evaluation images, some of them unusual."""
    home = tmp_path_factory.mktemp("images")
    for k, name in enumerate(("n01", "n02", "n03")):
        for i in range(10):
            save(home / "imagenet" / "train" / name / f"{i}.JPEG", 60 + 9 * i, 50 + 5 * k, seed=10 * k + i)
        for i in range(5 - 2 * k):
            save(home / "imagenet" / "val" / name / f"{i}.JPEG", 80, 60 + i, seed=100 + 10 * k + i)
    train = home / "imagenet" / "train"
    save(train / "n01" / "3.JPEG", 40, 70, mode="L")
    save(train / "n02" / "4.JPEG", 90, 33, mode="CMYK")
    save(train / "n02" / "5.JPEG", 64, 64, mode="RGBA", kind="PNG")  # ImageNet has a PNG called .JPEG
    save(train / "n03" / "6.JPEG", 500, 9)
    save(train / "n03" / "7.JPEG", 1, 1)
    (train / "n03" / "notes.txt").write_text("no image")
    return home


def files(dataset: Dataset) -> list[str]:
    assert isinstance(dataset.train, ImageFiles)
    return [str(Path(*Path(file).parts[-2:])) for file in dataset.train.files]


def test_the_tree_is_listed_class_by_class(tree: Path) -> None:
    for where in (tree, tree / "imagenet"):
        dataset = load("imagenet", where, reader="pillow")
        assert (len(dataset.train), len(dataset.evaluation), dataset.class_names) == (30, 9, ("n01", "n02", "n03"))
        assert dataset.train.targets.tolist() == [0] * 10 + [1] * 10 + [2] * 10
        assert dataset.evaluation.targets.tolist() == [0] * 5 + [1] * 3 + [2]
        assert files(dataset)[:2] == ["n01/0.JPEG", "n01/1.JPEG"]


def test_validation_is_held_out_of_training_and_val_is_not_listed(tree: Path, tmp_path: Path) -> None:
    shutil.copytree(tree / "imagenet" / "train", tmp_path / "train")
    (tmp_path / "val").mkdir()
    dataset = load("imagenet", tmp_path, validate=True, reader="pillow")
    assert isinstance(dataset.evaluation, ImageFiles)
    assert (len(dataset.train), dataset.evaluation.targets.tolist()) == (27, [0, 1, 2])
    assert not set(files(dataset)) & {str(Path(*Path(f).parts[-2:])) for f in dataset.evaluation.files}
    with pytest.raises(ValueError, match="val has no class folders"):
        load("imagenet", tmp_path, reader="pillow")


@pytest.mark.parametrize("reader", READERS)
def test_training_reads_every_kind_of_file(tree: Path, reader: str) -> None:
    dataset = load("imagenet", tree, reader=reader, workers=1)
    batches = dataset.train_batches(10, seed=3)
    assert len(batches) == 3
    seen = []
    for x, y in batches.epoch(0):
        assert x.shape == (10, 3, 224, 224)
        assert x.dtype == torch.float32
        assert y.dtype == torch.int64
        assert bool(x.isfinite().all())
        assert float(x.abs().max()) < 3.5
        seen += y.tolist()
    assert sorted(seen) == [0] * 10 + [1] * 10 + [2] * 10


@pytest.mark.parametrize("reader", READERS)
def test_an_epoch_can_be_repeated_and_the_next_one_differs(tree: Path, reader: str) -> None:
    first, again = (list(load("imagenet", tree, reader=reader).train_batches(10, seed=3).epoch(1)) for _ in range(2))
    other = list(load("imagenet", tree, reader=reader).train_batches(10, seed=3).epoch(2))
    assert all(torch.equal(x, u) and torch.equal(y, v) for (x, y), (u, v) in zip(first, again, strict=True))
    assert not any(torch.equal(x, u) for (x, _), (u, _) in zip(first, other, strict=True))


@pytest.mark.parametrize("reader", READERS)
def test_ranks_share_an_epoch(tree: Path, reader: str) -> None:
    dataset = load("imagenet", tree, reader=reader, workers=1)
    alone = torch.cat([y for _, y in dataset.train_batches(10, seed=5).epoch(0)])
    ranks = [[y for _, y in dataset.train_batches(10, seed=5, rank=r, world_size=2).epoch(0)] for r in (0, 1)]
    together = torch.cat([y for pair in zip(*ranks, strict=True) for y in pair])
    assert torch.equal(alone, together)


def test_pillow_enters_an_epoch_anywhere_and_dali_refuses(tree: Path) -> None:
    batches = load("imagenet", tree, reader="pillow").train_batches(6, seed=3)
    whole = list(batches.epoch(1))
    for start in range(6):
        for (x, y), (u, v) in zip(batches.epoch(1, start), whole[start:], strict=True):
            assert torch.equal(x, u)
            assert torch.equal(y, v)
    assert batches.resumable
    if DALI:
        streamed = load("imagenet", tree, reader="dali").train_batches(6, seed=3)
        assert not streamed.resumable
        with pytest.raises(ValueError, match="start 2: DALI cannot start in the middle of an epoch"):
            streamed.epoch(1, 2)


@pytest.mark.skipif(not DALI, reason="NVIDIA DALI is not installed")
def test_the_readers_agree_on_an_image_without_detail(tmp_path: Path) -> None:
    """All crops of a plain image are equal, so that only order, colour, lighting or normalisation could differ."""
    for k in range(8):
        for part in ("train", "val"):
            path = tmp_path / part / f"c{k}" / "0.png"
            path.parent.mkdir(parents=True)
            Image.new("RGB", (90, 70), (30 * k, 255 - 30 * k, 100)).save(path)
    pillow, dali = (
        next(load("imagenet", tmp_path, reader=r).train_batches(8, seed=1).epoch(0)) for r in ("pillow", "dali")
    )
    assert torch.equal(pillow[1], dali[1])
    torch.testing.assert_close(pillow[0], dali[0], rtol=0, atol=1e-5)


@pytest.fixture(scope="module")
def ramps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write 200 copies of one picture with red rising from left to right, which reveals the width of a crop."""
    home = tmp_path_factory.mktemp("ramps")
    pixels = np.zeros((120, 256, 3), dtype=np.uint8)
    pixels[..., 0], pixels[..., 1:] = np.arange(256), 128
    for part in ("train", "val"):
        (home / part / "ramp").mkdir(parents=True)
        for i in range(200):
            Image.fromarray(pixels).save(home / part / "ramp" / f"{i:03d}.png")
    return home


@pytest.mark.parametrize("reader", READERS)
def test_distributions_of_crops_flips_and_lighting(ramps: Path, reader: str) -> None:
    dataset = load("imagenet", ramps, reader=reader, workers=1)
    x, _ = next(dataset.train_batches(200, seed=4).epoch(0))
    shown = x.double() * torch.tensor(dataset.std)[:, None, None] + torch.tensor(dataset.mean)[:, None, None]
    slope = shown[:, 0, 100, -1] - shown[:, 0, 100, 0]
    rng = np.random.default_rng(1)
    widths = np.array([right - left for left, _, right, _ in (random_box(256, 120, rng) for _ in range(4000))]) / 256
    assert abs(float(slope.abs().mean()) - widths.mean()) < 0.03
    assert abs(float(slope.abs().std()) - widths.std()) < 0.03
    assert 75 <= int((slope < 0).sum()) <= 125
    colour = shown[:, 1:].mean((2, 3)) - 128 / 255  # green and blue are constant: the rest is the lighting
    assert 0.010 < float(colour[:, 0].std()) < 0.016  # 0.1 * sqrt(sum((vector * value)^2)) = 0.0126
    assert 0.010 < float(colour[:, 1].std()) < 0.016  # 0.0128
    assert float(shown[:, 1].flatten(1).std(1).max()) < 1e-6  # one colour per image


def test_evaluation_reads_each_file_once_with_pillow(tree: Path) -> None:
    dataset = load("imagenet", tree)
    parts = [list(dataset.eval_batches(4, rank=r, world_size=2, channels_last=True).epoch()) for r in (0, 1)]
    assert sorted(y for part in parts for _, ys in part for y in ys.tolist()) == [0] * 5 + [1] * 3 + [2]
    x = parts[0][0][0]
    assert x.is_contiguous(memory_format=torch.channels_last)
    assert isinstance(dataset.evaluation, ImageFiles)
    pixels = np.asarray(centre_crop(read_image(dataset.evaluation.files[0]))).astype(np.float64) / 255
    expected = (pixels - np.array(dataset.mean)) / np.array(dataset.std)
    np.testing.assert_allclose(x[0].permute(1, 2, 0), expected, atol=1e-5)


def test_augment_none_trains_on_the_centre(tree: Path) -> None:
    from dataclasses import replace

    dataset = replace(load("imagenet", tree), augment="none")
    x, y = next(dataset.train_batches(30, seed=0).epoch(0))
    assert isinstance(dataset.train, ImageFiles)
    assert y.tolist() != dataset.train.targets.tolist()
    index = int((y == 0).nonzero()[0])
    candidates = [np.asarray(centre_crop(read_image(f))) / 255.0 for f in dataset.train.files[:10]]
    shown = x[index].permute(1, 2, 0).numpy() * np.array(dataset.std) + np.array(dataset.mean)
    assert min(float(np.abs(shown - c).max()) for c in candidates) < 1e-5
    with pytest.raises(ValueError, match="'crop-flip' is unknown for image files; choose one of none, resized-crop"):
        replace(dataset, augment="crop-flip").train_batches(4, seed=0)


@pytest.mark.parametrize("size", [(75, 56), (56, 75), (1200, 477), (224, 224), (1, 900), (301, 300)])
def test_centre_crop_resizes_the_shorter_side_to_256(size: tuple[int, int]) -> None:
    """Along a gradient, the middle of the crop shows the middle of the picture, and its edges the part cut off."""
    width, height = size
    x = np.linspace(0, 255, width) if width > 1 else np.full(1, 127.5)
    image = Image.fromarray(np.repeat(x[None], height, 0).astype(np.float32)).convert("RGB")
    out = np.asarray(centre_crop(image)).astype(float)
    assert out.shape == (224, 224, 3)
    if width >= 56:
        shown = 224 / (256 * max(1, width / height))  # share of the width inside the crop
        assert abs(out[:, 111:113].mean() - 127.5) < 3
        assert abs((out[112, -1, 0] - out[112, 0, 0]) / 255 - shown) < 0.03


def test_random_boxes_have_the_published_distribution() -> None:
    rng = np.random.default_rng(0)
    boxes = np.array([random_box(400, 300, rng) for _ in range(4000)])
    w, h = boxes[:, 2] - boxes[:, 0], boxes[:, 3] - boxes[:, 1]
    assert boxes[:, :2].min() >= 0
    assert boxes[:, 2].max() <= 400
    assert boxes[:, 3].max() <= 300
    area, ratio = w * h / 120_000, w / h
    assert 0.075 < area.min() < 0.09
    assert area.max() > 0.95
    assert ratio.min() > 0.73
    assert ratio.max() < 1.36
    assert abs(np.log(ratio[area < 0.3]).mean()) < 0.02  # small boxes are never rejected: symmetric in the logarithm


@pytest.mark.parametrize(
    ("size", "box"), [((900, 9), (444, 0, 456, 9)), ((9, 900), (0, 444, 9, 456)), ((1, 1), (0, 0, 1, 1))]
)
def test_an_image_that_fits_no_box_gives_its_centre(size: tuple[int, int], box: tuple[int, int, int, int]) -> None:
    drawn = [random_box(*size, np.random.default_rng(seed)) for seed in range(50)]
    assert box in drawn
    for left, top, right, bottom in drawn:
        assert 0 <= left < right <= size[0]
        assert 0 <= top < bottom <= size[1]
        assert math.isfinite((right - left) / (bottom - top))


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("damage", ["cut", "text", "empty"])
def test_a_damaged_image_is_named(tree: Path, tmp_path: Path, reader: str, damage: str) -> None:
    shutil.copytree(tree / "imagenet", tmp_path / "imagenet")
    bad = tmp_path / "imagenet" / "train" / "n02" / "8.JPEG"
    data = bad.read_bytes()
    bad.write_bytes({"cut": data[: len(data) // 2], "text": b"not an image", "empty": b""}[damage])
    with pytest.raises(ValueError, match=r"n02/8\.JPEG is not a readable image"):
        for _ in load("imagenet", tmp_path, reader=reader, workers=1).train_batches(6, seed=0).epoch(0):
            pass


def test_abandoning_an_epoch_leaves_no_threads(tree: Path) -> None:
    import threading

    before = threading.active_count()
    epoch = iter(load("imagenet", tree, reader="pillow").train_batches(2, seed=0).epoch(0))
    next(epoch)
    assert threading.active_count() > before
    del epoch
    assert threading.active_count() == before


def test_inconsistent_folders_are_refused(tmp_path: Path, tree: Path) -> None:
    shutil.copytree(tree / "imagenet", tmp_path / "a")
    (tmp_path / "a" / "val" / "n99").mkdir()
    with pytest.raises(ValueError, match="val has class n99, which train/ does not have"):
        load("imagenet", tmp_path / "a", reader="pillow")
    for part in ("train", "val"):
        (tmp_path / "b" / part / "n01").mkdir(parents=True)
    with pytest.raises(ValueError, match="no images"):
        load("imagenet", tmp_path / "b", reader="pillow")
    with pytest.raises(ValueError, match="reader 'turbo', workers 4: choose one of auto, dali, pillow"):
        load("imagenet", tree, reader="turbo")
    with pytest.raises(ValueError, match="workers 0"):
        load("imagenet", tree, workers=0)


@pytest.mark.data
def test_real_files_of_odd_sizes(real_data: Path) -> None:
    paths = sorted((real_data / "imagenet-sample" / "fullsize").glob("*/*.JPEG"))
    assert len(paths) == 43
    for path in paths:
        image = read_image(str(path))
        assert np.asarray(centre_crop(image)).shape == (224, 224, 3)


@pytest.mark.data
@pytest.mark.parametrize("reader", READERS)
def test_real_images_through_two_ranks(real_data: Path, reader: str) -> None:
    dataset = load("imagenet", real_data, reader=reader, workers=1)
    assert (len(dataset.train), len(dataset.evaluation), dataset.num_classes) == (1100, 320, 10)
    for rank in (0, 1):
        x, y = next(dataset.train_batches(32, seed=0, rank=rank, world_size=2).epoch(0))
        assert x.shape == (16, 3, 224, 224)
        assert len(y.unique()) > 3
        assert abs(float(x.mean())) < 0.5  # normalised photographs
        assert 0.6 < float(x.std()) < 1.5


@pytest.mark.parametrize("size", [(1, 60_000), (60_000, 1), (2, 129), (3, 700)])
def test_strip_is_cropped_before_it_is_resized(size: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    resize, largest = Image.Image.resize, 0

    def noted(self: Image.Image, size: tuple[int, int], *words: Any, **values: Any) -> Image.Image:
        nonlocal largest
        largest = max(largest, size[0] * size[1])
        return resize(self, size, *words, **values)

    monkeypatch.setattr(Image.Image, "resize", noted)
    image = Image.new("RGB", size, (10, 20, 30))
    cropped = np.asarray(centre_crop(image))
    assert cropped.shape == (224, 224, 3)
    assert (cropped == (10, 20, 30)).all()
    assert largest <= 256 * 256 * 64


def test_centre_of_a_strip_equals_that_of_the_resized_image() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (3, 300, 3), dtype=np.uint8)
    image = Image.fromarray(pixels)
    whole = image.resize((25_600, 256), Image.Resampling.BILINEAR).crop((12_688, 16, 12_912, 240))
    assert np.abs(np.asarray(centre_crop(image)).astype(int) - np.asarray(whole)).max() <= 1
