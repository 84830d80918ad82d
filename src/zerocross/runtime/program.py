"""Programs: the steps of a network with places in memory for a number of images."""

from __future__ import annotations

import ctypes
from bisect import insort
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from zerocross.runtime.kernels.points import OUTPUTS
from zerocross.runtime.kernels.steps import JOB, LANES, ROW_BYTES, ROWS, STAGE_BYTES, STEP, WORD, StepKind
from zerocross.runtime.layout import round_up

ALIGN = 64  # bytes: a cache line, and a vector
SLACK = 256  # bytes behind every buffer that copying in pieces may touch
BLOCK_BYTES = 24 << 10  # of gathered rows and their table: they stay in the first cache beside a panel of weights
BLOCK_ROWS = 256


@dataclass(eq=False)
class Buffer:
    """An activation in memory, pixel after pixel, for every image of a group.

    Args:
        kind: "real", "bits" or "bytes".
        shape: channels, height and width.
        pitch: bytes from pixel to pixel.
        border: lines above and below, columns left and right.
        fill: in the border, 0 or 1 for bits; for bytes the byte.
        zeros: channels before and behind those that are written; they stay 0.
    """

    kind: str
    shape: tuple[int, int, int]
    pitch: int
    border: tuple[int, int] = (0, 0)
    fill: int = 0
    zeros: tuple[int, int] = (0, 0)

    @property
    def line(self) -> int:
        """Bytes from line to line."""
        return (self.shape[2] + 2 * self.border[1]) * self.pitch

    @property
    def image(self) -> int:
        """Bytes from image to image."""
        return (self.shape[1] + 2 * self.border[0]) * self.line

    @property
    def lasting(self) -> bool:
        """Whether something is never written, and must stay as it was: a border, or numbers beyond the last channel."""
        return self.border != (0, 0) or self.zeros != (0, 0) or self.shape[0] % LANES != 0

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for buffers that can take each other's place, whatever lasts in them."""
        return self.kind, self.shape, self.pitch, self.border, self.fill, self.zeros

    def at(self, line: int = 0, column: int = 0, extra: int = 0) -> BufferOffset:
        """The place of a pixel of the first image, counted inside the border, and bytes further on."""
        return BufferOffset(self, (line + self.border[0]) * self.line + (column + self.border[1]) * self.pitch + extra)

    def size(self, images: int) -> int:
        """Bytes in all; tiles may read pixels beyond the last."""
        return round_up(images * self.image + (ROWS - 1) * self.pitch + SLACK, ALIGN)


class BufferOffset(NamedTuple):
    """An offset in a buffer whose own place in the arena is not yet known."""

    buffer: Buffer
    extra: int


@dataclass(frozen=True)
class PlannedStep:
    """A step before its buffers have places: fields of `STEP`, and stages as (kind, address, offset, pitch)."""

    fields: dict[str, int | BufferOffset]
    stages: Sequence[tuple[int, int, int | BufferOffset, int]] = ()

    @property
    def output(self) -> Buffer | None:
        """The buffer of float32 that the end of its tiles writes."""
        real = self.fields.get("real")
        return real.buffer if isinstance(real, BufferOffset) else None

    def buffers(self) -> list[Buffer]:
        """The buffers that it touches."""
        values = [*self.fields.values(), *(stage[2] for stage in self.stages)]
        return [value.buffer for value in values if isinstance(value, BufferOffset)]


@dataclass(frozen=True)
class Program:
    """The steps for up to `images` images at a time, and the memory and the work (see `_work`) that they need."""

    images: int
    steps: np.ndarray
    stages: np.ndarray
    arena_bytes: int
    scratch_bytes: int
    work: int
    filled: list[tuple[int, Buffer]] = field(default_factory=list)

    def new_memory(self, threads: int) -> tuple[np.ndarray, np.ndarray]:
        """Memory for the activations, with borders as they must be, and scratch memory: a row for each thread."""
        arenas = aligned(threads * self.arena_bytes).reshape(threads, -1)
        for offset, buffer in self.filled:
            bits = np.arange(8 * buffer.pitch) < buffer.shape[0]
            pattern = np.packbits(bits, bitorder="little") if buffer.kind == "bits" else buffer.fill
            arenas[:, offset : offset + self.images * buffer.image].reshape(threads, -1, buffer.pitch)[:] = pattern
        return arenas, aligned(threads * self.scratch_bytes).reshape(threads, -1)


