"""Programs: the steps of a network with memory assigned for a given number of images."""

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
SLACK = 256  # bytes after every buffer that vectorised copies may touch
BLOCK_BYTES = 24 << 10  # gathered rows and their table: they fit in the L1 cache together with a panel of weights
BLOCK_ROWS = 256
_REAL_LAYERS = (StepKind.REAL, StepKind.BYTES, StepKind.WINOGRAD)
NEAR_BYTES = 512 << 10  # activations that stay in the L2 cache from one step to the next, together with the weights
SLICES = (28, 16, 14, 8, 7)
PAGE, PHASES = 4096, 4  # a load waits for earlier stores whose addresses equal its own modulo a page


@dataclass(eq=False)
class Buffer:
    """An activation in memory, in pixel order, for every image that a thread processes at a time.

    Args:
        kind: "real", "bits" or "bytes".
        shape: Channels, height and width.
        pitch: Distance between pixels in bytes.
        border: Lines above and below, columns left and right.
        fill: Value of the border: 0 or 1 for bits, a byte for bytes.
        zeros: Channels before and after those that are written; they remain 0.
    """

    kind: str
    shape: tuple[int, int, int]
    pitch: int
    border: tuple[int, int] = (0, 0)
    fill: int = 0
    zeros: tuple[int, int] = (0, 0)

    @property
    def line(self) -> int:
        """Distance between lines in bytes."""
        return (self.shape[2] + 2 * self.border[1]) * self.pitch

    @property
    def image(self) -> int:
        """Distance between images in bytes."""
        return (self.shape[1] + 2 * self.border[0]) * self.line

    @property
    def lasting(self) -> bool:
        """True if a part is never written and must keep its value: a border, or padding after the last channel."""
        return self.border != (0, 0) or self.zeros != (0, 0) or self.shape[0] % LANES != 0

    @property
    def key(self) -> tuple[object, ...]:
        """Key that is equal for buffers that can share memory, including the parts that are never written."""
        return self.kind, self.shape, self.pitch, self.border, self.fill, self.zeros

    def at(self, line: int = 0, column: int = 0, extra: int = 0) -> BufferOffset:
        """Return the offset of a pixel of the first image, counted from inside the border, plus `extra` bytes."""
        return BufferOffset(self, (line + self.border[0]) * self.line + (column + self.border[1]) * self.pitch + extra)

    def size(self, images: int) -> int:
        """Return the total size in bytes, including pixels after the last that the kernels may read."""
        return round_up(images * self.image + (ROWS - 1) * self.pitch + SLACK, ALIGN)


class BufferOffset(NamedTuple):
    """An offset into a buffer whose own offset in the arena is not yet known."""

    buffer: Buffer
    extra: int


@dataclass(frozen=True)
class PlannedStep:
    """A step before memory is assigned: fields of `STEP`, and stages as (kind, address, offset, pitch)."""

    fields: dict[str, int | BufferOffset]
    stages: Sequence[tuple[int, int, int | BufferOffset, int]] = ()

    @property
    def output(self) -> Buffer | None:
        """Buffer in which the step stores its float32 values, or None."""
        real = self.fields.get("real")
        return real.buffer if isinstance(real, BufferOffset) else None

    def buffers(self) -> list[Buffer]:
        """Return the buffers that the step reads or writes."""
        values = [*self.fields.values(), *(stage[2] for stage in self.stages)]
        return [value.buffer for value in values if isinstance(value, BufferOffset)]


