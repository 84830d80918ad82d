"""AudioMNIST: waveforms of any kind, log-mel features, speaker-disjoint folds."""

from __future__ import annotations

import json
import wave
from pathlib import Path

import numpy as np
import pytest

from reference import spectra as naive
from zerocross.data import Split, audiomnist, load, sound


def tone(samples: int, rate: int, hz: float = 440.0, level: float = 8000.0) -> np.ndarray:
    t = np.arange(samples) / rate
    return level * np.sin(2 * np.pi * hz * t) * np.hanning(samples)


def write_wave(path: Path, signal: np.ndarray, rate: int = 8000, width: int = 2, channels: int = 1) -> Path:
    """Write a signal given in 16-bit units with samples of 1 to 4 bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    integers = np.rint(signal * 2.0 ** (8 * (width - 2))).astype("<i4") + (128 if width == 1 else 0)
    data = np.repeat(integers, channels).view(np.uint8).reshape(-1, 4)[:, :width].tobytes()
    with wave.open(str(path), "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(width)
        file.setframerate(rate)
        file.writeframes(data)
    return path


@pytest.fixture(scope="module")
def waves(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the official layout with one clip per speaker and digit; each speaker has a different pitch."""
    home = tmp_path_factory.mktemp("data")
    for speaker in range(1, 61):
        for digit in range(10):
            path = home / "audiomnist" / "data" / f"{speaker:02d}" / f"{digit}_{speaker:02d}_0.wav"
            write_wave(path, tone(600 + 10 * digit, 8000, hz=200 + 20 * speaker))
    return home


@pytest.mark.parametrize("width", [1, 2, 3, 4])
@pytest.mark.parametrize("channels", [1, 2])
def test_any_width_and_channels(tmp_path: Path, width: int, channels: int) -> None:
    signal = tone(900, 8000)
    clip = audiomnist.read_clip(write_wave(tmp_path / "a.wav", signal, width=width, channels=channels))
    assert clip.dtype == np.int16
    np.testing.assert_allclose(clip, signal, atol=129 if width == 1 else 0.51)


@pytest.mark.parametrize("rate", [8000, 11025, 16000, 44100, 48000])
def test_any_rate_becomes_8_khz(tmp_path: Path, rate: int) -> None:
    seconds = 0.6
    clip = audiomnist.read_clip(write_wave(tmp_path / "a.wav", tone(int(seconds * rate), rate), rate=rate))
    assert len(clip) == -(-int(seconds * rate) * 8000 // rate)
    # Of 8,000: the ends differ by a fraction of a sample.
    np.testing.assert_allclose(clip, tone(len(clip), 8000), atol=40)


def test_resampling_follows_the_recipe() -> None:
    from scipy.signal import resample

    signal = np.random.default_rng(0).integers(-3000, 3000, 4801).astype(np.int16)
    expected = np.rint(np.asarray(resample(signal.astype(np.float32), 801))).astype(np.int16)
    np.testing.assert_array_equal(sound.resampled(signal, 48000), expected)


@pytest.mark.parametrize("content", [b"", b"RIFF", b"no wave file at all" * 9])
def test_a_file_that_is_not_a_wave_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "3_01_7.wav"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"3_01_7\.wav is not a readable PCM wave file"):
        audiomnist.read_clip(path)


def test_clips_that_are_too_long_or_empty_are_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"long\.wav lasts 1\.50 s"):
        audiomnist.read_clip(write_wave(tmp_path / "long.wav", tone(12000, 8000)))
    with pytest.raises(ValueError, match=r"empty\.wav is cut short or empty"):
        audiomnist.read_clip(write_wave(tmp_path / "empty.wav", np.zeros(0)))


