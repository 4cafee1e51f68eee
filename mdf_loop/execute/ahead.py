"""Work that needs no iteration before it, on rows too wide for whole blocks of them: some iterations ahead of the stepped part.

A block of wide rows would leave the processor's cache before the stepped part reads it.  Here a few rows are computed in one
call when the first of them is asked for, and the next ones in the same memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mdf_loop.execute.block import Batch
from mdf_loop.execute.calls import Calls
from mdf_loop.execute.emit import CannotEmit, Emitter
from mdf_loop.execute.emit_control import constant
from mdf_loop.execute.histories import History
from mdf_loop.execute.kinds import ARRAY, Kind
from mdf_loop.execute.scalars import Operand
from mdf_loop.execute.source import Source
from mdf_loop.ir import Body
from mdf_loop.plan import Ahead

ROOM = 1 << 18
"""Bytes of the rows that are computed at a time."""

MOST = 32
"""Rows computed at a time, beyond which a call of numpy for each costs nothing any more."""


class RowsAhead(History):
    """Rows that are there one after the other: each only until the next ones are computed."""

    __slots__ = ("_next_rows",)

    def __init__(self, kind: Kind, length: int, next_rows: Callable[[], Iterator[Any]]) -> None:
        super().__init__(None, None, kind, length)
        self._next_rows = next_rows

    def first(self) -> Any:
        """The first row."""
        return next(self._next_rows()).copy()

    def rows(self) -> Any:
        """An iterator, to be advanced together with those of the values computed with it."""
        return self._next_rows()

    def head(self, length: int) -> History:
        """Nobody asks for them again."""
        return self

    @property
    def nbytes(self) -> int:
        """They take no memory of the block's."""
        return 0


@dataclass
class Function:
    """What was emitted for one set of kinds, and the arrays that it writes into."""

    call: Callable[..., None]
    outputs: list[tuple[str, Kind]]
    at_once: int


class AheadPart:
    """Nodes of a plan that are run a few iterations ahead."""

    def __init__(self, part: Ahead, body: Body, calls: Calls) -> None:
        self.part, self.body, self.calls = part, body, calls
        written = {name for node in part.nodes for name in node.outputs}
        self.reads = sorted({name for node in part.nodes for name in node.inputs} - written - set(body.constants))
        self._functions: dict[Any, Function | None] = {}

    def run(self, batch: Batch, samples: Callable[[str], Any]) -> None:
        """Put what the nodes give into the batch."""
        function = self._function(batch, samples)
        if function is None:
            for node in self.part.nodes:
                batch.run_node(node)
            return
        rows = _Rows(function, batch, self.reads)
        for place, (name, kind) in enumerate(function.outputs):
            batch.histories[name] = RowsAhead(kind, batch.length, lambda place=place: rows.of(place))  # type: ignore[misc]

    def _function(self, batch: Batch, samples: Callable[[str], Any]) -> Function | None:
        stacked = [batch.is_stacked(name) for name in self.reads]
        kinds = [
            batch.histories[name].kind if is_stacked else self.calls.kind(batch.single(name))
            for name, is_stacked in zip(self.reads, stacked, strict=True)
        ]
        key = tuple(zip(stacked, kinds, strict=True))
        if any(self.calls.kind(samples(name)) != kind for name, kind in zip(self.reads, kinds, strict=True)):
            return None  # what was interpreted does not say what comes out
        if key not in self._functions:
            if len(self._functions) > 16:
                self._functions.clear()
            try:
                self._functions[key] = self._emitted(key, samples)
            except CannotEmit:
                self._functions[key] = None
        return self._functions[key]

    def _emitted(self, key: tuple[tuple[bool, Kind], ...], samples: Callable[[str], Any]) -> Function:
        """The nodes as calls on a few rows at a time."""
        outputs = [(node.outputs[0], self.calls.kind(samples(node.outputs[0]))) for node in self.part.nodes]
        self._check_ranks({**dict(outputs), **{n: kind for n, (stacked, kind) in zip(self.reads, key, strict=True) if stacked}})
        at_once = self._at_once([kind for _, kind in outputs])
        source = Source()
        targets = {name: f"h{k}" for k, (name, _) in enumerate(outputs)}
        emitter = Emitter(source, self.calls, targets, lambda *_: False)
        constants = {name: constant(emitter, self.body.constants[name]) for name in self._constants()}
        scope = {name: replace(operand, fixed=False) for name, operand in constants.items()}
        for k, (name, (stacked, kind)) in enumerate(zip(self.reads, key, strict=True)):
            box = "" if stacked or kind.form == ARRAY else f"t{k}"
            shape = (at_once, *(kind.shape or ())) if stacked else kind.shape
            scope[name] = Operand(f"t{k}", Kind(kind.form, kind.dtype, shape, kind.weak), box=box)
        made = {name: np.empty((at_once, *(kind.shape or ())), kind.dtype) for name, kind in outputs}
        emitter.nodes(self.part.nodes, scope, made, list(made))
        if emitter.prologue or any(scope[name].text != target for name, target in targets.items()):
            raise CannotEmit
        order = sorted(range(len(key)), key=lambda k: not key[k][0])  # tables first
        names = [*(f"t{k}" for k in order), *targets.values()]
        return Function(source.compiled(", ".join(names)), outputs, at_once)

    def _check_ranks(self, rows: Mapping[str, Kind]) -> None:
        """See that the axis in front of all rows is in the same place in all of them."""
        if any(kind.form != ARRAY or not kind.shape for kind in rows.values()):
            raise CannotEmit
        ranks = {name: len(kind.shape or ()) for name, kind in rows.items()}
        for node in self.part.nodes:
            if any(ranks.get(name, ranks[node.outputs[0]]) != ranks[node.outputs[0]] for name in node.inputs):
                raise CannotEmit

    def _constants(self) -> list[str]:
        return sorted({name for node in self.part.nodes for name in node.inputs} & set(self.body.constants))

    @staticmethod
    def _at_once(kinds: list[Kind]) -> int:
        largest = max(int(np.prod(kind.shape or ())) * (kind.dtype or np.dtype(float)).itemsize for kind in kinds)
        return max(min(ROOM // max(largest, 1), MOST), 1)


class _Rows:
    """The rows of one block, a few at a time."""

    def __init__(self, function: Function, batch: Batch, reads: list[str]) -> None:
        self.call, self.at_once, self.length, self.start = function.call, function.at_once, batch.length, -1
        self.tables = [batch.histories[name].stacked() for name in reads if batch.is_stacked(name)]
        self.once = [np.asarray(batch.single(name)) for name in reads if not batch.is_stacked(name)]
        self.arrays = [np.empty((self.at_once, *(kind.shape or ())), kind.dtype) for _, kind in function.outputs]
        self.views = [list(array) for array in self.arrays]

    def of(self, place: int) -> Iterator[np.ndarray]:
        """The rows of one output; all of them are advanced in turn."""
        views = self.views[place]
        for start in range(0, self.length, self.at_once):
            if start != self.start:
                self._compute(start, start + self.at_once)
            yield from views if start + self.at_once <= self.length else views[: self.length - start]

    def _compute(self, start: int, end: int) -> None:
        arrays = self.arrays
        if end > self.length:
            arrays = [array[: self.length - start] for array in arrays]
        self.call(*[table[start:end] for table in self.tables], *self.once, *arrays)
        self.start = start
