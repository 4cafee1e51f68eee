"""Operators on single numbers as Python expressions: what one step of a scalar recurrence is made of.

Each function gets the operands and returns the text of an expression, or None where only the kernel knows.  The
value is the kernel's: the same bits for ``+ - * / sqrt`` and comparisons, within 2 units in the last place for
transcendental functions.  Where Python raises and numpy does not (division by zero, overflow), a branch goes to
numpy, or Python's error ends the block, which then runs in the interpreter.

Whole numbers of int64 are Python's inside, which do not wrap around.  ``+ - *`` may leave the range on the way, as
wrapping commutes with them; whoever needs the number itself asks for ``checked`` first.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mdf_loop.execute.kinds import BOOL, FLOAT, INT, SCALAR, Kind
from mdf_loop.kernels.expression import multiply


@dataclass(frozen=True)
class Operand:
    """A value inside an emitted function.

    Attributes
    ----------
    text : str
        A name, a number, or an expression that is read once.
    kind : Kind
    number : number or None
        What it is, if it is a constant.
    unchecked : bool
        A whole number that may have left the range of int64.
    box : str
        A name under which numpy's form of the number is at hand, or empty.
    listed : str
        A name under which a vector is at hand as a list of Python's numbers, or empty.
    element : str
        For an array of one element that was made of a number: the number's name, or empty.
    inline : bool
        The text is an expression.
    fixed : bool
        It is the same in every iteration.
    """

    text: str
    kind: Kind
    number: Any = None
    unchecked: bool = False
    box: str = ""
    listed: str = ""
    element: str = ""
    inline: bool = False
    fixed: bool = False

    @property
    def boxed(self) -> str:
        """The text for an argument of a ufunc."""
        return self.box or self.text


Expression = Callable[[Sequence[Operand], Kind], str | None]
EXPRESSIONS: dict[tuple[str, str], Expression] = {}
"""By (domain, operator)."""

RING = {("", op) for op in ("Add", "Sub", "Mul", "Neg", "Abs", "Div", "Identity", "Where")}
RING |= {("mdf", op) for op in ("add", "subtract", "multiply", "negative", "choose", "numpy.where")}
"""Operators that can make whole numbers out of range (and, but for the ones below, may be given them)."""

NEEDS_RANGE = {("", op) for op in ("Abs", "Div", "Cast")}


def expression(*names: str, domain: str = "") -> Callable[[Expression], Expression]:
    """Register the expression of some operators."""

    def decorate(write: Expression) -> Expression:
        EXPRESSIONS.update({(domain, name): write for name in names})
        return write

    return decorate


def arithmetic(sign: str) -> Expression:
    """``a sign b`` of floats, whole numbers or numpy's scalars of one type."""

    def write(args: Sequence[Operand], result: Kind) -> str | None:
        if len(args) != 2:
            return None
        a, b = args
        if result.form == SCALAR:
            same = a.kind.dtype == b.kind.dtype == result.dtype and result.dtype is not None and result.dtype.kind in "fiuc"
            return f"{a.text} {sign} {b.text}" if same else None
        fits = result.form in (FLOAT, INT) and all(x.kind.form in (FLOAT, INT) for x in args)
        return f"{a.text} {sign} {b.text}" if fits else None

    return write


def comparison(sign: str) -> Expression:
    """``a sign b`` of two numbers of one form."""

    def write(args: Sequence[Operand], result: Kind) -> str | None:
        a, b = args
        if a.kind.form == b.kind.form == SCALAR and a.kind.dtype == b.kind.dtype and a.kind.dtype.kind in "fiu":  # type: ignore[union-attr]
            return f"{a.text} {sign} {b.text}"
        return f"{a.text} {sign} {b.text}" if a.kind.form == b.kind.form and a.kind.is_number else None

    return write


for _domain, _names in (("", ("Add", "Sub", "Mul")), ("mdf", ("add", "subtract", "multiply"))):
    for _name, _sign in zip(_names, "+-*", strict=True):
        EXPRESSIONS[_domain, _name] = arithmetic(_sign)
_product = EXPRESSIONS["mdf", "multiply"]


@expression("multiply", domain="mdf")
def python_product(args: Sequence[Operand], result: Kind) -> str | None:
    """``*``: of Python's whole numbers, which have no end, with the bound of the kernel."""
    text = _product(args, result)
    if text is None or result.form != INT or not result.weak:
        return text
    return f"product({', '.join(arg.text for arg in args)})"


