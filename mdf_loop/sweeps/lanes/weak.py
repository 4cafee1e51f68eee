"""Python's numbers in lanes: rows of float64, or of truth values, that take the type of what they are computed with.

A number of Python's, such as one that ``numpy.random.rand()`` gives, has no type of its own: times a float32 it gives a float32.
An array of such numbers, one for each lane, would widen that.  So it becomes the type that numpy makes of the number in a run
alone, before the operation; and what is computed of Python's numbers only are Python's numbers again.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from mdf_loop.ir import Node
from mdf_loop.sweeps.lanes.exact import NotBatched
from mdf_loop.sweeps.lanes.lane_values import LaneTable

ARITHMETIC = {"add", "subtract", "multiply", "divide", "negative", "positive", "absolute"}
COMPARISONS = {"less", "less_equal", "greater", "greater_equal", "equal", "not_equal"}
OF_NUMPY = {"numpy.sqrt", "numpy.maximum", "numpy.minimum", "numpy.where", "numpy.clip", "numpy.zeros_like", "numpy.ones_like"}
"""Operators that may be handed Python's numbers; those of numpy make numbers of numpy's of them."""

PYTHON = (bool, int, float)


def type_beside(node: Node, lanes: LaneTable) -> tuple[np.dtype, bool]:
    """The type that rows of Python's numbers have to be for a node, and whether its result are Python's numbers as well.

    Raises
    ------
    NotBatched
        The results of the lanes may be of several types, or none of these rules is for the node.
    """
    if (node.domain, node.op) == ("mdf", "tensor"):
        return _as_tensor(node, lanes), False
    if node.domain == "mdf" and node.op in ("and", "or"):
        if any(np.asarray(lanes.env[name]).dtype != bool for name in node.inputs):
            raise NotBatched(f"{node} takes numbers of Python's")
        return np.dtype(bool), True
    if node.domain != "mdf" or node.op not in ARITHMETIC | COMPARISONS | OF_NUMPY | {"choose"}:
        raise NotBatched(f"{node} takes numbers of Python's")
    names = node.inputs[1:] if node.op in ("numpy.where", "choose") else node.inputs  # a condition has no say
    given = [(name, lanes.env[name]) for name in names if name]
    kinds = {type(value) for _, value in given} - {np.ndarray}
    if any(value.dtype == bool for name, value in given if name in lanes.weak) or bool in kinds:
        raise NotBatched(f"{node} computes with truth values of Python's")
    strong = {value.dtype for name, value in given if name not in lanes.weak and type(value) not in PYTHON}
    dtype = np.result_type(*strong, 0.0) if strong else np.dtype(np.float64)
    if dtype.kind != "f" or (strong and node.op == "choose"):
        raise NotBatched(f"{node} mixes numbers of Python's with {', '.join(map(str, strong))}")
    return dtype, not strong and node.op not in OF_NUMPY


def _as_tensor(node: Node, lanes: LaneTable) -> np.dtype:
    """The type of an array of a number, which may be that of arrays that it goes with."""
    rows, others = lanes.env[node.inputs[0]], [lanes.env[name] for name in node.inputs[1:] if name not in lanes.weak]
    if node.inputs[0] not in lanes.weak:
        return np.dtype(np.float64)
    if node.attrs.get("vector") or rows.dtype == bool:
        raise NotBatched(f"{node} takes numbers of Python's")
    like = (value.dtype for value in others if isinstance(value, np.ndarray | np.generic))
    return next((dtype for dtype in like if dtype.kind in "fc"), np.dtype(np.float64))


def casting(dtype: np.dtype) -> Callable[[np.ndarray], np.ndarray]:
    """A function that makes rows of Python's numbers a type; truth values stay what they are."""

    def cast(rows: np.ndarray) -> np.ndarray:
        return rows if rows.dtype in (dtype, bool) else rows.astype(dtype)

    return cast


def divided(a: Any, b: Any) -> Any:
    """``a / b`` of Python's numbers, which raises where a divisor is 0.

    Raises
    ------
    NotBatched
        Each lane alone says whether it is its own.
    """
    if not np.all(b):
        raise NotBatched("a number of Python's is divided by 0")
    return operator.truediv(a, b)
