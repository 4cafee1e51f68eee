"""Making, joining and reshaping arrays; random numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mdf_loop.convert.expressions.table import Emitter, Traced, lowered
from mdf_loop.convert.expressions.tracing import DOUBLE, INT64
from mdf_loop.errors import UnsupportedOp
from mdf_loop.types.elements import CODES


def _names(emitter: Emitter, inputs: Sequence[Traced], sample: Any) -> list[str]:
    dtype = np.asarray(sample).dtype
    return [emitter.typed(value, dtype) for value in inputs]


@lowered("array")
def array(emitter: Emitter, inputs: Sequence[Traced], sample: Any, *, shape: tuple[int, ...]) -> str:
    """Elements in a row, put into a shape."""
    names = [emitter.op("Unsqueeze", name, np.array([0])) for name in _names(emitter, inputs, sample)]
    joined = emitter.op("Concat", *names, axis=0)
    if len(shape) == 1:
        return joined
    if not inputs[0].rank:
        return emitter.shaped(joined, shape)
    inner = emitter.op("Slice", emitter.op("Shape", joined), np.array([1]), np.array([np.iinfo(np.int64).max]))
    return emitter.op("Reshape", joined, emitter.op("Concat", emitter.constant(np.array(shape)), inner, axis=0))


@lowered("listed")
def listed(emitter: Emitter, inputs: Sequence[Traced], sample: Any, *, place: int) -> str:
    """An element of a list."""
    return _names(emitter, inputs, sample)[place]


@lowered("dimension")
def dimension(emitter: Emitter, inputs: Sequence[Traced], sample: Any, *, axis: int) -> str:
    """The length of an axis."""
    return emitter.op("Gather", emitter.op("Shape", emitter.typed(inputs[0])), np.array(axis), axis=0)


@lowered("builtins.len")
def len_(emitter: Emitter, inputs: Sequence[Traced], sample: Any) -> str:
    """The length of the first axis."""
    return emitter.op("Gather", emitter.op("Shape", emitter.typed(inputs[0])), np.array(0), axis=0)


@lowered("numpy.shape")
def shape(emitter: Emitter, inputs: Sequence[Traced], sample: Any) -> str:
    """The length of each axis."""
    return emitter.op("Shape", emitter.typed(inputs[0]))


@lowered("numpy.size")
def size(emitter: Emitter, inputs: Sequence[Traced], sample: Any) -> str:
    """The number of elements."""
    return emitter.op("Size", emitter.typed(inputs[0]))


@lowered("numpy.ndim")
def ndim(emitter: Emitter, inputs: Sequence[Traced], sample: Any) -> str:
    """The number of axes."""
    return emitter.op("Size", emitter.op("Shape", emitter.typed(inputs[0])))


def _lengths(emitter: Emitter, value: Traced) -> str:
    """A shape that came as a value."""
    name = emitter.typed(value, INT64)
    return name if value.rank else emitter.shaped(name, (1,))


@lowered("numpy.reshape")
def reshape(emitter: Emitter, inputs: Sequence[Traced], sample: Any) -> str:
    """The same elements in another shape."""
    return emitter.op("Reshape", emitter.typed(inputs[0]), _lengths(emitter, inputs[1]))


@lowered("numpy.ravel")
def ravel(emitter: Emitter, inputs: Sequence[Traced], sample: Any) -> str:
    """All elements in a row."""
    return emitter.shaped(emitter.typed(inputs[0]), (-1,))


@lowered("numpy.atleast_1d")
def atleast_1d(emitter: Emitter, inputs: Sequence[Traced], sample: Any) -> str:
    """Numbers as arrays of one element."""
    name = emitter.typed(inputs[0])
    return name if inputs[0].rank else emitter.shaped(name, (1,))


def _transposed(emitter: Emitter, x: Traced, axes: Sequence[int]) -> str:
    return emitter.op("Transpose", emitter.typed(x), perm=tuple(int(axis) % max(x.rank, 1) for axis in axes))


@lowered("numpy.transpose")
def transpose(emitter: Emitter, inputs: Sequence[Traced], sample: Any, *, axes: Any = None) -> str:
    """The axes in another order."""
    return _transposed(emitter, inputs[0], range(inputs[0].rank)[::-1] if axes is None else np.ravel(axes).tolist())


@lowered("numpy.swapaxes")
def swapaxes(emitter: Emitter, inputs: Sequence[Traced], sample: Any, *, axis1: int, axis2: int) -> str:
    """Two axes change places."""
    axes = list(range(inputs[0].rank))
    axes[axis1], axes[axis2] = axes[axis2], axes[axis1]
    return _transposed(emitter, inputs[0], axes)


@lowered("numpy.moveaxis")
def moveaxis(emitter: Emitter, inputs: Sequence[Traced], sample: Any, *, source: Any, destination: Any) -> str:
    """Axes moved to other places."""
    lengths = np.empty(range(inputs[0].rank), np.bool_) if inputs[0].rank < 8 else None
    if lengths is None:
        raise UnsupportedOp(f"{'/'.join(emitter.path)}: numpy.moveaxis of more than seven axes")
    return _transposed(emitter, inputs[0], np.moveaxis(lengths, source, destination).shape)


@lowered("numpy.expand_dims")
def expand_dims(emitter: Emitter, inputs: Sequence[Traced], sample: Any, *, axis: Any) -> str:
    """New axes of length 1."""
    return emitter.op("Unsqueeze", emitter.typed(inputs[0]), np.atleast_1d(np.array(axis, np.int64)))


@lowered("numpy.squeeze")
def squeeze(emitter: Emitter, inputs: Sequence[Traced], sample: Any, *, axis: Any = None) -> str:
    """Without axes of length 1."""
    axes = () if axis is None else (np.atleast_1d(np.array(axis, np.int64)),)
    return emitter.op("Squeeze", emitter.typed(inputs[0]), *axes)


@lowered("numpy.flip")
def flip(emitter: Emitter, inputs: Sequence[Traced], sample: Any, *, axis: Any = None) -> str:
    """The elements in reversed order."""
    axes = np.arange(inputs[0].rank) if axis is None else np.atleast_1d(np.array(axis, np.int64))
    ends = (np.full(len(axes), number, np.int64) for number in (np.iinfo(np.int64).max, np.iinfo(np.int64).min))
    return emitter.op("Slice", emitter.typed(inputs[0]), *ends, axes, np.full(len(axes), -1, np.int64))


@lowered("numpy.roll")
def roll(emitter: Emitter, inputs: Sequence[Traced], sample: Any, *, axis: Any = None) -> str:
    """Elements moved on along an axis; those that fall off come in at the start."""
    x, by = inputs
    if by.rank or not (axis is None or isinstance(axis, int)):
        raise UnsupportedOp(f"{'/'.join(emitter.path)}: numpy.roll along several axes has no ONNX operator")
    name = emitter.typed(x)
    flat = emitter.shaped(name, (-1,)) if axis is None else name
    place = 0 if axis is None else axis
    length = emitter.op("Gather", emitter.op("Shape", flat), np.array([place]), axis=0)
    shift = emitter.shaped(emitter.typed(by, INT64), (1,))
    at = emitter.op("Mod", emitter.op("Sub", length, shift), length)
    axes, last = np.array([place]), np.array([np.iinfo(np.int64).max])
    parts = emitter.op("Slice", flat, at, last, axes), emitter.op("Slice", flat, np.array([0]), at, axes)
    rolled = emitter.op("Concat", *parts, axis=place)
    return emitter.op("Reshape", rolled, emitter.op("Shape", name)) if axis is None else rolled


@lowered("numpy.tile")
def tile(emitter: Emitter, inputs: Sequence[Traced], sample: Any) -> str:
    """The whole array several times."""
    x, reps = inputs
    if np.size(reps.value) != x.rank:
        raise UnsupportedOp(f"{'/'.join(emitter.path)}: numpy.tile needs a number for each axis")
    return emitter.op("Tile", emitter.typed(x), _lengths(emitter, reps))


@lowered("numpy.take")
def take(emitter: Emitter, inputs: Sequence[Traced], sample: Any, *, axis: Any = None) -> str:
    """Elements at these indices."""
    name = emitter.typed(inputs[0])
    name = emitter.shaped(name, (-1,)) if axis is None else name
    return emitter.op("Gather", name, emitter.typed(inputs[1], INT64), axis=int(axis or 0))


@lowered("numpy.repeat")
def repeat(emitter: Emitter, inputs: Sequence[Traced], sample: Any, *, axis: Any = None) -> str:
    """Each element several times."""
    x, repeats = inputs
    if np.size(repeats.value) != 1:
        raise UnsupportedOp(f"{'/'.join(emitter.path)}: numpy.repeat with a number for each element has no ONNX operator")
    name = emitter.typed(x)
    if axis is None:
        name, axis = emitter.shaped(name, (-1,)), 0
    length = emitter.op("Gather", emitter.op("Shape", name), np.array(int(axis)), axis=0)
    count = emitter.shaped(emitter.typed(repeats, INT64), ())
    zero, one = np.array(0), np.array(1)
    places = emitter.op("Range", emitter.constant(zero), emitter.op("Mul", length, count), emitter.constant(one))
    return emitter.op("Gather", name, emitter.op("Div", places, count), axis=int(axis))


def _triangle(name: str, upper: int) -> None:
    @lowered(f"numpy.{name}")
    def write(emitter: Emitter, inputs: Sequence[Traced], sample: Any, *, k: int = 0) -> str:
        return emitter.op("Trilu", emitter.typed(inputs[0]), np.array(int(k)), upper=upper)


_triangle("tril", 0)
_triangle("triu", 1)


@lowered("numpy.concatenate")
def concatenate(emitter: Emitter, inputs: Sequence[Traced], sample: Any, *, axis: Any = 0) -> str:
    """Arrays joined along an axis they have."""
    names = _names(emitter, inputs, sample)
    if axis is None:
        return emitter.op("Concat", *(emitter.shaped(name, (-1,)) for name in names), axis=0)
    return emitter.op("Concat", *names, axis=int(axis))


@lowered("numpy.stack")
def stack(emitter: Emitter, inputs: Sequence[Traced], sample: Any, *, axis: Any = 0) -> str:
    """Arrays put together along a new axis."""
    names = (emitter.op("Unsqueeze", name, np.array([int(axis)])) for name in _names(emitter, inputs, sample))
    return emitter.op("Concat", *names, axis=int(axis))


@lowered("numpy.hstack", "numpy.vstack")
def side_by_side(emitter: Emitter, inputs: Sequence[Traced], sample: Any) -> str:
    """Arrays side by side, or one above the other."""
    is_row = emitter.where_op == "numpy.hstack"
    names = []
    for value, name in zip(inputs, _names(emitter, inputs, sample), strict=True):
        if not value.rank:
            name = emitter.shaped(name, (1,) if is_row else (1, 1))
        elif value.rank == 1 and not is_row:
            name = emitter.shaped(name, (1, -1))
        names.append(name)
    return emitter.op("Concat", *names, axis=1 if is_row and inputs[0].rank > 1 else 0)


def _filled(emitter: Emitter, lengths: str, value: float, dtype: np.dtype) -> str:
    return emitter.op("ConstantOfShape", lengths, value=np.array([value], dtype))


def _of_one_value(name: str, number: float) -> None:
    @lowered(f"numpy.{name}")
    def write(emitter: Emitter, inputs: Sequence[Traced], sample: Any, **_: Any) -> str:
        return _filled(emitter, _lengths(emitter, inputs[0]), number, np.asarray(sample).dtype)

    @lowered(f"numpy.{name}_like")
    def write_like(emitter: Emitter, inputs: Sequence[Traced], sample: Any, **_: Any) -> str:
        return _filled(emitter, emitter.op("Shape", emitter.typed(inputs[0])), number, np.asarray(sample).dtype)


_of_one_value("zeros", 0)
_of_one_value("ones", 1)


@lowered("numpy.full")
def full(emitter: Emitter, inputs: Sequence[Traced], sample: Any, **_: Any) -> str:
    """An array of this shape, one value in all places."""
    value = emitter.typed(inputs[1], np.asarray(sample).dtype)
    return emitter.op("Expand", value, _lengths(emitter, inputs[0]))


@lowered("numpy.full_like")
def full_like(emitter: Emitter, inputs: Sequence[Traced], sample: Any, **_: Any) -> str:
    """An array of the same shape, one value in all places."""
    value = emitter.typed(inputs[1], np.asarray(sample).dtype)
    return emitter.op("Expand", value, emitter.op("Shape", emitter.typed(inputs[0])))


@lowered("numpy.arange")
def arange(emitter: Emitter, inputs: Sequence[Traced], sample: Any, **_: Any) -> str:
    """Equally spaced numbers, from their distance."""
    dtype = np.asarray(sample).dtype
    given = [emitter.typed(value, dtype) for value in inputs if value.value is not None]
    zero, one = (emitter.constant(np.array(number, dtype)) for number in (0, 1))
    start, stop, step = {1: [zero, *given, one], 2: [*given, one], 3: given}[len(given)]
    return emitter.op("Range", start, stop, step)


@lowered("numpy.linspace")
def linspace(emitter: Emitter, inputs: Sequence[Traced], sample: Any, *, num: Any = 50, endpoint: Any = True) -> str:
    """Equally spaced numbers, from their count."""
    start, stop = (emitter.typed(value, DOUBLE) for value in inputs)
    if any(value.rank for value in inputs) or num < 2:
        raise UnsupportedOp(f"{'/'.join(emitter.path)}: numpy.linspace of arrays has no ONNX operator")
    steps = np.arange(num, dtype=DOUBLE)
    step = emitter.op("Div", emitter.op("Sub", stop, start), np.array(num - bool(endpoint), DOUBLE))
    return emitter.op("Add", emitter.op("Mul", steps, step), start)


_RANDOM = {
    "numpy.random.normal": ("RandomNormal", ("mean", "scale")),
    "numpy.random.uniform": ("RandomUniform", ("low", "high")),
    "numpy.random.randn": ("RandomNormal", ()),
    "numpy.random.rand": ("RandomUniform", ()),
}


@lowered(*_RANDOM)
def random(emitter: Emitter, inputs: Sequence[Traced], sample: Any) -> str:
    """Random numbers of known shape; they are ONNX's, not numpy's."""
    op, _ = _RANDOM[emitter.where_op]
    drawn = emitter.op(op, shape=tuple(np.shape(sample)), dtype=CODES[DOUBLE])
    if emitter.where_op in ("numpy.random.randn", "numpy.random.rand") or not inputs:
        return drawn
    first = emitter.typed(inputs[0], DOUBLE)
    second = emitter.typed(inputs[1], DOUBLE) if len(inputs) > 1 else emitter.constant(np.array(1, DOUBLE))
    if op == "RandomUniform":
        second = emitter.op("Sub", second, first)
    return emitter.op("Add", emitter.op("Mul", drawn, second), first)
