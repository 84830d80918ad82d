"""Run packed networks: numpy, numba and safetensors, and no torch."""

from __future__ import annotations

from zerocross.extras import named

with named():
    from zerocross.runtime.model import Model, load

__all__ = ["Model", "load"]
