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

FIRST, MOST, BYTES = 32, 256, 1 << 24
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
        draw, start = self.draws[id(node)]
        assert self._block is not None
        rows = self._block[self._at, :, start : start + draw.size] if self._each > 1 else self._block[self._at]
        rows = rows.reshape(len(self.generators), *draw.shape)
        return rows if rows.dtype == draw.dtype else rows.astype(draw.dtype)

    def keep(self, lanes: np.ndarray) -> None:
        """Forget all lanes but some."""
        self.generators = [self.generators[k] for k in lanes]
        if self._block is not None:
            self._block = np.ascontiguousarray(self._block[self._at :, lanes])
            self._at = 0

    def _refill(self) -> None:
        """Draw the next block: one call for each lane."""
        length = self.length if self.left is None else min(self.length, self.left)
        room = max(BYTES // (8 * self._each * len(self.generators)), FIRST)
        self.length = min(2 * self.length, MOST, room)
        self.left = None if self.left is None else self.left - length
        block = np.empty((length, len(self.generators), self._each))
        drawn = np.empty((TILE, length * self._each))
        for start in range(0, len(self.generators), TILE):
            generators = self.generators[start : start + TILE]
            self._fill(drawn, generators)
            block[:, start : start + TILE] = drawn[: len(generators)].reshape(len(generators), length, -1).swapaxes(0, 1)
        self._block, self._at = block, 0

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