@dataclass(frozen=True)
class Program:
    """The steps for up to `images` images at a time, with their memory requirements and work (see `_work`)."""

    images: int
    steps: np.ndarray
    stages: np.ndarray
    arena_bytes: int
    scratch_bytes: int
    work: int
    filled: list[tuple[int, Buffer]] = field(default_factory=list)

    def new_memory(self, threads: int) -> tuple[np.ndarray, np.ndarray]:
        """Allocate memory for activations, with initialised borders, and scratch memory; one row per thread."""
        arenas = aligned(threads * self.arena_bytes).reshape(threads, -1)
        for offset, buffer in self.filled:
            bits = np.arange(8 * buffer.pitch) < buffer.shape[0]
            pattern = np.packbits(bits, bitorder="little") if buffer.kind == "bits" else buffer.fill
            arenas[:, offset : offset + self.images * buffer.image].reshape(threads, -1, buffer.pitch)[:] = pattern
        return arenas, aligned(threads * self.scratch_bytes).reshape(threads, -1)


def aligned(size: int) -> np.ndarray:
    """Return zeroed bytes that start at a multiple of ALIGN."""
    memory = np.zeros(size + ALIGN, np.uint8)
    start = -memory.ctypes.data % ALIGN
    return memory[start : start + size]


def address(array: np.ndarray) -> int:
    """Return the address of an array's data: `array.ctypes.data`, four times faster for writable arrays."""
    if not array.flags.writeable:
        return array.ctypes.data
    return ctypes.addressof(ctypes.c_char.from_buffer(array))  # type: ignore[arg-type] - numpy's stubs say no buffer


def make_step(**fields: int) -> tuple[np.ndarray, int]:
    """Return an array with one step of these fields, and the bytes of scratch memory that it needs."""
    steps = np.zeros(1, STEP)
    return steps, _fill(steps[0], fields)


def new_job(**fields: int) -> np.ndarray:
    """Return an array with one job of these fields, for one image on one thread."""
    jobs = np.zeros(1, JOB)
    for name, value in {"step_count": 1, "batch": 1, "images": 1, "parts": 1, **fields}.items():
        jobs[name] = value
    return jobs


def _fill(step: Any, fields: Mapping[str, int]) -> int:
    """Set the fields of a step and its scratch layout; return the bytes of scratch memory that it needs."""
    step["real"] = step["least"] = step["plain"] = -1
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
    """Return the bytes of a line's parities and the word before them; 0 if the taps are not runs of whole words."""
    runs = step["kind"] == StepKind.BINARY and step["runs_y"] > 1 and step["runs_x"] == 1 and step["repeats"] == 1
    if (
        not runs
        or step["plain"] >= 0
        or step["run"] % WORD
        or step["source_pixel"] % WORD
        or step["source_line"] % step["tap_line"]
    ):
        return 0
    return int((step["width"] - 1) * step["source_pixel"] + step["run"]) + WORD


def arena_bytes(planned: Sequence[PlannedStep], images: int) -> int:
    """Return the bytes needed for the activations of `images` images."""
    return _places(planned, images)[1]


def assemble(planned: Sequence[PlannedStep], images: int) -> Program:
    """Assign memory to every buffer, and return the program."""
    places, end = _places(planned, images)
    scratch = 0
    steps = np.zeros(len(planned), STEP)
    stages: list[tuple[int, int, int, int]] = []

    def resolve(value: int | BufferOffset) -> int:
        return places[value.buffer] + value.extra if isinstance(value, BufferOffset) else value

    for number, (step, item) in enumerate(zip(steps, planned, strict=True)):
        fields = {"slices": _slices(planned, number)} | {name: resolve(value) for name, value in item.fields.items()}
        fields |= {"stages": STAGE_BYTES * len(stages), "stage_count": len(item.stages)}
        scratch = max(scratch, _fill(step, fields))
        stages += [(kind, address, resolve(offset), pitch) for kind, address, offset, pitch in item.stages]
    table = np.array(stages, np.int64).reshape(-1, 4)
    filled = [(place, buffer) for buffer, place in places.items() if buffer.fill]
    work = sum(_work(step) for step in steps)
    return Program(images, steps, table, round_up(end + SLACK, ALIGN), round_up(scratch, ALIGN), work, filled)


