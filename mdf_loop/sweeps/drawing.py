"""Random numbers of many lanes: each lane's come from its own stream, in the order in which a run alone draws them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mdf_loop.ir import Node
from mdf_loop.kernels.casting import element_type
from mdf_loop.kernels.random import _floating
from mdf_loop.sweeps.exact import DRAWS, NotBatched

FIRST, MOST, BYTES = 32, 256, 1 << 25
"""Iterations whose numbers are drawn at once: at first, since the loop may end soon, and at most; and bytes of a block."""

PARAMETERS = {"normal": (("mean", 0.0), ("scale", 1.0)), "uniform": (("low", 0.0), ("high", 1.0))}

TILE = 128
"""Lanes that draw before their numbers are put in place: few enough to be still in the processor's cache."""


@dataclass(frozen=True)
class Draw:
    """A node that draws: how many numbers of which shape, and of which type they are handed on."""

    node: Node
    shape: tuple[int, ...]
    dtype: np.dtype

    @property
    def size(self) -> int:
        """How many numbers one lane draws in one iteration."""
        return int(np.prod(self.shape))


def draw_of(node: Node, like: Any, is_stacked: bool) -> Draw:
    """What a node draws in one lane; ``like`` is its input, if it has one."""
    if like is not None:
        shape = np.shape(like)[1:] if is_stacked else np.shape(like)
        return Draw(node, shape, _floating(node.attrs.get("dtype"), like))
    return Draw(node, tuple(node.attrs["shape"]), element_type(node.attrs.get("dtype", 1)))


class Drawing:
    """The numbers that all lanes draw, a block of iterations at a time.

    Parameters
    ----------
    nodes : sequence of Node
        Those that draw, in order.
    generators : sequence of numpy Generator
        One for each lane.
    most : int
        How many iterations there are at most.
    """

    def __init__(self, nodes: Sequence[Node], generators: Sequence[np.random.Generator], most: int | None) -> None:
        kinds = {(DRAWS[node.domain, node.op], self._parameters(node)) for node in nodes}
        if len(kinds) > 1:
            raise NotBatched("its nodes draw from several distributions, in turn")
        self.generators, self.left, self.length = list(generators), most, FIRST
        self.kind, self.parameters = kinds.pop() if kinds else ("", ())
        self.draws: dict[int, tuple[Draw, int]] = {}
        self._rows: dict[int, tuple[np.ndarray, np.dtype]] = {}
        self._block: np.ndarray | None = None
        self._at = self._each = 0

    @staticmethod
    def _parameters(node: Node) -> tuple[float, ...]:
        return tuple(float(node.attrs.get(name, default)) for name, default in PARAMETERS[DRAWS[node.domain, node.op]])

    def plan(self, draws: Sequence[Draw]) -> None:
        """Say what one iteration draws, in order."""
        for draw in draws:
            self.draws[id(draw.node)] = draw, self._each
            self._each += draw.size

    def advance(self) -> None:
        """Go on to the next iteration."""
        self._at += 1
        if self._block is None or self._at >= len(self._block):
            self._refill()

    def take(self, node: Node) -> np.ndarray:
        """What a node draws now: one row a lane."""
        rows, dtype = self._rows[id(node)]
        found: np.ndarray = rows[self._at]
        return found if found.dtype == dtype else found.astype(dtype)

    def keep(self, lanes: np.ndarray) -> None:
        """Forget all lanes but some."""
        self.generators = [self.generators[k] for k in lanes]
        if self._block is not None:
            self._start(self._block[self._at :].take(lanes, axis=-1))

    @property
    def is_used_up(self) -> bool:
        """Whether the next iteration draws another block."""
        return self._block is None or self._at + 1 >= len(self._block)

    def _refill(self) -> None:
        """Draw the next block: one call for each lane.  Numbers of one place in all lanes stand side by side."""
        length = self.length if self.left is None else min(self.length, self.left)
        room = max(BYTES // (8 * self._each * len(self.generators)), FIRST)
        self.length = min(2 * self.length, MOST, room)
        self.left = None if self.left is None else self.left - length
        block = np.empty((length, self._each, len(self.generators)))
        drawn = np.empty((TILE, length * self._each))
        for start in range(0, len(self.generators), TILE):
            generators = self.generators[start : start + TILE]
            self._fill(drawn, generators)
            block[..., start : start + TILE] = np.moveaxis(drawn[: len(generators)].reshape(len(generators), length, -1), 0, -1)
        self._start(block)

    def _start(self, block: np.ndarray) -> None:
        """Take numbers from the beginning of a block; each node's as rows of its shape, in each iteration."""
        self._block, self._at = block, 0
        for key, (draw, start) in self.draws.items():
            rows = block[:, start : start + draw.size].reshape(len(block), *draw.shape, len(self.generators))
            self._rows[key] = np.moveaxis(rows, -1, 1), draw.dtype

    def _fill(self, drawn: np.ndarray, generators: Sequence[np.random.Generator]) -> None:
        """A row of numbers of each generator."""
        if self.parameters == (0.0, 1.0):
            name = "standard_normal" if self.kind == "normal" else "random"
            for row, generator in zip(drawn, generators, strict=False):
                getattr(generator, name)(out=row)
            drawn += 0.0  # numpy adds the mean, which makes 0 of -0
        else:
            for row, generator in zip(drawn, generators, strict=False):
                row[:] = getattr(generator, self.kind)(*self.parameters, len(row))
