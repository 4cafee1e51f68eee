"""Running sums and the like, ``ufunc.accumulate``; and sequences that grow at their end."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mdf_loop.ir import Node
from mdf_loop.ops.registry import facts
from mdf_loop.plan.idioms.record import Block, DoesNotFit, Idiom, other_input
from mdf_loop.plan.invariants import Invariants

IN_ORDER = {"subtract"}
"""Ufuncs to which it makes a difference which input is the first one."""

NARROW = 100
"""Elements of a row up to which accumulate (3 ns each) is faster than one call of the ufunc."""


@dataclass(frozen=True)
class Accumulate(Idiom):
    """``acc = op(acc, value)``."""

    ufunc: str = "add"

    @classmethod
    def recognise(
        cls, name: str, nodes: Sequence[Node], output: str, same: Invariants, read_often: Collection[str]
    ) -> Accumulate | None:
        """One node that is a ufunc of the value and another one."""
        found = other_input(nodes, name, output)
        ufunc = facts(nodes[0]).accumulates if found is not None else ""
        if found is None or not ufunc or (found[0] and ufunc in IN_ORDER):
            return None
        return cls(name, nodes[0], found[1], ufunc)

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
    def recognise(
        cls, name: str, nodes: Sequence[Node], output: str, same: Invariants, read_often: Collection[str]
    ) -> Building | None:
        """One node that puts a value behind the sequence."""
        found = other_input(nodes, name, output)
        is_behind = found is not None and found[0] == 0 and facts(nodes[0]).appends
        return cls(name, nodes[0], found[1]) if found is not None and is_behind else None

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
