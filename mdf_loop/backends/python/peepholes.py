"""Shorter ways of numpy for single operations on arrays: a table, each with the figure that justifies it.

A peephole looks at one value, and says how it is written where it holds: as an expression, or into an array that is there
(``out``, empty where there is none).  The figures are microseconds before and after, on one core of an AMD EPYC (Zen 4).

Operands of other shapes than the result are repeated once, where numpy would go through them in short runs: of 500 x 1 x 2 less
1 x 8 x 2, 35 us by broadcasting and 4 us from operands that are repeated; the larger of 10,000 numbers and one, 4.7 us and 2.0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from mdf_loop.backends.python.numbers import is_native
from mdf_loop.backends.python.runtime import expanded
from mdf_loop.ir import record
from mdf_loop.kernels.numbers.transcendental import FAST, LEAST, sine, sine_into
from mdf_loop.step.records import Type, Value

if TYPE_CHECKING:
    from mdf_loop.backends.python.printer import Printer


EVEN = 1024
"""Terms of a sum up to which a product with ones loses no more digits than numpy's sum, which adds pairs of sums."""

LARGE = 1 << 14
"""Elements from which on a reduction finds an extreme as fast as a search for its place."""


@record
class Peephole:
    """One shorter way: for which operation, where it holds, how it is written, and what it saves."""

    op: str
    holds: Callable[[Value], bool]
    write: Callable[[Printer, Value, str], str]
    figure: str


def shorter(printer: Printer, value: Value, out: str = "") -> str | None:
    """The shorter way of a value, if there is one."""
    for peephole in PEEPHOLES:
        if peephole.op == value.op and peephole.holds(value):
            return peephole.write(printer, value, out)
    return None


def _sides(v: Value) -> tuple[int, int]:
    """How many sums there are, and terms in each, where leading or trailing axes are summed; 0 terms elsewhere."""
    shape, axes = v.args[0].type.shape or (), v.attr.axes
    if not v.args[0].type.is_static or 0 in shape:
        return 0, 0
    terms = math.prod(n for axis in axes if isinstance(n := shape[axis], int))
    sums = v.args[0].type.size // terms
    count = len(axes)
    is_side = axes in (tuple(range(count)), tuple(range(len(shape) - count, len(shape))))
    return (sums, terms) if is_side else (0, 0)


def _is_sum(v: Value) -> bool:
    return v.attr.kind == "sum" and v.type.dtype in (np.float32, np.float64) and 1 < _sides(v)[1] <= EVEN


def _sum_of_ones(p: Printer, v: Value, out: str) -> str:
    """Sums of rows, of columns or of everything as a product with ones."""
    (sums, terms), (x,) = _sides(v), v.args
    leading = v.attr.axes[0] == 0 and sums > 1
    matrix = (terms, sums) if leading else (sums, terms)
    ones = p.source.use(p.ones(terms, v.type.dtype), "k")
    given = p.boxed(x) if x.type.shape == matrix else f"{p.boxed(x)}.reshape({matrix!r})"
    if is_native(v.type):
        flat = p.boxed(x) if x.type.rank == 1 else f"{p.boxed(x)}.ravel()"
        return f"{flat}.dot({ones}).item()"
    if v.type.shape == ():
        return f"{p.boxed(x)}.ravel().dot({ones})"
    flat = out if v.type.shape == (sums,) else f"{out}.reshape({(sums,)!r})"
    first, second = (ones, given) if leading else (given, ones)
    if out:
        return f"{first}.dot({second}, {flat})"
    text = f"{first}.dot({second})"
    return text if v.type.shape == (sums,) else f"{text}.reshape({v.type.shape!r})"


def _is_extreme_of_all(v: Value) -> bool:
    static = v.args[0].type.is_static and is_native(v.type) and v.attr.kind in ("max", "min")
    return static and v.args[0].type.size < LARGE


def _by_place(p: Printer, v: Value, out: str) -> str:
    """The extreme of all elements by its place; of 0 and -0 the first one is not always numpy's."""
    x = p.name(v.args[0])
    text = f"{x}.item({x}.arg{v.attr.kind}())"
    if v.type.kind != "f":
        return text
    ufunc = np.maximum if v.attr.kind == "max" else np.minimum
    return f"{text} or {p.source.use(ufunc.reduce, 'r')}({x}, None).item()"


def _is_sine(v: Value) -> bool:
    return FAST and v.type.dtype == np.float64 and v.type.is_static and v.type.size >= LEAST


def _sine(p: Printer, v: Value, out: str) -> str:
    if out:
        return f"{p.source.use(sine_into)}({p.boxed(v.args[0])}, {out})"
    return f"{p.source.use(sine)}({p.boxed(v.args[0])})"


PEEPHOLES = (
    Peephole("reduce", _is_sum, _sum_of_ones, "sums of the rows of 32 x 32: 3.1, 0.9"),
    Peephole("reduce", _is_extreme_of_all, _by_place, "the largest of 1,000: 2.1, 0.6"),
    Peephole("sin", _is_sine, _sine, "the sine of 1,000: 9.6, 2.9 (with AVX-512)"),
)
"""All of them; the first that holds counts."""


SHORT = 32
"""Elements of a run below which numpy spends more on the next run than on the elements."""

LEAST_REPEATED, MOST_REPEATED = 64, 1 << 18
"""Elements of a result for which operands are repeated."""


def whole_operands(p: Printer, v: Value, args: list[str], target: str) -> list[str]:
    """What is written for the operands of a primitive that is written into ``target``."""
    size, args = v.type.size, list(args)
    if not LEAST_REPEATED <= size <= MOST_REPEATED:
        return args
    is_extreme, is_short = v.op in ("max", "min"), _run(v) < SHORT
    others = [k for k, x in enumerate(v.args) if x.type.shape != v.type.shape]
    for k in others:
        x = v.args[k]
        is_slow = is_extreme if x.type.is_number else is_short
        if is_slow and x.op == "const":
            args[k] = p.source.use(p.spread(x.attr, Type(x.type.dtype, v.type.shape)), "k")
        elif is_slow and p.is_outside(x):
            name = p.source.fresh("b")
            p.in_front(f"{name} = {p.source.use(expanded)}({p.boxed(x)}, {v.type.shape!r})")
            args[k] = name
    left = [k for k in others if not v.args[k].type.is_number and args[k] == p.boxed(v.args[k])]
    if is_short and len(left) == 1 and target not in args and v.args[left[0]].type.dtype == v.type.dtype:
        p.source.line(f"{target}[...] = {args[left[0]]}")
        args[left[0]] = target
    return args


def _run(v: Value) -> int:
    """Elements that numpy goes through in one run: trailing axes that each operand has whole, or not at all."""
    shapes = [(1,) * ((v.type.rank or 0) - (x.type.rank or 0)) + (x.type.shape or ()) for x in v.args if x.type.shape]
    run = 1
    for column in zip(*map(reversed, shapes), strict=True):
        longest = max(n for n in column if isinstance(n, int))
        if longest > 1 and 1 in column:
            return run if run > 1 else longest  # a column beside rows: runs along the rows
        run *= longest
    return run
