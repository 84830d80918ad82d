"""Resolve precision "auto": bfloat16 if the device supports it natively, float32 otherwise."""

from __future__ import annotations

import dataclasses
from typing import Literal

import torch

from zerocross.train.config import Config


def best(device: str) -> Literal["32", "bf16"]:
    """Return the precision for a device type: bf16 if supported natively (recent GPUs, CPUs with AVX512_BF16 or AMX).

    Args:
        device: "cpu" or "cuda".
    """
    if device == "cuda":
        return "bf16" if torch.cuda.is_available() and torch.cuda.is_bf16_supported(including_emulation=False) else "32"
    return "bf16" if _cpu_has_bf16() else "32"


def _cpu_has_bf16() -> bool:
    if not hasattr(torch.cpu, "get_capabilities"):  # an older torch
        return bool(torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())
    able = torch.cpu.get_capabilities()
    return bool(able.get("avx512_bf16") or able.get("amx_bf16"))


def settled(config: Config, accelerator: str = "auto") -> Config:
    """Return the config with precision "auto" replaced by the precision that will be used.

    Args:
        config: Its precision may be "auto".
        accelerator: "auto", "cpu", or "cuda" (also "gpu"), as in `Placement`.
    """
    if config.precision != "auto":
        return config
    cuda = torch.cuda.is_available() if accelerator == "auto" else accelerator in {"cuda", "gpu"}
    return dataclasses.replace(config, precision=best("cuda" if cuda else "cpu"))
