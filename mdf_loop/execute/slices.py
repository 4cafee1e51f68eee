"""What a block of iterations gets of a scanned input: a view, not a copy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from mdf_loop.execute.iteration_values import History
from mdf_loop.ir import Scanned


def parts_of(scanned: Scanned, array: np.ndarray) -> Callable[[int, int], History]:
    """The function that gives iterations ``start`` to ``start + length`` their parts of a scanned input."""
    rows = rows_of(scanned, array)
    return lambda start, length: History.of_array(rows[start : start + length], is_borrowed=True)


def rows_of(scanned: Scanned, array: np.ndarray) -> np.ndarray:
    """A scanned input with the iterations on axis 0."""
    moved = np.moveaxis(array, scanned.axis, 0)
    if scanned.part is None:
        return moved[scanned.start :: scanned.stride][:: -1 if scanned.reverse else 1]
    windows = sliding_window_view(moved, scanned.part, axis=0)[scanned.start :: scanned.stride]
    axis = scanned.axis % array.ndim
    return np.moveaxis(windows[:: -1 if scanned.reverse else 1], -1, 1 + axis)
