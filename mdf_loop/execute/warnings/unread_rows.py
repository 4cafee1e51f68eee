"""A run says where a trip count leaves rows of data unread: a table of trials of which a loop takes the first ``M``.

Only captured arrays are looked at that a body reads by ``x[i]`` or ``x[i + constant]`` alone.  A loop that its condition ends
before ``M`` reads as far as it is meant to.  Where one array is read to its end, the others are longer by what is read ahead.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from mdf_loop.execute.collect import shape_of
from mdf_loop.execute.interpret import Arguments
from mdf_loop.execute.warnings.ended_loop import EndedLoop
from mdf_loop.execute.warnings.wrapped_indices import Index, computing_index
from mdf_loop.ir import Loop, Node
from mdf_loop.options import Run

Readings = Mapping[str, tuple[int, int]]
"""Arrays with the axis along which the iteration number reads them, and how far ahead of it."""


def warn_of_unread_rows(ended: EndedLoop) -> None:
    """Say that a loop ended at M in front of the end of all its data."""
    loop, given = ended.loop, ended.given
    if not given.captured or ended.lasted != given.trip_count or ended.is_inner:
        return
    if (readings := ended.once(_readings_of)) and (said := unread_rows(loop, readings, given)):
        ended.run.warn_once(key_of_rows(loop), f"{ended.name}: {said}")


def _readings_of(ended: EndedLoop) -> Readings:
    return readings_in(ended.loop, ended.run)


def key_of_rows(loop: Loop) -> object:
    """What a run warns of unread rows under."""
    return id(loop.body), "unread rows"


class Data(NamedTuple):
    """An array that iterations read row by row: how many it is enough for, its name, the axis, and how far they read ahead."""

    enough_for: int
    name: str
    axis: int
    ahead: int

    def rows(self, count: int) -> str:
        """What so many iterations read, in words."""
        return f"{count + self.ahead} {'columns' if self.axis else 'rows'}"

    def first(self, count: int) -> str:
        """How a call gives what so many iterations read."""
        return f"{self.name}[{':, ' * self.axis}:{count + self.ahead}]"

    def read_by(self, number: str | None) -> str:
        """How a body reads it."""
        return f"[{':, ' * self.axis}{number}{f' + {self.ahead}' if self.ahead else ''}]"


def unread_rows(loop: Loop, readings: Readings, given: Arguments) -> str:
    """What to say of the rows that a loop leaves unread; empty if it reads its arrays to the end."""
    shapes, count = dict(zip(loop.body.captures, map(shape_of, given.captured), strict=True)), given.trip_count
    known = [(shapes[name], name, axis, ahead) for name, (axis, ahead) in readings.items()]
    lengths = sorted((shape[axis] - ahead, name, axis, ahead) for shape, name, axis, ahead in known if len(shape or ()) > axis)
    if count is None or not lengths or len(lengths) < len(readings) or count >= lengths[-1][0]:
        return ""
    data = [Data(*each) for each in lengths]
    if count >= data[0].enough_for:
        return _of_two_lengths(data[0], data[-1], loop.index, count)
    left, length = data[0], data[0].enough_for
    others = f" (the same of {', '.join(each.name for each in data[1:])})" if data[1:] else ""
    said = f"M is {count}, so only the first {count + left.ahead} of {left.rows(length)} of {left.name} are read{others}"
    return f"{said}; give M={length} to read all of them, or {left.first(count)} if the rest is left out on purpose"


def _of_two_lengths(read: Data, left: Data, number: str | None, count: int) -> str:
    """What to say of an array that is read to its end, and of a longer one."""
    lengths = f"{left.name} has {left.rows(left.enough_for)} and {read.name} {read.rows(read.enough_for)}"
    indices, more = list(dict.fromkeys(each.read_by(number) for each in (left, read))), left.enough_for - count
    by = f"both are read by {indices[0]}" if len(indices) == 1 else f"are read by {' and '.join(indices)}"
    unread = f"the last {f'{more} of {left.name} are' if more > 1 else f'of {left.name} is'} not read"
    cure = f"give {read.name} as many, or {left.first(count)} if the rest is left out on purpose"
    return f"{lengths}, and {by}: {unread}; {cure}"


def readings_in(loop: Loop, run: Run) -> Readings:
    """The captured arrays that nothing reads but the iteration number, and constants more than that."""
    body, found = loop.body, dict[str, tuple[int, int]]()
    for name in set(body.captures).difference(body.outputs):
        read = {_read_by(loop, node, name, run) for node in body.nodes if name in node.reads}
        if None not in read and len({each[0] for each in read if each}) == 1:
            found[name] = max(filter(None, read))
    return found


def _read_by(loop: Loop, node: Node, name: str, run: Run) -> tuple[int, int] | None:
    """How the iteration number reads an array in a node; None if something else does, or it reads along two axes, ``x[i, i]``."""
    if node.op != "getitem" or node.inputs[0] != name or name in node.inputs[1:] or loop.index is None:
        return None
    index, found = node.attrs["index"], list[tuple[int, int]]()
    for axis, part in enumerate(index[1:] if isinstance(index, tuple) and index[0] == "tuple" else (index,)):
        if part is None or part is Ellipsis:
            return None
        if isinstance(part, tuple) and part[0] == "value":
            made = computing_index(loop.body, loop.index, node.inputs[1 + part[1]])
            first = None if made is None else Index("", name, made).first(loop.index, {}, run)
            found += [] if first is None or first.ndim else [(axis, int(first))]
    return found[0] if len(found) == 1 and found[0][1] >= 0 else None
