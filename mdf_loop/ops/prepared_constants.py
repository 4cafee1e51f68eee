"""What is made of constants once: a weight in a type that is quicker to work with.

Only arrays that a body holds as its constants, which cannot be written into, are remembered by identity; what was made
of one is forgotten with it.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from mdf_loop.system.threads import lock

T = TypeVar("T")

MOST_BYTES = 1 << 28
"""So much is kept of what was made, in all; what is more is made each time."""


class _Made(weakref.ref[np.ndarray]):
    """What was made of one constant, by function and further arguments, which are kept alive with it."""

    __slots__ = ("bytes", "found", "place")
    place: int
    bytes: int
    found: dict[Any, tuple[Any, tuple[Any, ...]]]

    def __new__(cls, constant: np.ndarray) -> _Made:
        """Of this constant, nothing as yet."""
        made = super().__new__(cls, constant, _forget)
        made.place, made.bytes, made.found = id(constant), 0, {}
        return made


_lock = lock()  # what is freed while it is held may be a constant
_known: dict[int, _Made] = {}
_kept = 0


def read_only(value: Any) -> Any:
    """A value that cannot be written into."""
    if not isinstance(value, np.ndarray):
        return value
    view = value.view()
    view.setflags(write=False)
    return view


def unchangeable(value: Any) -> Any:
    """A constant that cannot be written into: the body is used again."""
    if not isinstance(value, np.ndarray) or _made_of(value) is not None:
        return value
    view = read_only(value)
    with _lock:
        _known[id(view)] = _Made(view)
    return view


def _made_of(value: Any) -> _Made | None:
    """What was made of a value, if it is a constant."""
    made = _known.get(id(value))
    return made if made is not None and made() is value else None


def _forget(made: _Made) -> None:
    global _kept
    with _lock:
        del _known[made.place]
        _kept -= made.bytes


def once(make: Callable[..., T], constant: Any, *others: Any) -> T:
    """``make(constant, *others)``: made once if all of them are constants, else each time.

    Parameters
    ----------
    make : callable
        A function of a module.  It gives numbers, or an array that is not written into.
    constant : array
        Of which it is remembered.
    *others : array, number of numpy's or None
    """
    made = _made_of(constant)
    if made is None or not all(map(_is_constant, others)):
        return make(constant, *others)
    key = (make, *map(_key, others))
    if key not in made.found:
        result = make(constant, *others)
        _keep(made, key, result, others)
        return result
    return made.found[key][0]


def _is_constant(value: Any) -> bool:
    return value is None or isinstance(value, np.generic) or _made_of(value) is not None


def _key(value: Any) -> Any:
    return (value.dtype, value.tobytes()) if isinstance(value, np.generic) else id(value)


def _keep(made: _Made, key: Any, result: Any, others: tuple[Any, ...]) -> None:
    global _kept
    constant, size = made(), getattr(result, "nbytes", 0)
    if any(other is constant for other in others) or (isinstance(result, np.ndarray) and np.may_share_memory(result, constant)):
        return  # it would keep its own constant alive
    with _lock:
        if _kept + size > MOST_BYTES or key in made.found:
            return
        if isinstance(result, np.ndarray):
            result.flags.writeable = False
        made.found[key] = result, others
        made.bytes += size
        _kept += size
