"""A Step for many at once: each value that differs gets a leading axis, by one rule for each operation.

What is the same for all stays as it is, and is computed once.  Numbers of Python's own become rows of numpy's, cast to what they
would become beside what they meet.  What Python would refuse for one of them (a division by 0), and what cannot be the same
operation for all (a loop that ends earlier for some), is refused here: those Steps run one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np

from mdf_loop.step.build import Builder, CannotLower
from mdf_loop.step.check import checked
from mdf_loop.step.primitives import INT64, PRIMITIVES
from mdf_loop.step.records import UNKNOWN, Apply, BranchRegion, Length, LoopRegion, Region, Size, Type, Value
from mdf_loop.step.structure import may_end

Row = tuple[Value, bool]
"""A value, and whether it has the leading axis."""


def vmap(region: Region, stacked: Sequence[bool], length: Length) -> tuple[Region, tuple[bool, ...]]:
    """A Step for so many at once, and which of its results have a leading axis; the others are the same for all.

    Parameters
    ----------
    region : Region
    stacked : sequence of bool
        Which parameters have a leading axis; a parameter that is a number of Python's is a vector of numpy's then.
    length : int or Size
        How long the axis is.

    Raises
    ------
    CannotLower
        Something in it has no form for many at once.

    >>> from mdf_loop.step.printed import printed
    >>> b = Builder()
    >>> x, y = (b.param(Type(np.dtype(np.float64), (3,)), k) for k in range(2))
    >>> many, _ = vmap(b.closed([b.mul(b.reduce(x, "sum", [0]), y)]), [True, False], 5)
    >>> print(printed(many))
    step (a: float64[5,3], b: float64[3]) {
      v1: float64[5] = reduce sum over 1 a
      v2: float64[5,1] = reshape [5,1] v1
      v3: float64[5,3] = mul v2, b
      give v3
    }
    """
    made = Vmap(length)
    for param, is_stacked in zip(region.params, stacked, strict=True):
        made.rows[param] = made.b.param(made.type(param.type, is_stacked), param.attr), is_stacked
    made.count = next((x for x, is_stacked in made.rows.values() if is_stacked), None)
    made.values(region.values)
    found = [made.row(x) for x in region.results]
    return checked(made.b.closed([x for x, _ in found])), tuple(is_stacked for _, is_stacked in found)


class Vmap:
    """A Step on its way to many at once.

    Attributes
    ----------
    b : Builder
    rows : dict of Value to (Value, bool)
        What became of each value, and whether it has a leading axis.
    items : dict of Value to callable
        What makes, of a result of an operation that has several, the same for many.
    """

    def __init__(self, length: Length) -> None:
        self.b, self.length = Builder(), length
        self.count: Value | None = None
        self.rows: dict[Value, Row] = {}
        self.items: dict[Value, Callable[[Value], Row]] = {}

    def row(self, value: Value) -> Row:
        """What became of a value."""
        return self.rows[value] if value.op != "const" else (value, False)

    def type(self, type: Type, is_stacked: bool = True) -> Type:
        """The type of a value that gets a leading axis."""
        if not is_stacked:
            return type
        if type.dtype is None or type.shape is None or type.kind not in "biufcV":
            raise CannotLower(f"many values of type {type} at once")
        return Type(type.dtype, (self.length, *type.shape))

    def values(self, values: Iterable[Value]) -> None:
        """Values, one after the other."""
        for value in values:
            rows = [self.row(x) for x in value.args] if value.op != "item" else []
            self.rows[value] = self.value(value, [x for x, _ in rows], [is_stacked for _, is_stacked in rows])

    def value(self, v: Value, xs: Sequence[Value], flags: Sequence[bool]) -> Row:
        """One value, of what its arguments became."""
        if v.op == "item":
            return self.items[v.args[0]](v)
        if v.op == "apply":
            return self._apply(v, xs, flags)
        if v.op == "loop":
            return self._loop(v, xs, flags)
        if v.op == "branch":
            return self._branch(v, xs[0], flags[0])
        if not any(flags):
            return self.b.put_in(v.op, xs, v.type, v.attr), False
        if v.op == "length":
            return self.b.length(xs[0], v.attr + 1), False
        if v.op in PRIMITIVES:
            return self._element(v, xs, flags), True
        if v.op not in RULES:
            raise CannotLower(f"{v.op} for many at once")
        found = RULES[v.op](self, v, xs, flags)
        if found.type.dtype != v.type.dtype or found.type.rank != (v.type.rank or 0) + 1:
            raise CannotLower(f"{v.op} as {found.type}")
        return found, True

    # Values with and without the axis

    def everywhere(self, x: Value, is_stacked: bool) -> Value:
        """A value with the leading axis, repeated if it has none."""
        if is_stacked:
            return x
        shape = self.type(x.type).shape
        assert shape is not None
        assert self.count is not None
        lengths = [self.b.length(self.count, 0)] if isinstance(self.length, Size) else []
        lengths += [self.b.length(x, k) for k, n in enumerate(shape[1:]) if isinstance(n, Size)]
        one = self.b.const(x.type.dtype.type(x.attr)) if x.type.weak and x.op == "const" else x  # type: ignore[union-attr]
        return self.b.broadcast(self.b.cast(one, x.type.dtype), shape, lengths)  # type: ignore[arg-type]

    def aligned(self, xs: Sequence[Value], flags: Sequence[bool]) -> list[Value]:
        """Values that broadcast as they do without the axis: ones behind it, where the rank is lower."""
        rank = max((x.type.rank or 0) - flag for x, flag in zip(xs, flags, strict=True))
        return [self.padded(x, rank) if flag else x for x, flag in zip(xs, flags, strict=True)]

    def padded(self, x: Value, rank: int) -> Value:
        """A stacked value with ones behind the leading axis, as far as ``rank`` has more axes."""
        first, *others = x.type.shape or ()
        return self.b.reshape(x, (first, *(1,) * (rank - len(others)), *others))

    def _element(self, v: Value, xs: Sequence[Value], flags: Sequence[bool]) -> Value:
        if v.type.weak:
            self._refuse_python(v, xs)
        elif PRIMITIVES[v.op].is_python:
            raise CannotLower(f"{v.op} for many at once")
        found = self.b.element(v.op, *self.aligned(xs, flags))
        if found.type.dtype != v.type.dtype:
            raise CannotLower(f"{v.op} as {found.type}")
        return found

    def _refuse_python(self, v: Value, xs: Sequence[Value]) -> None:
        """See that numpy's rows of Python's numbers become what Python's numbers would: of floats, or of truth values.

        Raises
        ------
        CannotLower
            They may not.
        """
        row, kinds = PRIMITIVES[v.op], {x.type.kind for x in v.args}
        is_fine = v.type.kind == "b" if kinds == {"b"} else (row.leaves or row.is_question) and are_floats(v.args)
        if row.refuses or not is_fine:
            raise CannotLower(f"{v.op} of numbers of Python's")

    # What holds others

    def _apply(self, v: Value, xs: Sequence[Value], flags: Sequence[bool]) -> Row:
        """An operator as a whole: what it is made of, where that is known."""
        operator: Apply = v.attr
        known = operator.definition
        if any(flags) or operator.needs_run:
            if known is None:
                raise CannotLower(f"{operator.node.op} for many at once")
            self.values(known.values)
            found = [self.row(x) for x in known.results]
            self.items[v] = lambda item: found[item.attr]
            return found[0]
        if known is not None:
            operator = replace(operator, definition=self._side(known, ())[0])  # it reads values of what is around it
        return self._with_items(self.b.put_in("apply", xs, v.type, operator), v, [False] * operator.results), False

    def _with_items(self, whole: Value, v: Value, flags: Sequence[bool], rows: range = range(0)) -> Value:
        """An operation of several results, of which some have the axis; in ``rows`` behind another one."""

        def item(old: Value) -> Row:
            flag, shape = flags[old.attr], old.type.shape
            if not flag or old.attr not in rows:
                return self.b.put_in("item", (whole,), self.type(old.type, flag), old.attr), flag
            row = self.type(Type(old.type.dtype, (shape or ())[1:])).shape or ()
            found = self.b.put_in("item", (whole,), Type(old.type.dtype, ((shape or ())[0], *row)), old.attr)
            return self.b.transpose(found, [1, 0, *range(2, found.type.rank or 0)]), True

        self.items[v] = item
        return whole

    def _branch(self, v: Value, condition: Value, is_stacked: bool) -> Row:
        """A branch that all take, or none."""
        if is_stacked:
            raise CannotLower("a branch that some take and others do not")
        sides = [self._side(region, ()) for region in (v.attr.then, v.attr.other)]
        flags = [any(pair) for pair in zip(*[found for _, found in sides], strict=True)]
        if any(found != flags for _, found in sides):
            sides = [self._side(region, flags) for region in (v.attr.then, v.attr.other)]
        whole = self.b.put_in("branch", (condition,), UNKNOWN, BranchRegion(sides[0][0], sides[1][0]))
        return self._with_items(whole, v, flags), False

    def _side(self, region: Region, wanted: Sequence[bool]) -> tuple[Region, list[bool]]:
        """One branch, and which of its results have the axis: those that are ``wanted`` to have it, or happen to."""
        with self.b.region() as close:
            self.values(region.values)
            found = [self.row(x) for x in region.results]
            flags = [flag for _, flag in found]
            return close(self._wanted(found, wanted or flags)), flags

    def _loop(self, v: Value, xs: Sequence[Value], flags: Sequence[bool]) -> Row:
        """A loop that all run as often: what is carried has the axis if it gets it in any iteration."""
        attr: LoopRegion = v.attr
        if flags[0] or flags[1] or attr.in_block or any(what.axis or what.reverse for what in attr.collected):
            raise CannotLower("a loop of other lengths, or of rows in lists, for many at once")
        count, condition, initial, scanned, _ = attr.split(xs)
        parts = flags[2 + attr.n_carried : 2 + attr.n_carried + len(scanned)]
        states, before, mark = flags[2 : 2 + attr.n_carried], None, self.b.mark()
        while states != before:
            self.b.rewind(mark)
            before = states
            body, found = self._body(attr, states, parts)
            states = [a or b for a, b in zip(states, found[1 : 1 + attr.n_carried], strict=True)]
        first = self._wanted(list(zip(initial, flags[2:], strict=False)), states)
        pairs = list(zip(attr.scanned, scanned, parts, strict=True))
        arrays = [self._rows_in_front(x, s.axis) if flag else x for s, x, flag in pairs]
        lined = tuple(replace(s, axis=0) if flag else s for s, _, flag in pairs)
        new = replace(attr, body=body, scanned=lined, whole=None, worth=None)
        whole = self.b.put_in("loop", (count, condition, *first, *arrays), UNKNOWN, new)
        results = [*states, *found[1 + attr.n_carried :], False, found[0]]
        return self._with_items(whole, v, results, range(attr.n_carried + attr.n_last, attr.place_of_count)), False

    def _body(self, attr: LoopRegion, states: Sequence[bool], parts: Sequence[bool]) -> tuple[Region, list[bool]]:
        """The body of a loop, and which of its results have the axis."""
        with self.b.region(is_loop=True) as close:
            for param, flag in zip(attr.body.params, (False, False, *states, *parts), strict=True):
                self.rows[param] = self.b.param(self.type(param.type, flag), param.attr), flag
            self.values(attr.body.values)
            found = [self.row(x) for x in attr.body.results]
            if found[0][1] and may_end(attr):
                raise CannotLower("a loop that ends earlier for some")
            wanted = [False, *states, *(False for _ in found[1 + len(states) :])]
            return close(self._wanted(found, wanted)), [flag for _, flag in found]

    def _wanted(self, rows: Sequence[Row], wanted: Sequence[bool]) -> list[Value]:
        """Values, with the axis where that is wanted."""
        return [self.everywhere(x, flag) if is_wanted else x for (x, flag), is_wanted in zip(rows, wanted, strict=True)]

    def _rows_in_front(self, x: Value, axis: int) -> Value:
        """A stacked array with the axis of its rows in front."""
        rank = x.type.rank or 0
        place = axis % (rank - 1) + 1
        return self.b.transpose(x, [place, *(k for k in range(rank) if k != place)])


def are_floats(values: Sequence[Value]) -> bool:
    """Whether numbers of Python's are floats, or whole numbers that are floats as well."""
    return all(x.type.kind == "f" or (x.op == "const" and x.type.kind == "i" and abs(x.attr) <= 1 << 53) for x in values)


