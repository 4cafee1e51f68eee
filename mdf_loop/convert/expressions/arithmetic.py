"""Arithmetic, comparisons and logic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mdf_loop.convert.expressions.table import Emitter, Traced, lowered
from mdf_loop.convert.expressions.tracing import BOOL, DOUBLE, INT64
from mdf_loop.types.elements import kind_of

_PLAIN = {"add": "Add", "subtract": "Sub", "multiply": "Mul", "matmul": "MatMul"}
_OF_BOOLEANS = {"add": "Or", "multiply": "And"}
_COMPARISONS = {
    "less": "Less",
    "less_equal": "LessOrEqual",
    "greater": "Greater",
    "greater_equal": "GreaterOrEqual",
    "equal": "Equal",
}
_LOGIC = {"logical_and": "And", "logical_or": "Or", "logical_xor": "Xor"}
_BITS = {"bitwise_and": ("And", "BitwiseAnd"), "bitwise_or": ("Or", "BitwiseOr"), "bitwise_xor": ("Xor", "BitwiseXor")}


def _dtype(sample: Any) -> np.dtype:
    return np.asarray(sample).dtype


def common_type(values: Sequence[Traced]) -> np.dtype:
    """The type in which numpy works with these values together."""
    return np.result_type(*(value.value for value in values))


def _plain(op: str) -> None:
    @lowered(op)
    def write(emitter: Emitter, inputs: Sequence[Traced], sample: Any) -> str:
        dtype = _dtype(sample)
        name = _OF_BOOLEANS.get(op, _PLAIN[op]) if dtype == BOOL else _PLAIN[op]
        return emitter.op(name, *(emitter.typed(value, dtype) for value in inputs))


def _comparison(op: str, name: str) -> None:
    @lowered(op)
    def write(emitter: Emitter, inputs: Sequence[Traced], sample: Any) -> str:
        dtype = common_type(inputs)
        dtype = INT64 if dtype == BOOL and name != "Equal" else dtype
        return emitter.op(name, *(emitter.typed(value, dtype) for value in inputs))


def _logical(op: str, name: str) -> None:
    @lowered(f"numpy.{op}")
    def write(emitter: Emitter, inputs: Sequence[Traced], sample: Any) -> str:
        return emitter.op(name, *(emitter.typed(value, BOOL) for value in inputs))


def _bitwise(op: str, of_booleans: str, of_integers: str) -> None:
    @lowered(op)
    def write(emitter: Emitter, inputs: Sequence[Traced], sample: Any) -> str:
        dtype = _dtype(sample)
        return emitter.op(of_booleans if dtype == BOOL else of_integers, *(emitter.typed(v, dtype) for v in inputs))


for _op in _PLAIN:
    _plain(_op)
for _op, _name in _COMPARISONS.items():
    _comparison(_op, _name)
for _op, _name in _LOGIC.items():
    _logical(_op, _name)
for _op, _names in _BITS.items():
    _bitwise(_op, *_names)


@lowered("not_equal")
def not_equal(emitter: Emitter, inputs: Sequence[Traced], sample: Any) -> str:
    """a != b."""
    dtype = common_type(inputs)
    return emitter.op("Not", emitter.op("Equal", *(emitter.typed(value, dtype) for value in inputs)))


@lowered("divide")
def divide(emitter: Emitter, inputs: Sequence[Traced], sample: Any) -> str:
    """a / b, of floats: integers are divided truly."""
    dtype = _dtype(sample)
    return emitter.op("Div", *(emitter.typed(value, dtype) for value in inputs))


@lowered("power", "numpy.float_power", "math.pow")
def power(emitter: Emitter, inputs: Sequence[Traced], sample: Any) -> str:
    """a ** b."""
    dtype = _dtype(sample)
    return emitter.op("Pow", *(emitter.typed(value, dtype) for value in inputs))


@lowered("remainder")
def remainder(emitter: Emitter, inputs: Sequence[Traced], sample: Any) -> str:
    """a % b: it has the sign of b."""
    dtype = _dtype(sample)
    a, b = (emitter.typed(value, dtype) for value in inputs)
    if kind_of(dtype) == "integer":
        return emitter.op("Mod", a, b)
    rest, is_other = _rest(emitter, a, b, dtype)
    zero = emitter.number(0, dtype)
    nothing = emitter.op("Mul", emitter.op("Sign", b), zero)
    rest = emitter.op("Where", is_other, emitter.op("Add", rest, b), rest)
    return emitter.op("Where", emitter.op("Equal", rest, zero), nothing, rest)


def _rest(emitter: Emitter, a: str, b: str, dtype: np.dtype) -> tuple[str, str]:
    """What the division of floats leaves, with the sign of a, and whether that is neither zero nor of the sign of b."""
    rest, zero = emitter.op("Mod", a, b, fmod=1), emitter.number(0, dtype)
    is_other = emitter.op("Xor", emitter.op("Less", b, zero), emitter.op("Less", rest, zero))
    return rest, emitter.op("And", emitter.op("Not", emitter.op("Equal", rest, zero)), is_other)


@lowered("floor_divide")
def floor_divide(emitter: Emitter, inputs: Sequence[Traced], sample: Any) -> str:
    """a // b: rounded down.  Floats as numpy has it: a / b where b is zero, a zero with the sign of a / b."""
    dtype = _dtype(sample)
    a, b = (emitter.typed(value, dtype) for value in inputs)
    if kind_of(dtype) == "integer":
        return _floor_divided(emitter, a, b, dtype)
    rest, is_other = _rest(emitter, a, b, dtype)
    zero, ratio = emitter.number(0, dtype), emitter.op("Div", a, b)
    whole = emitter.op("Div", emitter.op("Sub", a, rest), b)
    whole = emitter.op("Round", emitter.op("Where", is_other, emitter.op("Sub", whole, emitter.number(1, dtype)), whole))
    whole = emitter.op("Where", emitter.op("Equal", whole, zero), emitter.op("Mul", emitter.op("Sign", ratio), zero), whole)
    return emitter.op("Where", emitter.op("Equal", b, zero), ratio, whole)


