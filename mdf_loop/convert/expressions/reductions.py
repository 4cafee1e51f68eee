"""Functions of numpy that go along axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mdf_loop.convert.expressions.table import Emitter, Traced, lowered
from mdf_loop.convert.expressions.tracing import BOOL, INT64
from mdf_loop.errors import UnsupportedOp
from mdf_loop.types.elements import kind_of

_REDUCTIONS = {
    "sum": "ReduceSum",
    "prod": "ReduceProd",
    "mean": "ReduceMean",
    "max": "ReduceMax",
    "amax": "ReduceMax",
    "min": "ReduceMin",
    "amin": "ReduceMin",
}


def _axes(axis: Any) -> np.ndarray | None:
    return None if axis is None else np.atleast_1d(np.array(axis, np.int64))


def reduced(emitter: Emitter, op: str, name: str, axis: Any, keepdims: Any) -> str:
    """One of ONNX's reductions."""
    axes = _axes(axis)
    return emitter.op(op, name, *(() if axes is None else (axes,)), keepdims=int(bool(keepdims)))


def _reduction(name: str, op: str) -> None:
    @lowered(f"numpy.{name}")
    def write(emitter: Emitter, inputs: Sequence[Traced], sample: Any, *, axis: Any = None, keepdims: Any = False) -> str:
        dtype = np.asarray(sample).dtype
        through = INT64 if dtype == BOOL else dtype
        made = reduced(emitter, op, emitter.typed(inputs[0], through), axis, keepdims)
        return emitter.cast(made, through, dtype)


for _name, _op in _REDUCTIONS.items():
    _reduction(_name, _op)


def _of_booleans(name: str, op: str) -> None:
    @lowered(f"numpy.{name}")
    def write(emitter: Emitter, inputs: Sequence[Traced], sample: Any, *, axis: Any = None, keepdims: Any = False) -> str:
        flags = emitter.cast(emitter.typed(inputs[0], BOOL), BOOL, INT64)
        return emitter.cast(reduced(emitter, op, flags, axis, keepdims), INT64, np.asarray(sample).dtype)


_of_booleans("all", "ReduceMin")
_of_booleans("any", "ReduceMax")
_of_booleans("count_nonzero", "ReduceSum")


@lowered("numpy.ptp")
def ptp(emitter: Emitter, inputs: Sequence[Traced], sample: Any, *, axis: Any = None, keepdims: Any = False) -> str:
    """The largest less the smallest."""
    name = emitter.typed(inputs[0], np.asarray(sample).dtype)
    return emitter.op("Sub", *(reduced(emitter, op, name, axis, keepdims) for op in ("ReduceMax", "ReduceMin")))


def _variance(
    emitter: Emitter, inputs: Sequence[Traced], sample: Any, axis: Any, ddof: Any, keepdims: Any
) -> tuple[str, np.dtype]:
    dtype = np.asarray(sample).dtype
    x = emitter.typed(inputs[0], dtype)
    distance = emitter.op("Sub", x, reduced(emitter, "ReduceMean", x, axis, True))
    squares = emitter.op("Mul", distance, distance)
    total = reduced(emitter, "ReduceSum", squares, axis, keepdims)
    one = emitter.op("Where", emitter.op("Equal", squares, squares), emitter.number(1, dtype), emitter.number(1, dtype))
    count = reduced(emitter, "ReduceSum", one, axis, keepdims)
    return emitter.op("Div", total, emitter.op("Sub", count, emitter.number(float(ddof), dtype))), dtype


@lowered("numpy.var")
def var(
    emitter: Emitter, inputs: Sequence[Traced], sample: Any, *, axis: Any = None, ddof: Any = 0, keepdims: Any = False
) -> str:
    """The variance."""
    return _variance(emitter, inputs, sample, axis, ddof, keepdims)[0]


