"""Operators that run outside: a program hands their inputs to the kernel, and reads what it gives.

Inputs are constants, arguments of the program, or stand in memory of the program's own, of which there are views beforehand: a
call costs a few microseconds beside the kernel.  Where lengths are known only when the program runs, inputs are written into new
arrays of Python's, and results are read where Python has them.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from mdf_loop.backends.llvm.lanes.element_loops import store_all
from mdf_loop.backends.llvm.lanes.element_types import CannotCompile
from mdf_loop.backends.llvm.lanes.lazy_arrays import Array, in_memory
from mdf_loop.backends.llvm.linking.object_layout import ELEMENTS
from mdf_loop.backends.llvm.linking.prologue import CALL, RAISED
from mdf_loop.step.primitives import PRIMITIVES
from mdf_loop.step.records import Apply, Type, Value
from mdf_loop.step.structure import recurring

if TYPE_CHECKING:
    from mdf_loop.backends.llvm.emitter import Emitter


@dataclass(frozen=True)
class Area:
    """An array in the program's own memory: where, of which type and shape."""

    offset: int
    dtype: np.dtype
    shape: tuple[int, ...]

    def view(self, memory: np.ndarray) -> np.ndarray:
        """The array, in the memory of one table."""
        size = int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize
        return memory[self.offset : self.offset + size].view(self.dtype).reshape(self.shape)


@dataclass(frozen=True)
class Open:
    """An array of Python's whose lengths only the run can tell; None for those that are not known.

    In the table stand, from a place on, its lengths, and behind those of a result the array itself.
    """

    place: int
    dtype: np.dtype
    shape: tuple[int | None, ...]

    def keep(self, x: Any, arrays: Arrays, table: memoryview) -> bool:
        """Show the program what a kernel gave; gives whether it is of the type that the program was made for."""
        if not isinstance(x, np.ndarray) or x.dtype != self.dtype or x.ndim != len(self.shape):
            return False
        for k, n in self.known:
            if x.shape[k] != n:
                return False
        own = np.array(x, order="C")  # programs write over what is theirs; this may be an input, or kept by its kernel
        arrays[self.place] = own
        self.pack(table, 8 * self.place, *own.shape, id(own))
        return True

    @cached_property
    def known(self) -> list[tuple[int, int]]:
        """Axes whose lengths are known."""
        return [(k, n) for k, n in enumerate(self.shape) if n is not None]

    @cached_property
    def pack(self) -> Callable[..., None]:
        """Writes lengths and an address."""
        return struct.Struct(f"={len(self.shape)}qQ").pack_into


ARRAYS = np.ndarray, np.generic
"""What kernels give; a union of the two would be made again at each call."""

Arrays = dict[int, np.ndarray]
"""Arrays of Python's that a program works with, by their places in the table: they stay until they are replaced."""


@dataclass(frozen=True)
class Outside:
    """One operator that runs outside: what it is given, and where its results go."""

    operator: Apply
    inputs: tuple[Any, ...]
    results: tuple[Area | Open | None, ...]

    def prepared(self, memory: np.ndarray, arrays: Arrays, table: memoryview) -> Callable[[Sequence[Any], Any], bool]:
        """What a table calls: ``call(arguments of the program, run)``; gives whether all is well."""
        inputs = [x.view(memory) if isinstance(x, Area) else x for x in self.inputs]
        arguments = [(k, x.number) for k, x in enumerate(inputs) if isinstance(x, Argument)]
        numbers = [(k, x) for k, x in enumerate(inputs) if _is_number(x)]
        opened = [(k, x.place) for k, x in enumerate(inputs) if isinstance(x, Open)]
        rooms = [(k, x.view(memory), x.dtype, x.shape) for k, x in enumerate(self.results) if isinstance(x, Area)]
        asked = [(k, x) for k, x in enumerate(self.results) if isinstance(x, Open)]
        least = max([0, *(k + 1 for k, x in enumerate(self.results) if x is not None)])
        operator = self.operator

        def call(given: Sequence[Any], run: Any) -> bool:
            values = inputs.copy()
            for k, number in arguments:
                values[k] = given[number]
            for k, view in numbers:
                values[k] = view[()]
            for k, place in opened:
                values[k] = arrays.pop(place)
            found = operator.call(run, *values) if operator.needs_run else operator.call(*values)
            found = found if type(found) is tuple else (found,)
            if len(found) < least:
                return False
            for k, room, dtype, shape in rooms:
                x = found[k]
                if not isinstance(x, ARRAYS) or x.dtype != dtype or x.shape != shape:
                    return False
                room[...] = x
            return not asked or all(x.keep(found[k], arrays, table) for k, x in asked)

        return call