for _sign, *_names_of in (
    ("<", "Less", "less"),
    ("<=", "LessOrEqual", "less_equal"),
    (">", "Greater", "greater"),
    (">=", "GreaterOrEqual", "greater_equal"),
    ("==", "Equal", "equal"),
    ("!=", "NotEqual", "not_equal"),
):
    EXPRESSIONS["", _names_of[0]] = EXPRESSIONS["mdf", _names_of[1]] = comparison(_sign)


def _all(args: Sequence[Operand], form: str) -> bool:
    return all(arg.kind.form == form for arg in args)


@expression("Div")
def divide(args: Sequence[Operand], result: Kind) -> str | None:
    """Floats by numpy's rules; whole numbers truncated towards zero."""
    a, b = args
    if result.form == SCALAR and result.dtype is not None and result.dtype.kind == "f":
        return f"{a.text} / {b.text}" if a.kind == b.kind == result else None
    if _all(args, INT):
        x, y = a.text, b.text
        return f"{x} // {y} if ({x} >= 0) == ({y} > 0) else -(-{x} // {y})"
    return _quotient(a, b) if _all(args, FLOAT) else None


def _quotient(a: Operand, b: Operand) -> str:
    plain = f"{a.text} / {b.text}"
    return plain if b.number else f"{plain} if {b.text} else divide({a.text}, {b.text})"


@expression("divide", domain="mdf")
def true_divide(args: Sequence[Operand], result: Kind) -> str | None:
    """Python's division: an error at zero for Python's numbers, numpy's rules for numpy's."""
    a, b = args
    if result.form != FLOAT or not all(x.kind.form in (FLOAT, INT) for x in args):
        return None
    return f"{a.text} / {b.text}" if result.weak else _quotient(_as_float(a), _as_float(b))


def _as_float(operand: Operand) -> Operand:
    """A whole number as a float."""
    if operand.kind.form == FLOAT:
        return operand
    if type(operand.number) is int and abs(operand.number) < 2**53:
        number = float(operand.number)
        return replace(operand, text=repr(number) if number >= 0 else f"({number!r})", number=number)
    return replace(operand, text=f"float({operand.text})")


@expression("numpy.where", domain="mdf")
def where(args: Sequence[Operand], result: Kind) -> str | None:
    """One of two numbers, in the type that numpy gives both."""
    condition, a, b = args
    if condition.kind.form != BOOL or not all(x.kind.is_number for x in (a, b)):
        return None
    if result.form == FLOAT and all(x.kind.form in (FLOAT, INT) for x in (a, b)):
        a, b = _as_float(a), _as_float(b)
    elif not a.kind.form == b.kind.form == result.form:
        return None
    return f"{a.text} if {condition.text} else {b.text}"


@expression("Neg")
@expression("negative", domain="mdf")
def negative(args: Sequence[Operand], result: Kind) -> str | None:
    """``-a``."""
    return f"-{args[0].text}" if args[0].kind.form in (FLOAT, INT, SCALAR) and args[0].kind == result else None


@expression("Abs")
@expression("absolute", "numpy.absolute", "numpy.abs", "numpy.fabs", "math.fabs", "builtins.abs", domain="mdf")
def absolute(args: Sequence[Operand], result: Kind) -> str | None:
    """``|a|``."""
    return f"abs({args[0].text})" if args[0].kind.form in (FLOAT, SCALAR) and args[0].kind.form == result.form else None


@expression("Identity")
def identity(args: Sequence[Operand], result: Kind) -> str | None:
    """The value itself."""
    return args[0].text


@expression("Where")
@expression("choose", domain="mdf")
def choose(args: Sequence[Operand], result: Kind) -> str | None:
    """One of two values of one kind."""
    condition, a, b = args
    if condition.kind.form != BOOL or a.kind != b.kind or a.kind.form not in (FLOAT, INT, BOOL, SCALAR):
        return None
    return f"{a.text} if {condition.text} else {b.text}" if a.kind == result else None


@expression("And")
def both(args: Sequence[Operand], result: Kind) -> str | None:
    """Both truth values."""
    return f"{args[0].text} and {args[1].text}" if _all(args, BOOL) else None


@expression("Or")
def either(args: Sequence[Operand], result: Kind) -> str | None:
    """One of two truth values."""
    return f"{args[0].text} or {args[1].text}" if _all(args, BOOL) else None


