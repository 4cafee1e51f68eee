"""A Step without operators that have a definition: their primitives stand in their place, and what is computed twice once.

What does not change from iteration to iteration moves in front of the loop on the way, as the builder has it.  Machine code
looks at lengths when it runs, and leaves what is empty to the interpreter: so a few operators have a definition of their own for
it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from mdf_loop.ir import Node
from mdf_loop.ops.registry import lookup
from mdf_loop.ops.rows import FOR_PROGRAMS
from mdf_loop.step.before_lowering import allows
from mdf_loop.step.build import Builder, CannotLower
from mdf_loop.step.check import checked, same
from mdf_loop.step.primitives import broadcast_shape
from mdf_loop.step.records import Apply, BranchRegion, Length, LoopRegion, Region, Type, Value
from mdf_loop.step.structure import Uses, may_end, uses_of


def inlined(region: Region) -> Region:
    """The same Step in primitives, as far as there are definitions."""
    return checked(_Rewriting(uses_of(region)).whole(region))


class ProgramBuilder(Builder):
    """Makes the values of a program.

    Products of matrices are numpy's own, a call of BLAS, where that is faster.  The place of an extreme gets the extreme as well.
    """

    def __init__(self) -> None:
        super().__init__()
        self.takes_open = True

    def dot(self, x: Value, y: Value) -> Value:
        """numpy's matmul."""
        (*left, _), (*right, columns) = x.type.shape or (), y.type.shape or ()
        shape = broadcast_shape([tuple(left[:-1]), tuple(right[:-1])]) or ()
        return self.put_in("dot", (x, y), Type(x.type.dtype, (*shape, *left[-1:], *([columns] if right else []))))

    def put_in(self, op: str, args: Sequence[Value], type: Type, attr: Any = None) -> Value:
        """A value, as it is said."""
        if op == "dot" and type.kind == "f" and type.is_static and are_large(*[x.type.shape or () for x in args]):
            op, attr = "apply", NUMPYS
        elif op == "reduce" and attr.kind.startswith("arg"):
            args = (*args, self.reduce(args[0], attr.kind.removeprefix("arg"), attr.axes))
        return super().put_in(op, args, type, attr)


class _Rewriting:
    """Values of the old Step by values of the new one."""

    def __init__(self, uses: Uses) -> None:
        self.b, self.uses = ProgramBuilder(), uses
        self.now: dict[Value, Value] = {}
        self.rows = KnownRows()

    def whole(self, region: Region) -> Region:
        """All of it."""
        self._params(region)
        return self.b.closed(self._values(region))

    def _params(self, region: Region) -> None:
        for param in region.params:
            self.now[param] = self.b.param(param.type, param.attr)

    def _values(self, region: Region) -> list[Value]:
        for value in region.values:
            self._value(value)
        return [self.of(x) for x in region.results]

    def of(self, value: Value) -> Value:
        """The new value."""
        return value if value.op == "const" else self.now[value]

    def _value(self, value: Value) -> None:
        attr = value.attr
        if isinstance(attr, LoopRegion):
            self._loop(value, attr)
        elif isinstance(attr, BranchRegion):
            then, other = (self._inside(region) for region in (attr.then, attr.other))
            self.now[value] = self.b.put_in("branch", [self.of(value.args[0])], value.type, BranchRegion(then, other))
        elif isinstance(attr, Apply) and attr.definition is not None:
            self._definition(value, attr)
        elif isinstance(attr, Apply) and (found := in_primitives(self.b, value, [self.of(x) for x in value.args])) is not None:
            self.now[value] = found
        elif value not in self.now and (value.op != "item" or value.args[0] in self.now):
            self.now[value] = self._put(value)

    def _definition(self, value: Value, attr: Apply) -> None:
        assert attr.definition is not None
        results = self._values(attr.definition)
        if attr.results == 1:
            self.now[value] = results[0]
        for k, item in self.uses.items_of(value):
            self.now[item] = results[k]

    def _loop(self, value: Value, attr: LoopRegion) -> None:
        count, condition, initial, scanned, _ = attr.split(value.args)  # the operands of the operator as a whole stay behind
        args = [self.of(x) for x in (count, condition, *initial, *scanned)]
        outer, self.rows = self.rows, KnownRows.of(attr, args)
        body = self._inside(attr.body, attr)
        self.rows = outer
        self.now[value] = self.b.put_in("loop", args, value.type, replace(attr, body=body, whole=None))

    def _inside(self, region: Region, loop: LoopRegion | None = None) -> Region:
        with self.b.region(is_loop=loop is not None) as close:
            self._params(region)
            if loop is not None:
                self.rows.enter(self.now[loop.index], [self.now[x] for x in loop.parts])
            return close(self._values(region))

    def _put(self, value: Value) -> Value:
        args = [self.of(x) for x in value.args]
        row = self._row_of_all(value, *args) if value.op == "dot" else None
        return row or self.b.put_in(value.op, args, value.type, value.attr)

    def _row_of_all(self, value: Value, x: Value, y: Value) -> Value | None:
        """A product of one row of an array with a matrix that stays the same: the row of a product in front of the loop."""
        b, found = self.b, self.rows.row(x)
        if found is None or not b.is_outside(y) or y.type.rank != 2:
            return None
        whole, where = found
        if not b.is_outside(whole):
            return None
        if not whole.type.is_static or whole.type.rank not in (2, 3) or not y.type.is_static or not value.type.is_static:
            return None
        *rows, terms = (n for n in whole.type.shape or () if isinstance(n, int))
        columns = (y.type.shape or ())[1]
        if not isinstance(columns, int) or not self.rows.is_worth(rows[0]) or math.prod(rows) * columns > MOST_AHEAD:
            return None
        flat = b.reshape(whole, (math.prod(rows), terms))
        stacked = b.reshape(b.dot(flat, y), (*rows, columns))
        if where is None:
            where = self.rows.place(b, x, rows[0])
        return b.put_in("place", (stacked, where), Type(value.type.dtype, (*rows[1:], columns)))