@lowered("numpy.std")
def std(
    emitter: Emitter, inputs: Sequence[Traced], sample: Any, *, axis: Any = None, ddof: Any = 0, keepdims: Any = False
) -> str:
    """The standard deviation."""
    return emitter.op("Sqrt", _variance(emitter, inputs, sample, axis, ddof, keepdims)[0])


@lowered("numpy.linalg.norm")
def norm(
    emitter: Emitter, inputs: Sequence[Traced], sample: Any, *, ord: Any = None, axis: Any = None, keepdims: Any = False
) -> str:
    """The root of the sum of squares."""
    if ord is not None and not (ord == 2 and (inputs[0].rank == 1 or isinstance(axis, int))):
        raise UnsupportedOp(f"{'/'.join(emitter.path)}: numpy.linalg.norm with ord={ord!r} has no ONNX operator")
    return reduced(emitter, "ReduceL2", emitter.typed(inputs[0], np.asarray(sample).dtype), axis, keepdims)


def _place(name: str, op: str) -> None:
    @lowered(f"numpy.{name}")
    def write(emitter: Emitter, inputs: Sequence[Traced], sample: Any, *, axis: Any = None) -> str:
        x = emitter.typed(inputs[0], INT64 if inputs[0].dtype == BOOL else None)
        if axis is None:
            x, axis = emitter.shaped(x, (-1,)), 0
        return emitter.op(op, x, axis=int(axis), keepdims=0)


_place("argmax", "ArgMax")
_place("argmin", "ArgMin")


@lowered("numpy.cumsum")
def cumsum(emitter: Emitter, inputs: Sequence[Traced], sample: Any, *, axis: Any = None) -> str:
    """Running sums."""
    dtype = np.asarray(sample).dtype
    x = emitter.typed(inputs[0], dtype)
    if axis is None:
        x, axis = emitter.shaped(x, (-1,)), 0
    return emitter.op("CumSum", x, np.array(int(axis)))


def _sorting(name: str, place: int) -> None:
    @lowered(f"numpy.{name}")
    def write(emitter: Emitter, inputs: Sequence[Traced], sample: Any, *, axis: Any = -1) -> str:
        if axis is None:
            raise UnsupportedOp(f"{'/'.join(emitter.path)}: numpy.{name} of all axes has no ONNX operator")
        x = emitter.typed(inputs[0])
        length = emitter.op("Gather", emitter.op("Shape", x), np.array([int(axis)]), axis=0)
        return emitter.several("TopK", [x, length], 2, axis=int(axis), largest=0, sorted=1)[place]


_sorting("sort", 0)
_sorting("argsort", 1)


def _without_nan(name: str, op: str, neutral: Any) -> None:
    @lowered(f"numpy.nan{name}")
    def write(emitter: Emitter, inputs: Sequence[Traced], sample: Any, *, axis: Any = None, keepdims: Any = False) -> str:
        dtype = np.asarray(sample).dtype
        x = emitter.typed(inputs[0], dtype)
        if kind_of(dtype) != "float":
            return reduced(emitter, op, x, axis, keepdims)
        is_nan = emitter.op("IsNaN", x)
        made = reduced(emitter, op, emitter.op("Where", is_nan, np.array(neutral, dtype), x), axis, keepdims)
        count = emitter.cast(emitter.op("Not", is_nan), BOOL, dtype)
        if name == "mean":
            return emitter.op("Div", made, reduced(emitter, "ReduceSum", count, axis, keepdims))
        if name in ("sum", "prod"):
            return made
        is_empty = emitter.op("Equal", reduced(emitter, "ReduceMax", count, axis, keepdims), np.array(0, dtype))
        return emitter.op("Where", is_empty, np.array(np.nan, dtype), made)


_without_nan("sum", "ReduceSum", 0)
_without_nan("prod", "ReduceProd", 1)
_without_nan("mean", "ReduceSum", 0)
_without_nan("min", "ReduceMin", np.inf)
_without_nan("max", "ReduceMax", -np.inf)