@expression("Xor")
def one_alone(args: Sequence[Operand], result: Kind) -> str | None:
    """Truth values that differ."""
    return f"{args[0].text} != {args[1].text}" if _all(args, BOOL) else None


@expression("Not")
@expression("not", "numpy.logical_not", domain="mdf")
def opposite(args: Sequence[Operand], result: Kind) -> str | None:
    """The other truth value."""
    return f"not {args[0].text}" if _all(args, BOOL) else None


EXPRESSIONS["mdf", "numpy.logical_and"], EXPRESSIONS["mdf", "numpy.logical_or"] = both, either


@expression("Min")
@expression("numpy.minimum", domain="mdf")
def smaller(args: Sequence[Operand], result: Kind) -> str | None:
    """The smaller number, or NaN."""
    return _extreme(args, result, "<=")


@expression("Max")
@expression("numpy.maximum", domain="mdf")
def larger(args: Sequence[Operand], result: Kind) -> str | None:
    """The larger number, or NaN."""
    return _extreme(args, result, ">=")


def _extreme(args: Sequence[Operand], result: Kind, sign: str) -> str | None:
    if len(args) == 1:
        return args[0].text
    if len(args) != 2 or args[0].kind.form != args[1].kind.form or args[0].kind.form not in (FLOAT, INT):
        return None
    a, b = args[0].text, args[1].text
    is_nan = f" or {a} != {a}" if args[0].kind.form == FLOAT else ""
    return f"{a} if {a} {sign} {b}{is_nan} else {b}"


@expression("Cast")
def cast(args: Sequence[Operand], result: Kind) -> str | None:
    """Between float64, int64 and bool."""
    a, have, want = args[0].text, args[0].kind.form, result.form
    if not args[0].kind.is_number or not result.is_number:
        return None
    if have == want:
        return a
    return {
        (INT, FLOAT): f"float({a})",
        (BOOL, FLOAT): f"1.0 if {a} else 0.0",
        (BOOL, INT): f"1 if {a} else 0",
        (FLOAT, INT): f"whole({a})",
        (FLOAT, BOOL): f"{a} != 0.0",
        (INT, BOOL): f"{a} != 0",
    }[have, want]


@expression("Mod")
def modulo(args: Sequence[Operand], result: Kind) -> str | None:
    """The remainder of whole numbers, with the divisor's sign; division by zero ends the block."""
    return f"{args[0].text} % {args[1].text}" if _all(args, INT) else None


@expression("Pow")
def power(args: Sequence[Operand], result: Kind) -> str | None:
    """Powers of floats; squares as products."""
    if not _all(args, FLOAT) or result.form != FLOAT:
        return None
    a, b = args
    return f"{a.text} * {a.text}" if b.number == 2.0 else f"power({a.text}, {b.text})"


@expression("power", domain="mdf")
def python_power(args: Sequence[Operand], result: Kind) -> str | None:
    """``**``: of Python's numbers with Python's errors."""
    a, b = args
    if result.weak and result.form in (FLOAT, INT) and all(x.kind.weak for x in args):
        return None
    if result.form != FLOAT or a.kind.form != FLOAT or b.kind.form not in (FLOAT, INT):
        return None
    return f"{a.text} * {a.text}" if b.number == 2 else f"power({a.text}, {b.text})"


@expression("Sigmoid")
def sigmoid(args: Sequence[Operand], result: Kind) -> str | None:
    """1 / (1 + e^-x)."""
    a = args[0].text
    return f"1.0 / (1.0 + exp(-{a})) if {a} > -700.0 else 1.0 / (1.0 + exp_of(-{a}))" if _all(args, FLOAT) else None


@expression("Relu")
def relu(args: Sequence[Operand], result: Kind) -> str | None:
    """x, or 0 if it is negative; NaN stays."""
    a = args[0].text
    return f"{a} if {a} > 0.0 or {a} != {a} else 0.0" if _all(args, FLOAT) else None


@expression("Reciprocal")
def reciprocal(args: Sequence[Operand], result: Kind) -> str | None:
    """1 / x."""
    a = args[0]
    return f"1.0 / {a.text} if {a.text} else divide(1.0, {a.text})" if _all(args, FLOAT) else None


