"""Where stored values lie: two static arrays, of floats and of bytes of bits, shared by values that never meet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from zerocross.export.c.program import CBuffer, CProgram, CStep


@dataclass(eq=False)
class _Slot:
    """Memory that one value holds, or several one after the other, and the steps from the first to the last of it."""

    elements: int
    first: int
    last: int
    buffers: list[CBuffer] = field(default_factory=list)
    offset: int = 0


def plan_memory(program: CProgram) -> dict[str, int]:
    """Give every buffer in memory its offset; return how many elements each kind takes: {"real": ..., "bits": ...}."""
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
    """A value whose place the step's result may take: read for the last time here, and at the same pixel only."""
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
    """The largest first, each at the lowest offset where no slot of the same time lies; the size of it all."""
    placed: list[_Slot] = []
    for slot in sorted(slots, key=lambda slot: (-slot.elements, slot.first)):
        rivals = sorted(
            (other for other in placed if other.first <= slot.last and slot.first <= other.last),
            key=lambda other: other.offset,
        )
        for rival in rivals:
            if slot.offset + slot.elements <= rival.offset:
                break
            slot.offset = max(slot.offset, rival.offset + rival.elements)
        for buffer in slot.buffers:
            buffer.offset = slot.offset
        placed.append(slot)
    return max((slot.offset + slot.elements for slot in placed), default=0)
