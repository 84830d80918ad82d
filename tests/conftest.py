"""Configuration of all tests: one thread per worker, and the folder of the real data."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Properties are about results, not about how busy the machine is.
settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")

if os.environ.get("PYTEST_XDIST_WORKER"):
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    import torch

    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def real_data() -> Path:
    """Return the folder in ZEROCROSS_DATA; skip the test if it is not set."""
    folder = os.environ.get("ZEROCROSS_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("no real data: set ZEROCROSS_DATA to a folder with cifar10/, audiomnist/, imagenet-sample/")
    return Path(folder)