@expression("IsNaN")
def is_nan(args: Sequence[Operand], result: Kind) -> str | None:
    """Whether x is no number."""
    return f"{args[0].text} != {args[0].text}" if _all(args, FLOAT) else None


FUNCTIONS: dict[str, Any] = {}
"""The functions that expressions call, by the names they have there."""

_GUARDS = {
    "exp": "{a} < 709.0",
    "log": "0.0 < {a} < inf",
    "sqrt": "0.0 <= {a} < inf",
    "sin": "-1e300 < {a} < 1e300",
    "cos": "-1e300 < {a} < 1e300",
    "tan": "-1e300 < {a} < 1e300",
    "sinh": "-700.0 < {a} < 700.0",
    "cosh": "-700.0 < {a} < 700.0",
    "tanh": "",
    "atan": "",
    "erf": "",
    "floor": "-1e300 < {a} < 1e300",
    "ceil": "-1e300 < {a} < 1e300",
}
"""Where Python's function gives what numpy's gives; empty for everywhere."""

_WRITTEN = {"floor": "{a} // 1.0", "ceil": "-(-{a} // 1.0)"}


def guarded(name: str) -> Expression:
    """A function of Python's math, and numpy's where Python's would raise."""
    inside, plain = _GUARDS[name], _WRITTEN.get(name, f"{name}({{a}})")

    def write(args: Sequence[Operand], result: Kind) -> str | None:
        if len(args) != 1 or not _all(args, FLOAT) or result.form != FLOAT:
            return None
        a = args[0].text
        return plain.format(a=a) if not inside else f"{plain.format(a=a)} if {inside.format(a=a)} else {name}_of({a})"

    return write


def python_function(name: str) -> Expression:
    """A function of Python's math with Python's errors, as MDF's expressions call it."""

    def write(args: Sequence[Operand], result: Kind) -> str | None:
        numbers = result.form == FLOAT and all(arg.kind.form in (FLOAT, INT) for arg in args)
        return f"{name}({', '.join(arg.text for arg in args)})" if numbers else None

    return write


for _name in _GUARDS:
    EXPRESSIONS["", _name.capitalize()] = guarded(_name)
    if hasattr(np, {"atan": "arctan"}.get(_name, _name)):
        EXPRESSIONS["mdf", f"numpy.{ {'atan': 'arctan'}.get(_name, _name) }"] = guarded(_name)
        FUNCTIONS[f"{_name}_of"] = functools.partial(
            lambda run, x: float(run(x)), getattr(np, {"atan": "arctan"}.get(_name, _name))
        )
    if hasattr(math, _name) and _name not in _WRITTEN:
        EXPRESSIONS["mdf", f"math.{_name}"] = python_function(_name)
        FUNCTIONS[_name] = getattr(math, _name)


def _divide(a: float, b: float) -> float:
    """a / b where b is zero, as numpy has it."""
    return float(np.float64(a) / b)


def _power(a: float, b: float) -> float:
    """a ** b as numpy has it."""
    try:
        result = a**b
    except (OverflowError, ZeroDivisionError):
        return float(np.float64(a) ** np.float64(b))
    return result if type(result) is float else math.nan


def _whole(a: float) -> int:
    """A float as int64, cut off; what has no place there is left to numpy."""
    return int(a) if -9.2e18 < a < 9.2e18 else int(np.float64(a).astype(np.int64))


FUNCTIONS |= {"whole": _whole, "divide": _divide, "power": _power, "product": multiply, "inf": math.inf, "float64": np.float64}


def write_expression(domain: str, op: str, args: Sequence[Operand], result: Kind) -> tuple[str, bool] | None:
    """The expression of an operator, and whether what it gives may be out of the range of int64; None if there is none."""
    write = EXPRESSIONS.get((domain, op))
    if write is None or any(not (arg.kind.is_number or arg.kind.form == SCALAR) for arg in args):
        return None
    if not (result.is_number or result.form == SCALAR):
        return None
    text = write(args, result)
    if text is None:
        return None
    unchecked = result.form == INT and not result.weak and (domain, op) in RING
    if op in ("Identity", "Where", "choose", "numpy.where"):
        unchecked = unchecked and any(arg.unchecked for arg in args)
    return text, unchecked


def takes_any_range(domain: str, op: str) -> bool:
    """Whether an operator may be given whole numbers that left the range of int64."""
    return (domain, op) in RING - NEEDS_RANGE
