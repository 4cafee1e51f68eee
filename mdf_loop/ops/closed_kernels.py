"""What a user's kernel reads besides its arguments: one that reads nothing that may change can be traced.

A function that is traced runs once, so all that it does must be done by its arguments: a counter, the time, a print, a random
number would be lost.  Its code says which names it uses; each must be one of a list.  What is not on the list is guilty: the
kernel is called in every iteration.
"""

from __future__ import annotations

import builtins
import dis
import functools
import math
from collections.abc import Callable, Iterator, Mapping
from types import CodeType, FunctionType
from typing import Any

import numpy as np

from mdf_loop.ops.registry import KERNELS, Kernel, watch

_STATE = {
    *("STORE_GLOBAL", "DELETE_GLOBAL", "STORE_ATTR", "DELETE_ATTR", "STORE_SUBSCR", "STORE_SLICE", "DELETE_SUBSCR", "STORE_NAME"),
    *("IMPORT_NAME", "BEFORE_WITH", "SETUP_WITH", "LOAD_SPECIAL", "LOAD_BUILD_CLASS", "LOAD_NAME", "IS_OP"),
}
"""Operations of Python's that change something, or tell one object from another; ``is None`` has operations of its own."""

_BUILTINS = {
    *("abs", "all", "any", "bool", "complex", "divmod", "enumerate", "float", "int", "len", "list", "max", "min", "pow", "range"),
    *("reversed", "slice", "sum", "tuple", "zip"),
}

_ATTRIBUTES = {
    *("T", "append", "astype", "bits", "bool_", "complex128", "complex64", "copy", "dtype", "e", "eps", "finfo", "float16"),
    *("float32", "float64", "floating", "iinfo", "inexact", "inf", "int16", "int32", "int64", "int8", "integer", "issubdtype"),
    *("itemsize", "kind", "linalg", "max", "min", "nan", "newaxis", "name", "ndim", "number", "pi", "promote_types", "reduce"),
    *("result_type", "shape", "signedinteger", "size", "tiny", "type", "uint16", "uint32", "uint64", "uint8", "unsignedinteger"),
}
"""Attributes of arrays and of numpy that only compute; universal functions, and those of the table of kernels, join them."""

_PLAIN = (bool, int, float, complex, str, bytes, type(None), np.generic, np.dtype)


def is_closed(entry: Kernel, keywords: Mapping[str, Any]) -> bool:
    """Whether a user's kernel is a function of its arguments and of nothing else; what it is made of is watched from then on."""
    function = entry.run
    if entry.built_in or entry.bind is not None or not entry.pure or "rng" in entry.parameters:
        return False
    if not all(isinstance(x, np.ndarray) or _is_plain(x) for x in keywords.values()):
        return False
    return isinstance(function, np.ufunc) or _is_closed(function, ())


def _is_closed(function: Any, around: tuple[Any, ...]) -> bool:
    if not isinstance(function, FunctionType) or function in around or function.__code__.co_flags & _GENERATOR:
        return False
    given = (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
    if not all(map(_is_plain, given)):
        return False
    names: dict[str, Callable[[], Any]] = {}
    for code in _codes(function.__code__):
        found = _names(code)
        if found is None:
            return False
        names |= {name: functools.partial(function.__globals__.get, name) for name in found}
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    if any(i.opname in _CELL and i.argval in cells for code in _codes(function.__code__) for i in dis.get_instructions(code)):
        return False
    names |= {name: functools.partial(getattr, cell, "cell_contents", None) for name, cell in cells.items()}
    return all(_is_harmless(function, name, get, around) for name, get in names.items())


_CELL = {"STORE_DEREF", "DELETE_DEREF"}
_GENERATOR = 0x20 | 0x80 | 0x200
"""Flags of the code of generators and coroutines."""


def _is_harmless(function: Any, name: str, get: Callable[[], Any], around: tuple[Any, ...]) -> bool:
    """Whether a name means a module, a function or a type that computes only."""
    value = get()
    watch((id(function), name), get, value)
    if value is None:
        value = getattr(builtins, name, None)
        return name in _BUILTINS or (isinstance(value, type) and issubclass(value, Exception))
    if value is np or value is math or isinstance(value, np.ufunc):
        return True
    if isinstance(value, type):
        return issubclass(value, np.generic | Exception)
    its_name = getattr(value, "__name__", "")
    if getattr(np, its_name, None) is value or getattr(math, its_name, None) is value:
        return _is_listed(its_name)
    return _is_closed(value, (*around, function))


def _names(code: CodeType) -> set[str] | None:
    """The global names that code reads; None if it does or asks for something that is not on the list."""
    instructions = list(dis.get_instructions(code))
    if any(i.opname in _STATE for i in instructions if not _is_none(i, instructions)):
        return None
    read = {i.argval for i in instructions if i.opname == "LOAD_GLOBAL"}
    attributes = {i.argval for i in instructions if i.opname in ("LOAD_ATTR", "LOAD_METHOD")}
    return read if all(map(_is_listed, attributes)) else None


def _is_none(instruction: Any, instructions: list[Any]) -> bool:
    """Whether an ``is`` asks for None."""
    if instruction.opname != "IS_OP":
        return False
    before = instructions[instructions.index(instruction) - 1]
    return before.opname.startswith("LOAD_CONST") and before.argval is None


def _is_listed(name: str) -> bool:
    if name in _ATTRIBUTES or hasattr(math, name) or isinstance(getattr(np, name, None), np.ufunc):
        return True
    return any(("mdf", f"numpy.{way}{name}") in KERNELS for way in ("", "linalg."))


def _codes(code: CodeType) -> Iterator[CodeType]:
    """Code, and that of the functions inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _is_plain(value: Any) -> bool:
    """Whether a value is a number, a text, an element type or a tuple of these."""
    if isinstance(value, tuple):
        return all(map(_is_plain, value))
    return isinstance(value, _PLAIN) or (isinstance(value, type) and issubclass(value, bool | int | float | np.generic))
