"""Results of classifiers and regressors."""

from __future__ import annotations

import numpy as np

from mdf_loop.backends.llvm.arrays import Array, Index, get
from mdf_loop.backends.llvm.elements import INT64
from mdf_loop.backends.llvm.lanes import Lanes, Place
from mdf_loop.backends.llvm.operators.table import Call


def kept(call: Call, x: Array, is_single: bool = False) -> Array:
    """A result, written now: where it is wanted, if it is the only one."""
    return call.e.settled(call.e.materialised(x, call.e.targets.get(call.v, ()) if is_single else ()))


def chosen(call: Call, labels: np.ndarray, best: Array) -> Array:
    """The labels of classes whose places are (rows, 1), as a vector."""
    table = call.e.table(np.ascontiguousarray(labels, np.int64))

    def at(lanes: Lanes, index: Index) -> str:
        place = get(lanes, best, (index[0], Place()))
        return lanes.load(INT64, table, Place(vector=place) if lanes.width > 1 else Place(place))

    return Array(INT64, best.shape[:1], at, widest=8)
