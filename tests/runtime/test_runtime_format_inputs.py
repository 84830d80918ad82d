"""Inputs from files, without torch: they are equal to those of evaluation."""

from __future__ import annotations

import json
import subprocess
import sys
import wave
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from zerocross import data
from zerocross.data import sound
from zerocross.data.audiomnist import preprocess as audio_preprocess
from zerocross.data.audiomnist import read_clip as evaluated_clip
from zerocross.data.augment import normalised
from zerocross.data.dataset import Dataset, from_tensors
from zerocross.runtime.preprocess import Audio, Preprocessing, log_mel, read_clip, read_input
from zerocross.train.inputs import inputs_of


def first_batch(dataset: Dataset, count: int) -> np.ndarray:
    return next(iter(dataset.eval_batches(count).epoch()))[0].numpy()


def preprocessing_of(dataset: Dataset) -> Preprocessing:
    """Return the preprocessing as a run folder stores it and a packed file receives it."""
    recipe = Preprocessing.from_json(json.loads(json.dumps(inputs_of(dataset).preprocessing)))
    assert recipe is not None
    recipe.check(dataset.input_size)
    return recipe


def saved_wave(path: Path, samples: np.ndarray, rate: int, width: int = 2, channels: int = 1) -> Path:
    with wave.open(str(path), "wb") as file:
        file.setparams((channels, width, rate, 0, "NONE", ""))
        file.writeframes(samples.tobytes())
    return path


def test_digits_as_images_and_as_bytes_equal_those_of_evaluation(tmp_path: Path):
    dataset = data.load("digits")
    expected = first_batch(dataset, 6)
    pixels = dataset.evaluation.inputs[:6].numpy()  # type: ignore[attr-defined]
    recipe = preprocessing_of(dataset)
    np.save(tmp_path / "six.npy", pixels)
    np.testing.assert_array_equal(read_input(tmp_path / "six.npy", recipe, (1, 8, 8)), expected)
    for index in range(6):
        Image.fromarray(pixels[index, 0]).save(tmp_path / "one.png")
        np.testing.assert_array_equal(read_input(tmp_path / "one.png", recipe, (1, 8, 8))[0], expected[index])


@pytest.mark.data
def test_cifar_images_equal_those_of_evaluation(real_data: Path, tmp_path: Path):
    dataset = data.load("cifar10", real_data)
    expected = first_batch(dataset, 4)
    for index in range(4):
        pixels = dataset.evaluation.inputs[index].numpy()  # type: ignore[attr-defined]
        Image.fromarray(pixels.transpose(1, 2, 0)).save(tmp_path / "one.png")
        result = read_input(tmp_path / "one.png", preprocessing_of(dataset), dataset.input_size)
        np.testing.assert_array_equal(result[0], expected[index])


@pytest.mark.data
def test_imagenet_files_equal_those_of_evaluation(real_data: Path):
    dataset = data.load("imagenet", real_data)
    expected = first_batch(dataset, 8)
    for path, each in zip(dataset.evaluation.files[:8], expected, strict=True):  # type: ignore[attr-defined]
        result = read_input(path, preprocessing_of(dataset), dataset.input_size)
        np.testing.assert_array_equal(result[0], each)


