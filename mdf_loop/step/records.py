"""The records of a Step: types, values, regions, and what loops and branches hold.

A Step is a :class:`Region`: parameters, values in an order in which they can be computed, results.  A value names its
operation, a row of :data:`mdf_loop.step.primitives.PRIMITIVES` or one of the structural ones below; loops and branches hold
regions of their own, which read values of the regions around them.

============  ======================================================  ============================================
operation     arguments                                               attribute
============  ======================================================  ============================================
param         (of a region)                                           its number
const                                                                 the number or array
cast          x                                                       (the type of the value says it; a weak one is Python's)
fraction      x                                                       (a float of Python's that has a fraction; a guess)
as_array      a number                                                (an array without dimensions)
select        condition, x, y
reshape       x, open lengths of the shape                            :class:`Shape`
transpose     x                                                       the permutation
broadcast     x, open lengths of the shape                            :class:`Shape`
slice         x                                                       a ``slice`` for each axis
window        x, one number for each axis                             (a part as large as its type says, from there on; inside x)
pack          numbers                                                 (a vector of them)
rows          an array, or nothing                                    (the list of its rows, or an empty one: its Filling)
insert        x, row, place                                           (x with a row more, in front of the one at the place)
erase         x, place                                                (x without the row at the place)
length        x                                                       the axis
concat        arrays                                                  the axis
gather        x, index                                                the axis
place         x, one number for each leading axis                     (``x[i, j]``; indices are in range)
place_in      a place, a length                                       (the place counted from the front, if it is inside)
no_nan        a bool, floats                                          how many floats come first (ends the program where the
                                                                      bool is true, nan is in one of these, and the other
                                                                      floats are finite)
put           x, update, one number for each leading axis             (x, with ``x[i, j] = update``)
reduce        x                                                       :class:`Reduction`
dot           x, y                                                    (the product of matrices, as numpy's matmul)
apply         anything                                                :class:`Apply`: an operator as a whole
loop, branch  see :class:`LoopRegion` and :class:`BranchRegion`
item          a value of several results                              which one
============  ======================================================  ============================================
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mdf_loop.ir import Collected, Node, Scanned, entity, record
from mdf_loop.kernels.arrays.bounds import most_bytes


@entity
class Size:
    """A length that is known only at run time; equal to nothing but itself."""

    hint: str = ""

    def __repr__(self) -> str:
        return self.hint or "?"


Length = int | Size


@record
class Type:
    """What is known of a value before it is computed.

    Attributes
    ----------
    dtype : numpy.dtype or None
        None where the value may be anything: a sequence, an optional, text, a number of unknown type.
    shape : tuple of (int or Size), or None
        None where the rank is not known.
    weak : bool
        A number of Python's own (MDF), which takes the type of what it meets.  One of element type object is an int or a float,
        only the run can tell.
    is_array : bool
        A number that is an array without dimensions outside: bodies without types tell that from numpy's scalars.
    """

    dtype: np.dtype | None = None
    shape: tuple[Length, ...] | None = None
    weak: bool = False
    is_array: bool = False

    def __eq__(self, other: object) -> bool:
        """Whether both are the same: numpy takes None for float64, and so does its ``==``."""
        if not isinstance(other, Type):
            return NotImplemented
        if self is other:
            return True
        mine = self.dtype is None, self.dtype, self.shape, self.weak, self.is_array
        return mine == (other.dtype is None, other.dtype, other.shape, other.weak, other.is_array)

    def __hash__(self) -> int:
        return hash((self.dtype, self.shape, self.weak, self.is_array))

    @property
    def rank(self) -> int | None:
        """The number of axes, if it is known."""
        return None if self.shape is None else len(self.shape)

    @property
    def lengths(self) -> tuple[int | None, ...] | None:
        """The shape with None for lengths that only the run knows."""
        return None if self.shape is None else tuple(n if isinstance(n, int) else None for n in self.shape)

    @property
    def is_known(self) -> bool:
        """Whether element type and number of axes are known."""
        return self.dtype is not None and self.shape is not None

    @property
    def is_static(self) -> bool:
        """Whether element type and all lengths are known."""
        if self.dtype is None or self.shape is None:
            return False
        for length in self.shape:  # noqa: SIM110 (asked of every value, many times)
            if type(length) is Size:
                return False
        return True

    @property
    def size(self) -> int:
        """How many elements it has, if all lengths are known."""
        size = 1
        for length in self.shape or ():
            if type(length) is not Size:
                size *= length  # type: ignore[operator]
        return size

    def count_along(self, axes: Sequence[int]) -> int:
        """How many elements some axes have together.

        Raises
        ------
        ValueError
            There are none, or it is not known.
        """
        lengths = [self.shape[axis] for axis in axes] if self.shape is not None else [None]
        if not all(isinstance(n, int) and n for n in lengths):
            raise ValueError("nothing to reduce, perhaps")
        return math.prod(n for n in lengths if isinstance(n, int))

    @property
    def has_room(self) -> bool:
        """Whether there can be memory for it, as far as its lengths are known."""
        return self.dtype is None or not self.shape or self.size * self.dtype.itemsize <= most_bytes()

    @property
    def is_number(self) -> bool:
        """Whether it is one number of a known type."""
        return self.dtype is not None and self.shape == ()

    @property
    def kind(self) -> str:
        """numpy's letter for the kind of its elements; empty where that is not known."""
        return self.dtype.kind if self.dtype is not None else ""

    def __str__(self) -> str:
        if self.dtype is None:
            return "?"
        dims = "[...]" if self.shape is None else f"[{','.join(map(repr, self.shape))}]" if self.shape else ""
        return f"{'weak ' if self.weak else ''}{self.dtype.name}{'[]' if self.is_array else dims}"