# One rule for each operation that moves elements, given what its arguments became and which have the axis

Rule = Callable[[Vmap, Value, Sequence[Value], Sequence[bool]], Value]


def _cast(m: Vmap, v: Value, xs: Sequence[Value], flags: Sequence[bool]) -> Value:
    (x,) = v.args
    if x.type.weak and v.type.kind in "iu" and x.type.kind != "b" and (x.type.kind != "i" or v.type.dtype != INT64):
        raise CannotLower("whole numbers of which Python may refuse one")
    return m.b.cast(xs[0], v.type.dtype)  # type: ignore[arg-type]


def _select(m: Vmap, v: Value, xs: Sequence[Value], flags: Sequence[bool]) -> Value:
    condition, *sides = m.aligned(xs, flags)
    x, y = (x if x.type.weak else m.b.cast(x, v.type.dtype) for x in sides)  # type: ignore[arg-type]
    return m.b.select(condition, x, y)


def _reshape(m: Vmap, v: Value, xs: Sequence[Value], flags: Sequence[bool]) -> Value:
    first, *others = m.type(v.type).shape or ()
    lengths = [m.b.length(xs[0], 0)] if isinstance(first, Size) and len(xs) > 1 else []
    return m.b.reshape(xs[0], (first, *others), [*lengths, *xs[1:]])


