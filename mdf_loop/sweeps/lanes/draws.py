"""What a node draws in one lane, and how: standard numbers, that are moved and scaled as numpy's own functions do it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mdf_loop.ir import Node
from mdf_loop.kernels.arrays.random import _floating
from mdf_loop.kernels.mdf.expression_arrays import bounded
from mdf_loop.kernels.numbers.casting import element_type
from mdf_loop.sweeps.lanes.exact import DRAWS, NotBatched
from mdf_loop.sweeps.lanes.lane_values import LaneTable

PARAMETERS = {"normal": (("mean", 0.0), ("scale", 1.0)), "uniform": (("low", 0.0), ("high", 1.0))}


@dataclass(frozen=True)
class Draw:
    """A node that draws: how many numbers of which shape, of which type they are passed on, and whether that is Python's."""

    node: Node
    shape: tuple[int, ...]
    dtype: np.dtype
    is_weak: bool = False

    @property
    def size(self) -> int:
        """How many numbers one lane draws in one iteration."""
        return int(np.prod(self.shape))


def parameters_of(node: Node) -> tuple[float, ...]:
    """The parameters that all numbers of a node of ONNX are drawn with; those of an expression are values, see :func:`moving`."""
    kind = DRAWS[node.domain, node.op]
    return tuple(float(node.attrs.get(name, default)) for name, default in PARAMETERS.get(kind, ()))


def draw_of(node: Node, lanes: LaneTable) -> Draw:
    """What a node draws in one lane."""
    given, flags = [lanes.env[name] for name in node.inputs], [name in lanes.stacked for name in node.inputs]
    if node.domain:
        return _of_expression(node, given, flags)
    if given:
        return Draw(node, _shape_in_lane(given[0], flags[0]), _floating(node.attrs.get("dtype"), given[0]))
    return Draw(node, tuple(node.attrs["shape"]), element_type(node.attrs.get("dtype", 1)))


def _of_expression(node: Node, given: Sequence[Any], flags: Sequence[bool]) -> Draw:
    """``numpy.random.normal(loc, scale, size)`` and its kin: one number is one of Python's."""
    is_moved = node.op in ("numpy.random.normal", "numpy.random.uniform")
    size = (given[2] if len(given) > 2 else None) if is_moved else tuple(given) or None
    if any(flags[2:] if is_moved else flags):
        raise NotBatched(f"{node} draws so many numbers as a lane says")
    moved = [_shape_in_lane(*each) for each in zip(given[:2], flags[:2], strict=True) if each[0] is not None] if is_moved else []
    shape = np.broadcast_shapes(*moved)
    if size is not None:
        wanted = tuple(np.atleast_1d(bounded(size, node.op)).tolist())
        if np.broadcast_shapes(shape, wanted) != wanted:
            raise NotBatched(f"{node} has parameters of another shape")
        shape = wanted
    return Draw(node, shape, np.dtype(np.float64), size is None and shape == ())


def _shape_in_lane(value: Any, is_stacked: bool) -> tuple[int, ...]:
    return np.shape(value)[is_stacked:]


def moving(draw: Draw, lanes: LaneTable) -> Callable[..., np.ndarray] | None:
    """What makes the numbers of a node of standard ones and of its first two inputs; None if they are as they are."""
    node, rank = draw.node, len(draw.shape)
    if node.op not in ("numpy.random.normal", "numpy.random.uniform") or not any(node.inputs[:2]):
        return None
    flags = [name in lanes.stacked for name in node.inputs[:2]]
    move = _normal if node.op == "numpy.random.normal" else _uniform

    def moved(standard: np.ndarray, *given: Any) -> np.ndarray:
        parameters = [_beside(*each, rank) for each in zip(given, flags, strict=True)]
        return move(standard, *parameters)

    return moved


def _beside(value: Any, is_stacked: bool, rank: int) -> np.ndarray | None:
    """A parameter as numpy's functions take it, with axes for the elements that each lane draws."""
    if value is None:
        return None
    found = np.asarray(value, np.float64)
    return found.reshape(len(found), *[1] * (rank + 1 - found.ndim), *found.shape[1:]) if is_stacked else found


def _normal(standard: np.ndarray, loc: np.ndarray | None, scale: np.ndarray | None = None) -> np.ndarray:
    if scale is not None and (np.signbit(scale) & ~np.isnan(scale)).any():
        raise NotBatched("a scale is negative")
    return (0.0 if loc is None else loc) + (standard if scale is None else scale * standard)


def _uniform(standard: np.ndarray, low: np.ndarray | None, high: np.ndarray | None = None) -> np.ndarray:
    first = np.float64(0.0) if low is None else low
    width = (np.float64(1.0) if high is None else high) - first
    if not np.isfinite(width).all():
        raise NotBatched("a width is not finite")
    return first + width * standard
