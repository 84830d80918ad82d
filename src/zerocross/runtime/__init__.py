"""Inference with packed networks; needs numpy, numba and safetensors, but not torch."""

from __future__ import annotations

from zerocross.extras import named

with named():
    from zerocross.runtime.model import Model, load

__all__ = ["Model", "load"]
