"""Writes a Step as a function of LLVM: what every operation needs, and the table of how each is written.

``elementwise`` and ``views`` write values that are computed where they are read, ``reductions``, ``products`` and ``putting``
those that stand in memory, ``loops_and_branches`` loops and branches.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mdf_loop.backends.llvm.fusion import fused
from mdf_loop.backends.llvm.lanes.element_loops import store_all
from mdf_loop.backends.llvm.lanes.element_types import BOOL, DTYPES, CannotCompile, element, literal
from mdf_loop.backends.llvm.lanes.instructions import Text
from mdf_loop.backends.llvm.lanes.lazy_arrays import Array, Length, can_hold, get, held, in_memory, is_one, number
from mdf_loop.backends.llvm.lanes.vector_lanes import ZERO, Lanes
from mdf_loop.backends.llvm.linking.prologue import GROW, RAISED, ROOM
from mdf_loop.kernels.arrays.bounds import most_bytes
from mdf_loop.ops.rows import filling
from mdf_loop.step.failing import may_fail
from mdf_loop.step.memory import changes_length
from mdf_loop.step.records import LoopRegion, Region, Type, Value
from mdf_loop.step.structure import uses_of

Write = Callable[["Emitter", Value], Array]
WRITERS: dict[str, Write] = {}
"""By operation."""

FALL_BACK, NO_MEMORY, NOT_PLAIN = 1, 2, 4
"""What a program returns that cannot come to its end: the last, as the elements of an array do not stand row by row."""

LARGEST_SLOT, LARGEST_STACK = 1 << 12, 1 << 16
"""Bytes of one array, and of all, that stand on the stack; others have room in memory of their own."""

LARGEST_CONSTANT = 1 << 9
"""Bytes of an array of constants that stands beside the code."""


writes = filling(WRITERS)
"""Says how operations are written."""


class Emitter:
    """One function on its way.

    Attributes
    ----------
    known : dict
        Values of the Step that have been written.
    targets : dict
        Where values are to be written besides where they are read: pointers.
    filled : set of str
        Those of them that have been written.
    asking : dict
        Results whose lengths the run finds: where in the table it says them.
    asked : dict
        Those that stand where they stay already: the same.
    in_place : set
        Values ``put`` that are written over what they are made of.
    constants : list of numpy.ndarray
        Large constants, whose addresses the program is given.
    scratch : int
        Bytes of memory that the program is given.
    outside : list
        Operators that run outside.
    draws, is_looping : bool
        Whether random numbers are drawn from the stream of the run; whether there is a loop of the Step.
    arguments : dict
        Parameters of the program, by number.
    packed : dict
        Matrices whose columns have been put together for products: pointers.
    loops : list of (LoopRegion, str)
        The loops around what is being written, and how many iterations they have at the most.
    is_quick : bool
        Whether little text counts more than quick code.
    new_numbers : callable
        Gives room for so many numbers in the table: the place of the first one.
    """

    new_numbers: Callable[[int], int]

    def __init__(self, region: Region, register_bytes: int, has_half: bool, is_quick: bool = False) -> None:
        self.text, self.uses = Text(), uses_of(region)
        self.fusion = fused(region, self.uses)
        self.register_bytes, self.has_half, self.is_quick = register_bytes, has_half, is_quick
        self.known: dict[Value, Array] = {}
        self.targets: dict[Value, list[str]] = {}
        self.in_place: set[Value] = set()
        self.filled: set[str] = set()
        self.asking: dict[Value, int] = {}
        self.asked: dict[Value, int] = {}
        self.constants: list[np.ndarray] = []
        self.growing: list[str] = []
        self.scratch = 0
        self.outside: list[Any] = []
        self.draws = self.is_looping = False
        self.arguments: dict[Value, int] = {}
        self.packed: dict[Value, str] = {}
        self.loops: list[tuple[LoopRegion, str]] = []
        self._stack = 0
        self._constants: dict[Value, Array] = {}

    # Values

    def values(self, region: Region) -> None:
        """Every value of a region, in order."""
        for value in region.values:
            is_needed = self.uses.count(value) or may_fail(value)
            if value.op == "item" or not is_needed:
                continue
            write = WRITERS.get(value.op, WRITERS[""])
            self.define(value, write(self, value))

    def items_of(self, value: Value) -> Iterator[tuple[int, Value]]:
        """The results that are read of a value of several."""
        return self.uses.items_of(value)

    def define(self, value: Value, found: Array) -> None:
        """What a value is; written to memory if that was decided."""
        if value in self.fusion.written and not found.memory and value not in self.in_place and can_hold(self, value):
            found = held(self, found)
        elif value in self.fusion.written and not found.memory:
            targets = self.targets.get(value, ())
            found = self.materialised(found, targets)
            self.filled.update(targets)
        self._bound(value, found)
        self.known[value] = self._over_its_argument(value, found) if value in self.in_place else found

    def _bound(self, value: Value, x: Array) -> None:
        """See that no place in a value is further than 64 bits count, also where nothing of it is ever in memory.

        A shape that an argument has was looked at there; arguments of the program are arrays that exist.
        """
        if not any(isinstance(n, str) for n in x.shape):
            if x.size * element(x.dtype).size > most_bytes():
                raise CannotCompile("a value for which there is no memory has no compiled form")
        elif not any(y in self.known and self.known[y].shape == x.shape for y in value.args):
            self.bytes_of(x.dtype, x.shape)

    def _over_its_argument(self, value: Value, found: Array) -> Array:
        """What replaces parts of its argument, in the argument's memory: not all that may be written there wrote it there.

        What is longer or shorter than its argument is there already if it can be.
        """
        over = self.known[value.args[0]]
        if changes_length(value) or not over.memory or over.growing or found.value or found.memory == over.memory:
            return found
        return self.materialised(found, [over.memory])

    def of(self, value: Value) -> Array:
        """A value that has been written, or a constant."""
        if value.op == "const":
            return self.constant(value)
        found = self.known.get(value)
        if found is None:
            raise CannotCompile("a value of unknown type has no compiled form")
        return found

    def number_of(self, value: Value | Array, dtype: np.dtype | None = None) -> str:
        """The number that a value of one element is, in an element type."""
        from mdf_loop.backends.llvm.lanes.casts import converted

        x = value if isinstance(value, Array) else self.of(value)
        lanes = Lanes(self.text)
        found = get(lanes, x, tuple(ZERO for _ in x.shape))
        return converted(lanes, found, x.dtype, dtype or x.dtype)

    def truth(self, value: Value) -> str:
        """A condition, which has to be one bool."""
        if value.type.dtype != BOOL or not is_one(self.of(value).shape):
            raise CannotCompile("a condition that is not one bool has no compiled form")
        return self.number_of(value)

    def element(self, dtype: np.dtype | None) -> Any:
        """An element type that this machine can compute with."""
        row = element(dtype)
        if row.register == "half" and not self.has_half:
            raise CannotCompile("float16 has no compiled form on this processor")
        return row

    # Constants

    def constant(self, value: Value) -> Array:
        """A constant: a number, one number everywhere, or a table."""
        if value not in self._constants:
            self._constants[value] = self._constant(np.asarray(value.attr), value.type)
        return self._constants[value]

    def _constant(self, given: np.ndarray, type: Type) -> Array:
        if type.dtype is None:
            raise CannotCompile("a constant of unknown type has no compiled form")
        self.element(type.dtype)
        given = np.ascontiguousarray(given, type.dtype).reshape(given.shape)
        if given.size and (given.size == 1 or _is_uniform(given)):
            found = number(given.dtype, literal(given.dtype, given.reshape(-1)[0]), given.shape)
            found.const = given
            return found
        return in_memory(given.dtype, given.shape, self.table(given), given)

    def table(self, given: np.ndarray) -> str:
        """The address of constants: beside the code, or given to the program."""
        row = element(given.dtype)
        if 0 < given.nbytes <= LARGEST_CONSTANT:
            if row.kind == "b":
                numbers = ", ".join(f"i8 {int(x)}" for x in given.reshape(-1))
            else:
                numbers = ", ".join(f"{row.memory} {literal(given.dtype, x)}" for x in given.reshape(-1))
            return self.text.constant(f"[{given.size} x {row.memory}]", f"[{numbers}]")
        for k, constant in enumerate(self.constants):
            if constant is given:
                return f"%constant{k}"
        self.constants.append(given)
        return f"%constant{len(self.constants) - 1}"

    # Memory

    def room(self, dtype: np.dtype, shape: Sequence[Length]) -> str:
        """A pointer to room for an array; the same each time the code runs."""
        row, lengths = element(dtype), [n for n in shape if isinstance(n, int)]
        if len(lengths) < len(shape):
            return self.open_room(row.size, shape)
        count = int(np.prod(lengths, dtype=object))
        size = -(-count * row.size // 64) * 64
        if size <= LARGEST_SLOT and self._stack + size <= LARGEST_STACK:
            self._stack += size
            return self.text.slot(row.memory, max(size // row.size, 1), 64)
        return self.own_room(dtype, shape)[1]

    def own_room(self, dtype: np.dtype, shape: Sequence[Length]) -> tuple[int, str]:
        """Room in the program's own memory: where it is there, and its address."""
        offset, name = self.scratch, self.text.outer_name()
        count = int(np.prod([n for n in shape if isinstance(n, int)], dtype=object))
        self.scratch += -(-count * element(dtype).size // 64) * 64
        self.text.slots.append(f"  {name} = getelementptr i8, ptr %scratch, i64 {offset}")
        return offset, name

    def open_room(self, size: int, shape: Sequence[Length]) -> str:
        """Room for an array whose lengths only the run can tell."""
        return self.grown(self.growing_memory(), self.product_of([size, *shape]))

    def bytes_of(self, dtype: np.dtype, shape: Sequence[Length]) -> str:
        """How many bytes an array has."""
        return self.product_of([element(dtype).size, *shape])

    def product_of(self, lengths: Sequence[Length]) -> str:
        """The product of lengths: every size that a program computes.

        Where one is negative, or there is no memory for so much, the program leaves it to the interpreter, which says so.
        """
        known = math.prod(n for n in lengths if isinstance(n, int))
        names, most = [n for n in lengths if isinstance(n, str)], most_bytes()
        if not names:
            return str(known)
        if not known:
            return "0"
        count, is_wrong = names[0], ""
        for k, n in enumerate(names):
            if k:  # a length of 0 does not hide that the others are too long
                least = self.text.declare("llvm.umax.i64", "i64", "i64", "i64")
                sides = [self.text.new(f"{least}(i64 {x}, i64 1)") for x in (count, n)]
            count, is_over = (n, "") if not k else self.with_overflow("umul", *sides)
            beyond = self.text.new(f"icmp ugt i64 {count}, {most // known}")  # of which a negative length is one
            for one in (beyond, is_over):
                is_wrong = self.text.new(f"or i1 {is_wrong}, {one}") if is_wrong and one else is_wrong or one
        self.leave_if(is_wrong)
        return functools.reduce(self.text.mul, names, str(known))

    def with_overflow(self, name: str, a: Length, b: Length) -> tuple[str, str]:
        """What two numbers of 64 bits give ("sadd", "ssub", "umul"), and whether they hold it."""
        call = self.text.declare(f"llvm.{name}.with.overflow.i64", "{ i64, i1 }", "i64", "i64")
        both = self.text.new(f"{call}(i64 {a}, i64 {b})")
        return tuple(self.text.new(f"extractvalue {{ i64, i1 }} {both}, {k}") for k in range(2))  # type: ignore[return-value]

    def exact(self, name: str, a: Length, b: Length) -> str:
        """The same where the program ends if 64 bits do not hold it."""
        found, is_over = self.with_overflow(name, a, b)
        self.leave_if(is_over)
        return found

    def growing_memory(self) -> str:
        """Memory that grows: a pointer and how many bytes there are."""
        name = self.text.slot("{ ptr, i64 }")
        self.text.slots.append(f"  store {{ ptr, i64 }} zeroinitializer, ptr {name}")
        self.growing.append(name)
        return name

    def grown(self, memory: str, size: str) -> str:
        """The address of growing memory that has so many bytes at least; what was in it stays."""
        text = self.text
        room = text.new(f"getelementptr {{ ptr, i64 }}, ptr {memory}, i64 0, i32 1")
        with text.where(text.new(f"icmp ult i64 {text.new(f'load i64, ptr {room}')}, {size}")):
            call = text.declare(GROW, "i1", "ptr", "i64", pure=False)
            self.leave_if(text.new(f"{call}(ptr {memory}, i64 {size})"), NO_MEMORY)
        return text.new(f"load ptr, ptr {memory}")

    def result_room(self, place: int, dtype: np.dtype, shape: Sequence[Length]) -> str:
        """Room for an array of Python's whose lengths the run has found."""
        text = self.text
        for k, n in enumerate(shape):
            text.line(f"store i64 {n}, ptr {text.element_pointer('i64', '%table', place + k)}")
        call = text.declare(ROOM, "ptr", "ptr", "ptr", "i64", "i64", "i64", pure=False)
        room = text.new(f"{call}(ptr %table, ptr %thread, i64 {place}, i64 {len(shape)}, i64 {DTYPES.index(dtype)})")
        self.leave_if(text.new(f"icmp eq ptr {room}, null"), RAISED)
        return room

    def room_to_stay(self, value: Value, dtype: np.dtype, shape: Sequence[Length]) -> str:
        """Where a result of the program is written that is complete when the program is; empty if it is none."""
        if (targets := self.targets.get(value)) and tuple(shape) == value.type.shape:
            self.filled.add(targets[0])
            return targets[0]
        if targets or value not in self.asking:
            return ""
        self.asked[value] = self.asking[value]
        return self.result_room(self.asked[value], dtype, shape)

    def materialised(self, x: Array, targets: Sequence[str] = ()) -> Array:
        """A value written to memory: to its targets, or to room of its own."""
        pointers = list(targets) or [self.room(x.dtype, x.shape)]
        store_all(self, [(x, pointers)])
        return in_memory(x.dtype, x.shape, pointers[0], x.const)

    def memory_of(self, x: Array) -> str:
        """The pointer to a value, which is written if it is not in memory."""
        return x.memory or self.materialised(x).memory

    def place_for(self, value: Value, dtype: np.dtype, shape: Sequence[Length]) -> str:
        """Where an operation that writes its result writes it."""
        targets = self.targets.get(value)
        return targets[0] if targets else self.room(dtype, shape)

    # Guards

    def leave_if(self, condition: str, code: int = FALL_BACK) -> None:
        """The program ends without results where a condition holds."""
        onwards = self.text.label("g")
        self.text.fork(condition, f"leave{code}", onwards, is_rare=True)
        self.text.start(onwards)

    def settled(self, x: Array) -> Array:
        """A value of one element as a number, computed now."""
        return number(x.dtype, self.number_of(x), x.shape) if is_one(x.shape) and not x.value else x

    def same_length(self, lengths: Sequence[Length]) -> Length:
        """The length that all have; those that only the run can tell are looked at."""
        known = [n for n in lengths if isinstance(n, int)]
        found: Length = known[0] if known else lengths[0]
        if len(set(known)) > 1:
            raise CannotCompile("lengths that do not go together have no compiled form")
        for n in dict.fromkeys(lengths):
            if isinstance(n, str) and n != found:
                self.leave_if(self.text.new(f"icmp ne i64 {n}, {found}"))
        return found

    def fitted(self, x: Array, shape: Sequence[Length]) -> Array:
        """A value whose lengths are known to be others than it says: what only the run can tell is looked at."""
        if x.shape == tuple(shape):
            return x
        for n, m in zip(x.shape, shape, strict=True):
            if isinstance(n, int) and isinstance(m, int) and n != m:
                raise CannotCompile("a value that changes its shape has no compiled form")
            self.same_length([n, m])
        return replace(x, shape=tuple(shape))

    def broadcast_shape(self, args: Sequence[Array]) -> tuple[Length, ...]:
        """The common shape of values."""
        rank = max((len(x.shape) for x in args), default=0)
        shape = []
        for k in range(rank):
            lengths = [x.shape[len(x.shape) - rank + k] for x in args if len(x.shape) >= rank - k]
            long = [n for n in lengths if n != 1]
            shape.append(self.same_length(long) if long else 1)
        return tuple(shape)


def _is_uniform(given: np.ndarray) -> bool:
    data = given.reshape(-1).view(np.uint8).reshape(given.size, given.itemsize)
    return bool(np.all(data == data[0]))


def type_of(value: Value) -> np.dtype:
    """The element type of a value.

    Raises
    ------
    CannotCompile
        It is not known.
    """
    if value.type.dtype is None:
        raise CannotCompile("a value of unknown type has no compiled form")
    return value.type.dtype