def _floor_divided(emitter: Emitter, a: str, b: str, dtype: np.dtype) -> str:
    """a // b of whole numbers, without a step that could wrap around: Div rounds towards zero."""
    ratio, zero = emitter.op("Div", a, b), emitter.number(0, dtype)
    rest = emitter.op("Mod", a, b)  # has the sign of b
    if dtype.kind == "u":
        return ratio
    other_signs = emitter.op("Xor", emitter.op("Less", a, zero), emitter.op("Less", b, zero))
    is_below = emitter.op("And", other_signs, emitter.op("Not", emitter.op("Equal", rest, zero)))
    return emitter.op("Sub", ratio, emitter.op("Where", is_below, emitter.number(1, dtype), zero))


@lowered("left_shift")
def left_shift(emitter: Emitter, inputs: Sequence[Traced], sample: Any) -> str:
    """a << b: a * 2 ** b."""
    dtype = _dtype(sample)
    a, b = (emitter.typed(value, dtype) for value in inputs)
    return emitter.op("Mul", a, emitter.op("Pow", emitter.number(2, dtype), b))


@lowered("right_shift")
def right_shift(emitter: Emitter, inputs: Sequence[Traced], sample: Any) -> str | Traced:
    """a >> b: a // 2 ** b, in two steps, since the type may not hold 2 ** b."""
    dtype = _dtype(sample)
    a, b = (emitter.typed(value, dtype) for value in inputs)
    bits, two = emitter.number(8 * dtype.itemsize, dtype), emitter.number(2, dtype)
    b = emitter.op("Where", emitter.op("Greater", b, bits), bits, b)
    half = emitter.op("Div", b, two)
    for by in (half, emitter.op("Sub", b, half)):
        a = _floor_divided(emitter, a, emitter.op("Pow", two, by), dtype)
    return a


@lowered("negative")
def negative(emitter: Emitter, inputs: Sequence[Traced], sample: Any) -> str:
    """-a."""
    return emitter.op("Neg", emitter.typed(inputs[0], _dtype(sample)))


@lowered("absolute", "numpy.fabs", "math.fabs")
def absolute(emitter: Emitter, inputs: Sequence[Traced], sample: Any) -> str:
    """|a|."""
    return emitter.op("Abs", emitter.typed(inputs[0], _dtype(sample)))


@lowered("positive", "whole", "builtins.float", "builtins.int", "builtins.bool", "numpy.array", "numpy.asarray")
def converted(emitter: Emitter, inputs: Sequence[Traced], sample: Any, **_: Any) -> str | Traced:
    """The value, with the type that came out; a float without a fraction stays a float."""
    if type(inputs[0].value) is float and type(sample) is int and emitter.where_op == "whole":
        return inputs[0]
    name = emitter.typed(inputs[0], _dtype(sample))
    return Traced(name if np.ndim(sample) else _single(emitter, name, inputs[0]), sample)


def _single(emitter: Emitter, name: str, value: Traced) -> str:
    """What Python takes for one number, an array of one element too, without dimensions."""
    return emitter.shaped(name, ()) if value.rank else name


