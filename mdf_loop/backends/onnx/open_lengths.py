"""numpy's functions of arrays whose lengths only the run knows, sorting and random numbers, in operators of ONNX."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mdf_loop.backends.onnx.rewritten import (
    FLOAT64,
    LAST,
    REWRITTEN,
    OnnxBuilder,
    in_one_type,
    rewrites,
    sample,
    shaped,
    truth_of,
)
from mdf_loop.step.primitives import BOOL, INT64
from mdf_loop.step.records import Value
from mdf_loop.types.elements import CODES

# Shapes that only the run knows


def lengths(b: OnnxBuilder, x: Value) -> Value:
    """A shape that came as a value."""
    x = b.cast(b.strong(x), INT64)
    return x if x.type.rank else b.pack([x])


def length(b: OnnxBuilder, x: Value, axis: int) -> Value:
    """The length of an axis, as an array of one element."""
    return b.onnx("Gather", b.onnx("Shape", x), np.array([axis]), axis=0)


@rewrites("numpy.shape")
def _shape(b: OnnxBuilder, x: Value) -> Value:
    return b.onnx("Shape", b.strong(x))


@rewrites("numpy.size")
def _size(b: OnnxBuilder, x: Value) -> Value:
    return b.onnx("Size", b.strong(x))


@rewrites("numpy.ndim")
def _ndim(b: OnnxBuilder, x: Value) -> Value:
    return b.onnx("Size", b.onnx("Shape", b.strong(x)))


@rewrites("numpy.reshape")
def _reshape(b: OnnxBuilder, x: Value, shape: Value) -> Value:
    return b.onnx("Reshape", b.strong(x), lengths(b, shape))


@rewrites("numpy.transpose")
def _transpose(b: OnnxBuilder, x: Value, *, axes: Any = None) -> Value:
    rank = x.type.rank or 0
    return b.transpose(b.strong(x), range(rank)[::-1] if axes is None else [int(k) % rank for k in np.ravel(axes)])


@rewrites("numpy.tril", "numpy.triu")
def _triangle(b: OnnxBuilder, x: Value, *, k: int = 0, upper: int = 0) -> Value:
    return b.onnx("Trilu", x, np.array(int(k)), upper=upper)


REWRITTEN["numpy.triu"] = lambda b, x, k=0: _triangle(b, x, k=k, upper=1)


def _of_one_value(number: int) -> Callable[..., Value]:
    def filled(b: OnnxBuilder, shape: Value, *, dtype: Any = None) -> Value:
        value = np.array([number], FLOAT64 if dtype is None else dtype)
        return b.onnx("ConstantOfShape", lengths(b, shape), value=value)

    return filled


def _like(number: int) -> Callable[..., Value]:
    def filled(b: OnnxBuilder, x: Value, *, dtype: Any = None) -> Value:
        x = b.strong(x)
        return b.onnx("ConstantOfShape", b.onnx("Shape", x), value=np.array([number], x.type.dtype if dtype is None else dtype))

    return filled


REWRITTEN |= {"numpy.zeros": _of_one_value(0), "numpy.ones": _of_one_value(1)}
REWRITTEN |= {"numpy.zeros_like": _like(0), "numpy.ones_like": _like(1)}


@rewrites("numpy.arange")
def _arange(b: OnnxBuilder, *inputs: Value | None, **_: Any) -> Value:
    given = [x for x in inputs if x is not None]
    dtype = np.result_type(*[x.type.dtype for x in map(b.strong, given)])
    zero, one = (b.const(dtype.type(number)) for number in (0, 1))
    bounds = {1: [zero, *given, one], 2: [*given, one], 3: given}[len(given)]
    return b.onnx("Range", *(b.cast(x, dtype) for x in bounds))


@rewrites("numpy.linspace")
def _linspace(b: OnnxBuilder, start: Value, stop: Value, *, num: int = 50, endpoint: bool = True) -> Value:
    if start.type.rank or stop.type.rank or num < 2:
        raise ValueError("of arrays")
    start, stop = (b.cast(x, FLOAT64) for x in (start, stop))
    step = b.div(b.sub(stop, start), np.float64(num - bool(endpoint)))
    return b.add(b.mul(b.const(np.arange(num, dtype=FLOAT64)), step), start)


@rewrites("numpy.concatenate")
def _concatenate(b: OnnxBuilder, *arrays: Value, axis: int | None = 0) -> Value:
    parts = in_one_type(b, arrays)
    return b.onnx("Concat", *(parts if axis is not None else [shaped(b, x, -1) for x in parts]), axis=axis or 0)


@rewrites("numpy.stack")
def _stack(b: OnnxBuilder, *arrays: Value, axis: int = 0) -> Value:
    return b.onnx("Concat", *(b.onnx("Unsqueeze", x, np.array([axis])) for x in in_one_type(b, arrays)), axis=axis)


@rewrites("array")
def _array(b: OnnxBuilder, *elements: Value, shape: Sequence[int]) -> Value:
    joined = b.onnx("Concat", *(b.onnx("Unsqueeze", x, np.array([0])) for x in in_one_type(b, elements)), axis=0)
    if len(shape) == 1:
        return joined
    inner = b.onnx("Slice", b.onnx("Shape", joined), np.array([1]), np.array([LAST]))
    return b.onnx("Reshape", joined, b.onnx("Concat", np.array(shape, np.int64), inner, axis=0))


@rewrites("numpy.take")
def _take(b: OnnxBuilder, x: Value, indices: Value, *, axis: int | None = None) -> Value:
    x = shaped(b, x, -1) if axis is None else x
    return b.onnx("Gather", x, b.cast(b.strong(indices), INT64), axis=axis or 0)


@rewrites("numpy.roll")
def _roll(b: OnnxBuilder, x: Value, shift: Value, *, axis: int | None = None) -> Value:
    if shift.type.rank or isinstance(axis, tuple):
        raise ValueError("along several axes")
    flat, along = (shaped(b, x, -1), 0) if axis is None else (x, axis)
    count, moved = length(b, flat, along), b.pack([b.cast(b.strong(shift), INT64)])
    at, axes = b.onnx("Mod", b.sub(count, moved), count), np.array([along])
    parts = b.onnx("Slice", flat, at, np.array([LAST]), axes), b.onnx("Slice", flat, np.array([0]), at, axes)
    rolled = b.onnx("Concat", *parts, axis=along)
    return b.onnx("Reshape", rolled, b.onnx("Shape", x)) if axis is None else rolled


# Reductions along open lengths, and those that no primitive is


def _reduced(b: OnnxBuilder, op: str, x: Value, axis: Any, keepdims: Any) -> Value:
    axes = () if axis is None else (np.atleast_1d(np.array(axis, np.int64)),)
    return b.onnx(op, x, *axes, keepdims=int(bool(keepdims)))


def _added_up(x: Value) -> np.dtype:
    """The element type in which numpy adds and multiplies."""
    assert x.type.dtype is not None
    return np.sum(np.zeros(1, x.type.dtype)).dtype


def _reduction(op: str, in_type: Callable[[Value], Any] = lambda x: x.type.dtype) -> Callable[..., Value]:
    def reduction(b: OnnxBuilder, x: Value, *, axis: Any = None, keepdims: Any = False) -> Value:
        x = b.strong(x)
        dtype = in_type(x)
        through = INT64 if dtype == BOOL else dtype
        return b.cast(_reduced(b, op, b.cast(truth_of(b, x) if dtype == BOOL else x, through), axis, keepdims), dtype)

    return reduction


def _floating(x: Value) -> np.dtype:
    return x.type.dtype if x.type.dtype is not None and x.type.kind == "f" else FLOAT64


REWRITTEN |= {f"numpy.{name}": _reduction("ReduceMax") for name in ("max", "amax")}
REWRITTEN |= {f"numpy.{name}": _reduction("ReduceMin") for name in ("min", "amin")}
REWRITTEN |= {
    "numpy.sum": _reduction("ReduceSum", _added_up),
    "numpy.prod": _reduction("ReduceProd", _added_up),
    "numpy.mean": _reduction("ReduceMean", _floating),
    "numpy.any": _reduction("ReduceMax", lambda x: BOOL),
    "numpy.all": _reduction("ReduceMin", lambda x: BOOL),
}


@rewrites("numpy.ptp")
def _range(b: OnnxBuilder, x: Value, **how: Any) -> Value:
    return b.sub(REWRITTEN["numpy.max"](b, x, **how), REWRITTEN["numpy.min"](b, x, **how))


@rewrites("numpy.var")
def _var(b: OnnxBuilder, x: Value, *, axis: Any = None, ddof: Any = 0, keepdims: Any = False) -> Value:
    x = b.cast(x, _floating(x))
    distance = b.sub(x, _reduced(b, "ReduceMean", x, axis, True))
    squares = b.mul(distance, distance)
    ones = b.onnx("Expand", np.array(1, x.type.dtype), b.onnx("Shape", x))
    count = _reduced(b, "ReduceSum", ones, axis, keepdims)
    return b.div(_reduced(b, "ReduceSum", squares, axis, keepdims), b.sub(count, float(ddof)))


@rewrites("numpy.std")
def _std(b: OnnxBuilder, x: Value, **how: Any) -> Value:
    return b.sqrt(_var(b, x, **how))


def _place_of(op: str) -> Callable[..., Value]:
    def place_of(b: OnnxBuilder, x: Value, *, axis: int | None = None) -> Value:
        x = b.cast(x, INT64) if x.type.dtype == BOOL else x
        x, axis = (shaped(b, x, -1), 0) if axis is None else (x, axis)
        return b.onnx(op, x, axis=axis, keepdims=0)

    return place_of


REWRITTEN |= {"numpy.argmax": _place_of("ArgMax"), "numpy.argmin": _place_of("ArgMin")}


@rewrites("numpy.cumsum")
def _cumsum(b: OnnxBuilder, x: Value, *, axis: int | None = None) -> Value:
    x = b.cast(x, _added_up(x))
    x, axis = (shaped(b, x, -1), 0) if axis is None else (x, axis)
    return b.onnx("CumSum", x, np.array(axis))


@rewrites("numpy.cumprod")
def _cumprod(b: OnnxBuilder, x: Value, *, axis: int | None = None) -> Value:
    if x.type.rank:
        raise ValueError("along an open length")
    return b.pack([b.cast(x, _added_up(x))])


def _sorted(b: OnnxBuilder, x: Value, axis: int | None) -> tuple[Value, Value]:
    if axis is None:
        raise ValueError("of all axes")
    return b.onnx("TopK", x, length(b, x, axis), results=2, axis=axis, largest=0, sorted=1)


REWRITTEN["numpy.sort"] = lambda b, x, axis=-1: _sorted(b, x, axis)[0]
REWRITTEN["numpy.argsort"] = lambda b, x, axis=-1: _sorted(b, x, axis)[1]


@rewrites("numpy.median")
def _median(b: OnnxBuilder, x: Value, *, axis: Any = None, keepdims: Any = False) -> Value:
    if keepdims or isinstance(axis, tuple):
        raise ValueError("along several axes")
    x = b.cast(x, _floating(x))
    x, axis = (shaped(b, x, -1), 0) if axis is None else (x, axis)
    count, (ordered, _) = shaped(b, length(b, x, axis)), _sorted(b, x, axis)
    low = b.onnx("Div", b.sub(count, 1), np.array(2))
    middle = [b.onnx("Gather", ordered, at, axis=axis) for at in (low, b.onnx("Div", count, np.array(2)))]
    is_nan = REWRITTEN["numpy.any"](b, b.ne(x, x), axis=axis)
    return b.select(is_nan, math.nan, b.div(b.add(*middle), 2))


REWRITTEN["numpy.nansum"] = lambda b, x, **how: REWRITTEN["numpy.sum"](b, _nan_as(b, x, 0.0), **how)
REWRITTEN["numpy.nanprod"] = lambda b, x, **how: REWRITTEN["numpy.prod"](b, _nan_as(b, x, 1.0), **how)


def _nan_as(b: OnnxBuilder, x: Value, number: float) -> Value:
    x = b.strong(x)
    return b.select(b.ne(x, x), x.type.dtype.type(number), x) if x.type.kind == "f" else x  # type: ignore[union-attr]


def _without_nan(op: str, neutral: float) -> Callable[..., Value]:
    def without(b: OnnxBuilder, x: Value, *, axis: Any = None, keepdims: Any = False) -> Value:
        x = b.cast(x, _floating(x)) if op == "ReduceSum" else b.strong(x)  # type: ignore[arg-type]
        if x.type.kind != "f":
            return _reduced(b, op, x, axis, keepdims)
        kind, is_nan = x.type.dtype.type, b.ne(x, x)  # type: ignore[union-attr]
        found = _reduced(b, op, _nan_as(b, x, neutral), axis, keepdims)
        count = _reduced(b, "ReduceSum", b.cast(b.not_(is_nan), _floating(x)), axis, keepdims)
        if op == "ReduceSum":
            return b.div(found, count)
        return b.select(b.eq(count, 0), kind(math.nan), found)

    return without


REWRITTEN |= {
    "numpy.nanmean": _without_nan("ReduceSum", 0.0),
    "numpy.nanmin": _without_nan("ReduceMin", math.inf),
    "numpy.nanmax": _without_nan("ReduceMax", -math.inf),
}


@rewrites("numpy.trace")
def _trace(b: OnnxBuilder, x: Value) -> Value:
    x = b.cast(x, _added_up(x))
    return b.onnx("ReduceSum", b.mul(x, b.onnx("EyeLike", x)), keepdims=0)


@rewrites("builtins.sum")
def _sum(b: OnnxBuilder, x: Value, start: Value | None = None) -> Value:
    dtype = np.result_type(x.type.dtype, *([] if start is None else [sample(start.type)]))
    total = b.onnx("ReduceSum", b.cast(x, INT64 if dtype == BOOL else dtype), np.array([0]), keepdims=0)
    return total if start is None else b.add(total, b.cast(start, total.type.dtype))


@rewrites("builtins.min", "builtins.max")
def _smallest(b: OnnxBuilder, *inputs: Value, op: str = "ReduceMin") -> Value:
    if len(inputs) == 1:
        return b.onnx(op, *inputs, keepdims=0)
    first, *others = in_one_type(b, inputs)
    for x in others:
        first = b.select((b.lt if op == "ReduceMin" else b.gt)(x, first), x, first)
    return first


REWRITTEN["builtins.max"] = lambda b, *inputs: _smallest(b, *inputs, op="ReduceMax")


@rewrites("matmul")
def _matmul(b: OnnxBuilder, x: Value, y: Value) -> Value:
    return b.onnx("MatMul", *in_one_type(b, (x, y)))


@rewrites("numpy.dot")
def _dot(b: OnnxBuilder, x: Value, y: Value) -> Value:
    x, y = in_one_type(b, (x, y))
    if not x.type.rank or not y.type.rank:
        return b.mul(x, y)
    if max(x.type.rank, y.type.rank) > 2:
        raise ValueError("of more than two axes")
    return b.onnx("MatMul", x, y)


@rewrites("numpy.outer")
def _outer(b: OnnxBuilder, x: Value, y: Value) -> Value:
    x, y = in_one_type(b, (x, y))
    return b.mul(shaped(b, x, -1, 1), shaped(b, y, 1, -1))


# Random numbers: they are ONNX's, not numpy's


def _random(op: str, count: int) -> Callable[..., Value]:
    def random(b: OnnxBuilder, *inputs: Value | None) -> Value:
        given, size = [x for x in inputs[:count] if x is not None], [*inputs, *[None] * 3][count]
        sizes = inputs if not count else () if size is None else (size,)
        if any(x is None or x.op != "const" for x in sizes):
            raise ValueError("of a size that is computed")
        known = tuple(int(n) for x in sizes for n in np.ravel(x.attr))  # type: ignore[union-attr]
        shape = known if sizes else np.broadcast_shapes(*[_static(x) for x in given])
        drawn = b.onnx(op, shape=shape, dtype=CODES[FLOAT64])
        if not given:
            return drawn
        first, second = [*(b.cast(x, FLOAT64) for x in given), b.const(np.float64(1))][:2]
        return b.add(b.mul(drawn, b.sub(second, first) if op == "RandomUniform" else second), first)

    return random


def _static(x: Value) -> tuple[Any, ...]:
    if x.type.shape is None or not x.type.is_static:
        raise ValueError("of an open shape")
    return x.type.shape


REWRITTEN |= {
    "numpy.random.normal": _random("RandomNormal", 2),
    "numpy.random.uniform": _random("RandomUniform", 2),
    "numpy.random.randn": _random("RandomNormal", 0),
    "numpy.random.rand": _random("RandomUniform", 0),
}