def _broadcast(m: Vmap, v: Value, xs: Sequence[Value], flags: Sequence[bool]) -> Value:
    lengths = [m.b.length(xs[0], 0)] if isinstance(m.length, Size) else []
    return m.b.broadcast(m.padded(xs[0], v.type.rank or 0), m.type(v.type).shape or (), [*lengths, *xs[1:]])


def _window(m: Vmap, v: Value, xs: Sequence[Value], flags: Sequence[bool]) -> Value:
    return m.b.put_in("window", (xs[0], m.b.const(np.int64(0)), *xs[1:]), m.type(v.type))


def _pack(m: Vmap, v: Value, xs: Sequence[Value], flags: Sequence[bool]) -> Value:
    return m.b.concat([_column(m, m.everywhere(x, flag)) for x, flag in zip(xs, flags, strict=True)], 1)


def _column(m: Vmap, x: Value) -> Value:
    return m.b.reshape(x, (*(x.type.shape or ()), 1))


def _concat(m: Vmap, v: Value, xs: Sequence[Value], flags: Sequence[bool]) -> Value:
    return m.b.concat([m.everywhere(x, flag) for x, flag in zip(xs, flags, strict=True)], v.attr % (v.type.rank or 1) + 1)


def _gather(m: Vmap, v: Value, xs: Sequence[Value], flags: Sequence[bool]) -> Value:
    """From every one the same elements, or from one array for all others of each."""
    (x, index), axis, type = xs, v.attr % (v.args[0].type.rank or 1), m.type(v.type)
    if flags[0] and not flags[1]:
        return m.b.put_in("gather", (x, index), type, axis + 1)
    if flags[0] or axis:
        raise CannotLower("elements of each at places of its own")
    return m.b.put_in("gather", (x, index), type, 0)


