"""numpy's functions for which there is no primitive, and which ONNX has an operator for: sorting, random numbers, and others."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from mdf_loop.backends.onnx.rewritten import REWRITTEN, OnnxBuilder, in_one_type, length, rewrites, shaped
from mdf_loop.backends.static_lowering import sample
from mdf_loop.step.primitives import BOOL, FLOAT64, INT64
from mdf_loop.step.records import Value
from mdf_loop.types.elements import CODES


def _added_up(x: Value) -> np.dtype:
    """The element type in which numpy adds and multiplies."""
    assert x.type.dtype is not None
    return np.sum(np.zeros(1, x.type.dtype)).dtype


def _floating(x: Value) -> np.dtype:
    return x.type.dtype if x.type.dtype is not None and x.type.kind == "f" else FLOAT64


@rewrites("numpy.linalg.det")
def _det(b: OnnxBuilder, x: Value) -> Value:
    """No primitive is a determinant."""
    return b.onnx("Det", b.cast(x, _floating(x)))


@rewrites("numpy.cumsum")
def _cumsum(b: OnnxBuilder, x: Value, *, axis: int | None = None) -> Value:
    """The definition is a loop with a first row of known shape."""
    x = b.cast(x, _added_up(x))
    x, axis = (shaped(b, x, -1), 0) if axis is None else (x, axis)
    return b.onnx("CumSum", x, np.array(axis))


def _sorted(b: OnnxBuilder, x: Value, axis: int | None) -> tuple[Value, Value]:
    """No primitive sorts."""
    if axis is None:
        raise ValueError("of all axes")
    return b.onnx("TopK", x, length(b, x, axis), results=2, axis=axis, largest=0, sorted=1)


REWRITTEN["numpy.sort"] = lambda b, x, axis=-1: _sorted(b, x, axis)[0]
REWRITTEN["numpy.argsort"] = lambda b, x, axis=-1: _sorted(b, x, axis)[1]


@rewrites("numpy.median")
def _median(b: OnnxBuilder, x: Value, *, axis: Any = None, keepdims: Any = False) -> Value:
    """No primitive sorts."""
    if keepdims or isinstance(axis, tuple):
        raise ValueError("along several axes")
    x = b.cast(x, _floating(x))
    x, axis = (shaped(b, x, -1), 0) if axis is None else (x, axis)
    count, (ordered, _) = shaped(b, length(b, x, axis)), _sorted(b, x, axis)
    low = b.onnx("Div", b.sub(count, 1), np.array(2))
    middle = [b.onnx("Gather", ordered, at, axis=axis) for at in (low, b.onnx("Div", count, np.array(2)))]
    is_nan = b.reduce(b.ne(x, x), "any", [axis])
    return b.select(is_nan, math.nan, b.div(b.add(*middle), 2))


@rewrites("numpy.trace")
def _trace(b: OnnxBuilder, x: Value) -> Value:
    """No primitive knows the place of an element."""
    x = b.cast(x, _added_up(x))
    return b.onnx("ReduceSum", b.mul(x, b.onnx("EyeLike", x)), keepdims=0)


@rewrites("builtins.sum")
def _sum(b: OnnxBuilder, x: Value, start: Value | None = None) -> Value:
    """Python goes through the rows; how many there are only the run knows."""
    dtype = np.result_type(x.type.dtype, *([] if start is None else [sample(start.type)]))
    total = b.onnx("ReduceSum", b.cast(x, INT64 if dtype == BOOL else dtype), np.array([0]), keepdims=0)
    return total if start is None else b.add(total, b.cast(start, total.type.dtype))


@rewrites("builtins.min", "builtins.max")
def _smallest(b: OnnxBuilder, *inputs: Value, op: str = "ReduceMin") -> Value:
    """Python goes through the elements; one type holds them all."""
    if len(inputs) == 1:
        return b.onnx(op, *inputs, keepdims=0)
    first, *others = in_one_type(b, inputs)
    for x in others:
        first = b.select((b.lt if op == "ReduceMin" else b.gt)(x, first), x, first)
    return first


REWRITTEN["builtins.max"] = lambda b, *inputs: _smallest(b, *inputs, op="ReduceMax")


@rewrites("matmul")
def _matmul(b: OnnxBuilder, x: Value, y: Value) -> Value:
    """Stacks of matrices are broadcast."""
    return b.onnx("MatMul", *in_one_type(b, (x, y)))


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
