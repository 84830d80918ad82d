"""The interface of a model: representation, accepted inputs, pickling."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from reference.packed_graph import GRAPH
from zerocross.runtime.format import write
from zerocross.runtime.model import Model, load
from zerocross.runtime.thread_pool import processors

PIXELS = np.random.default_rng(0).integers(0, 256, (3, 1, 8, 8)).astype(np.uint8)


def test_bytes_are_normalised_like_images(tmp_path: Path):
    model = Model(GRAPH)
    expected = model((PIXELS.astype(np.float32) / 255 - 0.5) / 0.25)
    np.testing.assert_allclose(model(PIXELS), expected, rtol=1e-4, atol=1e-4)
    np.save(tmp_path / "x.npy", PIXELS)
    Image.fromarray(PIXELS[0, 0]).save(tmp_path / "x.png")
    for one, count in ((PIXELS, 3), (PIXELS[0], 1), (tmp_path / "x.npy", 3), (str(tmp_path / "x.png"), 1)):
        np.testing.assert_array_equal(model(model.preprocess(one)), model(PIXELS[:count]))
    np.testing.assert_array_equal(model(model.preprocess(Image.fromarray(PIXELS[0, 0]))), model(PIXELS[:1]))


@pytest.mark.parametrize("dtype", [np.int64, np.int32, bool, np.uint16])
def test_ambiguous_dtypes_are_refused(dtype: type):
    model = Model(GRAPH)
    for call in (model, model.preprocess):
        with pytest.raises(ValueError, match=r"floating-point .* or uint8 \(0..255"):
            call(PIXELS.astype(dtype))


def test_bytes_need_preprocessing():
    model = Model(replace(GRAPH, preprocessing=None))
    for call in (model, model.preprocess):
        with pytest.raises(ValueError, match="has no preprocessing for bytes; pass float32"):
            call(PIXELS)
    with pytest.raises(ValueError, match="has no preprocessing for images"):
        model.preprocess(Image.fromarray(PIXELS[0, 0]))


def test_preprocessing_refuses_wrong_shapes_and_non_finite_numbers():
    model = Model(GRAPH)
    x = np.zeros((1, 8, 8))
    with pytest.raises(ValueError, match=r"has shape \(1, 8\); the network takes \(N, 1, 8, 8\)"):
        model.preprocess(x[0, :1])
    x[0, 1, 2] = np.nan
    with pytest.raises(ValueError, match="1 numbers that are NaN or infinite"):
        model.preprocess(x)


def test_attributes_and_representation():
    model = Model(replace(GRAPH, provenance={"network": "every op"}))
    assert model.classes == tuple("abcdefghijklmn")
    assert model.input_size == (1, 8, 8)
    assert repr(model) == (
        "Model('every op', input_size=(1, 8, 8), output_size=(14,), 696 binary and 51 real weights, threads=1)"
    )


@pytest.mark.parametrize("copied", [lambda model: pickle.loads(pickle.dumps(model)), copy.deepcopy])
def test_a_model_can_be_pickled(copied, tmp_path: Path):
    write(tmp_path / "net.zcb", GRAPH)
    model = load(tmp_path / "net.zcb", threads=min(2, processors()))
    expected = model(PIXELS)
    (tmp_path / "net.zcb").unlink()
    again = copied(model)
    np.testing.assert_array_equal(again(PIXELS), expected)
    assert (again.threads, again.classes, repr(again)) == (model.threads, model.classes, repr(model))
