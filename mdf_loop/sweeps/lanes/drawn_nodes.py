"""Nodes that draw, on their way into a Step for many lanes: the Step is given the numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mdf_loop.ir import Body, Loop, Node
from mdf_loop.ops.registry import facts
from mdf_loop.ops.rows import Draw
from mdf_loop.plan.invariants import draws, is_repeatable
from mdf_loop.step.build import CannotLower
from mdf_loop.step.lower import Lowering, Names
from mdf_loop.step.primitives import INT64
from mdf_loop.step.records import Region, Type, Value

NUMBER = Type(INT64, ())
"""The type of an iteration number."""


def refuse_more(body: Body) -> None:
    """See that a body computes, and draws number by number from the stream of the run, and does nothing else.

    Raises
    ------
    CannotLower
        It does more.
    """
    for node in body.nodes:
        if not is_repeatable(node):
            raise CannotLower(f"{node.op} may do more than compute")
        if draws(node) and (facts(node).drawing is None or node.attrs.get("seed") is not None):
            raise CannotLower(f"{node.op} draws in a way of its own")


class LaneLowering(Lowering):
    """A loop on its way into a Step that is given what its nodes draw.

    Attributes
    ----------
    drawn : dict of str to Draw
        By the name of the result, in the order in which a run draws: numbers are the last parameters of the region that is open.
    wrong : dict of str to Value
        What is true where numpy refuses to draw.
    """

    def __init__(self, loop: Loop) -> None:
        super().__init__(obey=False, exact=not loop.body.typed)
        self.drawn: dict[str, Draw] = {}
        self.wrong: dict[str, Value] = {}

    def node(self, node: Node, names: Names) -> Sequence[Value]:
        """The values of a node's outputs."""
        drawing = facts(node).drawing
        if drawing is None:
            return super().node(node, names)
        how = drawing(self.b, *(names[name] if name else None for name in node.inputs), **node.attrs)
        type, (output, *_) = Type(how.dtype, how.shape), node.outputs
        if not type.is_static or (self.exact and how.shape == () and not how.is_weak):
            raise CannotLower(f"{node.op} of unknown shape")
        self.drawn[output], value = how, self.b.param(type)
        if how.moved is not None:
            value, wrong = how.moved(value)
            if wrong is not None:
                self.wrong[output] = wrong
        return [self.b.python(value, float) if how.is_weak else value]


@dataclass(frozen=True)
class Iteration:
    """One iteration of a loop in one lane, as a Step.

    Attributes
    ----------
    outer : Region
        What is computed in front of the loop, of what is the same in all iterations.
    body : Region
        Its parameters are the iteration number, carried values, parts of scanned ones, then the numbers that are drawn; its
        results the condition, the next carried values, last and collected ones.  It reads values of ``outer``.
    drawn : sequence of Draw
    wrong : sequence of Value
        What is true where numpy refuses to draw.
    """

    outer: Region
    body: Region
    drawn: Sequence[Draw]
    wrong: Sequence[Value]


def lowered(loop: Loop, carried: Sequence[Type], parts: Sequence[Type], outer: Sequence[Type]) -> Iteration:
    """One iteration of a loop, for values of some types.

    Raises
    ------
    CannotLower
        It has to be run lane by lane.
    """
    refuse_more(loop.body)
    lowering, body = LaneLowering(loop), loop.body
    b, rank = lowering.b, {name: len(body.type_of(name or "").shape or ()) for name in (loop.index, loop.condition)}
    names = {name: b.param(type) for name, type in zip(body.captures, outer, strict=True)}
    with b.region(is_loop=True) as close:
        index = b.param(NUMBER)
        inputs = (*(c.input for c in loop.carried), *(s.input for s in loop.scanned))
        names |= {name: b.param(type) for name, type in zip(inputs, (*carried, *parts), strict=True)}
        if loop.index:
            names[loop.index] = b.reshape(index, (1,) * rank[loop.index])
        if loop.condition:
            names[loop.condition] = b.const(np.ones((1,) * rank[loop.condition], bool)[()])
        values = dict(zip(body.outputs, lowering.body(body, names), strict=True))
        stays = values[loop.keep_going] if loop.keep_going else b.const(np.True_)
        inner = close([stays, *(values[name] for name in loop.results)])
    return Iteration(b.closed(()), inner, [*lowering.drawn.values()], [*lowering.wrong.values()])
