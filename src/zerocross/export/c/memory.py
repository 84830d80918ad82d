"""Memory plan of a C file: two static arrays, for floats and for bits, shared by values that are not used together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from zerocross.export.c.program import CBuffer, CProgram, CStep


@dataclass(eq=False)
class _Slot:
    """Memory of one value, or of several values in succession, and the range of steps in which it is in use."""

    elements: int
    first: int
    last: int
    buffers: list[CBuffer] = field(default_factory=list)
    offset: int = 0


def plan_memory(program: CProgram) -> dict[str, int]:
    """Assign an offset to every buffer in memory; return the number of elements: {"real": ..., "bits": ...}."""
    slots: dict[CBuffer, _Slot] = {}
    last_read = {buffer: number for number, step in enumerate(program.steps) for buffer in step.reads()}
    for number, step in enumerate(program.steps):
        for buffer in step.writes():
            if buffer.place != "memory" or buffer in slots:
                continue
            end = last_read.get(buffer, number)
            previous = _predecessor(step, number, buffer, last_read)
            if previous is not None and previous in slots:
                slot = slots[previous]
                slot.last, step.in_place = end, True
            else:
                slot = _Slot(buffer.elements, number, end)
            slot.buffers.append(buffer)
            slots[buffer] = slot
    sizes = {}
    for kind in ("real", "bits"):
        distinct = {id(slot): slot for buffer, slot in slots.items() if buffer.kind == kind}
        sizes[kind] = _place(list(distinct.values()))
    return sizes


def _predecessor(step: CStep, number: int, buffer: CBuffer, last_read: dict[CBuffer, int]) -> CBuffer | None:
    """Return a value that the step's result may overwrite: last read by this step, and only at the same pixel."""
    if buffer is not step.real or step.size != buffer.size or step.op == "planar":
        return None
    candidates = [link.other for link in step.links if link.other is not None and link.other is not step.source]
    if step.op == "identity":
        candidates.append(step.source)
    for other in candidates:
        if other.kind == "real" and other.size == buffer.size and last_read[other] == number:
            return other
    return None


def _place(slots: Sequence[_Slot]) -> int:
    """Place slots, largest first, each at the lowest free offset during its steps; return the total size."""
    placed: list[_Slot] = []
    for slot in sorted(slots, key=lambda slot: (-slot.elements, slot.first)):
        overlapping = sorted(
            (other for other in placed if other.first <= slot.last and slot.first <= other.last),
            key=lambda other: other.offset,
        )
        for other in overlapping:
            if slot.offset + slot.elements <= other.offset:
                break
            slot.offset = max(slot.offset, other.offset + other.elements)
        for buffer in slot.buffers:
            buffer.offset = slot.offset
        placed.append(slot)
    return max((slot.offset + slot.elements for slot in placed), default=0)
