"""The batch kernels against naive twins, and their random draws against the expected distributions."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from reference import images as naive
from zerocross.data.augment import EIGENVALUES, EIGENVECTORS, augmented, crop, lighting, normalised


@settings(max_examples=30, deadline=None)
@given(st.data(), st.integers(1, 3), st.integers(1, 3), st.integers(1, 6), st.integers(1, 6))
def test_crop_equals_its_naive_twin(data: st.DataObject, n: int, c: int, h: int, w: int) -> None:
    padding = data.draw(st.tuples(st.integers(0, 4), st.integers(0, 4)))
    top = data.draw(st.lists(st.integers(0, 2 * padding[0]), min_size=n, max_size=n))
    left = data.draw(st.lists(st.integers(0, 2 * padding[1]), min_size=n, max_size=n))
    flip = data.draw(st.lists(st.booleans(), min_size=n, max_size=n))
    x = torch.arange(1, n * c * h * w + 1).reshape(n, c, h, w)
    fast = crop(x, torch.tensor(top), torch.tensor(left), torch.tensor(flip), padding)
    assert torch.equal(fast, naive.crop(x, top, left, flip, padding))


def test_crop_flip_draws_every_window_and_only_those() -> None:
    image = torch.arange(1, 33, dtype=torch.uint8).view(1, 1, 1, 32) * torch.ones(1, 1, 32, 1, dtype=torch.uint8)
    image[0, 0, :, 0] = torch.arange(100, 132)  # each row and column has a distinct value
    windows = {}
    for top in range(9):
        for left in range(9):
            for flip in (False, True):
                window = crop(image, torch.tensor([top]), torch.tensor([left]), torch.tensor([flip]), (4, 4))
                windows[window.numpy().tobytes()] = (top, left, flip)
    assert len(windows) == 162
    batch = augmented(image.expand(4000, 1, 32, 32), "crop-flip", torch.Generator().manual_seed(0))
    drawn = [windows[one.numpy().tobytes()] for one in batch]
    assert len(set(drawn)) == 162
    assert abs(sum(flip for _, _, flip in drawn) / 4000 - 0.5) < 0.03


def test_shift_moves_along_the_last_axis_only() -> None:
    x = torch.arange(1, 41, dtype=torch.uint8).view(1, 1, 5, 8).expand(300, 1, 5, 8)
    moved = augmented(x, "shift", torch.Generator().manual_seed(1))
    padded = torch.nn.functional.pad(x[0], (4, 4))
    expected = {padded[..., left : left + 8].contiguous().numpy().tobytes() for left in range(9)}
    assert {one.numpy().tobytes() for one in moved} == expected


def test_none_changes_nothing() -> None:
    x = torch.randint(0, 255, (3, 3, 8, 8), dtype=torch.uint8)
    assert augmented(x, "none", torch.Generator()) is x


def test_normalisation_of_bytes_and_floats() -> None:
    generator = torch.Generator().manual_seed(2)
    x = torch.randint(0, 256, (4, 3, 5, 5), dtype=torch.uint8, generator=generator)
    mean, std = (0.1, 0.2, 0.3), (0.5, 0.6, 0.7)
    column = lambda values: torch.tensor(values).view(1, 3, 1, 1)  # noqa: E731
    expected = (x.double() / 255 - column(mean)) / column(std)
    torch.testing.assert_close(normalised(x, mean, std).double(), expected, rtol=0, atol=1e-6)
    floats = x.float()
    torch.testing.assert_close(normalised(floats / 255, mean, std).double(), expected, rtol=0, atol=1e-6)
    assert torch.equal(floats, x.float())  # the caller's tensor is not changed
    offset = torch.randn(4, 3, generator=generator)
    torch.testing.assert_close(
        normalised(x, mean, std, offset).double(),
        (x.double() / 255 + offset.double()[:, :, None, None] - column(mean)) / column(std),
        rtol=0,
        atol=1e-5,
    )


def test_normalisation_of_features() -> None:
    x = torch.randn(6, 4)
    torch.testing.assert_close(normalised(x, (1.0,), (2.0,)), (x - 1) / 2)
    each = torch.tensor([1.0, 2.0, 3.0, 4.0])
    torch.testing.assert_close(normalised(x, tuple(each.tolist()), tuple(each.tolist())), (x - each) / each)


def test_lighting_has_the_covariance_of_the_principal_components() -> None:
    offsets = lighting(200_000, 0.1, torch.Generator().manual_seed(3)).double()
    vectors, values = torch.tensor(EIGENVECTORS).double(), torch.tensor(EIGENVALUES).double()
    expected = vectors @ torch.diag((0.1 * values) ** 2) @ vectors.T
    assert float(offsets.mean(0).abs().max()) < 1e-4
    torch.testing.assert_close(offsets.T.cov(), expected, rtol=0.02, atol=2e-7)
    # Detects mistyped constants.
    torch.testing.assert_close(vectors @ vectors.T, torch.eye(3).double(), rtol=0, atol=1e-3)
