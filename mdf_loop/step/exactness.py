"""Whether a Step gives the same bits in every engine, and however many of it are computed at once.

What each primitive does to the last place is a field of its row; sums and products depend on the order of their terms.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from mdf_loop.step.primitives import PRIMITIVES
from mdf_loop.step.records import Apply, Region, Value
from mdf_loop.step.structure import values_in

SHORT = 8
"""Terms from which on the order in which they are added up is each engine's own."""


def gives_same_bits(region: Region) -> bool:
    """Whether a Step gives the same bits in all engines, and however many are computed at once."""
    return not any(is_inexact(v) or adds_up(v) or _is_unknown(v) for v in _values_of(region))


def adds_up_little(region: Region) -> bool:
    """Whether a Step adds up, or multiplies, no more numbers than all engines do in one order."""
    return not any(map(adds_up, _values_of(region)))


def is_inexact(value: Value) -> bool:
    """Whether the last place of an operation's floats depends on how many numbers a processor works on."""
    return value.op in PRIMITIVES and not PRIMITIVES[value.op].is_exact and value.type.kind not in "biu"


def _is_unknown(value: Value) -> bool:
    """Whether it is an operator of which only its kernel says what it computes; what draws does so in every engine alike."""
    return isinstance(value.attr, Apply) and value.attr.definition is None and value.attr.drawn is None


def adds_up(value: Value) -> bool:
    """Whether an operation adds up or multiplies so many floats that their order counts."""
    if value.op == "dot":
        return value.type.kind not in "biu"
    if value.op != "reduce" or value.attr.kind not in ("sum", "prod"):
        return False
    shape = value.args[0].type.shape
    lengths = [None if shape is None else shape[axis] for axis in value.attr.axes]
    return math.prod(n if isinstance(n, int) else SHORT for n in lengths) >= SHORT


def _values_of(region: Region) -> Iterator[Value]:
    """The values of a Step, those of its operators as a whole among them."""
    for value in values_in(region):
        yield value
        if isinstance(value.attr, Apply) and value.attr.definition is not None:
            yield from _values_of(value.attr.definition)
