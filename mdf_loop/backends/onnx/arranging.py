"""numpy's functions that arrange arrays, where a value that only the run knows says how: a length, a count, a place.

ONNX has operators that take such values; each function here says which, where its definition among the kernels ends.  The
last part is ``x[...]``: places that are computed, slices of open lengths, masks, new axes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mdf_loop.backends.onnx.graph_printer import FIRST, LAST
from mdf_loop.backends.onnx.rewritten import REWRITTEN, OnnxBuilder, length, lengths_in, rewrites, shaped
from mdf_loop.step.primitives import BOOL, FLOAT64, INT64
from mdf_loop.step.records import Value


def _rank(x: Value) -> int:
    if x.type.rank is None:
        raise ValueError("of an array of unknown rank")
    return x.type.rank


@rewrites("numpy.squeeze")
def _squeeze(b: OnnxBuilder, x: Value, *, axis: Any = None) -> Value:
    """Whether an axis has one element only the run knows."""
    if axis is None:
        raise ValueError("along axes that only the run knows")
    return b.onnx("Squeeze", x, np.atleast_1d(np.array(axis, np.int64)))


@rewrites("numpy.repeat")
def _repeat(b: OnnxBuilder, x: Value, repeats: Value, *, axis: int | None = None) -> Value:
    """The count may be computed."""
    if repeats.type.rank and repeats.type.size != 1:
        raise ValueError("with a number for each element")
    x, axis = (shaped(b, x, -1), 0) if axis is None else (x, axis)
    count = shaped(b, b.cast(b.strong(repeats), INT64))
    places_of = b.onnx("Range", np.array(0), b.mul(shaped(b, length(b, x, axis)), count), np.array(1))
    return b.onnx("Gather", x, b.onnx("Div", places_of, count), axis=axis)


@rewrites("numpy.tile")
def _tile(b: OnnxBuilder, x: Value, reps: Value) -> Value:
    """The counts may be computed."""
    counts = lengths_in(b, reps)
    if counts.type.size != _rank(x):
        raise ValueError("needs a number for each axis")
    return b.onnx("Tile", x, counts)


@rewrites("numpy.full")
def _full(b: OnnxBuilder, shape: Value, value: Value, *, dtype: Any = None) -> Value:
    """The shape may be computed."""
    return b.onnx("Expand", b.strong(value) if dtype is None else b.cast(value, np.dtype(dtype)), lengths_in(b, shape))


@rewrites("numpy.full_like")
def _full_like(b: OnnxBuilder, x: Value, value: Value, *, dtype: Any = None) -> Value:
    """All lengths at once."""
    wanted = x.type.dtype if dtype is None else np.dtype(dtype)
    return b.onnx("Expand", b.cast(value, wanted), b.onnx("Shape", x))  # type: ignore[arg-type]


@rewrites("numpy.shape")
def _shape(b: OnnxBuilder, x: Value) -> Value:
    """All lengths at once."""
    return b.onnx("Shape", b.strong(x))


@rewrites("numpy.size")
def _size(b: OnnxBuilder, x: Value) -> Value:
    """The product of all lengths."""
    return b.onnx("Size", b.strong(x))


@rewrites("numpy.reshape")
def _reshape(b: OnnxBuilder, x: Value, shape: Value) -> Value:
    """The shape may be computed."""
    return b.onnx("Reshape", b.strong(x), lengths_in(b, shape))


@rewrites("numpy.tril", "numpy.triu")
def _triangle(b: OnnxBuilder, x: Value, *, k: int = 0, upper: int = 0) -> Value:
    """No primitive knows the place of an element."""
    return b.onnx("Trilu", x, np.array(int(k)), upper=upper)


REWRITTEN["numpy.triu"] = lambda b, x, k=0: _triangle(b, x, k=k, upper=1)


def _of_one_value(number: int) -> Callable[..., Value]:
    """The shape may be computed."""

    def filled(b: OnnxBuilder, shape: Value, *, dtype: Any = None) -> Value:
        value = np.array([number], FLOAT64 if dtype is None else dtype)
        return b.onnx("ConstantOfShape", lengths_in(b, shape), value=value)

    return filled


def _like(number: int) -> Callable[..., Value]:
    """All lengths at once."""

    def filled(b: OnnxBuilder, x: Value, *, dtype: Any = None) -> Value:
        x = b.strong(x)
        return b.onnx("ConstantOfShape", b.onnx("Shape", x), value=np.array([number], x.type.dtype if dtype is None else dtype))

    return filled


REWRITTEN |= {"numpy.zeros": _of_one_value(0), "numpy.ones": _of_one_value(1)}
REWRITTEN |= {"numpy.zeros_like": _like(0), "numpy.ones_like": _like(1)}


@rewrites("numpy.arange")
def _arange(b: OnnxBuilder, *inputs: Value | None, **_: Any) -> Value:
    """How many there are only the run knows."""
    given = [x for x in inputs if x is not None]
    dtype = np.result_type(*[x.type.dtype for x in map(b.strong, given)])
    zero, one = (b.const(dtype.type(number)) for number in (0, 1))
    bounds = {1: [zero, *given, one], 2: [*given, one], 3: given}[len(given)]
    return b.onnx("Range", *(b.cast(x, dtype) for x in bounds))


@rewrites("numpy.linspace")
def _linspace(b: OnnxBuilder, start: Value, stop: Value, *, num: int = 50, endpoint: bool = True) -> Value:
    """Between bounds that are computed."""
    if start.type.rank or stop.type.rank or num < 2:
        raise ValueError("of arrays")
    start, stop = (b.cast(x, FLOAT64) for x in (start, stop))
    step = b.div(b.sub(stop, start), np.float64(num - bool(endpoint)))
    return b.add(b.mul(b.const(np.arange(num, dtype=FLOAT64)), step), start)


@rewrites("numpy.take")
def _take(b: OnnxBuilder, x: Value, indices: Value, *, axis: int | None = None) -> Value:
    """Places may be one number, and lengths open."""
    x = shaped(b, x, -1) if axis is None else x
    return b.onnx("Gather", x, b.cast(b.strong(indices), INT64), axis=axis or 0)


@rewrites("numpy.roll")
def _roll(b: OnnxBuilder, x: Value, shift: Value, *, axis: int | None = None) -> Value:
    """The distance may be computed."""
    if shift.type.rank or isinstance(axis, tuple):
        raise ValueError("along several axes")
    flat, along = (shaped(b, x, -1), 0) if axis is None else (x, axis)
    count, moved = length(b, flat, along), b.pack([b.cast(b.strong(shift), INT64)])
    at, axes = b.onnx("Mod", b.sub(count, moved), count), np.array([along])
    parts = b.onnx("Slice", flat, at, np.array([LAST]), axes), b.onnx("Slice", flat, np.array([0]), at, axes)
    rolled = b.onnx("Concat", *parts, axis=along)
    return b.onnx("Reshape", rolled, b.onnx("Shape", x)) if axis is None else rolled


@rewrites("index")
def index(b: OnnxBuilder, x: Value, *, index: Any) -> Value:
    """An index that is known."""
    parts = list(index) if isinstance(index, tuple) else [index]
    return _taken(b, x, [_written(b, part) for part in parts])


@rewrites("getitem")
def getitem(b: OnnxBuilder, x: Value, *values: Value, index: Any) -> Value:
    """An index with values in it; see ``fill_index`` among the kernels for how it is written."""
    parts = list(index[1:]) if isinstance(index, tuple) and index[0] == "tuple" else [index]
    if len(parts) == 1 and isinstance(parts[0], tuple) and parts[0][0] == "value":
        mask = values[parts[0][1]]
        if mask.type.dtype == BOOL and mask.type.rank and mask.type.rank == x.type.rank:
            return b.onnx("Compress", x, shaped(b, mask, -1))
    return _taken(b, x, [_written(b, part, values) for part in parts])


def _written(b: OnnxBuilder, part: Any, values: Sequence[Value] = ()) -> Any:
    """A part of an index: a slice of values, None, ``...``, or a value."""
    if isinstance(part, slice):
        return slice(*(None if p is None else b.const(np.int64(p)) for p in (part.start, part.stop, part.step)))
    if isinstance(part, tuple) and part and part[0] == "slice":
        return slice(*(None if p is None else _written(b, p, values) for p in part[1:]))
    if isinstance(part, tuple) and part and part[0] == "value":
        return values[part[1]]
    if isinstance(part, bool | np.bool_):
        raise ValueError("an index that is True or False")
    return part if part is None or part is Ellipsis else b.const(np.asarray(part))


def _taken(b: OnnxBuilder, x: Value, parts: list[Any]) -> Value:
    """The parts of x, axis by axis."""
    if any(part is Ellipsis for part in parts):
        at = next(k for k, part in enumerate(parts) if part is Ellipsis)
        count = sum(part is not None and part is not Ellipsis for part in parts)
        parts = [*parts[:at], *[slice(None)] * ((x.type.rank or 0) - count), *parts[at + 1 :]]
    if sum(isinstance(part, Value) and bool(part.type.rank) for part in parts) > 1:
        raise ValueError("an index with several arrays")
    axis = 0
    for part in parts:
        if part is None:
            x, axis = b.onnx("Unsqueeze", x, np.array([axis])), axis + 1
        elif isinstance(part, slice):
            x, axis = _sliced(b, x, part, axis), axis + 1
        else:
            x, axis = b.onnx("Gather", x, _place(b, part), axis=axis), axis + (part.type.rank or 0)
    return x


def _place(b: OnnxBuilder, part: Value) -> Value:
    """Places as whole numbers; a single one may be a float without a fraction, which MDF makes of whole numbers."""
    part = b.strong(part)
    if part.type.kind not in "iuf" or (part.type.kind == "f" and part.type.rank):
        raise ValueError(f"an index of type {part.type.dtype}")
    return b.cast(part, INT64)


def _sliced(b: OnnxBuilder, x: Value, part: slice, axis: int) -> Value:
    if part == slice(None):
        return x
    if part.step is not None and part.step.op != "const":
        raise ValueError("the step of a slice must be known")
    step = 1 if part.step is None else int(part.step.attr)
    start = _bound(b, part.start, LAST if step < 0 else 0)
    stop = _bound(b, part.stop, FIRST if step < 0 else LAST)
    return b.onnx("Slice", x, start, stop, np.array([axis]), np.array([step]))


def _bound(b: OnnxBuilder, value: Value | None, default: int) -> Value:
    if value is None:
        return b.const(np.array([default], np.int64))
    return b.pack([_place(b, value)])