UNKNOWN = Type()
"""The type of what can only be passed on to operators as a whole."""


@entity
class Value:
    """One value of a Step; its arguments come before it."""

    op: str
    args: tuple[Value, ...]
    type: Type
    attr: Any = None

    def __repr__(self) -> str:
        return f"<{self.op}: {self.type}>"


@entity
class Region:
    """Values in an order in which they can be computed.

    Attributes
    ----------
    params : tuple of Value
        What the region is given, each a value ``param``.
    values : tuple of Value
        What it computes, in order.
    results : tuple of Value
        What it gives: parameters, its own values, or values of the regions around it.
    scopes : sequence of (nodes, mapping, str)
        Of a whole Step, for messages: nodes of the model, the values of their names, and why nothing is known of these.
    """

    params: tuple[Value, ...] = ()
    values: tuple[Value, ...] = ()
    results: tuple[Value, ...] = ()
    scopes: Sequence[tuple[Sequence[Node], Mapping[str, Value], str]] = ()


@record
class Shape:
    """A shape with places for lengths that are arguments: ``Shape((2, None, 3))`` takes one."""

    lengths: tuple[int | None, ...]


@record
class Reduction:
    """How ``reduce`` reduces: ``sum prod max min any all argmax argmin``, over which axes, kept with length 1 or not."""

    kind: str
    axes: tuple[int, ...]
    keep: bool = False


@entity
class Apply:
    """An operator as a whole.

    Attributes
    ----------
    node : Node
        Where it came from, for messages.
    call : callable
        Its kernel, made ready for this node; it gets the run first if ``needs_run``.
    definition : Region or None
        The same in primitives, where the operator has a definition.
    results : int
        How many results are named; more than one are read by ``item``.
    routine : callable or None
        Makes ``write(*inputs, out)``, which works in memory that is used again.
    drawn : callable or None
        The same as ``drawn(*inputs, rng=generator)``, where the kernel needs the run for nothing but its generator.
    why : str
        Why it is an operator as a whole, as far as its definition says.
    """

    node: Node
    call: Callable[..., Any]
    needs_run: bool = False
    definition: Region | None = None
    results: int = 1
    routine: Callable[[], Callable[..., None]] | None = None
    drawn: Callable[..., Any] | None = None
    why: str = ""


@entity
class LoopRegion:
    """The attribute of ``loop``.

    Its arguments are the trip count, the condition, the initial carried values, the scanned arrays, then the ``whole``
    operator's own; its results, read by ``item``, are the carried values, the last values, the collected ones, the number of
    iterations, then the last condition.

    Attributes
    ----------
    body : Region
        Its parameters are ``index``, ``going``, ``states`` and ``parts``, its results ``stays``, ``ends``, ``last`` and ``rows``.
    has_count, has_condition : bool
        Whether the first two arguments count; if not they are constants without a meaning.
    obeyed : bool
        Whether the body's condition may end the loop.
    in_block : bool
        The loop is a block of a longer one: scanned arguments are rows already, and what cannot be stacked is given as a list.
    whole : Apply or None
        The loop as an operator, for more iterations than ``worth(n)``: so many of ``n`` it is worth to step.
    """

    body: Region
    n_carried: int
    scanned: tuple[Scanned, ...] = ()
    n_last: int = 0
    collected: tuple[Collected, ...] = ()
    has_count: bool = True
    has_condition: bool = False
    obeyed: bool = True
    name: str = ""
    in_block: bool = False
    whole: Apply | None = None
    worth: Callable[[int], int] | None = None

    def split(self, args: Sequence[Value]) -> tuple[Value, Value, Sequence[Value], Sequence[Value], Sequence[Value]]:
        """Arguments as the trip count, the condition, initial values, scanned arrays and operands of the whole operator."""
        first, behind = 2 + self.n_carried, 2 + self.n_carried + len(self.scanned)
        return args[0], args[1], args[2:first], args[first:behind], args[behind:]

    @property
    def index(self) -> Value:
        """The iteration number."""
        return self.body.params[0]

    @property
    def going(self) -> Value:
        """The condition by which the iteration began."""
        return self.body.params[1]

    @property
    def states(self) -> tuple[Value, ...]:
        """The carried values."""
        return self.body.params[2 : 2 + self.n_carried]

    @property
    def parts(self) -> tuple[Value, ...]:
        """One part of each scanned array."""
        return self.body.params[2 + self.n_carried :]

    @property
    def stays(self) -> Value:
        """The next condition."""
        return self.body.results[0]

    @property
    def ends(self) -> tuple[Value, ...]:
        """The next carried values."""
        return self.body.results[1 : 1 + self.n_carried]

    @property
    def last(self) -> tuple[Value, ...]:
        """The values of which the loop gives the last ones."""
        return self.body.results[1 + self.n_carried : 1 + self.n_carried + self.n_last]

    @property
    def rows(self) -> tuple[Value, ...]:
        """The collected values."""
        return self.body.results[1 + self.n_carried + self.n_last :]

    @property
    def place_of_count(self) -> int:
        """The place of the number of iterations among the results of the loop."""
        return len(self.body.results) - 1


@entity
class BranchRegion:
    """The attribute of ``branch``, whose argument is the condition; its results are read by ``item``."""

    then: Region
    other: Region


@dataclass(eq=False)
class Scope:
    """A region while it is being made; ``keys`` say by what each of its values is known again, None of one that is not."""

    params: list[Value] = field(default_factory=list)
    values: list[Value] = field(default_factory=list)
    keys: list[Hashable] = field(default_factory=list)
    is_loop: bool = False

    def closed(self, results: Sequence[Value]) -> Region:
        """The region, with these results."""
        return Region(tuple(self.params), tuple(self.values), tuple(results))
