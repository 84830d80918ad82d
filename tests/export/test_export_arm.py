"""Exported C files on ARM: the same results under an emulator, and the memory of a microcontroller suffices."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from export.harness import build, compiler, keyword_graph, random_case, run
from reference.packed_graph import every_op
from zerocross import models
from zerocross.deploy import pack
from zerocross.export.c.files import measure
from zerocross.export.c.model import CModel
from zerocross.runtime.graph import Graph

FLASH, RAM = 256 * 1024, 64 * 1024
EMULATORS = {"aarch64-linux-gnu-gcc": "qemu-aarch64", "arm-linux-gnueabihf-gcc": "qemu-arm"}
BARE = ["arm-none-eabi-gcc -mcpu=cortex-m4 -mthumb -Os", "arm-none-eabi-gcc -mcpu=cortex-m7 -mthumb -O2"]
CROSS = ["aarch64-linux-gnu-gcc -O3", "arm-linux-gnueabihf-gcc -O3"]


def bits(y: list[np.ndarray]) -> list[bytes]:
    """Return numbers as bytes, with a single bit pattern for NaN, since that depends on the processor."""
    return [np.where(np.isnan(each), np.float32(np.nan), each).tobytes() for each in y]


def digits() -> Graph:
    torch.manual_seed(0)
    return pack(models.create("digits_net").eval()).graph


def keywords() -> Graph:
    """Return the registry's audio network with 128 units per hidden layer and int8 weights in its real layer."""
    torch.manual_seed(0)
    return pack(models.create("audio_mlp", width=128).eval(), real="int8").graph


def same_on(program: str, seeds: range, folder: Path) -> None:
    """Check that the results are bit-identical to those of a native build."""
    for needed in ("gcc", program, EMULATORS[program]):
        compiler(needed)
    cases = [random_case(seed) for seed in seeds]
    networks = [CModel(case.graph, f"g{number}") for number, case in enumerate(cases)]
    inputs = [case.x for case in cases]
    native = run(build(networks, len(inputs[0]), folder / "native", ("gcc", "-O2")), networks, inputs)
    emulated = build(networks, len(inputs[0]), folder / "emulated", (program, "-O2", "-static"))
    assert bits(run(emulated, networks, inputs, (EMULATORS[program],))) == bits(native)


@pytest.mark.parametrize("program", EMULATORS)
def test_the_same_results_on_arm(program: str, tmp_path: Path):
    same_on(program, range(6), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("program", EMULATORS)
def test_the_same_results_of_many_networks_on_arm(program: str, tmp_path: Path):
    for first in range(0, 200, 50):
        same_on(program, range(first, first + 50), tmp_path / str(first))


@pytest.mark.parametrize("cc", [*BARE, *CROSS])
def test_reported_flash_and_memory_match_the_object_file(cc: str):
    compiler(cc.split(maxsplit=1)[0])
    for graph in (every_op(), keyword_graph(), *(random_case(seed).graph for seed in range(4))):
        model = CModel(graph)
        sizes = measure(model, cc)
        assert (sizes.constants, sizes.memory) == (model.constant_bytes, model.memory_bytes)


@pytest.mark.parametrize("cc", BARE)
@pytest.mark.parametrize("make", [digits, keywords])
def test_small_networks_fit_on_a_microcontroller(make, cc: str):
    compiler(cc.split(maxsplit=1)[0])
    model = CModel(make())
    sizes = measure(model, cc)
    assert sizes.code + sizes.constants + sizes.memory > 10_000  # the object file contains the network
    assert sizes.code + sizes.constants <= FLASH
    # Including the caller's arrays and the stack.
    assert sizes.memory + 4 * (model.inputs + model.outputs) + 1024 <= RAM
