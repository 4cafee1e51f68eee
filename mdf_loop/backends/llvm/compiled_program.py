"""A Step as a program in machine code: ``program(run, *values) -> results``.

The function that LLVM makes is given one table of addresses: the objects of its arguments, the arrays for its results, constants
and memory of its own.  It reads numbers out of the objects themselves, and gives numbers back in the table.
"""

from __future__ import annotations

import ctypes
import functools
import struct
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mdf_loop.backends.llvm import operators
from mdf_loop.backends.llvm.emitter import FALL_BACK, NO_MEMORY, NOT_PLAIN, Emitter
from mdf_loop.backends.llvm.fusion import is_number
from mdf_loop.backends.llvm.inlined import inlined
from mdf_loop.backends.llvm.lanes.element_loops import store_all
from mdf_loop.backends.llvm.lanes.element_types import DTYPES, CannotCompile
from mdf_loop.backends.llvm.lanes.instructions import RARE
from mdf_loop.backends.llvm.lanes.lazy_arrays import Array, in_memory, number
from mdf_loop.backends.llvm.lanes.vector_lanes import Lanes, Place
from mdf_loop.backends.llvm.linking import prologue
from mdf_loop.backends.llvm.linking.call_forms import Form
from mdf_loop.backends.llvm.linking.machine import IN_A_HURRY, OPTIMISATION, machine
from mdf_loop.backends.llvm.linking.object_layout import ELEMENTS, LENGTHS, are_as_expected
from mdf_loop.backends.llvm.linking.prologue import ASKED, FIRST_OBJECT, FREE, HOLDING, RAISED, STOPPED, TOO_LONG
from mdf_loop.backends.llvm.operations import elementwise, growing_lists, loops_and_branches, products, putting, reductions, views
from mdf_loop.backends.llvm.operators.foreign import Outside
from mdf_loop.errors import let_through
from mdf_loop.step.failing import FallBack, TooLong
from mdf_loop.step.records import Region, Size, Type, Value

WRITE = elementwise, growing_lists, loops_and_branches, operators, products, putting, reductions, views
"""The modules that say how operations are written."""

CODES = FALL_BACK, NO_MEMORY, NOT_PLAIN, RAISED
"""What a program may return instead of 0, besides what a look finds."""


def program(region: Region, is_block: bool = False, is_quick: bool = False) -> MachineProgram:
    """The function of a Step, ``program(run, *values) -> results``.

    It raises :class:`~mdf_loop.step.failing.FallBack` where it cannot tell what is right,
    :class:`~mdf_loop.step.failing.TooLong` after about a tenth of a second unless it ``is_block``, whose length others
    have chosen, and ``KeyboardInterrupt``.  One that ``is_quick`` is made in less time and takes more.

    Raises
    ------
    CannotCompile
        Something in it has no compiled form, or this machine none at all.
    """
    if not are_as_expected():
        raise CannotCompile("objects do not look here as compiled programs expect them")
    return MachineProgram(region, is_block, is_quick)