def test_clip_with_an_absurd_rate_is_refused_before_resampling(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At 3 Hz, a file of 2 MB would be resampled to 9.9 GB."""
    monkeypatch.setattr(sound, "resampled", lambda *_: pytest.fail("it was resampled"))
    path = write_wave(tmp_path / "slow.wav", np.zeros(1_000_000), rate=3)
    with pytest.raises(ValueError, match=r"slow\.wav lasts 333333\.33 s at 3 Hz; AudioMNIST's clips last 1 s at most"):
        audiomnist.read_clip(path)


@pytest.mark.parametrize("share", [0.05, 0.5, 0.99])
def test_truncated_clip_is_not_read_as_a_shorter_one(tmp_path: Path, share: float) -> None:
    path = write_wave(tmp_path / "cut.wav", tone(6000, 8000))
    path.write_bytes(path.read_bytes()[: 2 * int(share * path.stat().st_size / 2)])
    with pytest.raises(ValueError, match=r"cut\.wav is cut short or empty: its header states 6000 samples"):
        audiomnist.read_clip(path)


def test_log_mel_equals_its_naive_twin() -> None:
    rng = np.random.default_rng(1)
    clips = [rng.normal(0, 500, n).astype(np.int16) for n in (2346, 5141, 8000)] + [tone(3001, 8000).astype(np.int16)]
    fast = sound.log_mel(sound.centred(clips))
    for row, clip in zip(fast, clips, strict=True):
        np.testing.assert_array_equal(row, naive.log_mel(clip))


def test_silence_is_at_the_floor() -> None:
    assert not sound.log_mel(np.zeros((2, 8000), dtype=np.int16)).any()


def test_waves_are_placed_within_the_second_and_scaled_by_their_percentile() -> None:
    clips = [tone(n, 8000).astype(np.int16) for n in (100, 4000, 8000)]
    x = sound.scaled(clips, [1, 2, 3])
    assert x.shape == (3, 8000)
    assert x.dtype == np.float32
    for row, clip in zip(x, clips, strict=True):
        first = np.flatnonzero(row)[0] - np.flatnonzero(clip)[0]
        padded = np.zeros(8000)
        padded[first : first + len(clip)] = clip
        np.testing.assert_allclose(row, padded / (np.percentile(padded, 95) + 0.001), rtol=1e-5)
    places = {int(np.flatnonzero(sound.scaled(clips[:1], [seed])[0])[0]) for seed in range(20)}
    assert len(places) > 15


def test_folds_are_disjoint_and_every_speaker_is_tested_once() -> None:
    tested = []
    for fold in range(5):
        parts = audiomnist.fold_speakers(fold)
        assert [len(parts[name]) for name in ("train", "validate", "test")] == [36, 12, 12]
        assert set().union(*parts.values()) == set(range(1, 61))
        tested += parts["test"]
    assert sorted(tested) == list(range(1, 61))
    with pytest.raises(ValueError, match=r"fold 5 is outside 0\.\.4"):
        audiomnist.fold_speakers(5)


def test_a_splits_file_is_used_and_checked(tmp_path: Path) -> None:
    path = tmp_path / "splits.json"
    path.write_text(json.dumps({"digit": {"train": [[1, 2]], "validate": [[3]], "test": [[4]]}}))
    assert audiomnist.fold_speakers(0, path) == {"train": (1, 2), "validate": (3,), "test": (4,)}
    with pytest.raises(ValueError, match="has no fold 1"):
        audiomnist.fold_speakers(1, path)
    path.write_text(json.dumps({"digit": {"train": [[1, 2]], "validate": [[2]], "test": [[4]]}}))
    with pytest.raises(ValueError, match="a speaker is in more than one split"):
        audiomnist.fold_speakers(0, path)
    path.write_text("{}")
    with pytest.raises(ValueError, match="remove it to use the built-in folds"):
        audiomnist.fold_speakers(0, path)


def test_loading_waveforms(waves: Path) -> None:
    messages: list[tuple[int, int]] = []
    dataset = load("audiomnist", waves, fold=1, progress=lambda done, total: messages.append((done, total)))
    assert (len(dataset.train), len(dataset.evaluation), dataset.input_size) == (360, 120, (1, 40, 32))
    assert messages[-1] == (480, 480)
    assert "waveforms" in dataset.source
    assert isinstance(dataset.evaluation, Split)
    clips = audiomnist.clip_files(waves / "audiomnist")
    expected = [key for key in clips if key[0] in audiomnist.fold_speakers(1)["test"]]
    assert dataset.evaluation.targets.tolist() == [digit for _, digit, _ in expected]
    codes = sound.log_mel(sound.centred([audiomnist.read_clip(clips[key]) for key in expected]))
    np.testing.assert_array_equal(dataset.evaluation.inputs[:, 0].numpy(), codes)


def test_waveforms_do_not_depend_on_validate(waves: Path) -> None:
    a, b = (load("audiomnist", waves / "audiomnist", features="wave", validate=v) for v in (False, True))
    assert a.input_size == (8000,)
    assert isinstance(a.train, Split)
    assert isinstance(b.train, Split)
    np.testing.assert_array_equal(a.train.inputs.numpy(), b.train.inputs.numpy())


def test_packed_features_are_preferred(waves: Path, tmp_path: Path) -> None:
    speaker = np.repeat(np.arange(1, 61, dtype=np.uint8), 2)
    codes = np.random.default_rng(0).integers(0, 256, (120, 40, 32), dtype=np.uint8)
    path = tmp_path / "logmel40x32.npz"
    np.savez(path, logmel=codes, digit=np.tile(np.array([3, 4], dtype=np.uint8), 60), speaker=speaker)
    dataset = load("audiomnist", tmp_path, validate=True)
    assert "logmel40x32.npz" in dataset.source
    assert dataset.evaluated_on == "validation"
    assert isinstance(dataset.evaluation, Split)
    chosen = np.isin(speaker, audiomnist.fold_speakers(0)["validate"])
    np.testing.assert_array_equal(dataset.evaluation.inputs[:, 0].numpy(), codes[chosen])
    path.write_bytes(path.read_bytes()[:2000])
    with pytest.raises(ValueError, match=r"logmel40x32\.npz is damaged"):
        load("audiomnist", tmp_path)
    np.savez(path, logmel=codes[:, :39], digit=speaker, speaker=speaker)
    with pytest.raises(ValueError, match=r"expected uint8 \(N, 40, 32\)"):
        load("audiomnist", tmp_path)
    np.savez(path, logmel=np.array([{"a": 1}], dtype=object), digit=speaker, speaker=speaker)
    with pytest.raises(ValueError, match="allow_pickle=False"):
        load("audiomnist", tmp_path)


def test_missing_speakers_and_unknown_features_are_named(tmp_path: Path) -> None:
    write_wave(tmp_path / "data" / "01" / "0_01_0.wav", tone(800, 8000))
    with pytest.raises(ValueError, match="no clips of speakers 2, 3, 6"):
        load("audiomnist", tmp_path)
    with pytest.raises(ValueError, match="features 'mfcc' is unknown; choose one of logmel, wave"):
        load("audiomnist", tmp_path, features="mfcc")


@pytest.mark.data
def test_real_features_equal_those_computed_from_the_real_waves(real_data: Path) -> None:
    home = real_data / "audiomnist"
    clips = audiomnist.clip_files(home)
    with np.load(home / audiomnist.PACKED) as packed:
        keys = zip(packed["speaker"].tolist(), packed["digit"].tolist(), packed["rep"].tolist(), strict=True)
        row, codes = {key: i for i, key in enumerate(keys)}, packed["logmel"]
    sample = list(clips)[::23]
    assert len(sample) > 500
    computed = sound.log_mel(sound.centred([audiomnist.read_clip(clips[key]) for key in sample]))
    np.testing.assert_array_equal(computed, codes[[row[key] for key in sample]])


@pytest.mark.data
def test_real_folds_equal_the_built_in_ones(real_data: Path) -> None:
    for fold in range(5):
        built_in = audiomnist.fold_speakers(fold)
        assert audiomnist.fold_speakers(fold, real_data / "audiomnist" / "splits.json") == built_in
    dataset = load("audiomnist", real_data, fold=4)
    assert (len(dataset.train), len(dataset.evaluation)) == (18_000, 6_000)
