"""Lists that loops carry and branches give: wherever they can be, they are arrays there.

One that a loop makes from nothing, and that is not read inside, is what the loop collects.  Of one that begins empty the
element type is that of what is put in: the loop is lowered once to see it, and then again.  A list of elements of several types
or shapes stays one, and what reads it a kernel.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace

from mdf_loop.ir import Body, Carried, Collected, Loop, Node
from mdf_loop.ops.registry import facts
from mdf_loop.step.build import Builder
from mdf_loop.step.python_values import Filling, is_empty, row_of, row_type
from mdf_loop.step.records import UNKNOWN, Region, Size, Type, Value


class CarriedList:
    """A carried list: an array, as soon as it is known what its elements are.

    Attributes
    ----------
    initial : Value
        What it is at the beginning, as it goes into the loop.
    type : Type
        Of the array; nothing is known of a list.
    is_none : bool
        Whether it cannot be an array.
    """

    def __init__(self, b: Builder, given: Value) -> None:
        self.b, self.given, self.is_none = b, given, False
        self.initial, self.type = (given, UNKNOWN) if is_empty(given) else (given.args[0], given.args[0].type)
        self.filling = Filling()
        self._learned: Type | None = None

    @property
    def _is_array(self) -> bool:
        return self.type.dtype is not None

    def inside(self, value: Value) -> Value:
        """The list that the body reads."""
        return self.b.rows(value) if self._is_array else self.b.rows(filling=self.filling)

    def behind(self, value: Value) -> Value:
        """The list behind the loop; one to which nothing is added is what it was."""
        return self.b.rows(value) if self._is_array else self.given

    def end(self, state: Value, value: Value) -> Value:
        """What goes into the next iteration, and what is to be learned from it."""
        row = row_type(value.args[0]) if value.op == "rows" and value.args else None
        self._learned = self._found(value, row)
        if not self._is_array:
            return state
        return self.b.no_rows(row_of(self.type)) if row is None else value.args[0]

    def _found(self, value: Value, row: Type | None) -> Type | None:
        """The type that its elements turn out to have, unless it is what was known; UNKNOWN if there is none."""
        known = row_of(self.type) if self._is_array else self.filling.type or row
        if known is None:
            return None if is_empty(value) else UNKNOWN
        if known.dtype is None or (self._is_array and row != known and not is_empty(value)):
            return UNKNOWN
        return None if self._is_array else known

    def has_learned(self) -> bool:
        """Whether it is known better now what it is."""
        row = self._learned
        if row is None:
            return False
        self.is_none = row.dtype is None
        self.type = UNKNOWN if self.is_none else Type(row.dtype, (Size(), *(row.shape or ())))
        self.initial = self.given if self.is_none else self.b.no_rows(row)
        return True


def carried_lists(b: Builder, carried: Sequence[Value]) -> dict[int, CarriedList]:
    """The lists among carried values, by their places, of which an array may be made."""
    found = [k for k, x in enumerate(carried) if x.op == "rows" and (not x.args or row_type(x.args[0]) is not None)]
    return {k: CarriedList(b, carried[k]) for k in found}


def alike(b: Builder, then: Region, other: Region) -> tuple[Region, Region, dict[int, Callable[[Value], Value]]]:
    """Two branches with arrays in the place of the lists that both give, and what makes lists of them again."""
    sides = list(then.results), list(other.results)
    lists: dict[int, Callable[[Value], Value]] = {}
    for k, pair in enumerate(zip(*sides, strict=False)):
        if any(x.op != "rows" for x in pair):
            continue
        rows = {row_type(x.args[0]) for x in pair if x.args}
        (row,) = rows if len(rows) == 1 else (None,)
        if row is not None:
            for side, x in zip(sides, pair, strict=True):
                side[k] = x.args[0] if x.args else b.no_rows(row)
            lists[k] = b.rows
        elif not rows:  # two empty ones, made again behind the branch; the carried one learns what is put in
            sides[0][k] = sides[1][k] = b.const(None)
            lists[k] = functools.partial(lambda filling, _: b.rows(filling=filling), pair[0].attr or pair[1].attr)
    return replace(then, results=tuple(sides[0])), replace(other, results=tuple(sides[1])), lists


def with_lists(b: Builder, results: Sequence[Value], places: Sequence[int]) -> Sequence[Value]:
    """The results of a loop that collects what would go into lists, with the lists where they were."""
    found, count = list(results), len(results) - 2 - len(places)  # behind them: how many iterations, the last condition
    rows = [b.rows(x) for x in found[count:-2]]
    del found[count:-2]
    for place, x in zip(places, rows, strict=True):
        found.insert(place, x)
    return found


def collecting(record: Loop, carried: Sequence[Value]) -> tuple[Loop, list[Value], list[int]]:
    """The loop that collects what it put behind lists, last of all.

    Returns
    -------
    tuple of (Loop, list of Value, list of int)
        The loop, what it still carries, and the places that the lists had among carried values.
    """
    found, places = record, []
    for k, (value, initial) in enumerate(zip(record.carried, carried, strict=True)):
        node = _appending(record.body, value) if is_empty(initial) else None
        if node is not None:
            body = found.body
            body = replace(
                body,
                inputs=tuple(name for name in body.inputs if name != value.input),
                outputs=(*(name for name in body.outputs if name != value.output), node.inputs[1]),
                nodes=tuple(other for other in body.nodes if other is not node),
            )
            rest = tuple(other for other in found.carried if other is not value)
            found = replace(found, body=body, carried=rest, collected=(*found.collected, Collected(node.inputs[1])))
            places.append(k)
    return found, [x for k, x in enumerate(carried) if k not in places], places


def _appending(body: Body, value: Carried) -> Node | None:
    """The node that puts a value behind a list, if nothing else reads the list."""
    readers = [node for node in body.nodes if {value.input, value.output} & set(node.reads)]
    if len(readers) != 1 or body.outputs.count(value.output) != 1 or value.input in body.outputs:
        return None
    (node,) = readers
    appends = facts(node).appends and len(node.inputs) == 2 and node.inputs[0] == value.input != node.inputs[1]
    return node if appends and node.outputs == (value.output,) else None
