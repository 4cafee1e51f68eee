"""What a Step means, one value after the other with numpy: for tests, which hold printers and definitions to it.

Loops, branches and operators as a whole have no place here: they are made of what has.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mdf_loop.step.failing import FallBack
from mdf_loop.step.primitives import PRIMITIVES, REDUCTIONS
from mdf_loop.step.records import Reduction, Region, Value

Meaning = Callable[..., Any]


def _reduced(v: Value, x: Any) -> Any:
    how: Reduction = v.attr
    if how.kind.startswith("arg"):
        return getattr(np, how.kind)(x, how.axes[0], keepdims=how.keep)
    return REDUCTIONS[how.kind].reduce(x, axis=how.axes, dtype=v.type.dtype, keepdims=bool(how.keep))


def _has_no_end(x):
    """Whether numpy refuses a number that a type does not hold: a whole one of Python's own."""
    return x.type.weak and x.type.kind == "i"


def _put(v: Value, x: Any, update: Any, *where: Any) -> Any:
    out = x.copy()
    out[where] = update
    return out


def _no_nan(v: Value, condition: Any, *floats: Any) -> Any:
    made, given = floats[: v.attr], floats[v.attr :]
    if condition and any(np.isnan(x).any() for x in made) and all(np.isfinite(x).all() for x in given):
        raise FallBack
    return np.False_


def _shape(v: Value, lengths: Sequence[Any]) -> tuple[int, ...]:
    rest = iter(lengths)
    return tuple(int(next(rest)) if n is None else n for n in v.attr.lengths)


MEANINGS: dict[str, Meaning] = {
    "const": lambda v: v.attr,
    "cast": lambda v, x: v.type.dtype.type(x) if _has_no_end(v.args[0]) else np.asarray(x).astype(v.type.dtype)[()],
    "as_array": lambda v, x: np.array(x),
    "select": lambda v, condition, x, y: np.asarray(np.where(condition, x, y))[()],
    "reshape": lambda v, x, *lengths: np.reshape(x, _shape(v, lengths))[()],
    "broadcast": lambda v, x, *lengths: np.broadcast_to(x, _shape(v, lengths)),
    "transpose": lambda v, x: np.transpose(x, v.attr),
    "slice": lambda v, x: x[v.attr],
    "window": lambda v, x, *starts: x[tuple(slice(s, s + n) for s, n in zip(starts, v.type.shape or (), strict=True))],
    "fraction": lambda v, x: x,
    "pack": lambda v, *numbers: np.array(numbers, v.type.dtype),
    "rows": lambda v, *array: [row for whole in array for row in whole],
    "insert": lambda v, x, row, place: np.insert(x, place, row, 0),
    "erase": lambda v, x, place: np.delete(x, place, 0),
    "length": lambda v, x: np.int64(x.shape[v.attr]),
    "concat": lambda v, *parts: np.concatenate(parts, v.attr),
    "gather": lambda v, x, index: np.take(x, index, v.attr),
    "place": lambda v, x, *where: x[where],
    "place_in": lambda v, index, length: np.int64(range(length)[index]),
    "no_nan": _no_nan,
    "put": _put,
    "reduce": _reduced,
    "dot": lambda v, x, y: np.matmul(x, y),
}
"""By operation: its meaning, given the value and what its arguments are."""


def evaluate(region: Region, given: Sequence[Any]) -> tuple[Any, ...]:
    """The results of a region.

    Parameters
    ----------
    region : Region
        Of primitives and structural operations.
    given : sequence
        numpy's numbers and arrays, one for each parameter.

    Raises
    ------
    KeyError
        An operation that is a region or an operator of its own.
    """
    found: dict[Value, Any] = dict(zip(region.params, given, strict=True))

    def of(value: Value) -> Any:
        return value.attr if value.op == "const" else found[value]

    with np.errstate(all="ignore"):
        for value in region.values:
            args = [of(x) for x in value.args]
            row = PRIMITIVES.get(value.op)
            found[value] = row.call(*args) if row is not None else MEANINGS[value.op](value, *args)
    return tuple(map(of, region.results))
