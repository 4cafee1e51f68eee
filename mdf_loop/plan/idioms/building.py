"""Sequences that grow at their end."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from mdf_loop.ir import Node
from mdf_loop.ops.registry import facts
from mdf_loop.plan.idioms.record import Block, DoesNotFit, Idiom, other_input
from mdf_loop.plan.invariants import Invariants


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
        return lambda: [*start, *block.history(self.value).stacked().copy()]  # nobody else's memory
