"""What an idiom is: a recurrence of one value that is recognised, and run for a block of iterations in one call."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np

from mdf_loop.ir import Node
from mdf_loop.plan.invariants import Invariants


class DoesNotFit(Exception):
    """The values are not what the idiom is for; the recurrence has to be stepped."""


class Column(Protocol):
    """What a value was in each iteration of a block."""

    type: Any

    def stacked(self) -> np.ndarray:
        """All of them, stacked on axis 0."""


class Block(Protocol):
    """The values of a block of iterations, as an idiom sees them."""

    length: int

    def is_stacked(self, name: str) -> bool:
        """Whether a value may differ from iteration to iteration."""

    def single(self, name: str) -> Any:
        """A value that is the same in every iteration."""

    def history(self, name: str) -> Column:
        """A value in each iteration."""

    def is_array(self, value: Any) -> bool:
        """Whether a value without dimensions is an array, and not a number."""

    def keep(self, name: str, rows: np.ndarray) -> None:
        """Take what a value is in each iteration."""


@dataclass(frozen=True)
class Idiom:
    """A recurrence of one value: ``name`` goes in, ``output`` comes out, ``value`` comes from outside the recurrence."""

    name: str
    node: Node
    value: str

    keeps_history = True
    """Whether running it says what the value is in each iteration, and not only behind the last one."""

    @classmethod
    def recognise(
        cls, name: str, nodes: Sequence[Node], output: str, same: Invariants, read_often: Collection[str]
    ) -> Self | None:
        """The idiom that nodes are, in which ``name`` is carried and is fed ``output``; None if they are something else.

        ``same`` are values that are the same in every iteration, ``read_often`` those with more than one reader.
        """
        raise NotImplementedError

    @property
    def output(self) -> str:
        """What feeds the value in the next iteration."""
        return self.node.outputs[0]

    @property
    def nodes(self) -> tuple[Node, ...]:
        """All its nodes, in order."""
        return (self.node,)

    @property
    def nodes_between(self) -> tuple[Node, ...]:
        """Nodes of the recurrence besides the last; they can run for a block of iterations once the recurrence has."""
        return ()

    @property
    def reads(self) -> tuple[str, ...]:
        """Values of each iteration that it needs from outside."""
        return (self.value,)

    @property
    def words(self) -> str:
        """How it is run, for people."""
        raise NotImplementedError

    def run(self, block: Block, start: Any) -> Callable[[], Any] | None:
        """Put what the value is in each iteration into the block, or give what makes the one behind the last iteration.

        Raises
        ------
        DoesNotFit
            Nothing was changed.
        """
        raise NotImplementedError

    def _incoming(self, block: Block, start: Any, kinds: str) -> np.ndarray:
        """What comes in, stacked, in a shape that broadcasts to that of the recurrence."""
        if not isinstance(start, np.ndarray | np.generic) or start.dtype.kind not in kinds or start.dtype.itemsize == 2:
            raise DoesNotFit
        if block.is_array(start):
            raise DoesNotFit  # what comes out are scalars
        if block.is_stacked(self.value):
            history = block.history(self.value)
            if history.type.shape is None or history.type.dtype != start.dtype or history.type.weak:
                raise DoesNotFit
            rows = history.stacked()
            shape = rows.shape[1:]
            rows = rows.reshape(len(rows), *(1,) * (start.ndim - len(shape)), *shape)
        else:
            rows = block.single(self.value)
            shape = np.shape(rows)
            if not isinstance(rows, np.ndarray | np.generic) or rows.dtype != start.dtype:
                raise DoesNotFit
        if np.broadcast_shapes(shape, start.shape) != start.shape:
            raise DoesNotFit
        return rows

    def _put(self, block: Block, steps: np.ndarray) -> None:
        """The values from the first one on: each is what the iteration before it gave."""
        block.keep(self.name, steps[:-1])
        block.keep(self.output, steps[1:])


def other_input(nodes: Sequence[Node], name: str, output: str) -> tuple[int, str] | None:
    """Where a value stands among the two inputs of the one node that it is carried through, and the other input."""
    if len(nodes) != 1 or nodes[0].outputs[0] != output:
        return None
    (node,) = nodes
    if len(node.inputs) != 2 or node.inputs.count(name) != 1 or node.attrs:
        return None
    place = node.inputs.index(name)
    return place, node.inputs[1 - place]
