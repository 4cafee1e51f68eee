"""Carried values of a loop, and what it collects.

A carried number stays in a register, and so does an array of a few elements.  A larger one has two places that change roles at
the end of each iteration, or one, where all that the body does with it is to replace parts; what is collected is written where
it stays, row by row.
"""

from __future__ import annotations

from collections.abc import Sequence

from mdf_loop.backends.llvm.emitter import Emitter
from mdf_loop.backends.llvm.fusion import is_number
from mdf_loop.backends.llvm.lanes.element_loops import store_all
from mdf_loop.backends.llvm.lanes.element_types import CannotCompile, element
from mdf_loop.backends.llvm.lanes.lazy_arrays import (
    Array,
    Index,
    Length,
    can_hold,
    held,
    in_memory,
    in_register,
    number,
    register_type,
)
from mdf_loop.backends.llvm.lanes.vector_lanes import Lanes, Place
from mdf_loop.backends.llvm.operations.views import viewed
from mdf_loop.ir import Collected
from mdf_loop.step.records import Value

LARGEST_ROWS = 1 << 33
"""Bytes of collected values from which on the program is not even tried."""

LARGEST_FIXED = 1 << 16
"""Bytes of collected values for which there is room in the program's own memory."""


def met(e: Emitter, type: str, sides: Sequence[tuple[str, str]]) -> str:
    """A register that has the value of the block that came before."""
    return e.text.new(f"phi {type} {', '.join(f'[{value}, %{block}]' for value, block in sides)}")


class Phi:
    """A loop-carried register: it is written when its next value is known."""

    def __init__(self, e: Emitter, type: str, first: str) -> None:
        self.e, self.type, self.first = e, type, first
        self.name = e.text.name()
        self.fill = e.text.open_line()

    def close(self, before: str, following: str, latch: str) -> None:
        """Its value in the next iteration."""
        self.following = following
        self.fill(f"  {self.name} = phi {self.type} [{self.first}, %{before}], [{following}, %{latch}]")