def _place(m: Vmap, v: Value, xs: Sequence[Value], flags: Sequence[bool]) -> Value:
    """The same place of every one, or places that are inside as what counts its elements in order."""
    x, *where = xs
    if flags[0]:
        for index, flag in zip(where, flags[1:], strict=True):
            if flag:
                raise CannotLower("an element of each at a place of its own")
            shape = x.type.shape or ()
            x = m.b.put_in("gather", (x, index), Type(x.type.dtype, (shape[0], *shape[2:])), 1)
        return x
    place, lengths = where[0], (x.type.shape or ())[: len(where)]
    for index, length in zip(where[1:], lengths[1:], strict=True):
        if not isinstance(length, int):
            raise CannotLower("a place along an open length, of each its own")
        place = m.b.element("add", m.b.element("mul", place, m.b.const(np.int64(length))), index)
    for _ in where[1:]:
        x = m.b.merged(x, 0)
    return m.b.put_in("gather", (x, place), m.type(v.type), 0)


def _put(m: Vmap, v: Value, xs: Sequence[Value], flags: Sequence[bool]) -> Value:
    """The update where each has its place, and what was there elsewhere."""
    x, update, *where = xs
    shape = v.type.shape or ()
    here: Value | None = None
    for k, (index, flag) in enumerate(zip(where, flags[2:], strict=True)):
        if not isinstance(length := shape[k], int):
            raise CannotLower("a place along an open length")
        places = m.b.const(np.arange(length, dtype=index.type.dtype).reshape(-1, *(1,) * (len(shape) - 1 - k)))
        found = m.b.element("eq", places, m.padded(index, len(shape)) if flag else index)
        here = found if here is None else m.b.element("and_", here, found)
    assert here is not None
    new = m.padded(update, len(shape)) if flags[1] else update
    return m.everywhere(m.b.select(here, new, x), True)