def speech_dataset() -> Dataset:
    codes = torch.randint(0, 256, (20, 1, 40, 32), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(20) % 2
    return from_tensors(codes, labels, codes, labels, name="spoken", preprocess=audio_preprocess("logmel"))


@pytest.mark.parametrize("rate", [8000, 48000])
def test_clips_equal_those_of_evaluation(tmp_path: Path, rate: int):
    rng = np.random.default_rng(rate)
    for length in (0.3, 0.77, 1.0):
        signal = (rng.normal(size=int(length * rate)) * 8000).clip(-32768, 32767).astype(np.int16)
        path = saved_wave(tmp_path / "clip.wav", signal, rate)
        recipe = preprocessing_of(speech_dataset())
        codes = sound.log_mel(sound.centred([evaluated_clip(path)]))[:, None]
        expected = normalised(torch.from_numpy(codes), recipe.mean, recipe.std).numpy()
        np.testing.assert_array_equal(read_input(path, recipe, (1, 40, 32)), expected)


@pytest.mark.data
def test_real_clips_equal_those_of_evaluation(real_data: Path):
    recipe = Audio(sound.RATE, sound.SAMPLES)
    clips = sorted((real_data / "audiomnist" / "data").rglob("*.wav"))[:6]
    for path in clips:
        np.testing.assert_array_equal(
            log_mel(read_clip(path, recipe), recipe), sound.log_mel(sound.centred([evaluated_clip(path)]))[0]
        )


@pytest.mark.parametrize("width", [1, 2, 3, 4])
def test_clips_of_every_sample_width_are_read_as_in_evaluation(tmp_path: Path, width: int):
    rng = np.random.default_rng(width)
    raw = rng.integers(0, 256, (500, 2, width)).astype(np.uint8)
    path = saved_wave(tmp_path / "clip.wav", raw, 8000, width, 2)
    result = read_clip(path, Audio(8000, 8000))
    np.testing.assert_array_equal(result, sound.centred([evaluated_clip(path)])[0])


def test_waves_are_scaled_as_in_evaluation(tmp_path: Path):
    # A whole second, so that no padding is needed.
    signal = (np.random.default_rng(0).normal(size=8000) * 3000).astype(np.int16)
    path = saved_wave(tmp_path / "clip.wav", signal, 8000)
    recipe = Preprocessing("wave", audio=Audio(8000, 8000))
    np.testing.assert_array_equal(read_input(path, recipe, (8000,)), sound.scaled([signal], [0]))


def test_images_of_other_sizes_are_resized_and_cropped(tmp_path: Path):
    Image.new("RGB", (64, 48), (255, 0, 0)).save(tmp_path / "red.png")
    recipe = Preprocessing("image", resize=32)
    result = read_input(tmp_path / "red.png", recipe, (3, 32, 32))
    assert result.shape == (1, 3, 32, 32)
    assert (result[0, 0] == 1).all()
    assert (result[0, 1:] == 0).all()
    assert read_input(tmp_path / "red.png", recipe, (1, 32, 32)).shape == (1, 1, 32, 32)


def test_floats_are_used_unchanged(tmp_path: Path):
    x = np.random.default_rng(0).normal(size=(2, 1, 8, 8))
    np.save(tmp_path / "x.npy", x)
    np.testing.assert_array_equal(read_input(tmp_path / "x.npy", None, (1, 8, 8)), x.astype(np.float32))
    np.save(tmp_path / "x.npy", x[0])
    assert read_input(tmp_path / "x.npy", None, (1, 8, 8)).shape == (1, 1, 8, 8)


IMAGE, CLIP = Preprocessing("image", resize=8), Preprocessing("logmel", audio=Audio(8000, 8000))


@pytest.mark.parametrize(
    ("name", "content", "preprocessing", "size", "reason"),
    [
        ("a.txt", b"", IMAGE, (1, 8, 8), "this network takes .png"),
        ("a.png", b"", CLIP, (1, 40, 32), "this network takes .wav, .npy"),
        ("a.wav", b"", IMAGE, (1, 8, 8), "this network takes .png"),
        ("a.png", b"no image", IMAGE, (1, 8, 8), "is not a readable image"),
        ("a.wav", b"no wave", CLIP, (1, 40, 32), "is not a readable PCM wave file"),
        ("a.npy", b"no array", IMAGE, (1, 8, 8), "is not a readable array"),
    ],
)
def test_other_files_are_refused(
    tmp_path: Path, name: str, content: bytes, preprocessing: Preprocessing, size: tuple[int, ...], reason: str
):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=reason):
        read_input(tmp_path / name, preprocessing, size)