def _work(step: Any) -> int:
    """Estimate the work of a step for one image, in vector instructions of about 0.2 to 0.5 ns each."""
    pixels, panels, channels, terms, down, across, stages = (
        int(step[name]) for name in ("pixels", "panels", "channels", "terms", "kernel_y", "kernel_x", "stage_count")
    )
    if step["kind"] in (StepKind.MOVE, StepKind.UNPACK, StepKind.QUANTIZE):
        return pixels * channels
    return pixels * panels * (max(terms, down * across) + stages + 1)


def _places(planned: Sequence[PlannedStep], images: int) -> tuple[dict[Buffer, int], int]:
    """Return an offset for every buffer, and the total size; memory is reused after a buffer's last use.

    Buffers with parts that are never written follow all others, and share memory only with buffers of the same key.
    """
    last = {
        buffer: number + (_slices(planned, number) > 0)
        for number, item in enumerate(planned)
        for buffer in item.buffers()
    }
    places: dict[Buffer, int] = {}
    taken: list[tuple[int, int, Buffer]] = []  # ranges in use, in order: start, end, buffer
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
                if buffer.kind == "bits":
                    lasting_end = _in_phase(lasting_end, sum(each.kind == "bits" for each in places))
                places[buffer] = lasting_end
                lasting_end += size
        for buffer in touched:
            if last[buffer] == number and buffer.lasting and buffer is not reused:
                free[buffer.key].append(places[buffer])
        taken = [entry for entry in taken if last[entry[2]] > number]
    return {buffer: at + end * buffer.lasting for buffer, at in places.items()}, end + lasting_end


def _slices(planned: Sequence[PlannedStep], number: int) -> int:
    """Return the slices in which a real layer and the pooling behind it take turns, or 0.

    The output of a first layer is larger than the L2 cache. In slices, the pooling reads it from there all the same.
    """
    if number + 1 == len(planned):
        return 0
    layer, pool = (item.fields for item in planned[number : number + 2])
    output, source = planned[number].output, pool.get("source")
    if layer["kind"] not in _REAL_LAYERS or pool["kind"] != StepKind.WINDOW or output is None:
        return 0
    if not isinstance(source, BufferOffset) or source.buffer is not output or output.image < NEAR_BYTES:
        return 0
    return next((slices for slices in SLICES if _in_time(layer, pool, slices)), 0)


def _in_time(layer: Mapping[str, Any], pool: Mapping[str, Any], slices: int) -> bool:
    """Return True if every slice of a pooling reads only what the layer's slices up to the same one have stored."""
    lines, pooled = (int(fields["pixels"] // fields["width"]) for fields in (layer, pool))
    tiles = [int(fields["pixels"]) // ROWS for fields in (layer, pool)]
    whole = all(count % slices == 0 for count in (lines, pooled, *tiles))
    below = pool["stride_y"] * (pooled // slices - 1) - pool["pad_y"] + pool["dilation_y"] * (pool["kernel_y"] - 1)
    return whole and min(tiles) >= 8 * slices and below < lines // slices and lines == pool["stride_y"] * pooled


def _in_phase(offset: int, number: int) -> int:
    """Return the next offset for a buffer of this number such that no two in a row have similar offsets in a page.

    A binary layer reads and writes bits at the same pace: each load could wait for a store to the other buffer.
    """
    return offset + (number % PHASES * (PAGE // PHASES) - offset) % PAGE


def _reusable(item: PlannedStep, dying: set[Buffer], places: Mapping[Buffer, int]) -> Buffer | None:
    """Return a buffer that a step adds, that no later step reads, and whose memory the step's output can use; or None.

    A tile reads the values to add before it stores its results, so the sum can be stored in place. This saves the
    memory of an activation, and the time to load cache lines that are only written.
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
    """Return the first offset at which `size` bytes are free."""
    at = 0
    for begin, stop, _ in taken:
        if begin - at >= size:
            break
        at = max(at, stop)
    return at
