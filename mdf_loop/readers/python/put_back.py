"""What a function changed outside of itself while it was read, put back where it is refused."""

from __future__ import annotations

import contextlib
import random
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from mdf_loop.readers.python import surroundings

LARGEST = 1 << 24
"""Bytes of an array that is copied; larger ones stay as a function leaves them."""


def keeping(function: Any) -> Callable[[], None]:
    """What puts back all that a function, or one that it calls, may change: names, attributes, elements, numbers and streams."""
    things = [*surroundings.STREAMS.values(), surroundings.function_of(function)]
    things += [thing for _, thing in surroundings.outside(function)]
    things += [owner for thing in things for owner in _owners(thing)]
    kept = [restore for thing in {id(each): each for each in things}.values() for restore in _of(thing)]

    def put_back() -> None:
        for restore in kept:
            with contextlib.suppress(Exception):  # what takes nothing, such as a property without a setter
                restore()

    return put_back


def _owners(thing: Any) -> Iterator[Any]:
    """Classes and modules of the user's: that of an object, and those that a function names."""
    names = surroundings.names_in(thing.__code__) if isinstance(thing, FunctionType) else ()
    for each in (type(thing), *(thing.__globals__.get(name) for name in names)):
        if isinstance(each, ModuleType) and not surroundings.is_library(each.__name__):
            yield each
        elif isinstance(each, type) and not surroundings.is_library(each.__module__):
            yield from (base for base in each.__mro__ if not surroundings.is_library(base.__module__))


def _of(thing: Any) -> Iterator[Callable[[], None]]:
    """What puts one thing back."""
    if isinstance(thing, FunctionType):
        yield from _names(thing)
    elif isinstance(thing, list | set | dict | deque):
        yield _elements(thing)
    elif isinstance(thing, np.ndarray):
        if thing.nbytes <= LARGEST and thing.flags.writeable:
            before = thing.copy()
            yield lambda: np.copyto(thing, before)
    elif surroundings.is_stream(thing):
        yield from _stream(thing)
    elif isinstance(held := getattr(thing, "__dict__", None), Mapping):
        yield _attributes(thing, dict(held), lambda: thing.__dict__)
    if slots := surroundings.slots_of(thing):
        yield _attributes(thing, slots, lambda: surroundings.slots_of(thing))


def _names(function: FunctionType) -> Iterator[Callable[[], None]]:
    """The variables outside that a function may set, or make."""
    names, known = surroundings.names_in(function.__code__), function.__globals__
    found = {name: known[name] for name in names if name in known}

    def restore() -> None:
        for name in names:
            if name in found:
                known[name] = found[name]
            else:
                known.pop(name, None)

    yield restore
    for cell in function.__closure__ or ():
        with contextlib.suppress(ValueError):  # nothing is in it yet
            yield _cell(cell, cell.cell_contents)


def _cell(cell: Any, before: Any) -> Callable[[], None]:
    return lambda: setattr(cell, "cell_contents", before)


def _elements(thing: Any) -> Callable[[], None]:
    """The elements of a collection; it is left alone where they are the same."""
    before = dict(thing) if isinstance(thing, dict) else [*thing]

    def restore() -> None:
        now = dict(thing) if isinstance(thing, dict) else [*thing]
        if _ids(now) != _ids(before):
            thing.clear()
            (thing.update if isinstance(thing, set | dict) else thing.extend)(before)

    return restore


def _ids(held: Any) -> list[Any]:
    return [(key, id(value)) for key, value in held.items()] if isinstance(held, dict) else [*map(id, held)]


def _attributes(thing: Any, before: Mapping[str, Any], now: Callable[[], Mapping[str, Any]]) -> Callable[[], None]:
    """The attributes of an object."""

    def restore() -> None:
        for name in [name for name in now() if name not in before]:
            delattr(thing, name)
        for name, value in before.items():
            if now().get(name, restore) is not value:
                setattr(thing, name, value)

    return restore


def _stream(thing: Any) -> Iterator[Callable[[], None]]:
    """How far a generator of random numbers has come."""
    if isinstance(thing, random.Random):
        with contextlib.suppress(NotImplementedError):  # of the system, which has no state
            state = thing.getstate()
            yield lambda: thing.setstate(state)
    elif isinstance(thing, np.random.RandomState):
        before = thing.get_state()
        yield lambda: thing.set_state(before)
    else:
        bits, was = thing.bit_generator, thing.bit_generator.state
        yield lambda: setattr(bits, "state", was)
