"""What a run came to, and when two of them are the same."""

from __future__ import annotations

import copy
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mdf_loop import options
from mdf_loop.errors import LoopError
from mdf_loop.options import random_stream

from .target import Failure


@dataclass
class Outcome:
    """Results or an error, what was warned of, and the next number of the random stream."""

    results: tuple[Any, ...]
    error: LoopError | None
    warned: list[str]
    next_number: float

    def copied(self) -> Outcome:
        """The same with arrays of its own."""
        return Outcome(copy.deepcopy(self.results), self.error, self.warned, self.next_number)


def outcome(call: Callable[[], Any], **chosen: Any) -> Outcome:
    """Run something; an error of ours is an outcome, anything else escapes."""
    with warnings.catch_warnings(record=True) as caught, options(**{"seed": 7, **chosen}), random_stream() as stream:
        warnings.simplefilter("always")
        try:
            results, error = call(), None
        except LoopError as raised:
            results, error = getattr(raised, "partial", None) or (), raised
    results = results if isinstance(results, tuple) else (results,)
    return Outcome(results, error, [str(w.message) for w in caught], stream.shared().random())


_ADDRESS = re.compile("0x[0-9a-f]+")
_OF_NAN = "no comparison with nan holds"
Same = Callable[[Any, Any, str], None]
"""``same(actual, expected, where)`` raises a Failure unless two arrays of one type and shape hold the same."""


def compare(actual: Outcome, expected: Outcome, engine: str, same: Same) -> None:
    """Require the same results or partial results, error, warnings and random numbers."""
    _compare_errors(actual.error, expected.error, engine)
    if isinstance(getattr(actual.error, "__cause__", None), MemoryError):
        return
    # A loop inside a loop is a part of its program, which says nothing of nan in its condition;
    # tests/loops/test_ends_of_loops.py has the law of the outermost loop.
    warned = [text for text in expected.warned if text in actual.warned or _OF_NAN not in text]
    if actual.warned != warned:
        raise Failure(f"{engine}: other warnings", f"expected {expected.warned}, got {actual.warned}")
    if len(actual.results) != len(expected.results):
        raise Failure(f"{engine}: number of results", f"expected {len(expected.results)}, got {len(actual.results)}")
    what = "result" if expected.error is None else "partial result"
    for k, (a, e) in enumerate(zip(actual.results, expected.results, strict=True)):
        compare_values(a, e, f"{engine}: {what}", f"number {k}", same)
    if expected.error is None and actual.next_number != expected.next_number:
        raise Failure(f"{engine}: random stream", "more or fewer numbers were drawn")


def _compare_errors(actual: LoopError | None, expected: LoopError | None, engine: str) -> None:
    said = f"expected {expected!r}, got {actual!r}"
    if any("memory" in str(error).lower() for error in (actual, expected)):
        return  # who asks for how much is not said, nor how much there is
    if (actual is None) != (expected is None):
        raise Failure(f"{engine}: {'an error' if actual else 'no error'}", said)
    if actual is None or expected is None:
        return
    if type(actual) is not type(expected) or getattr(actual, "iteration", None) != getattr(expected, "iteration", None):
        raise Failure(f"{engine}: another error", said)
    if type(actual.__cause__) is not type(expected.__cause__):
        raise Failure(f"{engine}: another cause", f"{said}: {expected.__cause__!r}, {actual.__cause__!r}")
    if _ADDRESS.sub("0x", str(actual)) != _ADDRESS.sub("0x", str(expected)):
        raise Failure(f"{engine}: another message", said)


def compare_values(actual: Any, expected: Any, what: str, where: str, same: Same) -> None:
    """Require one structure, type and shape, and the same contents."""
    if type(actual) is not type(expected):
        raise Failure(f"{what} of another class", f"{where}: expected {_said(expected)}, got {_said(actual)}")
    if isinstance(expected, list | tuple):
        if len(actual) != len(expected):
            raise Failure(f"{what} of another length", f"{where}: expected {len(expected)}, got {len(actual)}")
        for k, (a, e) in enumerate(zip(actual, expected, strict=True)):
            compare_values(a, e, what, f"{where}[{k}]", same)
    elif isinstance(expected, np.ndarray | np.generic):
        for attribute in ("dtype", "shape"):
            if getattr(actual, attribute) != getattr(expected, attribute):
                raise Failure(f"{what} of another {attribute}", f"{where}: expected {_said(expected)}, got {_said(actual)}")
        try:
            same(actual, expected, where)
        except Failure as failure:
            raise Failure(f"{what}: {failure.kind}", failure.detail) from None
    elif actual != expected and not (actual != actual and expected != expected):
        raise Failure(f"{what}: values", f"{where}: expected {expected!r}, got {actual!r}")


def _said(value: Any) -> str:
    kind = f" {value.dtype}{list(value.shape)}" if isinstance(value, np.ndarray | np.generic) else ""
    return f"{type(value).__name__}{kind} {str(value)[:300]}"


def to_the_bit(actual: Any, expected: Any, where: str) -> None:
    """Every bit, but for which NaN it is."""
    actual, expected = np.asarray(actual), np.asarray(expected)
    if expected.dtype == object or expected.dtype.kind in "biu":
        equal = actual == expected
    else:
        missing = expected != expected
        wide = np.complex128 if expected.dtype.kind == "c" else np.float64
        a, e = actual.astype(wide), expected.astype(wide)
        equal = np.where(missing, actual != actual, (a == e) & (np.signbit(a.real) == np.signbit(e.real)))
    if not np.all(equal):
        raise Failure("values", f"{where}: expected {expected.tolist()}, got {actual.tolist()}")


def within(spread: Callable[[Any, Any], Any], ulps: float) -> Same:
    """As far apart as so many units in the last place of the largest, and ``spread``, allow."""

    def same(actual: Any, expected: Any, where: str) -> None:
        if "float" not in expected.dtype.name and "complex" not in expected.dtype.name:
            return to_the_bit(actual, expected, where)
        a, e = np.asarray(actual, np.complex128), np.asarray(expected, np.complex128)
        finite = np.isfinite(e)
        unit = max(_unit(expected.dtype), 1e-300)
        allowed = ulps * unit * max(1.0, np.abs(e[finite]).max(initial=0.0)) + spread(where, e)
        with np.errstate(all="ignore"):
            far = ~(np.abs(a - e) <= allowed) & ~((a == e) | (np.isnan(a) & np.isnan(e)))
        if np.any(far):
            raise Failure("values", f"{where}: expected {expected.tolist()}, got {actual.tolist()}")
        return None

    return same


def _unit(dtype: np.dtype) -> float:
    import ml_dtypes

    return float(ml_dtypes.finfo(dtype).eps)


# Memory


def arrays_in(value: Any) -> Iterator[np.ndarray]:
    """The arrays of a value, sequences searched."""
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from arrays_in(item)
    elif isinstance(value, dict):
        yield from arrays_in(list(value.values()))


def require_own_memory(results: Sequence[Any], given: Sequence[Any], engine: str) -> None:
    """No result shares memory with what was given, or with another result; all can be written to."""
    seen = [("an input", array) for array in arrays_in(given)]
    for result in results:
        for array in arrays_in(result):
            for whose, other in seen:
                if array.size and other.size and np.shares_memory(array, other):
                    raise Failure(f"{engine}: a result shares memory with {whose}", f"{_said(array)} and {_said(other)}")
            if not array.flags.writeable:
                raise Failure(f"{engine}: a result cannot be written to", _said(array))
        seen += [("another result", array) for array in arrays_in(result)]
