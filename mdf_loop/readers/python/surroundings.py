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

STREAMS = {"np.random": np.random.get_state.__self__, "random": random.getstate.__self__}  # type: ignore[attr-defined]
"""The generators that every function finds, behind the functions of two modules."""

GENERATORS = ("default_rng", "RandomState", "Random", "SystemRandom")
"""What makes a generator of random numbers."""

_CHANGEABLE = list | set | dict | deque
"""Collections, whose elements are compared."""

_DEEPEST, _MOST_OBJECTS = 3, 1000
"""How far attributes are followed to generators of random numbers."""

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
    """Whether it is numpy or this package that asks for the class of a value; ``abc`` and ``typing`` ask for others."""
    frame: Any = sys._getframe(2)
    while (module := frame.f_globals.get("__name__", "").partition(".")[0]) in ("abc", "typing") and frame.f_back is not None:
        frame = frame.f_back
    return module in ("mdf_loop", "numpy")


def _outside(function: Any, seen: set[int]) -> Iterator[tuple[str, Any]]:
    inner = function_of(function)
    if id(inner) in seen or not hasattr(inner, "__globals__"):
        return
    seen.add(id(inner))
    names, known = _names(inner.__code__), inner.__globals__
    found = {name: known[name] for name in names if name in known}
    for name, cell in zip(inner.__code__.co_freevars, inner.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):  # nothing is in it yet
            found[name] = cell.cell_contents
    found |= {f"a default of {inner.__name__}": kept for kept in _defaults(inner) if isinstance(kept, _CHANGEABLE)}
    owner = getattr(function, "__self__", function)
    found |= {} if owner is inner else {"self": owner}
    for name, thing in found.items():
        called = getattr(thing, "__wrapped__", thing)  # another body, for one
        if isinstance(called, FunctionType) and called.__globals__ is inner.__globals__:
            yield from _outside(called, seen)
        elif not isinstance(thing, FunctionType):
            attributes = getattr(thing, "__dict__", {})
            kept = {key: attributes[key] for key in names if key in attributes}
            yield from ((f"{name}.{key}", x) for key, x in kept.items() if not isinstance(x, ModuleType | type | FunctionType))
            if not isinstance(thing, ModuleType | type):
                yield name, thing
                yield from _streams_in(thing, name, seen)


def _defaults(function: Any) -> Iterator[Any]:
    """What a function keeps for parameters that a call does not give."""
    yield from function.__defaults__ or ()
    yield from (function.__kwdefaults__ or {}).values()


def _streams_in(thing: Any, name: str, seen: set[int], depth: int = 0) -> Iterator[tuple[str, Any]]:
    """The generators of random numbers that an object leads to by its attributes."""
    if id(thing) in seen or len(seen) > _MOST_OBJECTS:
        return
    seen.add(id(thing))
    for key, value in list(getattr(thing, "__dict__", {}).items()):
        if is_stream(value):
            yield f"{name}.{key}", value
        elif depth < _DEEPEST and not isinstance(value, ModuleType | type | FunctionType):
            yield from _streams_in(value, f"{name}.{key}", seen, depth + 1)


@functools.lru_cache(maxsize=256)
def _names(code: CodeType) -> frozenset[str]:
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
    if isinstance(thing, np.ndarray) and not thing.dtype.hasobject:
        return [thing], zlib.crc32(np.ascontiguousarray(thing).reshape(-1).view(np.uint8).data)
    if is_stream(thing):
        is_pythons, owner = isinstance(thing, random.Random), getattr(thing, "bit_generator", thing)
        return [thing], pickle.dumps(thing.getstate() if is_pythons else getattr(owner, "state", None) or owner.get_state())
    return [thing], 0
