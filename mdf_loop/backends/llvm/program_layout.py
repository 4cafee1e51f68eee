"""What calls of a program need besides its code: a table of addresses, what results are, what is drawn and called."""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mdf_loop.backends.llvm.lanes.element_types import DTYPES
from mdf_loop.backends.llvm.linking import prologue
from mdf_loop.backends.llvm.linking.prologue import ASKED, FIRST_OBJECT
from mdf_loop.errors import let_through
from mdf_loop.ir import entity
from mdf_loop.step.failing import FallBack
from mdf_loop.step.records import Type

if TYPE_CHECKING:
    from mdf_loop.backends.llvm.operators.foreign import Outside


class Layout:
    """Places in a table: arguments, results, numbers, constants."""

    def __init__(self, objects: int, numbers: int = 0, scratch: int = 0) -> None:
        self.objects, self.numbers, self.scratch = objects, numbers, scratch
        self.first_number = FIRST_OBJECT + objects

    def new_numbers(self, count: int) -> int:
        """Room for numbers of eight bytes; gives the place of the first one."""
        self.numbers += count
        return self.first_number + self.numbers - count

    @property
    def first_constant(self) -> int:
        """The place of the first constant's address."""
        return self.first_number + self.numbers


class ProgramTable:
    """The addresses of one call, and memory of its own: two threads never share it."""

    def __init__(self, layout: Layout, once: int, constants: Sequence[np.ndarray], outside: Sequence[Outside]) -> None:
        self.layout = layout
        self.entries = np.zeros(layout.first_constant + len(constants), np.uint64)
        self.scratch = np.empty(layout.scratch + 64, np.uint8)
        self.arrays: dict[int, np.ndarray] = {}
        self._open, self._leave = self._new, self._run_outside  # programs know their addresses
        start = -self.scratch.ctypes.data % 64
        self.given: Sequence[Any] = ()
        self.run: Any = None
        self.pause: Callable[[], None] | None = None
        self.entries[prologue.SCRATCH] = self.scratch.ctypes.data + start
        self.entries[prologue.OPEN] = id(self._open)
        self.entries[prologue.ARRAYS] = id(np.ndarray)
        self.entries[prologue.OUTSIDE] = id(self._leave)
        self.entries[prologue.ONCE] = once
        for k, constant in enumerate(constants):
            self.entries[layout.first_constant + k] = constant.ctypes.data
        self.address = self.entries.ctypes.data
        self.buffer = memoryview(self.entries.view(np.uint8))  # type: ignore[arg-type]
        self._words, self._pack = self.buffer.cast("Q"), struct.Struct(f"={layout.objects}Q").pack_into
        self._calls = [x.prepared(self.scratch[start:], self.arrays, self.buffer) for x in outside]

    def filled(self, call: Callable[[int], int], given: Sequence[Any], found: Sequence[Any]) -> int:
        """Call the function with these objects."""
        self._pack(self.buffer, 8 * FIRST_OBJECT, *map(id, given), *map(id, found))
        return call(self.address)

    def tell(self, pause: Callable[[], None] | None) -> None:
        """What a program calls now and then, which may raise to end it; None for nothing."""
        self.pause = pause
        self.entries[prologue.PAUSE] = 0 if pause is None else id(pause)

    def _run_outside(self) -> None:
        """An operator that has no compiled form.  The program calls it."""
        try:
            fits = self._calls[self._words[ASKED]](self.given, self.run)
            if self._words[prologue.STREAM]:
                self.run.stream.words()  # the kernel may have drawn from them
        except Exception as error:
            let_through(error)
            raise FallBack from error
        if not fits:
            raise FallBack

    def _new(self) -> np.ndarray:
        """Room for an array whose lengths the run has found: the array.  The program calls it."""
        place, array = asked_room(self.buffer)
        self.arrays[place] = array
        return array


def asked_room(table: memoryview, start: int = 0) -> tuple[int, np.ndarray]:
    """The place of a result whose lengths the run has found, and an array for it; the table begins at a byte of the memory."""
    place, rank, kind = struct.unpack_from("=3q", table, start + 8 * ASKED)
    return place, np.empty(struct.unpack_from(f"={rank}q", table, start + 8 * place), DTYPES[kind])


LETTERS = {"b1": "?", "f2": "e", "f4": "f", "f8": "d", "i1": "b", "i2": "h", "i4": "i", "i8": "q"}
LETTERS |= {"u1": "B", "u2": "H", "u4": "I", "u8": "Q"}
"""Element types as Python's ``struct`` calls them."""


class Result:
    """One result: an array that is there before, of ``room`` in shape and type, one that the program asks for, or a number."""

    def __init__(self, type: Type, place: int) -> None:
        assert type.dtype is not None
        self.type, self.dtype, self.shape, self.place, self.is_array = type, type.dtype, type.shape or (), place, type.is_array
        self.is_static = all(isinstance(n, int) for n in self.shape)
        self.is_number = self.shape == ()
        self.lengths = [n for n in self.shape if isinstance(n, int)]
        self.room: tuple[Any, np.dtype] | None = (self.shape, self.dtype) if self.is_static and not self.is_number else None
        self._is_half = self.dtype.kind == "V"  # bfloat16
        self._unpack = struct.Struct("=" + LETTERS.get(self.dtype.str[1:], "H")).unpack_from
        self._made: Callable[[Any], Any] = functools.partial(np.array, dtype=self.dtype) if self.is_array else self.dtype.type
        if type.weak:
            self._made = type_of_number(self.dtype)

    def of(self, table: ProgramTable) -> Any:
        """The result of a call that was given no room for it."""
        if not self.is_number:
            return table.arrays[self.place]
        if self._is_half:
            found = table.entries[self.place : self.place + 1].view(self.dtype)[0]
            return np.array(found) if self.is_array else found
        (found,) = self._unpack(table.buffer, 8 * self.place)
        return self._made(found)


def type_of_number(dtype: np.dtype) -> type:
    """Python's own type of numbers such as these."""
    return {"b": bool, "f": float}.get(dtype.kind, int)


@entity
class Outline:
    """What is known of a program besides its code.

    Attributes
    ----------
    functions : sequence of str
        What its text declares: functions of ours, of LLVM's, of Python's, numpy's and scipy's.
    level : int
        LLVM's level of code generation.
    table : Layout
    params : sequence of Type
    results : sequence of Result
    lists : sequence of int
        The results that are lists of rows.
    constants : sequence of numpy.ndarray
        Large constants, whose addresses the program is given.
    outside : sequence of Outside
        Operators that run outside.
    draws, is_free : bool
        Whether random numbers are drawn from the stream of the run; whether it runs without Python's lock.
    """

    functions: Sequence[str]
    level: int
    table: Layout
    params: Sequence[Type]
    results: Sequence[Result]
    lists: Sequence[int]
    constants: Sequence[np.ndarray]
    outside: Sequence[Outside]
    draws: bool
    is_free: bool
