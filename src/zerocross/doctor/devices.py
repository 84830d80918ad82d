"""The checklist for a GPU: that it trains as the CPU does. Each check passes, fails, or is skipped with a reason.

Every check takes the device, so that tests run the same code with the CPU in the GPU's place.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from zerocross import extras
from zerocross.checks import one_line
from zerocross.doctor.replicas import two_replicas
from zerocross.nn import BinaryConv2d, BinaryLinear, Sign
from zerocross.optim import GradientFilter, HybridOptimizer, split_params

STEPS = 100
ROUNDING = 1e-5  # of a filter's own scale: below it the sign of g is a matter of rounding


@dataclass(frozen=True)
class DeviceCheck:
    """What a check found: `state` is "pass", "fail" or "skip"; `detail` has figures or the reason."""

    name: str
    state: str
    detail: str


class CheckFailedError(Exception):
    """A check of the list does not hold; the message has the figures."""


def checklist(device: str = "cuda") -> list[DeviceCheck]:
    """Run every check on a kind of device; on "cpu" its own results are compared with themselves."""
    count = torch.cuda.device_count() if device == "cuda" and torch.cuda.is_available() else 0
    devices = 2 if device == "cpu" else count
    rows: tuple[tuple[str, Callable[[str], str], str], ...] = (
        ("layers", binary_layers, _lacks(devices, 1)),
        ("signs", optimizer_signs, _lacks(devices, 1)),
        ("bf16", bfloat16_training, _lacks(devices, 1) or _lacks_bf16(device)),
        ("compile", compiled_signs, _lacks(devices, 1) or _lacks_compiler(device)),
        ("ddp", two_processes, _lacks(devices, 2)),
        ("dali", dali_batch, _lacks(devices, 1) or _lacks_dali()),
    )
    return [
        DeviceCheck(name, "skip", reason) if reason else run_check(name, check, device) for name, check, reason in rows
    ]


def run_check(name: str, check: Callable[[str], str], device: str) -> DeviceCheck:
    """Run one check; whatever it raises is a failure, so that the other checks still run."""
    try:
        return DeviceCheck(name, "pass", check(device))
    except CheckFailedError as wrong:
        return DeviceCheck(name, "fail", str(wrong))
    except Exception as wrong:
        last = (str(wrong).strip().splitlines() or [""])[-1]  # of a process: the line below its traceback
        return DeviceCheck(name, "fail", f"{type(wrong).__name__}: {one_line(last)}")


def render_checks(outcomes: list[DeviceCheck]) -> str:
    """A line per check, and the number of each state."""
    lines = [f"{each.state:5}  {each.name:8}  {each.detail}" for each in outcomes]
    states = [each.state for each in outcomes]
    return "\n".join(
        [*lines, "", f"{states.count('pass')} passed, {states.count('fail')} failed, {states.count('skip')} skipped"]
    )


def binary_layers(device: str) -> str:
    """Products of signs are whole numbers: the device and the CPU give the same ones, to the bit."""
    generator = torch.Generator().manual_seed(0)
    layers = (BinaryLinear(320, 24, bias=False), BinaryConv2d(32, 24, 3, padding=1, bias=False))
    for layer, size in zip(layers, ((64, 320), (4, 32, 9, 9)), strict=True):
        layer.weight.data.copy_(_signs(layer.weight.shape, generator))
        x = _signs(size, generator)
        expected, computed = layer(x), layer.to(device)(x.to(device)).cpu()
        if not torch.equal(expected, computed):
            raise CheckFailedError(f"{type(layer).__name__} differs by up to {(expected - computed).abs().max():g}")
    return "BinaryLinear and BinaryConv2d give the CPU's numbers"


def optimizer_signs(device: str) -> str:
    """Given the same gradients, the device's filter takes the CPU's signs."""
    here, there = _filtered("cpu", compiled=False), _filtered(device, compiled=False)
    return compare_signs(here, there, "cpu", device)


def compiled_signs(device: str) -> str:
    """The compiled update takes the signs of the eager one, both on the device."""
    return compare_signs(_filtered(device, compiled=False), _filtered(device, compiled=True), "eager", "compiled")


def compare_signs(first: tuple[Tensor, Tensor], second: tuple[Tensor, Tensor], one: str, other: str) -> str:
    """Compare (theta, g) of two filters: signs may differ only where g is zero up to rounding."""
    (theta, g), (theta_, g_) = first, second
    differs = theta != theta_
    decided = torch.minimum(g.abs(), g_.abs()) > ROUNDING * g.square().mean().sqrt()
    wrong = int((differs & decided).sum())
    figures = f"{int(differs.sum())} of {theta.numel():,} signs differ between {one} and {other}"
    if wrong:
        raise CheckFailedError(f"{figures}, {wrong} of them where the filtered gradient is not close to 0")
    return figures


def _filtered(device: str, *, compiled: bool) -> tuple[Tensor, Tensor]:
    """theta and g after `STEPS` updates with gradients that are drawn on the CPU."""
    generator = torch.Generator().manual_seed(1)
    weight = nn.Parameter(_signs((64, 1024), generator).to(device))
    optimizer = GradientFilter([weight], alpha=1e-2, gamma=0.1, compile=compiled)
    for _ in range(STEPS):
        weight.grad = torch.randn(weight.shape, generator=generator).to(device)
        optimizer.step()
    return weight.detach().cpu(), optimizer.state[weight]["g"].cpu()


def bfloat16_training(device: str) -> str:
    """A small network learns under bf16 autocast: its loss is finite and falls."""
    generator = torch.Generator().manual_seed(2)
    torch.manual_seed(2)
    x, target = torch.randn(128, 32, generator=generator).to(device), torch.arange(128).to(device) % 4
    model = nn.Sequential(
        nn.Linear(32, 64),
        nn.BatchNorm1d(64),
        Sign(),
        BinaryLinear(64, 64),
        nn.BatchNorm1d(64),
        Sign(),
        nn.Linear(64, 4),
    ).to(device)
    binary, decayed, rest = split_params(model)
    optimizer = HybridOptimizer(GradientFilter(binary, alpha=1e-2), torch.optim.Adam([*decayed, *rest], lr=1e-2), model)
    losses = []
    for _ in range(40):
        with torch.autocast(torch.device(device).type, torch.bfloat16):
            loss = nn.functional.cross_entropy(model(x), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    figures = f"loss {losses[0]:.3f} -> {losses[-1]:.3f} in {len(losses)} updates"
    if not losses[-1] < 0.9 * losses[0]:  # false for NaN, too
        raise CheckFailedError(figures)
    return figures


def two_processes(device: str) -> str:
    """Two processes with half a batch each keep the same signs, and those of one process with the whole batch."""
    with tempfile.TemporaryDirectory() as folder:
        ranks = two_replicas(device, Path(folder))
    if not torch.equal(ranks[0][0], ranks[1][0]):
        raise CheckFailedError(f"{int((ranks[0][0] != ranks[1][0]).sum())} signs differ between the two processes")
    return compare_signs(ranks[0], ranks[2], "2 processes", "1 process")


def dali_batch(device: str) -> str:
    """DALI decodes image files for the device; they are the pixels that Pillow reads, up to the decoder's rounding."""
    from PIL import Image

    from zerocross.data.dali import DaliBatches
    from zerocross.data.image_batches import DeviceTransform
    from zerocross.data.order import BatchPlan

    values = (64, 128, 192)
    with tempfile.TemporaryDirectory() as folder:
        files = [str(Path(folder) / f"{value}.jpg") for value in values]
        for file, value in zip(files, values, strict=True):
            Image.new("RGB", (256, 256), (value, value, value)).save(file, quality=95)
        transform = DeviceTransform(False, (0.0,) * 3, (1.0,) * 3, torch.device(device), channels_last=False)
        batches = DaliBatches(files, torch.tensor(values), BatchPlan(3, 3), 0, transform, 1)
        x, target = next(iter(batches.epoch(0)))
    error = (x.mean((1, 2, 3)).cpu() * 255 - target.cpu()).abs().max().item()
    figures = f"grey images have a mean error of {error:.2f} of 255, on {x.device}"
    if error > 1.5 or x.device.type != torch.device(device).type:
        raise CheckFailedError(figures)
    return figures


def _signs(size: tuple[int, ...], generator: torch.Generator) -> Tensor:
    return torch.randint(0, 2, size, generator=generator) * 2.0 - 1


def _lacks(devices: int, needed: int) -> str:
    return (
        ""
        if devices >= needed
        else f"needs {needed} CUDA {'device' if needed == 1 else 'devices'}, {devices} available"
    )


def _lacks_bf16(device: str) -> str:
    return "" if device == "cpu" or torch.cuda.is_bf16_supported() else "the device has no bfloat16 arithmetic"


def _lacks_compiler(device: str) -> str:
    from zerocross import compiler

    if device == "cpu":
        return compiler.missing()
    return "" if extras.installed("triton") else "needs Triton: pip install triton"


def _lacks_dali() -> str:
    return "" if extras.installed("nvidia.dali") else "needs NVIDIA DALI: pip install 'zerocross[imagenet]'"
