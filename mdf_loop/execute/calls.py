"""Kernels of nodes, looked up once for each node; and operators run for many iterations at once by their Steps.

Those Steps get a leading axis (:mod:`mdf_loop.step.vmap`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from mdf_loop.backends.python.printer import program
from mdf_loop.execute.program import Program
from mdf_loop.ir import Node
from mdf_loop.ops.batching import SHORT
from mdf_loop.ops.registry import Kernel, bind, lookup
from mdf_loop.ops.rows import Bound
from mdf_loop.options import Run
from mdf_loop.step.before_lowering import allows
from mdf_loop.step.build import Builder, CannotLower, type_of_value
from mdf_loop.step.failing import FallBack
from mdf_loop.step.primitives import PRIMITIVES
from mdf_loop.step.records import Size, Type
from mdf_loop.step.trace import meaning_of
from mdf_loop.step.vmap import vmap
from mdf_loop.system.threads import Recent

MOST = 64
"""Programs of one body that are kept."""


class ManyInputs(NamedTuple):
    """What a node is given in many iterations.

    Attributes
    ----------
    values : sequence
        None for an omitted input.
    types : sequence of Type or None
        What they are in one iteration.
    flags : sequence of bool
        Which have a row for each iteration.
    """

    values: Sequence[Any]
    types: Sequence[Type | None]
    flags: Sequence[bool]


@dataclass(frozen=True)
class Many:
    """A node's program for many iterations.

    Attributes
    ----------
    call : callable
        ``call(run, *values) -> results``.
    places : sequence of int
        The inputs that it is given; it knows the others.
    flags : tuple of bool
        Which results have a row for each iteration.
    types : tuple of Type
        What the results are in one iteration.
    """

    call: Callable[..., tuple[Any, ...]]
    places: Sequence[int]
    flags: tuple[bool, ...]
    types: tuple[Type, ...]


class StepsOfMany:
    """The programs of a body's nodes, by the types of what they are given; ``exact`` as in ``type_of_value``."""

    def __init__(self, exact: bool) -> None:
        self.exact = exact
        self._made = Recent[Many | None](MOST)

    def __call__(
        self, node: Node, bound: Bound, entry: Kernel, given: ManyInputs, run: Run
    ) -> tuple[tuple[Any, ...], Many] | None:
        """The results for all iterations, and what they are; None where each iteration has to be run by itself."""
        values, types, flags = given
        for kinds in ("iub", "iubf"):  # numbers are computed with, unless nothing comes of it: they may be scales
            known = [None if flag else _known(x, kinds) for x, flag in zip(values, flags, strict=True)]
            key = id(node), tuple(types), tuple(flags), tuple(known)
            made = self._made.of(key, functools.partial(self._many, node, bound, entry, given, [x is not None for x in known]))
            if made is not None:
                break
        try:
            return None if made is None else (made.call(run, *(values[k] for k in made.places)), made)
        except FallBack:
            return None

    def _many(self, node: Node, bound: Bound, entry: Kernel, given: ManyInputs, known: Sequence[bool]) -> Many | None:
        values, types, flags = given
        make, b = meaning_of(node, entry, bound, self.exact), Builder()
        if make is None or not allows(node, types):
            return None
        args, places = [], []
        for k, type in enumerate(types):
            if type is None or known[k]:
                args.append(None if type is None else b.const(values[k], self.exact))
            elif type.dtype is None:
                return None
            else:
                args.append(b.param(type, k))
                places.append(k)
        try:
            found = make(b, *args)
            region = b.closed(found if isinstance(found, tuple) else (found,))
            if any(v.op in PRIMITIVES and PRIMITIVES[v.op].is_apart and v.args[0].type.is_number for v in region.values):
                return None
            many, are_stacked = vmap(region, [flags[k] for k in places], Size("n"))
        except (CannotLower, ValueError):  # what is wrong with it, if anything is, its kernel says
            return None
        result_types = tuple(x.type for x in region.results)
        if any(type.dtype is None or type.kind == "O" for type in result_types):
            return None
        return Many(program(many, is_block=True)[0], places, are_stacked, result_types)


def _known(x: Any, kinds: str) -> Hashable | None:
    """What is the same for values that say the same to do; None for one that is only computed with."""
    if isinstance(x, np.ndarray | np.generic):
        return (type(x), x.tobytes()) if x.dtype.kind in kinds and x.size <= SHORT else None
    return (type(x), x) if type(x) in (bool, int) else None


class Calls:
    """Kernels of nodes, looked up once for each node.

    Nodes of a program keep what they are bound to there: a node with a seed of its own has one random stream.

    Attributes
    ----------
    exact : bool
        Whether an array without dimensions is something else than a scalar of numpy: where a body has no types,
        either may reach code that sees the difference.
    """

    def __init__(self, program: Program) -> None:
        self.exact = not program.body.typed
        self.many = StepsOfMany(self.exact)
        self._program = program
        self._bound = {id(step.node): step.bound for step in program.steps}
        self._found: dict[int, tuple[Bound, Kernel, Node]] = {}

    def share(self, nodes: Iterable[Node]) -> None:
        """Take nodes for those of the program with the same outputs: they only read the same values by other names."""
        known = {step.node.outputs: step.bound for step in self._program.steps if any(step.node.outputs)}
        self._bound.update((id(node), known[node.outputs]) for node in nodes if node.outputs in known)

    def __call__(self, node: Node) -> tuple[Bound, Kernel, Node]:
        """What to call for one iteration, the table's entry with its rule, and the node."""
        found = self._found.get(id(node))
        if found is None:
            bound = self._bound.get(id(node)) or self._inside.get(id(node)) or bind(node)
            found = self._found[id(node)] = bound, lookup(node.op, node.opset, node.domain), node
        return found

    @functools.cached_property
    def _inside(self) -> dict[int, Bound]:
        """What the nodes of loops inside are bound to there."""
        found: dict[int, Bound] = {}
        for loop in self._program.loops:
            found |= loop.calls._inside | loop.calls._bound
        return found

    def bound(self, node: Node) -> Bound:
        """What to call for one iteration."""
        found = self._found.get(id(node))
        return (self(node) if found is None else found)[0]

    def type(self, value: Any) -> Type:
        """The type of a value in this body."""
        return type_of_value(value, self.exact)
