"""Memory between two pages that end the process when they are touched: machine code that leaves its memory dies there.

Everything that numpy makes within ``guarded`` has such memory (NEP 49): what machine code is given, its results, its
constants, the memory of its calls.  So has what programs ask for themselves, and what they else have on the stack or in one
piece with more.
What allocates is written in LLVM's language: it is called while exceptions are on their way, where Python may not run.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import mmap
from collections.abc import Iterator
from typing import Any
from unittest import mock

import numpy as np

SIDES = ("", "behind", "before")
"""No guard; memory that ends right before a page that cannot be touched; memory that begins right behind one."""


def side_of(case: int) -> str:
    """Where the guard is while a case runs: the same each time."""
    return SIDES[case % len(SIDES)]


PAGE, FILLED = mmap.PAGESIZE, 1 << 16
"""Bytes of a page; bytes of new memory that hold what is unlikely to be right."""

SET_HANDLER = 304
"""The place of ``PyDataMem_SetHandler`` in numpy's table of functions."""

TEXT = """
declare ptr @mmap(ptr, i64, i32, i32, i32, i64)
declare i32 @munmap(ptr, i64)
declare i32 @mprotect(ptr, i64, i32)
declare i64 @llvm.umax.i64(i64, i64)
declare i64 @llvm.umin.i64(i64, i64)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

define ptr @guarded_take(i64 %size) {{  ; a page that says how long it is, a guard, memory, a guard
  %fits = icmp ult i64 %size, {most}
  br i1 %fits, label %ask, label %none
ask:
  %least = call i64 @llvm.umax.i64(i64 %size, i64 1)
  %more = add i64 %least, {last}
  %room = and i64 %more, -{page}
  %behind_at = add i64 %room, {two}
  %all = add i64 %behind_at, {page}
  %base = call ptr @mmap(ptr null, i64 %all, i32 3, i32 34, i32 -1, i64 0)
  %number = ptrtoint ptr %base to i64
  %failed = icmp eq i64 %number, -1
  br i1 %failed, label %none, label %put
put:
  store i64 %size, ptr %base
  %all_at = getelementptr i64, ptr %base, i64 1
  store i64 %all, ptr %all_at
  %before = getelementptr i8, ptr %base, i64 {page}
  %behind = getelementptr i8, ptr %base, i64 %behind_at
  call i32 @mprotect(ptr %before, i64 {page}, i32 0)
  call i32 @mprotect(ptr %behind, i64 {page}, i32 0)
  %slack = sub i64 %room, %least
  %shift = and i64 %slack, {shifted}
  %at = add i64 %shift, {two}
  %found = getelementptr i8, ptr %base, i64 %at
  ret ptr %found
none:
  ret ptr null
}}

define ptr @guarded_new(ptr %context, i64 %size) {{
  %found = call ptr @guarded_take(i64 %size)
  %none = icmp eq ptr %found, null
  br i1 %none, label %end, label %fill
fill:
  %some = call i64 @llvm.umin.i64(i64 %size, i64 {filled})
  call void @llvm.memset.p0.i64(ptr %found, i8 -51, i64 %some, i1 false)
  br label %end
end:
  ret ptr %found
}}

define ptr @guarded_zeros(ptr %context, i64 %count, i64 %each) {{
  %size = mul i64 %count, %each
  %found = call ptr @guarded_take(i64 %size)
  ret ptr %found
}}

define void @guarded_free(ptr %context, ptr %memory, i64 %size) {{
  call void @guarded_leave(ptr %memory)
  ret void
}}

define ptr @guarded_start(ptr %memory) {{
  %number = ptrtoint ptr %memory to i64
  %in_page = and i64 %number, {last}
  %back = add i64 %in_page, {two}
  %away = sub i64 0, %back
  %base = getelementptr i8, ptr %memory, i64 %away
  ret ptr %base
}}

define void @guarded_leave(ptr %memory) {{
  %none = icmp eq ptr %memory, null
  br i1 %none, label %end, label %give
give:
  %base = call ptr @guarded_start(ptr %memory)
  %all_at = getelementptr i64, ptr %base, i64 1
  %all = load i64, ptr %all_at
  call i32 @munmap(ptr %base, i64 %all)
  br label %end
end:
  ret void
}}

define ptr @guarded_other(ptr %context, ptr %memory, i64 %size) {{
  %found = call ptr @guarded_new(ptr null, i64 %size)
  %failed = icmp eq ptr %found, null
  %none = icmp eq ptr %memory, null
  %over = or i1 %failed, %none
  br i1 %over, label %end, label %copy
copy:
  %base = call ptr @guarded_start(ptr %memory)
  %before = load i64, ptr %base
  %some = call i64 @llvm.umin.i64(i64 %size, i64 %before)
  call void @llvm.memcpy.p0.p0.i64(ptr %found, ptr %memory, i64 %some, i1 false)
  call void @guarded_leave(ptr %memory)
  br label %end
end:
  ret ptr %found
}}

define ptr @guarded_grow(ptr %memory, i64 %size) {{
  %found = call ptr @guarded_other(ptr null, ptr %memory, i64 %size)
  ret ptr %found
}}
"""

