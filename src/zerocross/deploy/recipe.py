"""How evaluation prepares the samples of a dataset, in the form that a packed network carries."""

from __future__ import annotations

from zerocross.data import sound
from zerocross.data.dataset import Dataset
from zerocross.runtime.preprocess import Audio, Preprocessing


def preprocessing_of(dataset: Dataset) -> Preprocessing:
    """The preprocessing of a dataset's evaluation part.

    Images that are smaller or larger than a dataset's own are resized to them; ImageNet's are resized to 256 and cut.
    Clips of AudioMNIST are set in the middle of their second; as waveforms, evaluation sets them at a place drawn for
    each clip instead.
    """
    mean, std = tuple(dataset.mean), tuple(dataset.std)
    if dataset.name == "audiomnist":
        if len(dataset.input_size) == 1:
            return Preprocessing("wave", mean, std, audio=Audio(sound.RATE, sound.SAMPLES))
        recipe = Audio(
            sound.RATE, sound.SAMPLES, sound.WINDOW, sound.HOP, sound.FRAMES, sound.MELS, sound.TOP_HZ, sound.FLOOR_DB
        )
        return Preprocessing("logmel", mean, std, audio=recipe)
    if dataset.name == "imagenet":
        from zerocross.data.image_batches import RESIZE

        return Preprocessing("image", mean, std, resize=RESIZE)
    if dataset.name in {"cifar10", "digits"}:
        return Preprocessing("image", mean, std, resize=dataset.input_size[1])
    return Preprocessing("array", mean, std)