def test_arrays_that_do_not_fit_and_clips_that_are_too_long_are_refused(tmp_path: Path):
    for array, reason in (
        (np.zeros((2, 3, 8, 8), np.float32), r"has shape \(2, 3, 8, 8\); the network takes \(N, 1, 8, 8\)"),
        (np.zeros((0, 1, 8, 8), np.float32), "has shape|is not a readable array"),
        (
            np.zeros((1, 8, 8), np.int64),
            r"has dtype int64; it must be floating-point .* or uint8",
        ),
        (np.array([None, {}], dtype=object), "is not a readable array"),
    ):
        np.save(tmp_path / "x.npy", array, allow_pickle=True)
        with pytest.raises(ValueError, match=reason):
            read_input(tmp_path / "x.npy", IMAGE, (1, 8, 8))
    np.save(tmp_path / "x.npy", np.zeros((1, 8, 8), np.uint8))
    with pytest.raises(ValueError, match="has no preprocessing for bytes"):
        read_input(tmp_path / "x.npy", None, (1, 8, 8))
    huge = (
        np.lib.format.magic(1, 0)
        + b"\x76\x00"
        + b"{'descr': '|u1', 'fortran_order': False, 'shape': (9999999999, 1, 8, 8), }".ljust(117)
        + b"\n"
    )
    (tmp_path / "x.npy").write_bytes(huge)
    with pytest.raises(ValueError, match="is not a readable array"):
        read_input(tmp_path / "x.npy", IMAGE, (1, 8, 8))
    Image.new("L", (1, 3000)).save(tmp_path / "line.png")
    with pytest.raises(ValueError, match="1 x 3000 pixels: too elongated to be resized"):
        read_input(tmp_path / "line.png", IMAGE, (1, 8, 8))
    path = saved_wave(tmp_path / "long.wav", np.zeros(8001, np.int16), 8000)
    with pytest.raises(ValueError, match=r"lasts 1\.00 s; the network takes clips of at most 1 s"):
        read_input(path, CLIP, (1, 40, 32))


def test_reading_needs_no_torch():
    code = "import sys, zerocross.runtime.format, zerocross.runtime.preprocess; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


RECIPE = Preprocessing("image", (0.5,), (0.25,), resize=4)


def test_sixteen_bits_keep_their_brightness(tmp_path: Path):
    grey = np.linspace(0, 65535, 16).astype(np.uint16).reshape(4, 4)
    Image.fromarray(grey).save(tmp_path / "deep.png")
    Image.fromarray((grey >> 8).astype(np.uint8)).save(tmp_path / "plain.png")
    for channels in (1, 3):
        deep, plain = (read_input(tmp_path / f"{name}.png", RECIPE, (channels, 4, 4)) for name in ("deep", "plain"))
        np.testing.assert_array_equal(deep, plain)
    for kind in ("I", "F"):
        Image.fromarray(grey).convert(kind).save(tmp_path / "deep.tif")
        with pytest.raises(ValueError, match="32-bit pixels"):
            read_input(tmp_path / "deep.tif", RECIPE, (1, 4, 4))


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P"])
def test_transparent_images_are_refused_and_opaque_ones_read(mode: str, tmp_path: Path):
    image = Image.new("RGBA", (4, 4), (200, 200, 200, 255))
    opaque = image.convert(mode)
    opaque.save(tmp_path / "opaque.png")
    image.convert("L").save(tmp_path / "plain.png")
    expected = read_input(tmp_path / "plain.png", RECIPE, (1, 4, 4))
    np.testing.assert_array_equal(read_input(tmp_path / "opaque.png", RECIPE, (1, 4, 4)), expected)
    image.putpixel((1, 2), (0, 0, 0, 0))
    if mode == "P":
        opaque.save(tmp_path / "clear.png", transparency=opaque.getpixel((0, 0)))
    else:
        image.convert(mode).save(tmp_path / "clear.png")
    with pytest.raises(ValueError, match=r"clear.png is partly transparent: save it on a background"):
        read_input(tmp_path / "clear.png", RECIPE, (1, 4, 4))