NAMES = [f"guarded_{name}" for name in ("new", "zeros", "other", "free", "grow", "leave")]


class _Handler(ctypes.Structure):
    """numpy's ``PyDataMem_Handler``."""

    _fields_ = (
        ("name", ctypes.c_char * 127),
        ("version", ctypes.c_uint8),
        ("context", ctypes.c_void_p),
        *((name, ctypes.c_void_p) for name in ("new", "zeros", "other", "free")),
    )


@functools.cache
def _made(side: str) -> tuple[dict[str, int], Any, list[Any]]:
    """Where the functions of a side are, what numpy takes them as, and what has to stay as long as the process."""
    from mdf_loop.backends.llvm.linking.machine import machine

    sizes = {"page": PAGE, "two": 2 * PAGE, "last": PAGE - 1, "filled": FILLED, "most": 1 << 46}
    text = TEXT.format(**sizes, shifted=-1 if side == "behind" else 0)
    _, code = machine()._link(machine()._compiled(text), NAMES, [])
    at = {name.removeprefix("guarded_"): code[name] for name in NAMES}
    handler = _Handler(b"guarded", 1, None, at["new"], at["zeros"], at["other"], at["free"])
    name = b"mem_handler"
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    for kept in (code, handler, name):  # arrays may be freed when nothing else is left
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))
    return at, new(ctypes.addressof(handler), name, None), [code, handler, name]


def _set_handler(handler: Any) -> Any:
    """Have numpy's arrays, from now on and in this thread, made by a handler; gives the one before."""
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    table = ctypes.cast(pointer(np._core._multiarray_umath._ARRAY_API, None), ctypes.POINTER(ctypes.c_void_p))
    return ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(table[SET_HANDLER])(handler)


_active: list[str] = []


def is_guarded() -> bool:
    """Whether arrays have guards now: what other libraries make of numpy's memory ends the process then."""
    return bool(_active)


_growing: dict[str, Any] = {}
"""What ``_shared`` keeps."""


@contextlib.contextmanager
def guarded(side: str = "behind") -> Iterator[None]:
    """Have machine code that is made within run between guards; nothing changes for a side that is empty."""
    try:
        from mdf_loop.backends.llvm.linking.machine import machine

        machine()
    except ImportError:  # there is no machine code here
        side = ""
    if not side:
        yield
        return
    at, handler, _ = _made(side)
    with _programs(side, at):
        before = _set_handler(handler)
        _active.append(side)
        try:
            yield
        finally:
            _active.pop()
            _set_handler(before)


@contextlib.contextmanager
def _programs(side: str, at: dict[str, int]) -> Iterator[None]:
    """Programs whose memory grows by what is asked for and no more, and that have all of it there."""
    from mdf_loop.backends.llvm import emitter
    from mdf_loop.backends.llvm.lanes import element_types
    from mdf_loop.backends.llvm.linking import machine, prologue

    def room(self: Any, dtype: Any, shape: Any) -> str:
        return str(self.open_room(element_types.element(dtype).size, shape))

    table = emitter.Emitter.table
    exact = prologue._HELPERS.replace("%more = icmp ugt i64 %twice, %size", "%more = icmp eq i64 1, 0")
    assert exact != prologue._HELPERS
    with contextlib.ExitStack() as stack:
        for thing, name, other in (
            (emitter, "LARGEST_CONSTANT", 0),
            (emitter.Emitter, "table", lambda self, given: table(self, np.array(given))),
            (emitter.Emitter, "room", room),
            (prologue, "_HELPERS", exact),
        ):
            stack.enter_context(mock.patch.object(thing, name, other))
        memory = {"PyMem_RawRealloc": at["grow"], "PyMem_RawFree": at["leave"]}
        stack.enter_context(mock.patch.dict(machine._PYTHON, memory))
        stack.enter_context(_shared(side))
        yield


@contextlib.contextmanager
def _shared(side: str) -> Iterator[None]:
    """The functions that all programs share, which ask for memory, are linked for each side."""
    from mdf_loop.backends.llvm import compiled_program
    from mdf_loop.backends.llvm.linking import machine, prologue

    functions, grow = machine.machine().functions, (prologue.GROW, machine.OPTIMISATION)
    before = functions.pop(grow, None)
    if _growing.get(side) is not None:
        functions[grow] = _growing[side]
    compiled_program._entries.cache_clear()
    try:
        yield
    finally:
        _growing[side] = functions.pop(grow, None)
        if before is not None:
            functions[grow] = before
        compiled_program._entries.cache_clear()
