"""Recurrences of one value that are recognised, and run for a block of iterations in one call of numpy.

They are running sums and the like, ``ufunc.accumulate``, and sequences that grow at their end: one class each.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np

from mdf_loop.ir import Node
from mdf_loop.ops.registry import facts
from mdf_loop.plan.dependence import Component


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
    def recognise(cls, name: str, node: Node, place: int) -> Self | None:
        """The idiom that a node is whose output is fed to ``name``, one of its two inputs; None if it is something else."""
        raise NotImplementedError

    @property
    def output(self) -> str:
        """What feeds the value in the next iteration."""
        return self.node.outputs[0]

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


IN_ORDER = {"subtract"}
"""Ufuncs to which it makes a difference which input is the first one."""

NARROW = 100
"""Elements of a row up to which accumulate (3 ns each) is faster than one call of the ufunc."""


@dataclass(frozen=True)
class Accumulate(Idiom):
    """``acc = op(acc, value)``."""

    ufunc: str = "add"

    @classmethod
    def recognise(cls, name: str, node: Node, place: int) -> Accumulate | None:
        """A ufunc of the value and another one."""
        ufunc = facts(node).accumulates
        return None if not ufunc or (place and ufunc in IN_ORDER) else cls(name, node, node.inputs[1 - place], ufunc)

    @property
    def words(self) -> str:
        """The function of numpy that runs it."""
        return f"{self.ufunc}.accumulate"

    def run(self, block: Block, start: Any) -> None:
        """All steps, in order."""
        rows = self._incoming(block, start, "b" if self.ufunc.startswith("logical") else "fiu")
        steps = np.empty((block.length + 1, *start.shape), start.dtype)
        steps[0] = start
        ufunc = getattr(np, self.ufunc)
        if start.size < NARROW:
            steps[1:] = rows
            steps = ufunc.accumulate(steps, axis=0, dtype=steps.dtype)
        else:
            _row_by_row(ufunc, list(steps), list(rows) if block.is_stacked(self.value) else itertools.repeat(rows))
        self._put(block, steps)


def _row_by_row(ufunc: np.ufunc, steps: list[np.ndarray], rows: Iterable[Any]) -> None:
    """What accumulate does, which goes down wide rows column by column and takes long."""
    for before, value, row in zip(steps, rows, steps[1:], strict=False):
        ufunc(before, value, out=row)


@dataclass(frozen=True)
class Building(Idiom):
    """``sequence = [*sequence, value]``."""

    keeps_history = False

    @classmethod
    def recognise(cls, name: str, node: Node, place: int) -> Building | None:
        """What puts a value behind the sequence."""
        return cls(name, node, node.inputs[1]) if place == 0 and facts(node).appends else None

    @property
    def words(self) -> str:
        """What it is."""
        return "a list that grows"

    def run(self, block: Block, start: Any) -> Callable[[], list[Any]]:
        """What makes the sequence: it is put together once the block is known to count."""
        if not isinstance(start, list) or not block.is_stacked(self.value):
            raise DoesNotFit
        type = block.history(self.value).type
        if type.dtype is None or type.weak or any(getattr(item, "dtype", None) != type.dtype for item in start[:1]):
            raise DoesNotFit
        return lambda: [*start, *block.history(self.value).stacked().copy()]  # memory of its own


IDIOMS: list[type[Idiom]] = [Accumulate, Building]
"""In the order in which they are tried."""


def find_idiom(component: Component, moving: Mapping[str, str]) -> Idiom | None:
    """The idiom of a recurrence, if it is one."""
    if len(component.carried) != 1 or len(component.nodes) != 1:
        return None
    (name,), (node,) = component.carried, component.nodes
    is_fed = node.outputs[0] == moving[name] and len(node.inputs) == 2 and node.inputs.count(name) == 1 and not node.attrs
    tried = (idiom.recognise(name, node, node.inputs.index(name)) for idiom in IDIOMS) if is_fed else ()
    return next((found for found in tried if found is not None), None)
