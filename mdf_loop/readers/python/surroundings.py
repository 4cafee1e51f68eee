"""What a function finds outside of itself: reading it as a body must not change that, or it changes once for all iterations."""

from __future__ import annotations

import contextlib
import dis
import functools
import pickle
import random
import sys
import zlib
from collections import deque
from collections.abc import Callable, Hashable, Iterator
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any

import numpy as np

from mdf_loop.errors import let_through
from mdf_loop.readers.python.instead import asks_for_type

STREAMS = {"np.random": np.random.get_state.__self__, "random": random.getstate.__self__}  # type: ignore[attr-defined]
"""The generators that every function finds, behind the functions of two modules."""

GENERATORS = ("default_rng", "RandomState", "Random", "SystemRandom")
"""What makes a generator of random numbers."""

_CHANGEABLE = list | set | dict | deque
"""Collections, whose elements are compared."""

_PLAIN = int | float | complex | str | bytes | np.generic | None
"""Things that lead to no others."""

_OF_PYTHON = "__weakref__", "__dict__"
"""Slots that hold nothing of a thing's own; those of a class in C, as JAX has, cannot even be asked for."""

_DEEPEST, _MOST_OBJECTS = 4, 1000
"""How far elements and attributes are followed."""

Snapshot = dict[str, tuple[list[Any], Hashable]]
"""For each name the things that it leads to, which are compared by identity, and what they hold."""


def function_of(function: Any) -> Any:
    """The function with code that a callable leads to."""
    while hasattr(function, "__wrapped__") or hasattr(function, "func"):
        function = getattr(function, "__wrapped__", None) or function.func
    return function if hasattr(function, "__code__") else type(function).__call__


def snapshot(function: Any) -> Snapshot:
    """Everything outside that a function, or one of its module that it calls, may change by a name in its text."""
    return {name: _held(thing) for name, thing in {**STREAMS, **dict(_outside(function, set()))}.items()}


def constants(function: Any) -> Snapshot:
    """Everything outside that becomes a constant of a body, or decides what it is: no streams of random numbers."""
    return {name: _held(thing) for name, thing in _outside(function, set()) if not is_stream(thing)}


def changed(before: Snapshot, after: Snapshot) -> str:
    """The first name whose things are others now; empty if none is."""
    for name, (things, content) in after.items():
        others, was = before.get(name, ([], None))
        if content != was or [*map(id, things)] != [*map(id, others)]:
            return name
    return ""


