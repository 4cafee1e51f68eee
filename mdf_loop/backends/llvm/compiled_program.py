"""A Step as a program in machine code: ``program(run, *values) -> results``.

The function that LLVM makes is given one table of addresses: the objects of its arguments, the arrays for its results, constants
and memory of its own.  It reads numbers out of the objects themselves, and gives numbers back in the table.

As a file, another process runs it without reading, lowering or writing what it computes: a line of JSON, which is the outline
of the program, and behind it the bytes of its constants.  Its object code is a file of its own, as it is for all that compile
the same text.
"""

from __future__ import annotations

import ctypes
import functools
import json
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mdf_loop.backends.llvm.emitter import NO_MEMORY, NOT_PLAIN
from mdf_loop.backends.llvm.lanes.element_types import DTYPES, CannotCompile
from mdf_loop.backends.llvm.linking import prologue
from mdf_loop.backends.llvm.linking.call_forms import Form
from mdf_loop.backends.llvm.linking.lock import Linked
from mdf_loop.backends.llvm.linking.machine import machine
from mdf_loop.backends.llvm.linking.object_layout import are_as_expected
from mdf_loop.backends.llvm.linking.prologue import FREE, HOLDING, TOO_LONG
from mdf_loop.backends.llvm.program_layout import Layout, Outline, ProgramTable, Result
from mdf_loop.backends.llvm.program_text import ProgramText
from mdf_loop.step.failing import FallBack, TooLong
from mdf_loop.step.records import Region, Size, Type


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
    written = ProgramText(region, is_block, is_quick)
    outline = written.outline
    linked, size = machine().linked(written.text, ("once",), outline.functions, outline.level)
    return MachineProgram(outline, linked, size, written.text)


class MachineProgram:
    """One program: its code, as long as it is kept, and memory for those that call it.

    Parameters
    ----------
    outline : Outline
    code : Linked
    size : int
        How many bytes of instructions it has.
    text : str
        What it was compiled from; empty if it was found on disk.
    """

    def __init__(self, outline: Outline, code: Linked, size: int, text: str = "") -> None:
        self.outline, self._code, self.size, self.text = outline, code, size, text
        self.table, self.constants, self.results = outline.table, outline.constants, outline.results
        self.lists, self.draws, self.is_free, self.outside = outline.lists, outline.draws, outline.is_free, outline.outside
        self._call, self._call_if, self.call_many = _entries(self.is_free)
        self._rooms = [result.room for result in self.results]
        self._has_all_room = None not in self._rooms and not self.lists
        self._weak = [k for k, type in enumerate(outline.params) if type.weak and type.kind in "bi"]
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
        return Form(values, len(self.results), self.outline.params)

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


MOST_CONSTANTS = 1 << 20
"""Bytes of constants up to which a program is kept: reading them again takes time as well."""


def packed(program: MachineProgram) -> bytes | None:
    """A program as a file; None if it cannot be one: it calls objects of Python's, or has large constants."""
    outline = program.outline
    if outline.outside or not program.text or sum(constant.nbytes for constant in outline.constants) > MOST_CONSTANTS:
        return None
    said = {
        "code": machine().key_of_text(program.text, outline.level),
        "size": program.size,
        "functions": [*outline.functions],
        "level": outline.level,
        "table": [outline.table.objects, outline.table.numbers, outline.table.scratch],
        "params": [*map(_said, outline.params)],
        "results": [[*_said(result.type), result.place] for result in outline.results],
        "lists": [*outline.lists],
        "constants": [[DTYPES.index(x.dtype), x.shape] for x in outline.constants],
        "draws": outline.draws,
        "is_free": outline.is_free,
    }
    return json.dumps(said).encode() + b"\n" + b"".join(x.tobytes() for x in outline.constants)


def unpacked(content: bytes) -> MachineProgram | None:
    """The program of a file; None if its object code is not there any more."""
    line, _, rest = content.partition(b"\n")
    said = json.loads(line)
    outline = Outline(
        said["functions"],
        said["level"],
        Layout(*said["table"]),
        [*map(_type, said["params"])],
        [Result(_type(each), each[-1]) for each in said["results"]],
        said["lists"],
        _arrays(said["constants"], rest),
        (),
        said["draws"],
        said["is_free"],
    )
    linked = machine().linked_again(said["code"], ("once",), outline.functions, outline.level)
    return None if linked is None else MachineProgram(outline, linked, said["size"])


def _said(type: Type) -> list[Any]:
    assert type.dtype is not None
    return [DTYPES.index(type.dtype), [n if isinstance(n, int) else None for n in type.shape or ()], type.weak, type.is_array]


def _type(said: Sequence[Any]) -> Type:
    kind, shape, weak, is_array, *_ = said
    return Type(DTYPES[kind], tuple(Size() if n is None else n for n in shape), weak, is_array)


def _arrays(said: Sequence[Any], content: bytes) -> list[np.ndarray]:
    """Constants, each in memory of its own, as those are of a program that was compiled here."""
    found, begin = [], 0
    for kind, shape in said:
        count = math.prod(shape)
        found.append(np.frombuffer(content, DTYPES[kind], count, begin).reshape(shape).copy())
        begin += count * DTYPES[kind].itemsize
    return found