def _reduce(m: Vmap, v: Value, xs: Sequence[Value], flags: Sequence[bool]) -> Value:
    return m.b.reduce(xs[0], v.attr.kind, [axis + 1 for axis in v.attr.axes], v.attr.keep)


def _dot(m: Vmap, v: Value, xs: Sequence[Value], flags: Sequence[bool]) -> Value:
    """Products of matrices, side by side, or one of all their rows; a vector is a row, or a column."""
    ranks = [x.type.rank for x in v.args]
    shape = m.type(v.type).shape or ()
    if flags == [True, False] and ranks[1] == 2:  # the rows of all, or what the rows of all matrices are
        x = m.b.merged(xs[0], 0) if ranks[0] == 2 else xs[0]
        found = m.b.put_in("dot", (x, xs[1]), Type(v.type.dtype, ((x.type.shape or ())[0], shape[-1])))
        lengths = [m.b.length(xs[0], k) for k, n in enumerate(shape[:-1]) if isinstance(n, Size)]
        return m.b.reshape(found, shape, lengths if ranks[0] == 2 else ())
    x, y = (m.everywhere(x, flag) for x, flag in zip(xs, flags, strict=True))
    x = m.b.reshape(x, (m.length, 1, *(x.type.shape or ())[1:])) if ranks[0] == 1 else x
    y = _column(m, y) if ranks[1] == 1 else y
    left, right = x.type.shape or (), y.type.shape or ()
    if len(left) != 3 or len(right) != 3:
        raise CannotLower("products of stacks of matrices")
    return m.b.reshape(m.b.put_in("dot", (x, y), Type(v.type.dtype, (*left[:2], right[2]))), shape)


RULES: dict[str, Rule] = {
    "cast": _cast,
    "as_array": lambda m, v, xs, flags: xs[0],
    "select": _select,
    "reshape": _reshape,
    "transpose": lambda m, v, xs, flags: m.b.transpose(xs[0], [0, *(k + 1 for k in v.attr)]),
    "broadcast": _broadcast,
    "slice": lambda m, v, xs, flags: m.b.slice(xs[0], (slice(None), *v.attr)),
    "window": _window,
    "pack": _pack,
    "concat": _concat,
    "gather": _gather,
    "place": _place,
    "put": _put,
    "reduce": _reduce,
    "dot": _dot,
}
