"""What was read once is not read again: a small cache by content.

Two bodies with the same content share one entry, wherever they come from; a body that was changed gets a
new one.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import sys
import weakref
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

import numpy as np

from mdf_loop.errors import let_through
from mdf_loop.ir import Body
from mdf_loop.system.threads import KeptBySize, Recent

T = TypeVar("T")

MOST, MOST_BYTES = 256, 1 << 28
"""How many bodies are kept, and how many bytes their texts, constants and attributes may have together."""

WAYS = 16
"""In how many ways one body is kept prepared."""

NODE = 1024
"""About how many bytes a node takes, with its names and types, besides its attributes."""


def fingerprint(source: Any) -> Hashable | None:
    """A key that is equal for equal contents; None for what has no such key.

    Text is its own key, a file that of its path, size and time of change.  A function that is read rather than called,
    such as one of onnxscript, is itself, as long as it lives and as what it finds outside stays the same.
    """
    if isinstance(source, str | os.PathLike):
        return _of_string(source)
    if hasattr(source, "SerializeToString"):
        return type(source).__name__, hashlib.sha256(source.SerializeToString(deterministic=True)).digest()
    if isinstance(source, dict) and isinstance(source.get("onnx_file"), str | os.PathLike):
        return "onnx_file", _of_string(Path(source["onnx_file"])), repr(source.get("opset"))
    try:
        if callable(source):
            return _Identity(source), getattr(source, "changes", 0)
        return type(source).__name__, hashlib.sha256(pickle.dumps(source)).digest()
    except Exception as error:  # what pickle cannot write down, or what takes no weak reference
        let_through(error)
        return None


def _of_string(source: str | os.PathLike) -> Hashable:
    if isinstance(source, str) and ("{" in source or "=>" in source or "\n" in source):
        return source
    return stamp(os.fspath(source)) or str(source)


def stamp(path: str) -> tuple[str, int, int] | None:
    """A file as it is now: its path, size and time of change; None if there is none."""
    try:
        found = os.stat(path)
    except (OSError, ValueError) as error:
        let_through(error)
        return None
    return path if os.path.isabs(path) else os.path.abspath(path), found.st_size, found.st_mtime_ns


class _Identity:
    """A key for an object that is equal to nothing but itself; it does not keep the object alive."""

    def __init__(self, source: Any) -> None:
        self.source, self.id = weakref.ref(source), id(source)

    def __hash__(self) -> int:
        return self.id

    def __eq__(self, other: object) -> bool:
        found = self.source()
        return self is other or (isinstance(other, _Identity) and found is not None and other.source() is found)


@dataclass(eq=False)
class _Entry:
    """A body, and what was made of it."""

    body: Body
    made: Recent[Any] = field(default_factory=lambda: Recent(WAYS))


class Cache(KeptBySize[_Entry]):
    """The bodies used last, by key, and what was made of them; safe to use from several threads."""

    def __init__(self, most: int = MOST, most_bytes: int = MOST_BYTES) -> None:
        super().__init__(most, most_bytes)
        self._of_body = weakref.WeakValueDictionary[int, _Entry]()

    def body(self, key: Hashable | None, make: Callable[[], Body]) -> Body:
        """The body of this key, made now if there is none; without a key it is made each time."""
        if key is None:
            return make()
        if (found := self.get(key)) is None:
            body = make()
            found = self._of_body[id(body)] = _Entry(body)
            self.keep(key, found, size_of((key, body)))
        return found.body

    def prepared(self, body: Body, way: Hashable, make: Callable[[], T]) -> T:
        """What is made of a body in some way; kept as long as the body is."""
        entry = self._of_body.get(id(body))
        return make() if entry is None else entry.made.of(way, make)


def size_of(value: Any) -> int:
    """About how many bytes a value takes with everything in it, each thing counted once."""
    seen: set[int] = set()
    todo, size = [value], 0
    while todo:
        found = todo.pop()
        if id(found) in seen or isinstance(found, type | ModuleType):
            continue
        seen.add(id(found))
        if isinstance(found, np.ndarray):
            size += found.nbytes
            todo += found.ravel().tolist() if found.dtype.hasobject else []
        else:
            size += NODE * len(found.nodes) if isinstance(found, Body) else sys.getsizeof(found, 0)
            todo += _inside(found)
    return size


def _inside(value: Any) -> Iterator[Any]:
    """What a value holds, if it is a collection or a record."""
    if isinstance(value, Body):
        yield from (value.values, value.state, *(node.attrs for node in value.nodes if node.attrs))
    elif isinstance(value, Mapping):
        yield from value.keys()
        yield from value.values()
    elif isinstance(value, list | tuple | set | frozenset):
        yield from value
    elif hasattr(value, "__dict__") and not callable(value):
        yield from vars(value).values()
