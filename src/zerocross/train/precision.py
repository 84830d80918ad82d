"""Which precision "auto" is: bfloat16 where the device computes in it, float32 elsewhere."""

from __future__ import annotations

import dataclasses
from typing import Literal

import torch

from zerocross.train.config import Config


def best(device: str) -> Literal["32", "bf16"]:
    """The precision for a kind of device: bf16 where it computes in it (recent GPUs, CPUs with AVX512_BF16 or AMX).

    Args:
        device: "cpu" or "cuda".
    """
    if device == "cuda":
        return "bf16" if torch.cuda.is_available() and torch.cuda.is_bf16_supported(including_emulation=False) else "32"
    able = torch.cpu.get_capabilities()
    return "bf16" if able.get("avx512_bf16") or able.get("amx_bf16") else "32"


def settled(config: Config, accelerator: str = "auto") -> Config:
    """The config with the precision that will really be used, which decides the result.

    Args:
        config: Its precision may be "auto".
        accelerator: "auto", "cpu", or "cuda" (also "gpu"), as in `Placement`.
    """
    if config.precision != "auto":
        return config
    cuda = torch.cuda.is_available() if accelerator == "auto" else accelerator in {"cuda", "gpu"}
    return dataclasses.replace(config, precision=best("cuda" if cuda else "cpu"))
