"""What the condition of a loop is computed of, and what is nan or infinite."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterable
from typing import Any

import numpy as np

from mdf_loop.ir import Body, Loop, Node
from mdf_loop.ops.registry import facts

MOST = 1 << 16
"""Elements of a value that is looked at for nan: a loop must not cost more for this."""

FEW = 1 << 12
"""Elements of what a loop has collected that is looked at as a whole for infinity."""


def part_computing(body: Body, outputs: Iterable[str], known: Container[str] = ()) -> Body:
    """The nodes that compute some values, as a body whose inputs are what it reads from outside, or is known."""
    needed, nodes = set(outputs), list[Node]()
    for node in reversed(body.nodes):
        if not needed.isdisjoint(node.outputs) and any(name in needed and name not in known for name in node.outputs):
            nodes.append(node)
            needed.update(node.reads)
    made = {output for node in nodes for output in node.outputs if output not in known}
    inputs = tuple(sorted(needed - made - body.constants.keys() - {""}))
    constants = {name: value for name, value in body.constants.items() if name in needed}
    return Body(body.name, inputs, tuple(outputs), tuple(nodes[::-1]), constants, opsets=body.opsets, typed=body.typed)


def compared(loop: Loop) -> tuple[set[str], set[str]]:
    """What comparisons behind the condition compare, and all that this is computed of: back to what is carried or captured."""
    joined, compared, read = {loop.keep_going or ""}, set[str](), set[str]()
    known = {c.output for c in loop.carried}
    for node in reversed(loop.body.nodes):
        if not joined.isdisjoint(node.outputs):
            compares = facts(node).compares
            compared.update(node.reads if compares else ())
            joined.update(() if compares else node.reads)
        if any(name in read or name in compared for name in node.outputs if name not in known):
            read.update(node.reads)
    return compared, read | compared


_FLOATS = float, np.inexact


def has_nan(value: Any) -> bool:
    """Whether a value is nan, or an array with nan in it."""
    if isinstance(value, np.ndarray):  # to count takes a quarter of the time of ``any`` for short arrays
        return value.dtype.kind in "fc" and bool(np.count_nonzero(np.isnan(value)))
    return isinstance(value, _FLOATS) and bool(value != value)


def shows_nan(value: Any) -> bool:
    """The same of a value that is small enough to be looked at after each run."""
    kind = type(value)
    if kind is np.float64 or kind is float:
        return bool(value != value)
    return (kind is not np.ndarray or value.size <= MOST) and has_nan(value)


def is_nan(value: Any) -> bool:
    """Whether a collected value is nan from the first number to the last."""
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "fc" or not 0 < value.size <= MOST:
        return False
    return bool(np.isnan(value.flat[0]) and np.isnan(value).all())


def has_inf(value: Any) -> bool:
    """Whether a value is infinite, or an array with infinity in it."""
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "fc" and bool(np.count_nonzero(np.isinf(value)))
    return isinstance(value, _FLOATS) and bool(np.isinf(value))


def shows_inf(value: Any) -> bool:
    """The same of a value that is small enough to be looked at after each run; of a longer one its first and last row."""
    kind = type(value)
    if kind is np.float64 or kind is float:
        return math.isinf(value)
    return has_inf(value if kind is not np.ndarray or value.size <= FEW else value[:: max(len(value) - 1, 1)][:MOST])


def shows_odd(value: Any, most: int) -> bool:
    """Whether a value has nan or infinity in it, or a row at its ends if it has more numbers than ``most``: one look for both."""
    kind = type(value)
    if kind is np.float64 or kind is float:
        return not math.isfinite(value)
    if kind is not np.ndarray:
        return has_nan(value) or has_inf(value)
    if value.dtype.kind not in "fc":
        return False
    looked_at = value if value.size <= most else value[:: max(len(value) - 1, 1)][:MOST]
    return bool(np.count_nonzero(np.isfinite(looked_at)) != looked_at.size)


def writes_nan(body: Body, is_odd: Callable[[Any], bool] = has_nan) -> bool:
    """Whether a body has nan as a constant, so that nan is meant; or what ``is_odd`` finds."""
    inner = (part for node in body.nodes for _, part in node.bodies)
    return any(map(is_odd, body.constants.values())) or any(writes_nan(part, is_odd) for part in inner)