@lowered("invert")
def invert(emitter: Emitter, inputs: Sequence[Traced], sample: Any) -> str:
    """~a."""
    dtype = _dtype(sample)
    return emitter.op("Not" if dtype == BOOL else "BitwiseNot", emitter.typed(inputs[0], dtype))


@lowered("not", "numpy.logical_not")
def not_(emitter: Emitter, inputs: Sequence[Traced], sample: Any) -> str:
    """Not a."""
    name = emitter.typed(inputs[0], BOOL)
    return emitter.op("Not", name if np.ndim(sample) else _single(emitter, name, inputs[0]))


def chosen(emitter: Emitter, condition: Traced, then: Traced, otherwise: Traced) -> Traced:
    """One of two values: element by element if they have one shape, else by a branch."""
    dtype = common_type([then, otherwise])
    test = _single(emitter, emitter.typed(condition, BOOL), condition)
    names = [emitter.typed(value, dtype) for value in (then, otherwise)]
    sample = then.value if np.all(condition.value) else otherwise.value
    is_number = type(then.value) in (bool, int, float) and type(otherwise.value) in (bool, int, float)
    sample = dtype.type(sample).item() if is_number else np.asarray(sample).astype(dtype)
    if np.shape(then.value) == np.shape(otherwise.value):
        return Traced(emitter.where_true(test, names[0], names[1], dtype), sample)
    return Traced(emitter.branch(test, *names), sample)


@lowered("choose")
def choose(emitter: Emitter, inputs: Sequence[Traced], sample: Any) -> Traced:
    """a if condition else b."""
    return chosen(emitter, *inputs)


@lowered("and")
def and_(emitter: Emitter, inputs: Sequence[Traced], sample: Any) -> Traced:
    """a and b: b where a is true, else a."""
    return chosen(emitter, inputs[0], inputs[1], inputs[0])


@lowered("or")
def or_(emitter: Emitter, inputs: Sequence[Traced], sample: Any) -> Traced:
    """a or b: a where it is true, else b."""
    return chosen(emitter, inputs[0], inputs[0], inputs[1])


@lowered("numpy.where")
def where(emitter: Emitter, inputs: Sequence[Traced], sample: Any) -> str:
    """x where the condition is true, y elsewhere."""
    dtype = _dtype(sample)
    then, otherwise = (emitter.typed(value, dtype) for value in inputs[1:])
    return emitter.where_true(emitter.typed(inputs[0], BOOL), then, otherwise, dtype)


@lowered("tensor")
def tensor(emitter: Emitter, inputs: Sequence[Traced], sample: Any, *, vector: bool = False, **_: Any) -> str:
    """A Python number as an array."""
    name = emitter.typed(inputs[0], _dtype(sample))
    return emitter.shaped(name, (1,)) if np.ndim(sample) > inputs[0].rank else name


@lowered("builtins.round")
def round_(emitter: Emitter, inputs: Sequence[Traced], sample: Any) -> str:
    """Python's round: without digits an int."""
    digits = int(inputs[1].value) if len(inputs) > 1 else 0
    if kind_of(inputs[0].dtype) == "integer" and digits >= 0:
        return emitter.typed(inputs[0], _dtype(sample))
    return emitter.cast(_rounded(emitter, emitter.typed(inputs[0], DOUBLE), digits, DOUBLE), DOUBLE, _dtype(sample))


def _rounded(emitter: Emitter, name: str, digits: int, dtype: np.dtype) -> str:
    """So many digits behind the point; a negative number of them in front of it."""
    if not digits:
        return emitter.op("Round", name)
    there, back = ("Mul", "Div") if digits > 0 else ("Div", "Mul")
    scale = emitter.number(10.0 ** abs(digits), dtype)
    return emitter.op(back, emitter.op("Round", emitter.op(there, name, scale)), scale)


@lowered("numpy.round", "numpy.around", "numpy.rint")
def rounded(emitter: Emitter, inputs: Sequence[Traced], sample: Any, *, decimals: int = 0) -> str:
    """Halves go to the even neighbour."""
    dtype = _dtype(sample)
    name = emitter.typed(inputs[0], dtype)
    if kind_of(dtype) == "float":
        return _rounded(emitter, name, decimals, dtype)
    if decimals >= 0:
        return name
    return emitter.cast(_rounded(emitter, emitter.typed(inputs[0], DOUBLE), decimals, DOUBLE), DOUBLE, dtype)


def _converting(name: str) -> None:
    lowered(f"numpy.{name}")(converted)


for _name in ("float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool_"):
    _converting(_name)
