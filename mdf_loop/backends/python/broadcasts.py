"""Operands of other shapes than the result, where numpy would go through them in short runs: repeated once instead.

Of 500 x 1 x 2 less 1 x 8 x 2, 35 us by broadcasting and 4 us from operands that are repeated; the larger of 10,000 numbers and
one, 4.7 us and 2.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mdf_loop.backends.python.runtime import expanded
from mdf_loop.step.records import Type, Value

if TYPE_CHECKING:
    from mdf_loop.backends.python.printer import Printer

SHORT = 32
"""Elements of a run below which numpy spends more on the next run than on the elements."""

LEAST, MOST = 64, 1 << 18
"""Elements of a result for which operands are repeated."""


def whole_operands(p: Printer, v: Value, args: list[str], target: str) -> list[str]:
    """What is written for the operands of a primitive that is written into ``target``."""
    size, args = v.type.size, list(args)
    if not LEAST <= size <= MOST:
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
