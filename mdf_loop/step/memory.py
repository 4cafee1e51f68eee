"""Where the arrays of a loop's body are written: buffers made once, or the memory of a carried value that nobody needs any more.

Decided on what operations are, never on operators: element-wise results, products and updates have a place they can be told.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from mdf_loop.step.liveness import Liveness
from mdf_loop.step.primitives import PRIMITIVES
from mdf_loop.step.records import LoopRegion, Type, Value


@dataclass
class Places:
    """The plan of one loop's memory.

    Attributes
    ----------
    buffers : list of Type
        Arrays to be made before the loop.
    written : mapping
        Values that are written into a buffer, by its number.
    over : mapping
        Values that are written over a carried value (its number): all that reads the old one has run, or reads the same element.
    turns : mapping
        Values that are written into a second array of a carried value (its number); the two change roles when the iteration ends.
    rows : mapping
        Values that are written where they stay, as a row of what is collected (its number).
    """

    buffers: list[Type] = field(default_factory=list)
    written: dict[Value, int] = field(default_factory=dict)
    over: dict[Value, int] = field(default_factory=dict)
    turns: dict[Value, int] = field(default_factory=dict)
    rows: dict[Value, int] = field(default_factory=dict)

    @property
    def owned(self) -> set[int]:
        """Carried values that are written into, so that the loop needs its own copy of the first one."""
        return {*self.over.values(), *self.turns.values()}


def assign(loop: LoopRegion, copied: Collection[Value], least: int = 0) -> Places:
    """Where the arrays of a loop's body go.

    Parameters
    ----------
    loop : LoopRegion
    copied : collection of Value
        Collected values that are copied when an iteration ends; the others are kept as they are.
    least : int
        Bytes of an array below which a new one costs no more.
    """
    found, live = Places(), Liveness(loop.body)
    for k, value in enumerate(loop.body.results[1 + loop.n_carried + loop.n_last :]):
        if (
            value in copied
            and value in live.place
            and value not in found.rows
            and can_be_told(value)
            and size_of(value.type) >= least
        ):
            found.rows[value] = k
    handed_on = [
        x for x in loop.body.results[1:] if x not in copied or x in loop.body.results[1 : 1 + loop.n_carried + loop.n_last]
    ]
    for k, state in enumerate(loop.body.params[2 : 2 + loop.n_carried]):
        end = loop.body.results[1 + k]
        others = [live.roots(x) for n, x in enumerate(handed_on) if n != k]
        if size_of(state.type) >= least and not any(end in roots or state in roots for roots in others):
            _assign_end(found, live, k, state, end)
    kept = frozenset[Value]().union(*map(live.roots, handed_on))
    _assign_buffers(found, live, kept, least)
    return found


def size_of(type: Type) -> int:
    """Bytes of an array whose lengths are known; -1 of any other value."""
    if not type.is_static or not type.shape or type.dtype is None:
        return -1
    return type.size * type.dtype.itemsize


def _assign_end(found: Places, live: Liveness, k: int, state: Value, end: Value) -> None:
    """A value that feeds the next iteration: over the old one, or taking turns with it."""
    if end not in live.place or end.type != state.type or end in found.rows:
        return
    place = live.place[end]
    is_free = not live.readers(state, place)
    if end.op == "put":
        if end.args[0] is state and is_free:
            found.over[end] = k
    elif can_be_told(end):
        reads_same_element = end.op in PRIMITIVES and all(x is state or state not in live.roots(x) for x in end.args)
        (found.over if reads_same_element and is_free else found.turns)[end] = k


def _assign_buffers(found: Places, live: Liveness, kept: Collection[Value], least: int) -> None:
    """Values that end within the iteration share buffers when one is over before the other begins."""
    free: list[tuple[int, int]] = []  # (behind which place, buffer)
    for value in live.region.values:
        place, last = live.place[value], live.last_read(value)
        if value in found.over or value in found.turns or value in found.rows or value in kept or last < 0:
            continue
        if not can_be_told(value) or size_of(value.type) < least:
            continue
        number = next((b for until, b in free if until < place and found.buffers[b] == value.type), None)
        if number is None:
            number = len(found.buffers)
            found.buffers.append(value.type)
        free = [*((until, b) for until, b in free if b != number), (last, number)]
        found.written[value] = number


def can_be_told(value: Value) -> bool:
    """Whether an operation can be told where to write its result."""
    if not value.type.is_static or not value.type.shape:
        return False
    if value.op == "dot":
        return True
    if value.op == "reduce":
        return not value.attr.kind.startswith("arg")
    return value.op in PRIMITIVES and PRIMITIVES[value.op].ufunc is not None
