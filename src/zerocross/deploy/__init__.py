"""Deployment, the PyTorch side: pack a trained network into one file that runs without PyTorch."""

from __future__ import annotations

from zerocross.extras import named

with named():
    from zerocross.deploy.pack import Packed, pack
    from zerocross.deploy.table import PackedLayer

__all__ = ["Packed", "PackedLayer", "pack"]