def line_of_change(function: Any, call: Callable[[], Any]) -> tuple[str, int]:
    """What changes outside when a function is called once more, and in which of its lines; ``("", 0)`` if nothing does."""
    code, found, before, traced = function_of(function).__code__, ("", 0), snapshot(function), sys.gettrace()
    line = code.co_firstlineno

    def watch(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal found, line
        if frame.f_code is not code:
            return None
        if event != "call" and not found[0] and (name := changed(before, snapshot(function))):
            found = name, line
        line = frame.f_lineno
        return watch

    sys.settrace(watch)
    try:
        call()
    finally:
        sys.settrace(traced)
    return found


def line_of_generator(function: Any) -> int | None:
    """The line in which a function makes a generator of random numbers, which would draw the same ones in each iteration."""
    made = [each for code in _codes(function_of(function).__code__) for each in dis.get_instructions(code)]
    return next((each.positions.lineno for each in made if each.argval in GENERATORS and each.positions is not None), None)


def is_stream(thing: Any) -> bool:
    """Whether something draws random numbers."""
    return isinstance(thing, np.random.Generator | np.random.RandomState | random.Random)


def asked_by_library() -> bool:
    """Whether a library asks for the class of a value, and not the function; ``abc`` and ``typing`` ask for others."""
    frame: Any = sys._getframe(2)
    while (module := frame.f_globals.get("__name__", "").partition(".")[0]) in ("abc", "typing") and frame.f_back is not None:
        frame = frame.f_back
    return module in ("mdf_loop", "numpy") or not asks_for_type(frame)


def _outside(function: Any, seen: set[int]) -> Iterator[tuple[str, Any]]:
    """By their names, the things outside that a function leads to: by its text, and by those that it calls."""
    inner = function_of(function)
    if id(inner) in seen or not hasattr(inner, "__globals__"):
        return
    seen.add(id(inner))
    names, known = names_in(inner.__code__), inner.__globals__
    found = {name: known[name] for name in names if name in known}
    for name, cell in zip(inner.__code__.co_freevars, inner.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):  # nothing is in it yet
            found[name] = cell.cell_contents
    found |= {f"a default of {inner.__name__}": kept for kept in _defaults(inner) if isinstance(kept, _CHANGEABLE)}
    owner = getattr(function, "__self__", function)
    found |= {} if owner is inner else {"self": owner}
    for name, thing in found.items():
        yield from _reached(thing, name, names, seen)


def _defaults(function: Any) -> Iterator[Any]:
    """What a function keeps for parameters that a call does not give."""
    yield from function.__defaults__ or ()
    yield from (function.__kwdefaults__ or {}).values()


def _reached(thing: Any, name: str, names: frozenset[str], seen: set[int], depth: int = 0) -> Iterator[tuple[str, Any]]:
    """A thing, and what it leads to by elements, attributes and methods; of a module only what the text of a function names."""
    called = thing.fget if isinstance(thing, property) else getattr(thing, "__wrapped__", thing)  # another body, for one
    if isinstance(called, FunctionType):
        yield name, called
        if not is_library(called.__module__):
            yield from _outside(called, seen)
        return
    if isinstance(thing, ModuleType | type):
        if is_library(thing.__name__ if isinstance(thing, ModuleType) else thing.__module__):
            return
    else:
        yield name, thing
    if isinstance(thing, _PLAIN) or id(thing) in seen or depth > _DEEPEST or len(seen) > _MOST_OBJECTS:
        return
    seen.add(id(thing))
    for key, part in _parts(thing, names).items():
        yield from _reached(part, f"{name}{key}", names, seen, depth + 1)


def _parts(thing: Any, names: frozenset[str]) -> dict[str, Any]:
    """What a thing leads to in one step, by what is written behind its name."""
    if isinstance(thing, dict):
        return {f"[{key!r}]": part for key, part in [*thing.items()] if not isinstance(part, _PLAIN)}
    if isinstance(thing, _CHANGEABLE | tuple):
        return {f"[{k}]": part for k, part in enumerate([*thing]) if not isinstance(part, _PLAIN)}
    if isinstance(thing, np.ndarray) or _is_ours(thing):
        return {}
    kept = {**getattr(thing, "__dict__", {})}
    if isinstance(thing, ModuleType):
        return {f".{key}": kept[key] for key in names if key in kept}
    if isinstance(thing, type):
        parts = {key: part for key, part in kept.items() if not key.startswith("__") or isinstance(part, FunctionType)}
        return {f".{key}": part for key, part in parts.items()} | {f".{base.__name__}": base for base in thing.__bases__}
    slots = [key for each in type(thing).__mro__ for key in np.atleast_1d(each.__dict__.get("__slots__", ())).tolist()]
    kept |= {key: getattr(thing, key) for key in slots if key not in _OF_PYTHON and hasattr(thing, key)}
    return {f".{key}": part for key, part in kept.items()} | {".__class__": type(thing)}


def _is_ours(thing: Any) -> bool:
    """Whether something is made by this package, such as a value of a function that was read before."""
    return str(type(thing).__module__).startswith("mdf_loop.")


@functools.cache
def is_library(module: str | None) -> bool:
    """Whether a module is Python's, this package, or one that is installed: its functions and classes stay what they are."""
    file = getattr(sys.modules.get(str(module)), "__file__", None) or ""
    is_installed = "site-packages" in file or "dist-packages" in file
    return is_installed or str(module).partition(".")[0] in (*sys.stdlib_module_names, "mdf_loop")


@functools.lru_cache(maxsize=256)
def names_in(code: CodeType) -> frozenset[str]:
    """The names in the text of a function, but for its own variables."""
    return frozenset(name for each in _codes(code) for name in each.co_names)


def _codes(code: CodeType) -> Iterator[CodeType]:
    """The code of a function, and of those that are written inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _held(thing: Any) -> tuple[list[Any], Hashable]:
    """What is compared of a thing: itself, its elements, and the numbers that it holds."""
    if isinstance(thing, _CHANGEABLE):
        return [thing, *thing, *(thing.values() if isinstance(thing, dict) else ())], 0
    if isinstance(thing, FunctionType):  # notebooks exchange the code of a function that is imported again
        return [thing, thing.__code__, *_defaults(thing)], 0
    if is_stream(thing):
        is_pythons, owner = isinstance(thing, random.Random), getattr(thing, "bit_generator", thing)
        return [thing], pickle.dumps(thing.getstate() if is_pythons else getattr(owner, "state", None) or owner.get_state())
    if hasattr(type(thing), "__array__") and not isinstance(thing, np.generic) and not _is_ours(thing):
        return _held_in_array(thing)
    return [thing], 0


def _held_in_array(thing: Any) -> tuple[list[Any], Hashable]:
    """An array, or what pandas and others have as one: the numbers in it."""
    try:
        held = np.asarray(thing)
        if held.dtype.hasobject and held is thing:
            return [thing, *held.flat], 0
        written = pickle.dumps(thing) if held.dtype.hasobject else np.ascontiguousarray(held).reshape(-1).view(np.uint8).data
        return [thing], zlib.crc32(written)
    except Exception as error:  # those of others may refuse
        let_through(error)
        return [thing], 0
