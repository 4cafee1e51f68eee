"""One iteration of a loop for many lanes: its Step with a leading axis (:mod:`mdf_loop.step.vmap`), printed as Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from mdf_loop.backends.python.printer import program
from mdf_loop.ir import Loop
from mdf_loop.ops.rows import Draw
from mdf_loop.step.build import CannotLower
from mdf_loop.step.check import checked
from mdf_loop.step.memory import read_by
from mdf_loop.step.records import Apply, Size, Type, Value
from mdf_loop.step.structure import adds_up, gives_same_bits, is_inexact, regions_of, values_in
from mdf_loop.step.vmap import Row, Vmap, are_floats
from mdf_loop.sweeps.lanes.drawn_nodes import NUMBER, Iteration, lowered


class LaneForm(NamedTuple):
    """The types of some values in one lane, and whether they have a row for each."""

    types: tuple[Type, ...]
    flags: tuple[bool, ...]


@dataclass(frozen=True)
class LaneProgram:
    """One iteration of a loop as two functions of many lanes.

    Attributes
    ----------
    begin : callable
        ``begin(run, lanes, *outer)`` gives what every iteration reads.
    iterate : callable
        ``iterate(run, index, *carried, *parts, *numbers, *read)`` gives the condition, the next carried values, last and
        collected ones, then what must be false in all lanes.
    carried, following : LaneForm
        Carried values as the iteration takes them, and as the next one will get them.
    read, results : tuple of bool
        Which of these have a row for each lane.
    drawn : sequence of Draw
        The numbers, in the order in which they are drawn.
    """

    begin: Callable[..., tuple[Any, ...]]
    iterate: Callable[..., tuple[Any, ...]]
    carried: LaneForm
    following: LaneForm
    read: tuple[bool, ...]
    results: tuple[bool, ...]
    drawn: Sequence[Draw]

    @cached_property
    def is_settled(self) -> bool:
        """Whether the next iteration is one for the same program."""
        return self.carried == self.following


def lane_program(loop: Loop, carried: LaneForm, parts: LaneForm, outer: LaneForm, is_shared: bool) -> LaneProgram:
    """The program of an iteration for many lanes.

    Parameters
    ----------
    loop : Loop
    carried, parts, outer : LaneForm
        Carried values, parts of scanned ones, and what is the same in all iterations.
    is_shared : bool
        Whether a lane alone is run by numpy as well, which then gives the same bits for what all lanes have in common.

    Raises
    ------
    CannotLower
        It has to be run lane by lane, or gives other bits there.
    """
    one = lowered(loop, carried.types, parts.types, outer.types)
    if not is_shared and not (gives_same_bits(one.outer) and gives_same_bits(one.body)):
        raise CannotLower("its last places depend on the engine")
    begin, read = _beginning(one, outer.flags)
    ends, flags = tuple(x.type for x in one.body.results[1 : 1 + len(carried.types)]), carried.flags
    unchanged = [end == type for end, type in zip(ends, carried.types, strict=True)]
    while True:
        many, found = _iteration(one, (*flags, *parts.flags), read)
        taken = tuple(flag or (same and row[1]) for flag, same, row in zip(flags, unchanged, found[1:], strict=False))
        if taken == flags:
            break
        flags = taken
    following = tuple(flag if same else row[1] for flag, same, row in zip(flags, unchanged, found[1:], strict=False))
    given = [(many.everywhere(*row) if flag else row[0], flag) for row, flag in zip(found[1:], following, strict=False)]
    results = [found[0], *given, *found[1 + len(given) :]]
    refused = [many.b.reduce(x, "any", range(x.type.rank or 0)) for x in many.wrong]
    return LaneProgram(
        begin.printed([row for _, (row, _) in read]),
        many.printed([*(row for row, _ in results), *refused]),
        LaneForm(carried.types, flags),
        LaneForm(ends, following),
        tuple(flag for _, (_, flag) in read),
        tuple(flag for _, flag in results),
        one.drawn,
    )


Read = Sequence[tuple[Value, Row]]
"""What an iteration reads that is computed in front of it, and what became of it."""


def _beginning(one: Iteration, flags: Sequence[bool]) -> tuple[LaneMap, Read]:
    """What stands in front of the iterations, of values that have rows as ``flags`` say."""
    made = LaneMap()
    made.param(Value("param", (), NUMBER), True)
    for param, flag in zip(one.outer.params, flags, strict=True):
        made.param(param, flag)
    made.values(one.outer.values)
    return made, [(x, made.row(x)) for x in _read_outside(one)]


def _read_outside(one: Iteration) -> list[Value]:
    inside, read = set(values_in(one.body)), [*one.body.results, *one.wrong]
    todo = [one.body]
    for region in todo:
        for value in region.values:
            read += read_by(value)
            if isinstance(value.attr, Apply) and value.attr.definition is not None:
                inside.update(value.attr.definition.values)
                todo.append(value.attr.definition)
            todo += regions_of(value)
    return [x for x in dict.fromkeys(read) if x not in inside and x.op != "const"]


def _iteration(one: Iteration, flags: Sequence[bool], read: Read) -> tuple[LaneMap, list[Row]]:
    """An iteration for many lanes, and its results; carried values and parts have rows as ``flags`` say."""
    made, (index, *params) = LaneMap(), one.body.params
    made.param(index, False)
    for k, param in enumerate(params):
        made.param(param, flags[k] if k < len(flags) else True)  # numbers that are drawn are behind the others
    for value, (row, flag) in read:
        made.param(value, flag, row.type)
    made.values(one.body.values)
    made.wrong += [made.row(x)[0] for x in one.wrong]
    return made, [made.row(x) for x in one.body.results]


class LaneMap(Vmap):
    """A Step on its way to many lanes.

    Attributes
    ----------
    wrong : list of Value
        What is true in a lane of which only running it alone says what is wrong.
    """

    def __init__(self) -> None:
        super().__init__(Size("lanes"))
        self.wrong: list[Value] = []

    def param(self, value: Value, flag: bool, type: Type | None = None) -> None:
        """A parameter in the place of a value, with a row for each lane or not; of the type that it has so."""
        made = self.b.param(type or self.type(value.type, flag), len(self.rows))
        self.rows[value] = made, flag
        if flag and self.count is None:
            self.count = made

    def printed(self, results: Sequence[Value]) -> Callable[..., tuple[Any, ...]]:
        """The function of what was made."""
        return program(checked(self.b.closed(results)), is_block=True)[0]

    def value(self, v: Value, xs: Sequence[Value], flags: Sequence[bool]) -> Row:
        """One value, of what its arguments became, if each lane alone gives the same bits."""
        found = super().value(v, xs, flags)
        if found[1] and (is_inexact(v) or _depends_on_order(v)):
            raise CannotLower(f"{v.op} may differ in the last place for many lanes at once")
        return found

    def refuse_python(self, v: Value, xs: Sequence[Value]) -> None:
        """See that numpy's rows of Python's numbers become what Python's numbers would; which divides by nothing but 0."""
        if v.op != "div" or len(self.b.mark()) > 1 or not are_floats(v.args):
            super().refuse_python(v, xs)
        elif xs[1].op != "const" or not xs[1].attr:
            self.wrong.append(self.b.element("eq", xs[1], 0.0))


_ADDED_IN_ORDER = {np.dtype(np.float32), np.dtype(np.float64)}
"""Floats of which numpy adds few terms one after the other; shorter ones it may add up in longer ones."""


def _depends_on_order(v: Value) -> bool:
    """Whether terms are added up in an order that memory says."""
    if adds_up(v):
        return True
    if v.op != "reduce" or v.attr.kind not in ("sum", "prod") or v.type.kind in "biu":
        return False
    shape = v.args[0].type.shape or ()
    return v.type.dtype not in _ADDED_IN_ORDER or sum(shape[axis] != 1 for axis in v.attr.axes) > 1
