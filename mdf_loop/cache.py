"""What was read once is not read again: a small cache by content.

Two bodies with the same content share one entry, wherever they come from; a body that was changed gets a
new one.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Any, Generic, TypeVar

T = TypeVar("T")


def fingerprint(source: Any) -> Hashable:
    """A key that is equal for equal contents.

    Text is its own key, a file that of its path, size and time of change.  What cannot be written down, such
    as a Python function, is itself.
    """
    if isinstance(source, str | os.PathLike):
        return _of_string(source)
    if hasattr(source, "SerializeToString"):
        return type(source).__name__, hashlib.sha256(source.SerializeToString(deterministic=True)).digest()
    if isinstance(source, dict) and isinstance(source.get("onnx_file"), str | os.PathLike):
        return "onnx_file", _of_string(Path(source["onnx_file"])), repr(source.get("opset"))
    if callable(source):
        return source if isinstance(source, Hashable) else _Identity(source)
    try:
        return type(source).__name__, hashlib.sha256(pickle.dumps(source)).digest()
    except Exception:  # whatever pickle cannot write down is its own key
        return _Identity(source)


def _of_string(source: str | os.PathLike) -> Hashable:
    if isinstance(source, str) and ("{" in source or "=>" in source or "\n" in source):
        return source
    try:
        found = os.stat(source)
    except (OSError, ValueError):
        return str(source)
    return os.path.abspath(source), found.st_size, found.st_mtime_ns


class _Identity:
    """A key for an object that is equal to nothing but itself; it keeps the object alive."""

    def __init__(self, source: Any) -> None:
        self.source = source

    def __hash__(self) -> int:
        return id(self.source)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identity) and other.source is self.source


class Cache(Generic[T]):
    """The last ``size`` things made, by key; safe to use from several threads."""

    def __init__(self, size: int = 256) -> None:
        self.size = size
        self._entries: OrderedDict[Hashable, T] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """The entry of this key, made now if there is none."""
        with self._lock:
            if key in self._entries:
                self._entries.move_to_end(key)
                return self._entries[key]
        made = make()
        with self._lock:
            self._entries[key] = made
            while len(self._entries) > self.size:
                self._entries.popitem(last=False)
        return made

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._entries.clear()