class CarriedBuffers:
    """A carried value: a number, an array in a register, with two places, with one, or of lengths that change."""

    def __init__(self, e: Emitter, state: Value, first: Array, end: Value, in_place: bool) -> None:
        self.e, self.state, self.end, self.first = e, state, end, first
        self.is_number, self.in_place = is_number(state.type), in_place
        if state.type.dtype is None or state.type.shape is None or first.dtype != state.type.dtype:
            raise CannotCompile("a carried value of unknown type has no compiled form")
        self.is_open = not state.type.is_static
        self.is_held = self.is_number or (not in_place and first.is_static and can_hold(e, state))
        if self.is_held:
            self.start = self._register(first)
        elif self.is_open:
            goes_on = in_place and state in e.in_place and first.growing
            self.memories = [first.growing] if goes_on else [e.growing_memory() for _ in range(1 if in_place else 2)]
            self.start = first.memory if goes_on else self._written(self.memories[0], first)
        else:
            self.start = e.room(first.dtype, first.shape)
            store_all(e, [(first, [self.start])])
            self.second = "" if in_place else e.room(first.dtype, first.shape)

    def _register(self, x: Array) -> str:
        """The register that holds a value."""
        if self.is_number:
            return self.e.number_of(x, self.first.dtype)
        return held(self.e, self._fitted(x)).register

    def _held(self, register: str) -> Array:
        """The value that a register holds."""
        return (number if self.is_number else in_register)(self.first.dtype, register, self.first.shape)

    def _written(self, memory: str, x: Array) -> str:
        """An array written to memory that grows."""
        pointer = self.e.grown(memory, self.e.bytes_of(x.dtype, x.shape))
        store_all(self.e, [(x, [pointer])])
        return pointer

    def enter(self) -> None:
        """At the beginning of an iteration."""
        e, dtype = self.e, self.first.dtype
        if self.is_held:
            self.phis = [Phi(e, register_type(e, self.first), self.start)]
            e.known[self.state] = self._held(self.phis[0].name)
        elif self.is_open:
            self.phis = [Phi(e, "ptr", x) for x in (self.start, *self.memories)]
            self.phis += [Phi(e, "i64", str(n)) for n in self.first.shape]
            lengths = self.phis[1 + len(self.memories) :]
            shape = [n if isinstance(n, int) else phi.name for n, phi in zip(self.state.type.shape or (), lengths, strict=True)]
            e.known[self.state] = in_memory(dtype, shape, self.phis[0].name)
            if self.in_place:
                e.known[self.state].growing = self.memories[0]
        else:
            self.phis = [] if self.in_place else [Phi(e, "ptr", self.start), Phi(e, "ptr", self.second)]
            e.known[self.state] = in_memory(dtype, self.first.shape, self.phis[0].name if self.phis else self.start)

    def targets(self) -> list[str]:
        """Where the next value may be written as soon as it is computed, if it is known to be as long as the one before."""
        return [self.phis[1].name] if self._has_two_places and self.end.type.shape == self.state.type.shape else []

    @property
    def _has_two_places(self) -> bool:
        return not (self.is_held or self.is_open or self.in_place)

    def pending(self) -> list[tuple[Array, list[str]]]:
        """What has to be written at the end of an iteration."""
        if not self._has_two_places:
            return []
        found = self.e.of(self.end)
        other = self.phis[1].name
        return [] if other in (found.memory, *self.e.filled) else [(self._fitted(found), [other])]

    def _fitted(self, x: Array) -> Array:
        if x.dtype != self.first.dtype or len(x.shape) != len(self.first.shape):
            raise CannotCompile("a carried value that changes its type has no compiled form")
        return self.e.fitted(x, self.first.shape)

    def _fitted_where_known(self, x: Array) -> Array:
        """Lengths that stay the same are looked at, the others may change."""
        kept = [n if isinstance(n, int) else m for n, m in zip(self.state.type.shape or (), x.shape, strict=True)]
        return self.e.fitted(x, kept)

    def following(self) -> list[str]:
        """What goes into the registers of the next iteration."""
        e = self.e
        found = e.of(self.end)
        if self.is_held:
            return [self._register(found)]
        if self.is_open:
            found = self._fitted_where_known(found)
            if self.in_place:
                return [found.memory, self.memories[0], *map(str, found.shape)]
            old, new = self.phis[1].name, self.phis[2].name
            return [self._written(new, found), new, old, *map(str, found.shape)]
        return [self.phis[1].name, self.phis[0].name] if self.phis else []

    def result(self, before: str, latch: str) -> Array:
        """The value behind the loop."""
        e, dtype = self.e, self.first.dtype
        if not self.phis:
            return in_memory(dtype, self.first.shape, self.start)
        ends = [met(e, phi.type, [(phi.first, before), (phi.following, latch)]) for phi in self.phis]
        if self.is_held:
            return self._held(ends[0])
        if not self.is_open:
            return in_memory(dtype, self.first.shape, ends[0])
        lengths = ends[1 + len(self.memories) :]
        shape = [n if isinstance(n, int) else end for n, end in zip(self.state.type.shape or (), lengths, strict=True)]
        found = in_memory(dtype, shape, ends[0])
        found.growing = self.memories[0] if self.in_place else ""
        return found


