"""Operators that change a part of what goes round, or put something behind it, without copying all of it.

``table = ScatterND (table, where, row)`` is written into the table if nobody wants the one before any more.
``cache = Concat (cache, row)`` is written behind the rows there are, in memory with room for more: the values of earlier
iterations are the first rows of the same memory, which never change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from mdf_loop.execute.kinds import ARRAY, INT64, Changed
from mdf_loop.execute.scalars import Operand
from mdf_loop.execute.views import Place
from mdf_loop.ir import Node
from mdf_loop.kernels.indexing import element_places, rows_of
from mdf_loop.registry import operator

SCATTERS = ("ScatterND", "ScatterElements", "Scatter")


def successors(
    nodes: Sequence[Node], rounds: Mapping[str, str], held: Collection[str], is_fresh: Callable[[Node], bool]
) -> dict[str, str]:
    """For values that feed the next iteration: the value of the iteration before, if they may be written into its memory.

    Nobody may read that, or look at it in another way, after the node that makes the new one, nor hold either (``held``)
    beyond the iteration.
    """
    feeds, found = Counter(rounds.values()), dict[str, str]()
    places = {name: place for place, node in enumerate(nodes) for name in node.outputs if name}
    for before, after in rounds.items():
        if feeds[after] > 1 or before in feeds or before in held or after in held or after not in places:
            continue
        if last_look(before, nodes, is_fresh) <= places[after]:
            found[after] = before
    return found


def is_scatter(node: Node) -> bool:
    """Whether a node writes over elements, whatever they were."""
    return operator(node) in SCATTERS and node.attrs.get("reduction", "none") == "none"


def last_look(name: str, nodes: Sequence[Node], is_fresh: Callable[[Node], bool]) -> int:
    """The place of the last node that reads a value, or what may be a view of it."""
    views = views_of(name, nodes, is_fresh)
    return max((place for place, node in enumerate(nodes) if views.intersection(node.reads)), default=-1)


def views_of(name: str, nodes: Sequence[Node], is_fresh: Callable[[Node], bool]) -> set[str]:
    """A value, and all values that may share its memory."""
    views = {name}
    for node in nodes:
        if views.intersection(node.reads) and not is_fresh(node):
            views.update(filter(None, node.outputs))
    return views


def write_scatter(node: Node, args: Sequence[Operand], place: Place) -> str | None:
    """The line that writes updates into the first operand; None where only the kernel knows."""
    data, index, updates = args
    shape, places = data.kind.shape, index.kind.shape
    if data.kind.form != ARRAY or not shape or places is None or updates.kind.shape is None or not places:
        return None
    if updates.kind.dtype != data.kind.dtype or updates.kind.weak or index.kind.dtype != INT64 or index.kind.form != ARRAY:
        return None
    if node.op != "ScatterND":
        axis = int(node.attrs.get("axis", 0))
        fits = updates.kind.shape == places and len(places) == len(shape)
        return f"scatter_elements({data.text}, {index.text}, {updates.boxed}, {axis})" if fits else None
    if updates.kind.shape != places[:-1] + shape[places[-1] :] or not 1 <= places[-1] <= len(shape):
        return None
    if places not in ((1,), (1, 1)):
        return f"{data.text}[rows_of({index.text})] = {updates.boxed}"
    name = place(index, shape[0])
    return f"{data.text}[{name if places == (1,) else f'{name}:{name} + 1'}] = {updates.text}"


def scatter_elements(data: np.ndarray, indices: np.ndarray, updates: Any, axis: int) -> None:
    """ONNX's ScatterElements, written into the data."""
    data[element_places(data, indices, axis)] = updates


FUNCTIONS = {"rows_of": rows_of, "scatter_elements": scatter_elements}


class Behind:
    """Puts rows behind an array, again and again: each time only the new rows are copied, if there is room."""

    __slots__ = ("last", "room")

    def __init__(self) -> None:
        self.room = self.last = np.empty(0)

    def __call__(self, before: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """``before`` and the rows as one array."""
        if before.dtype != rows.dtype or before.shape[1:] != rows.shape[1:] or not before.ndim:
            raise Changed
        length = len(before)
        end = length + len(rows)
        if before is not self.last or end > len(self.room):
            self.room = np.empty((2 * end + 8, *before.shape[1:]), before.dtype)
            self.room[:length] = before
        self.room[length:end] = rows
        self.last = self.room[:end]
        return self.last