@lowered("numpy.median")
def median(emitter: Emitter, inputs: Sequence[Traced], sample: Any, *, axis: Any = None, keepdims: Any = False) -> str:
    """The middle one of the sorted elements, or the mean of the two in the middle."""
    if keepdims or isinstance(axis, tuple):
        raise UnsupportedOp(f"{'/'.join(emitter.path)}: numpy.median along several axes has no ONNX operator")
    dtype = np.asarray(sample).dtype
    x = emitter.typed(inputs[0], dtype)
    if axis is None:
        x, axis = emitter.shaped(x, (-1,)), 0
    length = emitter.op("Gather", emitter.op("Shape", x), np.array([int(axis)]), axis=0)
    ordered = emitter.several("TopK", [x, length], 2, axis=int(axis), largest=0, sorted=1)[0]
    two = np.array([2])
    low = emitter.op("Div", emitter.op("Sub", length, np.array([1])), two)
    middle = (
        emitter.op("Gather", ordered, emitter.shaped(at, ()), axis=int(axis)) for at in (low, emitter.op("Div", length, two))
    )
    mean = emitter.op("Div", emitter.op("Add", *middle), np.array(2, dtype))
    flags = emitter.cast(emitter.op("IsNaN", x), BOOL, INT64)
    is_nan = emitter.cast(reduced(emitter, "ReduceMax", flags, axis, False), INT64, BOOL)
    return emitter.op("Where", is_nan, np.array(np.nan, dtype), mean)


@lowered("numpy.diff")
def diff(emitter: Emitter, inputs: Sequence[Traced], sample: Any, *, n: Any = 1, axis: Any = -1) -> str:
    """Differences of neighbours."""
    name = emitter.typed(inputs[0], np.asarray(sample).dtype)
    axes, last = np.array([int(axis)]), np.array([np.iinfo(np.int64).max])
    for _ in range(int(n)):
        later = emitter.op("Slice", name, np.array([1]), last, axes)
        name = emitter.op("Sub", later, emitter.op("Slice", name, np.array([0]), np.array([-1]), axes))
    return name


@lowered("numpy.dot")
def dot(emitter: Emitter, inputs: Sequence[Traced], sample: Any) -> str:
    """numpy's dot product, of vectors and matrices."""
    dtype = np.asarray(sample).dtype
    names = [emitter.typed(value, dtype) for value in inputs]
    if any(value.rank == 0 for value in inputs):
        return emitter.op("Mul", *names)
    if any(value.rank > 2 for value in inputs):
        raise UnsupportedOp(f"{'/'.join(emitter.path)}: numpy.dot of more than two axes has no ONNX operator")
    return emitter.op("MatMul", *names)


@lowered("numpy.inner")
def inner(emitter: Emitter, inputs: Sequence[Traced], sample: Any) -> str:
    """numpy's inner product, of vectors."""
    if any(value.rank != 1 for value in inputs):
        raise UnsupportedOp(f"{'/'.join(emitter.path)}: numpy.inner of other values than vectors has no ONNX operator")
    return dot_of(emitter, inputs, sample)


def dot_of(emitter: Emitter, inputs: Sequence[Traced], sample: Any) -> str:
    """The name of a dot product."""
    made = dot(emitter, inputs, sample)
    assert isinstance(made, str)
    return made


@lowered("numpy.outer")
def outer(emitter: Emitter, inputs: Sequence[Traced], sample: Any) -> str:
    """Each element of a times each element of b."""
    dtype = np.asarray(sample).dtype
    a, b = (emitter.typed(value, dtype) for value in inputs)
    return emitter.op("Mul", emitter.shaped(a, (-1, 1)), emitter.shaped(b, (1, -1)))


@lowered("numpy.trace")
def trace(emitter: Emitter, inputs: Sequence[Traced], sample: Any) -> str:
    """The sum of the diagonal of a matrix."""
    dtype = np.asarray(sample).dtype
    x = emitter.typed(inputs[0], dtype)
    eye = emitter.op("EyeLike", x)
    return emitter.op("ReduceSum", emitter.op("Mul", x, eye), keepdims=0)