@dataclass(frozen=True)
class Argument:
    """An argument of the program."""

    number: int


def _is_number(x: Any) -> bool:
    return isinstance(x, np.ndarray) and x.ndim == 0


def run_outside(e: Emitter, v: Value) -> Array:
    """The results of an operator that has no compiled form but known element types and numbers of axes.

    Raises
    ------
    CannotCompile
        The types are not known.
    """
    results = (v, *(item for _, item in e.items_of(v)))
    opens = [x for x in (*v.args, *results) if x.type.shape is not None and not x.type.is_static]
    for loop, limit in e.loops if opens else ():
        is_short = limit.isdigit() and int(limit) <= FEW
        if not is_short and not _has_lengths_of(recurring(loop), opens):
            raise CannotCompile(f"{v.attr.node.op} of open lengths has no compiled form where they need no iteration before")
    return kernel_results(e, v)


FEW = 48
"""Iterations that are too few to run in blocks."""


def _has_lengths_of(recurrent: set[Value], opens: Sequence[Value]) -> bool:
    """Whether lengths need the iteration before.  Others are known before a block is stepped, which is then made for them, or
    the operator is one call for the whole block: calling it in each iteration takes many times as long."""
    left, seen = list(opens), set[Value]()
    while left:
        x = left.pop()
        if x in seen or x not in recurrent:
            continue
        seen.add(x)
        sources = [y for y in x.args if y.type.shape is None or not y.type.is_static]
        decides = x.op not in PRIMITIVES and any(y in recurrent and y.type.kind in "iu" for y in x.args if y not in sources)
        if decides or not sources:
            return True
        left += sources
    return False


def kernel_results(e: Emitter, v: Value) -> Array:
    """What the kernel gives, called in each iteration whatever that costs."""
    attr: Apply = v.attr
    items = dict(e.items_of(v)) if attr.results > 1 else {0: v}
    results = {k: _room(e, attr, item.type) for k, item in items.items()}
    inputs = tuple(_input(e, x) for x in v.args)
    e.outside.append(Outside(attr, inputs, tuple(results[k][0] if k in results else None for k in range(attr.results))))
    call = e.text.declare(CALL, "i1", "ptr", "i64", pure=False)
    e.leave_if(e.text.new(f"{call}(ptr %table, i64 {len(e.outside) - 1})"), RAISED)
    for k, item in items.items():
        e.known[item] = e.settled(results[k][1]())
    return e.known[v] if attr.results == 1 else next(iter(e.known[item] for item in items.values()))


def _room(e: Emitter, attr: Apply, type: Type) -> tuple[Area | Open, Callable[[], Array]]:
    """Where a result goes, and what it is when the kernel has run."""
    if type.dtype is None or type.shape is None or type.weak:
        raise CannotCompile(f"{attr.node.op} has no compiled form")
    e.element(type.dtype)
    if not type.is_static:
        place = e.new_numbers(len(type.shape) + 1)
        found = Open(place, type.dtype, tuple(n if isinstance(n, int) else None for n in type.shape))
        return found, functools.partial(_found, e, found)
    shape = tuple(n for n in type.shape if isinstance(n, int))
    offset, pointer = e.own_room(type.dtype, shape)
    return Area(offset, type.dtype, shape), functools.partial(in_memory, type.dtype, shape, pointer)


def _found(e: Emitter, x: Open) -> Array:
    """What a kernel gave, where it stands; the next call replaces it."""
    text, rank = e.text, len(x.shape)
    entries = [text.element_pointer("i64", "%table", x.place + k) for k in range(rank + 1)]
    shape = [text.new(f"load i64, ptr {at}") if n is None else n for n, at in zip(x.shape, entries, strict=False)]
    array = text.new(f"load ptr, ptr {entries[rank]}")
    pointer = text.new(f"load ptr, ptr {text.new(f'getelementptr i8, ptr {array}, i64 {ELEMENTS}')}")
    return in_memory(x.dtype, shape, pointer)


def _input(e: Emitter, x: Value) -> Any:
    """What a kernel is given."""
    if x.op == "const":
        return x.attr
    if x.op == "param" and x in e.arguments:
        return Argument(e.arguments[x])
    found = e.of(x)
    if not found.is_static:
        place = e.new_numbers(len(found.shape))
        store_all(e, [(found, [e.result_room(place, found.dtype, found.shape)])])
        return Open(place, found.dtype, ())
    shape = tuple(n for n in found.shape if isinstance(n, int))
    offset, pointer = e.own_room(found.dtype, shape)
    store_all(e, [(found, [pointer])])
    return Area(offset, found.dtype, shape)
