"""numpy's reductions along lengths that only the run knows, sorting and random numbers, in operators of ONNX."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from mdf_loop.backends.onnx.rewritten import REWRITTEN, OnnxBuilder, in_one_type, length, rewrites, shaped, truth_of
from mdf_loop.backends.static_lowering import sample
from mdf_loop.step.primitives import BOOL, FLOAT64, INT64
from mdf_loop.step.records import Value
from mdf_loop.types.elements import CODES

# Shapes that only the run knows


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


@rewrites("numpy.count_nonzero")
def _count(b: OnnxBuilder, x: Value, *, axis: Any = None, keepdims: Any = False) -> Value:
    return _reduced(b, "ReduceSum", b.cast(truth_of(b, b.strong(x)), INT64), axis, keepdims)


@rewrites("numpy.linalg.norm")
def _norm(b: OnnxBuilder, x: Value, *, ord: Any = None, axis: Any = None, keepdims: Any = False) -> Value:
    if ord is not None and not (ord == 2 and (x.type.rank == 1 or isinstance(axis, int))):
        raise ValueError(f"with ord={ord!r}")
    return _reduced(b, "ReduceL2", b.cast(x, _floating(x)), axis, keepdims)


@rewrites("numpy.linalg.det")
def _det(b: OnnxBuilder, x: Value) -> Value:
    return b.onnx("Det", b.cast(x, _floating(x)))


@rewrites("numpy.clip")
def _clip(b: OnnxBuilder, x: Value, low: Value | None = None, high: Value | None = None) -> Value:
    x, *bounds = in_one_type(b, [y for y in (x, low, high) if y is not None])
    for bound, primitive in zip(bounds, [p for p, y in (("max", low), ("min", high)) if y is not None], strict=True):
        x = b.element(primitive, x, bound)
    return x


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


@rewrites("numpy.dot", "numpy.inner")
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
