"""Random numbers of many lanes: each lane's come from its own stream, in the order in which a run alone draws them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from mdf_loop.ops.rows import Draw
from mdf_loop.sweeps.lanes.lane_values import NotBatched
from mdf_loop.sweeps.seeds import Seeds

FIRST, MOST, BYTES = 32, 256, 1 << 25
"""Iterations whose numbers are drawn at once: at first, since the loop may end soon, and at most; and bytes of a block."""

STANDARD, AS_STANDARD = (0.0, 1.0), {"normal": "standard_normal", "uniform": "random"}
"""Parameters with which nothing is left to do but to draw, and methods that draw such numbers into an array."""

TILE, PADDING = 128, 8
"""Lanes that draw before their numbers are put in place: few enough to be still in the processor's cache, if not all of their
rows begin at the same places of it."""


class LaneDraws:
    """The numbers that all lanes draw, a block of iterations at a time.

    Parameters
    ----------
    seeds : Seeds, optional
        Those of all lanes, if anything draws.
    most : int
        How many iterations there are at most.
    """

    def __init__(self, seeds: Seeds | None, most: int | None) -> None:
        self.seeds, self.left, self.length = seeds, most, FIRST
        self.draws: Sequence[Draw] = ()
        self._each = self._at = 0
        self._rows: list[np.ndarray] = []
        self._block: np.ndarray | None = None

    def plan(self, draws: Sequence[Draw]) -> None:
        """Say what iterations draw from now on, in order; only its types may change.

        Raises
        ------
        NotBatched
            Its nodes draw from several distributions, in turn.
        """
        kinds = {(draw.method, draw.parameters) for draw in draws}
        shapes = [draw.shape for draw in draws]
        if len(kinds) > 1 or (self.draws and shapes != [draw.shape for draw in self.draws]):
            raise NotBatched("its nodes draw from several distributions, in turn")
        if kinds and not self.draws and self.seeds is not None:
            self.drawn = Drawn(self.seeds.generators(), *kinds.pop())
            self._each = sum(math.prod(shape or ()) for shape in shapes)
        self.draws = draws

    def next(self) -> list[np.ndarray]:
        """What an iteration draws: for each node one row a lane."""
        if not self.draws:
            return []
        self._at += 1
        if self._block is None or self._at >= len(self._block):
            self._refill()
        pairs = zip(self._rows, self.draws, strict=True)
        return [rows[self._at] if rows.dtype == draw.dtype else rows[self._at].astype(draw.dtype) for rows, draw in pairs]

    def keep(self, lanes: np.ndarray) -> None:
        """Forget all lanes but some."""
        if self.draws:
            self.drawn.keep(lanes)
        if self._block is not None:
            self._start(self._block[self._at :].take(lanes, axis=-1))

    @property
    def is_used_up(self) -> bool:
        """Whether the next iteration draws another block."""
        return bool(self.draws) and (self._block is None or self._at + 1 >= len(self._block))

    def _refill(self) -> None:
        """Draw the next block.  Numbers of one place in all lanes stand side by side."""
        lanes = len(self.drawn)
        length = self.length if self.left is None else min(self.length, self.left)
        room = max(BYTES // (8 * self._each * lanes), FIRST)
        self.length = min(4 * self.length, MOST, room)
        self.left = None if self.left is None else self.left - length
        block, count = np.empty((length, self._each, lanes)), length * self._each
        tile = np.empty((TILE, count + PADDING))[:, :count]
        for start in range(0, lanes, TILE):
            rows = tile[: lanes - start]
            self.drawn.fill(rows, start)
            block[..., start : start + TILE] = np.moveaxis(rows.reshape(len(rows), length, -1), 0, -1)
        self._start(block)

    def _start(self, block: np.ndarray) -> None:
        """Take numbers from the beginning of a block; each node's as rows of its shape, in each iteration."""
        self._block, self._at, start = block, 0, 0
        self._rows.clear()
        for draw in self.draws:
            shape = draw.shape or ()
            rows = block[:, start : (start := start + math.prod(shape))]
            self._rows.append(np.moveaxis(rows.reshape(len(block), *shape, block.shape[-1]), -1, 1))


class Drawn:
    """The random numbers of many lanes: each from a Generator of its own."""

    def __init__(self, generators: Sequence[np.random.Generator], kind: str, parameters: tuple[float, ...]) -> None:
        self._adds_mean = kind == "normal" and parameters == STANDARD
        self._kind = AS_STANDARD.get(kind, kind) if parameters in ((), STANDARD) else ""
        self.generators, self._drawn = list(generators), (kind, parameters)

    def __len__(self) -> int:
        """How many lanes there are."""
        return len(self.generators)

    def fill(self, rows: np.ndarray, start: int) -> None:
        """Fill each row from the stream of a lane, from one of them on."""
        lanes = zip(rows, self.generators[start : start + len(rows)], strict=True)
        if not self._kind:
            kind, parameters = self._drawn
            for row, generator in lanes:
                row[:] = getattr(generator, kind)(*parameters, len(row))
            return
        for row, generator in lanes:
            getattr(generator, self._kind)(out=row)
        if self._adds_mean:
            np.add(rows, 0.0, out=rows)  # as numpy does, which makes 0 of -0

    def keep(self, lanes: np.ndarray) -> None:
        """Forget all lanes but some."""
        self.generators = [self.generators[k] for k in lanes]