class MachineProgram:
    """One program: its code, as long as it is kept, and memory for those that call it."""

    def __init__(self, region: Region, is_block: bool = False, is_quick: bool = False) -> None:
        self.lists = [k for k, value in enumerate(region.results) if value.op == "rows" and value.args]
        arrays = [value.args[0] if k in self.lists else value for k, value in enumerate(region.results)]
        written = _Writing(inlined(replace(region, results=tuple(arrays))), is_block, is_quick)
        self.text, self.constants = written.text, written.e.constants
        level = IN_A_HURRY if is_quick else OPTIMISATION
        self._code, self.size = machine().linked(self.text, ("once",), list(written.e.text.declarations), level)
        self.draws, self.is_free = written.e.draws, written.is_free
        self._call, self._call_if, self.call_many = _entries(self.is_free)
        self.table, self.results, self.outside = written.table, written.results, written.e.outside
        self._rooms = [result.room for result in self.results]
        self._has_all_room = None not in self._rooms and not self.lists
        self._weak = [k for k, param in enumerate(region.params) if param.type.weak and param.type.kind in "bi"]
        self._types = [param.type for param in region.params]
        self._spare: list[ProgramTable] = []
        self.gives_arrays = not self.lists and all(result.is_array or not result.is_number for result in self.results)

    def __call__(self, run: Any, *values: Any) -> tuple[Any, ...]:
        """Run it."""
        table = self.taken()
        given = self.exact(values) if self._weak else values
        found = [None if room is None else np.empty(*room) for room in self._rooms]
        if self.outside:
            table.given, table.run = given, run
        if self.draws:
            table.entries[prologue.STREAM] = run.stream.words()
        if run is not None and not run.is_free:
            table.tell(run.pause)
        try:
            code = table.filled(self._call, given, found)
            if code == NOT_PLAIN:
                given = [np.ascontiguousarray(x) if isinstance(x, np.ndarray) and x.ndim else x for x in given]
                code = table.filled(self._call, given, found)
            if code:
                raise error_of(code)
        except BaseException:
            self.give_back(table)
            raise
        return self._handed_back(table, found)

    def form_of(self, values: Sequence[Any]) -> Form | None:
        """What tells such values from others, for :meth:`run_if`; None where only Python can."""
        if self.outside or self._weak or not Form.fits(values):
            return None
        return Form(values, len(self.results), self._types)

    def run_if(self, form: Form, run: Any, values: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """Run it, if the values are of the form; None if they are not, or it ends before its end, which running it tells."""
        table = self.taken()
        found = tuple([None if room is None else np.empty(*room) for room in self._rooms])
        if self.draws:
            table.entries[prologue.STREAM] = run.stream.words()
        try:
            code = self._call_if(table.address, form.address, id(values), id(found))
        except BaseException:
            self.give_back(table)
            raise
        if code:
            self.give_back(table)
            return None
        if not self._has_all_room:
            return self._handed_back(table, found)
        self._spare.append(table)
        return found

    def give_back(self, table: ProgramTable) -> None:
        """A run is over, or did not come to its end: nothing of it stays in its table."""
        if self.outside:
            table.given, table.run = (), None
        if table.pause is not None:
            table.tell(None)
        table.arrays.clear()
        self._spare.append(table)

    def _handed_back(self, table: ProgramTable, found: Sequence[Any]) -> tuple[Any, ...]:
        """The results, out of a table that is not needed any more."""
        results = [self.results[k].of(table) if x is None else x for k, x in enumerate(found)]
        for k in self.lists:
            results[k] = list(results[k])
        self.give_back(table)
        return tuple(results)

    def new_table(self) -> ProgramTable:
        """A table for one caller."""
        return ProgramTable(self.table, self._code["once"], self.constants, self.outside)

    def taken(self) -> ProgramTable:
        """A table that no other call uses until it is released."""
        return self._spare.pop() if self._spare else self.new_table()

    def exact(self, values: Sequence[Any]) -> Sequence[Any]:
        """Python's own whole numbers as numpy's."""
        given = list(values)
        for k in self._weak:
            if type(given[k]) is int and not -1 << 63 <= given[k] < 1 << 63:
                raise FallBack
            given[k] = np.bool_(given[k]) if type(given[k]) is bool else np.int64(given[k])
        return given


@functools.cache
def _entries(is_free: bool) -> tuple[Callable[..., int], ...]:
    """What calls a program with a table, with one if objects are of a form, and with many tables."""
    names = FREE if is_free else HOLDING
    address, number = ctypes.c_void_p, ctypes.c_int64
    run = ctypes.PYFUNCTYPE(number, address)
    run_if = ctypes.PYFUNCTYPE(number, address, address, address, address)
    run_many = ctypes.PYFUNCTYPE(number, address, number, number)
    return tuple(kind(machine().entry(name)) for kind, name in zip((run, run_if, run_many), names, strict=True))


def error_of(code: int) -> Exception:
    """What is raised for a run that did not come to its end."""
    return {NO_MEMORY: MemoryError, TOO_LONG: TooLong}.get(code, FallBack)()


class Layout:
    """Places in a table: arguments, results, numbers, constants."""

    def __init__(self, arguments: int, results: int) -> None:
        self.objects = arguments + results
        self.first_number = FIRST_OBJECT + self.objects
        self.numbers = 0
        self.scratch = 0

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
        place, rank, kind = struct.unpack_from("=3q", self.buffer, 8 * ASKED)
        array = np.empty(struct.unpack_from(f"={rank}q", self.buffer, 8 * place), DTYPES[kind])
        self.arrays[place] = array
        return array


LETTERS = {"b1": "?", "f2": "e", "f4": "f", "f8": "d", "i1": "b", "i2": "h", "i4": "i", "i8": "q"}
LETTERS |= {"u1": "B", "u2": "H", "u4": "I", "u8": "Q"}
"""Element types as Python's ``struct`` calls them."""


class Result:
    """One result: an array that is there before, of ``room`` in shape and type, one that the program asks for, or a number."""

    def __init__(self, type: Type, place: int) -> None:
        assert type.dtype is not None
        self.dtype, self.shape, self.place, self.is_array = type.dtype, type.shape or (), place, type.is_array
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


class _Writing:
    """The text of a program."""

    def __init__(self, region: Region, is_block: bool, is_quick: bool) -> None:
        computer = machine()
        self.e = Emitter(region, computer.register_bytes, computer.has_half, is_quick)
        self.region = region
        self.lengths: dict[Size, str] = {}
        self.table = Layout(len(region.params), len(region.results))
        self.e.new_numbers = self.table.new_numbers
        self.results = [self._result(value) for value in region.results]
        self._params()
        self._targets()
        self.e.values(region)
        self.is_free = not self.e.outside and self.e.is_looping
        self._give()
        self.text = self._whole(is_block)
        self.table.scratch = self.e.scratch

    def _result(self, value: Value) -> Result:
        type = value.type
        if type.dtype is None or type.shape is None or (type.weak and type.shape):
            raise CannotCompile("a result of unknown type has no compiled form")
        self.e.element(type.dtype)
        is_open = not type.is_static
        return Result(type, self.table.new_numbers(max(len(type.shape), 1) if is_open or type.shape == () else 0))

    def _entry(self, place: int, type: str = "ptr") -> str:
        """What stands in the table."""
        text = self.e.text
        return text.new(f"load {type}, ptr {text.element_pointer('i64', '%table', place)}")

    # Arguments

    def _params(self) -> None:
        """Where arguments stand, looked at all together; then what they are."""
        text, places = self.e.text, dict[Value, str]()
        is_odd = ""
        for k, param in enumerate(self.region.params):
            if not self.e.uses.count(param):
                continue
            type = param.type
            if type.dtype is None or type.shape is None:
                raise CannotCompile("an argument of unknown type has no compiled form")
            self.e.element(type.dtype)
            self.e.arguments[param] = k
            call = text.declare(prologue.ARRAY if type.shape else prologue.NUMBER, "ptr", "ptr", "i64", pure=False)
            places[param] = text.new(f"{call}(ptr %table, i64 {FIRST_OBJECT + k})")
            if type.shape:
                is_none = text.new(f"icmp eq ptr {places[param]}, null")
                is_odd = text.new(f"or i1 {is_odd}, {is_none}") if is_odd else is_none
        if is_odd:
            self.e.leave_if(is_odd, NOT_PLAIN)
        for param, place in places.items():
            self.e.known[param] = self._argument(param, place)

    def _argument(self, param: Value, place: str) -> Array:
        """A number, or an array whose elements stand row by row."""
        type = param.type
        assert type.dtype is not None
        if type.shape == ():
            return number(type.dtype, Lanes(self.e.text).load(type.dtype, place, Place()))
        shape = [n if isinstance(n, int) else self._length(n, param, axis) for axis, n in enumerate(type.shape or ())]
        found = in_memory(type.dtype, shape, place)
        return number(type.dtype, self.e.number_of(found), found.shape) if is_number(type) else found

    def _length(self, size: Size, param: Value, axis: int) -> str:
        """An open length, read out of the array; where several have it, it is looked at whether they do."""
        text = self.e.text
        array = self._entry(FIRST_OBJECT + self.e.arguments[param])
        lengths = text.new(f"load ptr, ptr {text.new(f'getelementptr i8, ptr {array}, i64 {LENGTHS}')}")
        found = text.new(f"load i64, ptr {text.element_pointer('i64', lengths, axis)}")
        if size in self.lengths:
            self.e.leave_if(text.new(f"icmp ne i64 {self.lengths[size]}, {found}"))
        return self.lengths.setdefault(size, found)

    # Results

    def _targets(self) -> None:
        """Results that are arrays of known lengths are written where they stay."""
        self.pointers = []
        for k, (value, result) in enumerate(zip(self.region.results, self.results, strict=True)):
            pointer = ""
            if result.is_static and not result.is_number:
                entry = self._entry(FIRST_OBJECT + len(self.region.params) + k)
                text = self.e.text
                pointer = text.new(f"load ptr, ptr {text.new(f'getelementptr i8, ptr {entry}, i64 {ELEMENTS}')}")
                if not is_number(value.type):
                    self.e.targets.setdefault(value, []).append(pointer)
            elif not result.is_number:
                self.e.asking.setdefault(value, result.place)
            self.pointers.append(pointer)

    def _give(self) -> None:
        """Write the results."""
        for value, result, pointer in zip(self.region.results, self.results, self.pointers, strict=True):
            x = self.e.of(value)
            if x.dtype != result.dtype or len(x.shape) != len(result.shape):
                raise CannotCompile("a result that changes its type has no compiled form")
            if result.is_number:
                at = self.e.text.element_pointer("i64", "%table", result.place)
                Lanes(self.e.text).store(x.dtype, self.e.number_of(x), at, Place())
            elif pointer:
                if pointer not in (x.memory, *self.e.filled):
                    store_all(self.e, [(self.e.fitted(x, result.lengths), [pointer])])
            elif self.e.asked.get(value) != result.place:
                self._give_open(x, result)

    def _give_open(self, x: Array, result: Result) -> None:
        """A result whose lengths the run has found."""
        text = self.e.text
        room = self.e.result_room(result.place, x.dtype, x.shape)
        if x.memory:
            call = text.declare("memmove", "ptr", "ptr", "ptr", "i64", pure=False)
            text.new(f"{call}(ptr {room}, ptr {x.memory}, i64 {self.e.bytes_of(x.dtype, x.shape)})")
        else:
            store_all(self.e, [(x, [room])])

    # Everything

    def _whole(self, is_block: bool) -> str:
        e, text = self.e, self.e.text
        constants = []
        for k in range(len(e.constants)):
            constants.append(f"  %at{k} = getelementptr i64, ptr %table, i64 {self.table.first_constant + k}")
            constants.append(f"  %constant{k} = load ptr, ptr %at{k}")
        text.jump("last")
        text.start("last")
        text.jump("end")
        for code in CODES:
            text.start(f"leave{code}")
            text.line("br label %end")
        text.start(f"leave{STOPPED}")
        why = text.new(f"load i64, ptr {text.element_pointer('i64', '%fuel', prologue.WHY)}")
        text.jump("end")
        codes = ", ".join([*(f"[{c}, %leave{c}]" for c in CODES), f"[{why}, %leave{STOPPED}]"])
        ending = [f"  %code = phi i64 [0, %last], {codes}"]
        if e.growing:
            text.declare("PyMem_RawFree", "void", "ptr", pure=False)
        for k, memory in enumerate(e.growing):
            ending += [f"  %free{k} = load ptr, ptr {memory}", f"  call void @PyMem_RawFree(ptr %free{k})"]
        looks = loops_and_branches.MOST_LOOKS if is_block else loops_and_branches.FEW_LOOKS
        lines = [
            "define i64 @once(ptr %table, ptr %thread) nounwind {", "entry:",
            "  %scratch = load ptr, ptr %table",
            *(prologue.stream() if e.draws else []),
            "  %fuel = alloca [5 x i64]", f"  store i64 {loops_and_branches.FUEL}, ptr %fuel",
            *(f"  %fuel{k} = getelementptr i64, ptr %fuel, i64 {k}" for k in (prologue.FULL, prologue.LOOKS, prologue.TOLD)),
            f"  %pause_at = getelementptr i64, ptr %table, i64 {prologue.PAUSE}",
            "  %pause = load i64, ptr %pause_at",
            f"  store i64 %pause, ptr %fuel{prologue.TOLD}",
            f"  store i64 {loops_and_branches.FUEL}, ptr %fuel{prologue.FULL}",
            f"  store i64 {looks}, ptr %fuel{prologue.LOOKS}",
            *constants, *text.slots, *text.lines,
        ]  # fmt: skip
        return (
            "\n".join([*text.declarations.values(), *text.globals, *lines, "end:", *ending, "  ret i64 %code", "}", RARE]) + "\n"
        )