class Rows:
    """Collected values, one behind the other; rows whose lengths only the run can tell have those of the first one."""

    def __init__(self, e: Emitter, value: Value, what: Collected, limit: str, may_end: bool, item: Value | None) -> None:
        self.e, self.value, self.what = e, value, what
        if value.type.dtype is None or value.type.shape is None:
            raise CannotCompile("collected values of unknown type have no compiled form")
        self.dtype, self.is_open = value.type.dtype, not value.type.is_static
        self.shape: tuple[Length, ...] = tuple(n for n in value.type.shape if isinstance(n, int))
        self.bytes = element(self.dtype).size * value.type.size
        self.memory, self.pointer, self.row = "", "", ""
        self.grows = may_end or self.is_open
        if self.is_open:
            self.lengths = [e.text.slot("i64") for _ in value.type.shape]
        if self.grows:
            self.memory = e.growing_memory()
        else:
            self.pointer = self._fixed(int(limit) if limit.isdigit() else limit, item)

    def _fixed(self, limit: Length, item: Value | None) -> str:
        """Room for so many rows: where they stay, if they are a result as they stand."""
        e, shape, is_small = self.e, (limit, *self.shape), isinstance(limit, int) and limit * self.bytes <= LARGEST_FIXED
        if not is_small:
            e.leave_if(e.text.new(f"icmp ugt i64 {limit}, {LARGEST_ROWS // max(self.bytes, 1)}"))
        if (
            item is not None
            and not self.what.axis
            and not self.what.reverse
            and (found := e.room_to_stay(item, self.dtype, shape))
        ):
            return found
        return e.room(self.dtype, shape) if is_small else e.grown(e.growing_memory(), e.text.mul(limit, self.bytes))

    def enter(self, number_: str) -> None:
        """Where the row of this iteration stands."""
        text, base, self.number = self.e.text, self.pointer, number_
        if self.is_open:
            return
        if self.grows:
            base = self._grown(self.bytes)
        self.row = text.new(f"getelementptr i8, ptr {base}, i64 {text.mul(number_, self.bytes)}")

    def _grown(self, size: Length) -> str:
        """Where the rows are, with room for that of this iteration, of so many bytes."""
        return self.e.grown(self.memory, self.e.product_of([self.e.text.add(self.number, 1), size]))

    def pending(self) -> list[tuple[Array, list[str]]]:
        """What has to be written at the end of an iteration."""
        found = self.e.of(self.value)
        if found.dtype != self.dtype or len(found.shape) != len(self.value.type.shape or ()):
            raise CannotCompile("collected values that change their type have no compiled form")
        if self.is_open:
            self._keep_lengths(found)
            size = self.e.bytes_of(self.dtype, found.shape)
            base = self._grown(size)
            self.row = self.e.text.new(f"getelementptr i8, ptr {base}, i64 {self.e.text.mul(self.number, size)}")
        else:
            found = self.e.fitted(found, self.shape)
        return [] if self.row in (found.memory, *self.e.filled) else [(found, [self.row])]

    def _keep_lengths(self, x: Array) -> None:
        """The lengths of the first row; all others have to have them."""
        text = self.e.text
        is_first = text.new(f"icmp eq i64 {self.number}, 0")
        with text.where(is_first):
            for n, slot in zip(x.shape, self.lengths, strict=True):
                text.line(f"store i64 {n}, ptr {slot}")
        for n, slot in zip(x.shape, self.lengths, strict=True):
            self.e.leave_if(text.new(f"icmp ne i64 {n}, {text.new(f'load i64, ptr {slot}')}"))

    def result(self, done: str) -> Array:
        """All rows, along the axis and in the direction that is asked for."""
        e, what = self.e, self.what
        length: Length = int(done) if done.isdigit() else done
        if self.is_open:
            self.shape = tuple(e.text.new(f"load i64, ptr {slot}") for slot in self.lengths)
        pointer = self.pointer or e.text.new(f"load ptr, ptr {self.memory}")
        whole = in_memory(self.dtype, (length, *self.shape), pointer)
        axis = what.axis % len(whole.shape) if what.axis else 0
        if not axis and not what.reverse:
            return whole
        last = e.text.sub(done, 1)

        def back(lanes: Lanes, index: Index) -> Index:
            row = index[axis]
            if what.reverse:
                row = lanes.shifted(lanes.scaled(row, -1), Place(last))
            return (row, *index[:axis], *index[axis + 1 :])

        return viewed(whole, (*self.shape[:axis], length, *self.shape[axis:]), back)