LARGE, FEWEST_ROWS = 1 << 27, 64
"""Products of two numbers from which on numpy's product of matrices is faster, and rows and columns that both have to have."""

NUMPYS = Apply(Node("numpy.matmul", ("x", "y"), ("product",), domain="mdf"), np.matmul)
"""That product."""


def are_large(left: Sequence[Length], right: Sequence[Length]) -> bool:
    """Whether matrices have so many rows, terms and columns."""
    lengths = [n for n in (*left[-2:], *right[-1:]) if isinstance(n, int)]
    return len(lengths) == 3 and len(right) > 1 and min(lengths) >= FEWEST_ROWS and math.prod(lengths) >= LARGE


MOST_AHEAD = 1 << 22
"""Elements of products that are computed in front of a loop."""


@dataclass
class KnownRows:
    """What is known of the loop whose body is being written: which of its values are rows of arrays that are there before."""

    count: int = 0
    scanned: tuple[tuple[Value, bool], ...] = ()
    index: Value | None = None
    parts: dict[Value, tuple[Value, bool]] = field(default_factory=dict)

    @classmethod
    def of(cls, attr: LoopRegion, args: Sequence[Value]) -> KnownRows:
        """A loop that runs as often as is known beforehand; another one has no rows."""
        if may_end(attr):
            return cls()
        trip_count, _, _, arrays, _ = attr.split(args)
        lengths = [x.type.shape[0] for x in arrays if x.type.shape]
        count = trip_count.attr if attr.has_count and trip_count.op == "const" else lengths[0] if lengths else UNKNOWN_COUNT
        if any(s.axis for s in attr.scanned) or not isinstance(count, int | np.integer):
            return cls()
        scanned = tuple((x, s.reverse) for x, s in zip(arrays, attr.scanned, strict=True))
        return cls(int(count), scanned)

    def enter(self, index: Value, parts: Sequence[Value]) -> None:
        """The iteration number, and the parts of scanned arrays."""
        self.index, self.parts = index, dict(zip(parts, self.scanned, strict=False))

    def row(self, x: Value) -> tuple[Value, Value | None] | None:
        """The array of which a value is a row, and the place of the row; None for the one of this iteration."""
        if not self.count:
            return None
        if x in self.parts:
            return self.parts[x][0], None
        if x.op == "place" and len(x.args) == 2 and x.args[1].op == "place_in" and x.args[1].args[0] is self.index:
            return x.args[0], x.args[1]
        return None

    def place(self, b: Builder, part: Value, length: int) -> Value:
        """The place of this iteration's row of a scanned array."""
        assert self.index is not None
        return b.sub(b.const(np.int64(length - 1)), self.index) if self.parts[part][1] else self.index

    def is_worth(self, rows: int) -> bool:
        """Whether most rows are asked for, as far as one can tell."""
        return FEWEST <= rows <= (MOST_GUESSED if self.count == UNKNOWN_COUNT else 2 * self.count)


FEWEST, MOST_GUESSED = 4, 1024
"""Rows from which on products with one matrix are computed together, and up to which where the run alone knows how many count."""

UNKNOWN_COUNT = -1
"""The number of iterations of a loop that is known when it begins."""


def in_primitives(b: Builder, value: Value, args: Sequence[Value]) -> Value | None:
    """What an operator is in primitives; None if it is not one of these, or is of another type than was inferred."""
    node: Node = value.attr.node
    define, given = FOR_PROGRAMS.get(node.op), [None if x.op == "const" and x.attr is None else x for x in args]
    if define is None or any(x is not None and not x.type.is_known for x in given) or not is_onnxs(node, args):
        return None
    mark = b.mark()
    try:
        found = define(b, node, *given)
        if not value.type.is_known or same(found.type, value.type):
            return found
    except (ValueError, CannotLower):
        pass
    b.rewind(mark)
    return None


def is_onnxs(node: Node, args: Sequence[Value]) -> bool:
    """Whether a node is ONNX's, may be given such values, and its kernel has not been replaced by a user's."""
    types = [None if x.type.dtype is None else x.type for x in args]
    return not node.domain and lookup(node.op, node.opset).built_in and allows(node, types)