def aligned(size: int) -> np.ndarray:
    """Zeroed bytes that begin at a multiple of ALIGN."""
    memory = np.zeros(size + ALIGN, np.uint8)
    start = -memory.ctypes.data % ALIGN
    return memory[start : start + size]


def address(array: np.ndarray) -> int:
    """Where the first number of an array is: `array.ctypes.data`, in a quarter of its microsecond where it can be."""
    if not array.flags.writeable:
        return array.ctypes.data
    return ctypes.addressof(ctypes.c_char.from_buffer(array))  # type: ignore[arg-type] - numpy's stubs say no buffer


def make_step(**fields: int) -> tuple[np.ndarray, int]:
    """A table of one step with these fields, and the bytes of scratch memory that it needs."""
    steps = np.zeros(1, STEP)
    return steps, _fill(steps[0], fields)


def new_job(**fields: int) -> np.ndarray:
    """A table of one job with these fields, for one image on one thread."""
    jobs = np.zeros(1, JOB)
    for name, value in {"step_count": 1, "batch": 1, "images": 1, "parts": 1, **fields}.items():
        jobs[name] = value
    return jobs


def _fill(step: Any, fields: Mapping[str, int]) -> int:
    """Set a step's fields, how many rows it gathers at a time, and where; return the bytes of scratch that it needs."""
    step["real"] = step["least"] = -1
    for name, value in fields.items():
        step[name] = value
    row = max(1, int(step["row"]))
    block = max(2 * ROWS, min(BLOCK_ROWS, BLOCK_BYTES // (row + ROW_BYTES) // ROWS * ROWS))
    if step["kind"] == StepKind.WINOGRAD:
        block = round_up(int(step["width"]), OUTPUTS * ROWS)  # a line, and the sums of its tiles
    step["block"] = block
    step["table"] = round_up(int(step["bits_pixel"]), ALIGN)
    step["gathered"] = step["table"] + block * ROW_BYTES
    step["scan"] = round_up(int(step["gathered"]) + block * row + SLACK, ALIGN)
    step["scan_line"] = _scan_line(step)
    if not step["scan_line"]:
        return int(step["scan"])
    lines = (int(step["pixels"] // step["width"]) - 1) * int(step["source_line"] // step["tap_line"]) + step["runs_y"]
    return int(step["scan"]) + 2 * 8 + int(lines * step["scan_line"]) + SLACK


def _scan_line(step: Any) -> int:
    """Bytes of the parities of a line, and the word before them; 0 where taps are not runs of whole words."""
    runs = step["kind"] == StepKind.BINARY and step["runs_y"] > 1 and step["runs_x"] == 1 and step["repeats"] == 1
    if not runs or step["run"] % WORD or step["source_pixel"] % WORD or step["source_line"] % step["tap_line"]:
        return 0
    return int((step["width"] - 1) * step["source_pixel"] + step["run"]) + WORD


def arena_bytes(planned: Sequence[PlannedStep], images: int) -> int:
    """How much memory the activations of so many images take."""
    return _places(planned, images)[1]


def assemble(planned: Sequence[PlannedStep], images: int) -> Program:
    """Give every buffer a place, and return the steps."""
    places, end = _places(planned, images)
    scratch = 0
    steps = np.zeros(len(planned), STEP)
    stages: list[tuple[int, int, int, int]] = []

    def resolve(value: int | BufferOffset) -> int:
        return places[value.buffer] + value.extra if isinstance(value, BufferOffset) else value

    for step, item in zip(steps, planned, strict=True):
        fields = {name: resolve(value) for name, value in item.fields.items()}
        fields |= {"stages": STAGE_BYTES * len(stages), "stage_count": len(item.stages)}
        scratch = max(scratch, _fill(step, fields))
        stages += [(kind, address, resolve(offset), pitch) for kind, address, offset, pitch in item.stages]
    table = np.array(stages, np.int64).reshape(-1, 4)
    filled = [(place, buffer) for buffer, place in places.items() if buffer.fill]
    work = sum(_work(step) for step in steps)
    return Program(images, steps, table, round_up(end + SLACK, ALIGN), round_up(scratch, ALIGN), work, filled)


def _work(step: Any) -> int:
    """What a step does for one image, in units of one vector instruction or so: some 0.2 to 0.5 ns."""
    pixels, panels, channels, terms, down, across, stages = (
        int(step[name]) for name in ("pixels", "panels", "channels", "terms", "kernel_y", "kernel_x", "stage_count")
    )
    if step["kind"] in (StepKind.MOVE, StepKind.UNPACK, StepKind.QUANTIZE):
        return pixels * channels
    return pixels * panels * (max(terms, down * across) + stages + 1)


def _places(planned: Sequence[PlannedStep], images: int) -> tuple[dict[Buffer, int], int]:
    """An offset for every buffer, and where the last one ends; memory is used again after a buffer's last use.

    Buffers in which something lasts take turns only with their like, behind all others.
    """
    last = {buffer: number for number, item in enumerate(planned) for buffer in item.buffers()}
    places: dict[Buffer, int] = {}
    taken: list[tuple[int, int, Buffer]] = []  # from, to, by whom: what is in use, in order
    free: dict[tuple[object, ...], list[int]] = defaultdict(list)
    end = lasting_end = 0
    for number, item in enumerate(planned):
        touched = list(dict.fromkeys(item.buffers()))
        reused = _reusable(item, {buffer for buffer in touched if last[buffer] == number}, places)
        for buffer in touched:
            if buffer in places:
                continue
            if reused is not None and buffer is item.output:
                places[buffer] = places[reused]
                taken = [(begin, stop, buffer if by is reused else by) for begin, stop, by in taken]
                continue
            size = buffer.size(images)
            if not buffer.lasting:
                places[buffer] = at = _gap(taken, size)
                end = max(end, at + size)
                insort(taken, (at, at + size, buffer), key=lambda entry: entry[0])
            elif free[buffer.key]:
                places[buffer] = free[buffer.key].pop()
            else:
                places[buffer] = lasting_end
                lasting_end += size
        for buffer in touched:
            if last[buffer] == number and buffer.lasting and buffer is not reused:
                free[buffer.key].append(places[buffer])
        taken = [entry for entry in taken if last[entry[2]] > number]
    return {buffer: at + end * buffer.lasting for buffer, at in places.items()}, end + lasting_end


def _reusable(item: PlannedStep, dying: set[Buffer], places: Mapping[Buffer, int]) -> Buffer | None:
    """A buffer that a step adds and nobody needs afterwards, whose place its output can take: values meet in registers.

    That saves the memory of an activation, and the time to fetch what is only written.
    """
    output = item.output
    if output is None or output in places:
        return None
    for _, _, offset, pitch in item.stages:
        if isinstance(offset, BufferOffset) and offset.buffer in dying and offset.buffer.key == output.key:
            alone = item.buffers().count(offset.buffer) == item.buffers().count(output) == 1
            real = item.fields["real"]
            if alone and isinstance(real, BufferOffset) and (offset.extra, pitch) == (real.extra, output.pitch):
                return offset.buffer
    return None


def _gap(taken: list[tuple[int, int, Buffer]], size: int) -> int:
    """The first offset where so many bytes are free."""
    at = 0
    for begin, stop, _ in taken:
        if begin - at >= size:
            break
        at = max(at, stop)
    return at
